"""Metadata logs that earlier releases have written are read, written on in their layout, and raised to the newest.

`metadata_logs` has two that version 0.1.0 wrote before records had versions: every kind of record, one by one and
several at once; and a snapshot of the same with entries after it.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest
from crc32c import crc32c

from actors import __version__
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import Format, encode, frames
from actors.controller.metadata.log import LAYOUTS, MetadataLog
from placement.metadata import (
    NO_LEADER,
    AclRow,
    BrokerInfo,
    ClusterMetadata,
    Endpoint,
    PartitionInfo,
    TopicInfo,
)
from placement.pairs import Pair
from placement.records import (
    METADATA_LEVELS,
    METADATA_VERSION,
    BrokerRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    GroupConfigsRecord,
    PairRecord,
    ProducerIdsRecord,
    Record,
)
from placement.sealed_pools import SealedPool, SealedPools, SealedVersion

LOGS = Path(__file__).parent / "metadata_logs"
PLAIN, SNAPSHOT = "format-1.log", "format-1-snapshot.log"
BROKER = BrokerInfo(
    *(0, "10.0.0.1", 9092, "rack-a", 3, True, "10.0.0.1", 7001, 4711, 99887766, False),
    (Endpoint("PLAINTEXT", "10.0.0.1", 9092), Endpoint("OUTSIDE", "kafka.example.org", 19092, "SASL_SSL")),
)
GONE = BrokerInfo(1, "10.0.0.2", 9093, None, 0, False, leaving=True)
PARTITIONS = (
    PartitionInfo(NO_LEADER, 9, (0, 1), (0,), 4),
    PartitionInfo(0, 7, (0, 1, 2), (0, 1), 12, (2,), (2,), (1,), True, 11),
    PartitionInfo(0, 0, (0,), (0,)),
)
ONE, TWO = SealedVersion("inc", 1, b"digest-one"), SealedVersion("inc", 2, b"digest-two")


def expected(name: str) -> ClusterMetadata:
    """The metadata in the log of this name."""
    return ClusterMetadata(
        "abcdefghijklmnopqrstuv",
        controller_epoch=4 if name == PLAIN else 5,
        version=28 if name == PLAIN else 31,
        brokers={0: BROKER, 1: GONE},
        topics={"orders": TopicInfo("orders", bytes(range(16)), PARTITIONS, {"cleanup.policy": "compact"})},
        broker_configs={"": {"message.max.bytes": "1000"}, "0": {"num.io.threads": "3"}},
        next_producer_id=3000 if name == PLAIN else 4000,
        names={bytes(range(16)): "orders"},
        scram={("ann", 1): (b"salt", b"stored", b"server", 4096)},
        scram_secret=bytes(range(32)),
        acls={b"a" * 16: AclRow(2, "orders", 3, "User:ann", "*", 3, 3)},
        quotas={
            (("user", "ann"), ("client-id", None)): {"producer_byte_rate": 1024.5},
            (("user", "ann"),): {"producer_byte_rate": 8.0},
        },
        pools=SealedPools({"billing": SealedPool(TWO, None, ONE)}, anew=True),
    )


def opened(folder: Path, name: str) -> MetadataLog:
    """A copy of one of the logs."""
    shutil.copy(LOGS / name, folder / "metadata.log")
    return MetadataLog(folder / "metadata.log")


def append(log: MetadataLog, *records: Record) -> None:
    assert log.append(records, log.decided.controller_epoch).done


@pytest.mark.conformance("N-E-07")
@pytest.mark.parametrize("name", [PLAIN, SNAPSHOT])
def test_a_log_of_format_1_is_read(tmp_path: Path, name: str) -> None:
    log = opened(tmp_path, name)
    log.close()
    assert log.committed == log.decided == expected(name)
    assert log.committed.level == 1
    assert log.path.read_bytes() == (LOGS / name).read_bytes(), "to read it changes nothing"


def framed(body: list[Any]) -> bytes:
    """A frame as version 0.1.0 made it."""
    data: bytes = msgpack.packb(body)
    return struct.pack(">II", len(data), crc32c(data)) + data


@pytest.mark.conformance("N-E-07")
def test_a_log_of_format_1_is_written_on_as_before(tmp_path: Path) -> None:
    log = opened(tmp_path, PLAIN)
    append(log, ProducerIdsRecord(5000))
    append(log, ControllerEpochRecord(5), BrokerRecord(GONE))
    log.close()
    broker = ["broker", 1, "10.0.0.2", 9093, None, 0, False, "", 0, 0, 0, True, []]
    assert log.path.read_bytes() == b"".join(
        [
            (LOGS / PLAIN).read_bytes(),
            framed(["producer_ids", 5000]),
            framed(["records", [["controller_epoch", 5], broker]]),
        ]
    )


def test_images_are_what_brokers_of_the_release_before_read() -> None:
    (_, image, *_) = [body for _, body in frames((LOGS / SNAPSHOT).read_bytes())]
    (_, wire) = msgpack.unpackb(image, strict_map_key=False)
    metadata = ClusterMetadata.from_wire(wire)
    assert msgpack.unpackb(msgpack.packb(metadata.to_wire())) == wire
    assert msgpack.unpackb(msgpack.packb(metadata.without_security().to_wire())) == [*wire[:7], None]
    assert not ClusterMetadata.from_wire([*wire[:7], None]).whole
    for fewer in range(7, len(wire)):  # releases before ended here
        assert ClusterMetadata.from_wire(wire[:fewer]).topics == metadata.topics


def test_at_level_2_images_without_security_are_read_by_the_release_before_and_its_own_here() -> None:
    """The levels of features follow the credentials that are left out; what comes after them it leaves out."""
    whole = expected(SNAPSHOT)
    whole.features[METADATA_VERSION] = 2
    wire = whole.without_security().to_wire()
    assert wire[7:] == [None, {METADATA_VERSION: 2}]
    found = ClusterMetadata.from_wire(msgpack.unpackb(msgpack.packb(wire), strict_map_key=False))
    assert (found.level, found.whole, found.topics, found.version) == (2, False, whole.topics, whole.version)
    assert found.with_security_of(whole) == whole


def test_an_image_without_security_has_all_that_came_with_level_2() -> None:
    pair = Pair(bytes(range(16)), 0, "__states", 0)
    whole = expected(SNAPSHOT)
    own = {"consumer.session.timeout.ms": "50000"}
    raised, begun = FeatureLevelRecord(METADATA_VERSION, 2), ControllerEpochRecord(6, "9.9")
    for record in (raised, begun, PairRecord(pair), GroupConfigsRecord("g", own)):
        whole.apply(record)
    wire = whole.without_security().to_wire()
    assert wire[7:] == [None, {METADATA_VERSION: 2}, "9.9", [[bytes(range(16)), 0, "__states", 0]], {"g": own}]
    found = ClusterMetadata.from_wire(msgpack.unpackb(msgpack.packb(wire), strict_map_key=False))
    assert found.with_security_of(whole) == whole
    assert (found.release, list(found.pairs), found.group_configs) == ("9.9", [pair], {"g": own})


@pytest.mark.parametrize("name", [PLAIN, SNAPSHOT])
def test_a_raised_level_rewrites_the_log_and_older_releases_refuse_it(tmp_path: Path, name: str) -> None:
    log = opened(tmp_path, name)
    newest = LAYOUTS[-1]
    append(log, FeatureLevelRecord(METADATA_VERSION, newest))
    append(log, ProducerIdsRecord(6000))
    log.close()
    assert log.path.read_bytes().startswith(encode(Format(newest, __version__), newest))
    again = MetadataLog(log.path)
    again.close()
    raised = expected(name)
    raised.apply(FeatureLevelRecord(METADATA_VERSION, newest))
    raised.apply(ProducerIdsRecord(6000))
    assert again.committed == raised
    assert again.committed.level == newest


def test_a_level_that_this_release_does_not_know_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path, PLAIN)
    log.close()
    log.path.write_bytes(encode(Format(METADATA_LEVELS[-1] + 1, "9.9"), METADATA_LEVELS[-1] + 1))
    with pytest.raises(MetadataLogError, match="start the version that wrote it, or a newer one"):
        MetadataLog(log.path)
