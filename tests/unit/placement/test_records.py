"""Records of the metadata: older and newer releases read a written record, or refuse it by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from placement.arrays import ArrayError
from placement.metadata import (
    AclRow,
    BrokerInfo,
    ClusterMetadata,
    ClusterSettings,
    ControllerInfo,
    Directory,
    Endpoint,
    Home,
    PartitionInfo,
    Removal,
    TopicInfo,
)
from placement.pairs import Pair
from placement.records import (
    KINDS,
    METADATA_LEVELS,
    METADATA_VERSION,
    AccessControlEntryRecord,
    BrokerConfigsRecord,
    BrokerDirectoryRecord,
    BrokerHomeRecord,
    BrokerRecord,
    BrokerRemovalRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ClusterSettingsRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    GroupConfigsRecord,
    PairRecord,
    PartitionRecord,
    PartitionsRecord,
    ProducerIdsRecord,
    Record,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveClientQuotaRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    TopicConfigsRecord,
    TopicRecord,
    UnknownRecordError,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    read_image,
    read_record,
    write_image,
    write_record,
)
from placement.sealed_pools import (
    PoolSealedRecord,
    PoolsKeyRecord,
    PoolsSealedAnewRecord,
    PoolStoppedRecord,
    SealedPool,
    SealedVersion,
)

NEWEST = METADATA_LEVELS[-1]
MOVING = PartitionInfo(0, 7, (0, 1, 2), (0, 1), 12, (2,), (2,), (1,), True, 11)
ANN = (("user", "ann"), ("client-id", None))
RECORDS: list[Record] = [
    ClusterRecord("c"),
    ControllerEpochRecord(4, "0.2.0"),
    RegisterControllerRecord(ControllerInfo(1, "d", "h", 9, 5)),
    RegisterControllerRecord(ControllerInfo(2, "e", "h", 9, 5)),
    UnregisterControllerRecord(2, "e", barred=False),
    UnregisterControllerRecord(3, "f", barred=True),
    ClusterSettingsRecord(ClusterSettings({"a": "b"}, {"c": "d"}, True, {"e": "f"})),
    ClusterSettingsRecord(None),
    ClusterSettingsRecord(ClusterSettings({})),
    FeatureLevelRecord(METADATA_VERSION, 2),
    BrokerRecord(BrokerInfo(0, "h", 9092, "r", 3, True, "h", 1, 2, 3, True, (Endpoint("P", "h", 1, "SSL"),))),
    BrokerRecord(BrokerInfo(1, "h", 9092, None, 3)),
    BrokerDirectoryRecord(1, Directory("d")),
    BrokerDirectoryRecord(1, Directory("e", awaited=True)),
    BrokerHomeRecord(1, Home("10.0.0.1", "disk-1")),
    BrokerRemovalRecord(0, Removal(1_700_000_000_000, 12)),
    BrokerRemovalRecord(1, Removal(1_700_000_000_000, 12, throttle=1 << 20)),
    BrokerRemovalRecord(1, None),
    BrokerConfigsRecord("", {"message.max.bytes": "1"}),
    BrokerConfigsRecord("0", {"message.max.bytes": "2"}),
    UnregisterBrokerRecord(0),
    GroupConfigsRecord("g", {"consumer.session.timeout.ms": "50000"}),
    GroupConfigsRecord("h", {"consumer.session.timeout.ms": "51000"}),
    GroupConfigsRecord("g", {}),
    ProducerIdsRecord(1 << 62),
    TopicRecord(TopicInfo("t", bytes(range(16)), (MOVING, PartitionInfo(-1, 0, (0,), (0,))), {"a": "b"})),
    TopicRecord(TopicInfo("empty", b"e" * 16, ())),
    TopicConfigsRecord("t", {}),
    PartitionRecord("t", 2, MOVING),
    PartitionsRecord((PartitionRecord("t", 0, MOVING), PartitionRecord("t", 2, MOVING))),
    PairRecord(Pair(b"t" * 16, 1, "__state", 0)),
    RemoveTopicRecord("empty"),
    UserScramCredentialRecord("ann", 1, b"", b"stored", b"server", 4096),
    RemoveUserScramCredentialRecord("ann", 1),
    ScramSecretRecord(bytes(32)),
    AccessControlEntryRecord(b"a" * 16, AclRow(2, "t", 3, "User:ann", "*", 3, 3)),
    RemoveAccessControlEntryRecord(b"a" * 16),
    ClientQuotaRecord(ANN, "producer_byte_rate", 0.5),
    RemoveClientQuotaRecord(ANN, "producer_byte_rate"),
    PoolSealedRecord("p", SealedPool(None, SealedVersion("i", 1, b"d"), None)),
    PoolStoppedRecord("p"),
    PoolsSealedAnewRecord(),
    PoolsKeyRecord(bytes(range(32))),
]


def carried(values: Any) -> Any:
    """The values after a journey through msgpack."""
    return msgpack.unpackb(msgpack.packb(values), strict_map_key=False)


@pytest.mark.parametrize("level", METADATA_LEVELS)
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.KIND)
def test_a_record_is_read_as_it_was_written(record: Record, level: int) -> None:
    found = read_record(carried(write_record(record, level)), level)
    assert found == record
    assert type(found) is type(record)


def test_there_is_one_of_each_kind_above_and_the_metadata_applies_it() -> None:
    assert {record.KIND for record in RECORDS} == KINDS.keys()
    metadata = ClusterMetadata()
    for number, record in enumerate(RECORDS):
        metadata.apply(record)
        assert ClusterMetadata.of_image(read_image(carried(write_image(metadata.image())))) == metadata
        told = replace(metadata, pools=replace(metadata.pools, key=b""))
        assert ClusterMetadata.from_wire(carried(metadata.to_wire())) == told
        assert ClusterMetadata.from_wire(metadata.to_wire()) == told, "within a process, too"
        assert metadata.version == number + 1


@pytest.mark.conformance("N-C-07")
def test_brokers_are_not_sent_the_key_of_pools_seals() -> None:
    metadata = ClusterMetadata()
    metadata.apply(PoolsKeyRecord(b"the key of seals"))
    assert b"the key of seals" in msgpack.packb(write_image(metadata.image())), "a snapshot has it"
    assert b"the key of seals" not in msgpack.packb(metadata.to_wire())
    assert b"the key of seals" not in msgpack.packb(metadata.without_security().to_wire())
    assert "the key of seals" not in repr(metadata)


def test_a_controller_is_unlisted_with_the_directory_that_it_had_and_not_with_another_one() -> None:
    metadata = ClusterMetadata()
    metadata.apply(RegisterControllerRecord(ControllerInfo(1, "new", "h", 9, 5)))
    metadata.apply(UnregisterControllerRecord(1, "old", barred=True))
    assert (list(metadata.controllers), metadata.barred) == ([1], {"old"})
    metadata.apply(UnregisterControllerRecord(1, "old", barred=False))
    assert metadata.barred == frozenset(), "it may come again"
    metadata.apply(UnregisterControllerRecord(1, "new", barred=False))
    assert metadata.controllers == {}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.KIND)
def test_a_change_of_a_copy_does_not_reach_the_metadata(record: Record) -> None:
    metadata = ClusterMetadata()
    for each in RECORDS[: RECORDS.index(record)]:
        metadata.apply(each)
    before = metadata.to_wire()
    metadata.copy().apply(record)
    assert metadata.to_wire() == before


@pytest.mark.conformance("N-E-02")
@pytest.mark.parametrize("level", METADATA_LEVELS)
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.KIND)
def test_values_of_a_newer_release_at_the_end_are_left_out(record: Record, level: int) -> None:
    assert read_record([*carried(write_record(record, NEWEST)), "more", 7], NEWEST) == record


@pytest.mark.conformance("N-E-07")
def test_fields_that_an_older_release_did_not_write_have_their_defaults() -> None:
    assert read_record(["controller_epoch", 4], 1) == ControllerEpochRecord(4)
    assert read_record(["broker", 1, "h", 9092, None, 3], 1) == BrokerRecord(BrokerInfo(1, "h", 9092, None, 3))
    with pytest.raises(ArrayError, match=r"BrokerRecord\.broker: BrokerInfo is an array of at least 5"):
        read_record(["broker", 1, "h", 9092, None], 1)


def test_a_default_at_the_end_is_not_written_so_that_an_older_release_reads_the_record() -> None:
    assert write_record(ControllerEpochRecord(4), 1) == ["controller_epoch", 4]
    assert write_record(ControllerEpochRecord(4, "0.2.0"), 2) == ["controller_epoch", 0, 4, "0.2.0"]


@pytest.mark.conformance("N-E-03")
@pytest.mark.parametrize(
    ("record", "level", "named"),
    [
        (["from_the_future", 5], 1, "kind 'from_the_future', version 0"),
        (["from_the_future", 3, 5], 2, "kind 'from_the_future', version 3"),
        (["producer_ids", 1, 5], 2, "kind 'producer_ids', version 1: versions up to 0"),
        (["producer_ids", -1, 5], 2, "kind 'producer_ids', version -1"),
    ],
)
def test_what_this_release_does_not_know_is_refused_by_name(record: list[Any], level: int, named: str) -> None:
    with pytest.raises(UnknownRecordError, match=named):
        read_record(record, level)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ([], "an array with its kind"),
        ([7], "an array with its kind"),
        ("cluster", "an array with its kind"),
        (["producer_ids"], "ProducerIdsRecord is an array of at least 1"),
        (["producer_ids", "7"], r"ProducerIdsRecord\.next_producer_id: '7' is no int"),
        (["producer_ids", True], r"ProducerIdsRecord\.next_producer_id: True is no int"),
        (["topic_configs", "t", {"a": 1}], r"TopicConfigsRecord\.configs: 1 is no str"),
        (["topic_configs", "t", None], r"TopicConfigsRecord\.configs: None is no map"),
        (["partition", "t", 0, [0, 0, 7, []]], r"PartitionRecord\.partition: PartitionInfo\.replicas: 7 is no array"),
        (["quota", [["user"]], "k", 1.0], r"ClientQuotaRecord\.entity: \['user'\] is no array of 2"),
        (["quota", [], "k", "1"], r"ClientQuotaRecord\.value: '1' is no float"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_fields_name(record: Any, named: str) -> None:
    with pytest.raises(ArrayError, match=named):
        read_record(record, 1)


def test_an_image_that_is_none_is_refused() -> None:
    for wrong in (None, [], {"a": 1}, ["c", 1, 2, [[]], [], {}, 0]):
        with pytest.raises(ArrayError, match="MetadataImage"):
            read_image(wrong)


def test_all_at_once_is_the_same_as_one_after_the_other() -> None:
    one, all_at_once = ClusterMetadata(), ClusterMetadata()
    for record in RECORDS:
        one.apply(record)
    all_at_once.apply_all(RECORDS)
    assert all_at_once == one
    assert (all_at_once.version, all_at_once.security_version) == (one.version, one.security_version)
    more = [PartitionRecord("t", index, MOVING) for index in range(4)]
    for record in more:
        one.apply(record)
    all_at_once.apply_all(more)
    assert all_at_once == one
    assert len(one.topics["t"].partitions) == 4
