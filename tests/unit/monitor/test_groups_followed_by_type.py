"""Groups of all types are followed, shown, counted and remembered; of a third type no module of the Monitor knows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    MemberRecord,
    TargetAssignment,
)
from actors.coordinator.consumer.values import Current, MemberMetadata, MemberState
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.offset_records import OffsetsPut, StoredOffsets, offset_value
from actors.coordinator.groups.reports import PlainRebalanceView
from actors.coordinator.records import Change, Record, RecordTypes, encode
from actors.links.operations import Operation, R_co
from actors.links.reading import PartitionRow
from actors.links.views import (
    ClassicRebalanceView,
    GetGroup,
    GetOverview,
    LagPoint,
    ListGroupRows,
    PartitionLag,
    RebalanceView,
    Seen,
)
from actors.monitor.answers import Answers, Picture
from actors.monitor.history import History
from actors.monitor.history_rows import is_of, packed, unpacked
from actors.monitor.kinds import Kinds
from actors.monitor.memory import Memory
from actors.monitor.metric_rows import group_families
from actors.monitor.metric_table import BY_NAME
from actors.monitor.offsets_log import OffsetsLog, OffsetsPartition
from actors.monitor.reports import Reports
from actors.monitor.trends import Trends
from placement.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from tests.support.classic_members import Classic, MixedDriver
from tests.support.consumer_groups import GROUP
from tests.support.tiny_groups import TYPES, EpochPut, MemberGone, MemberPut, TinyDeleted

NOW_MS = 1_700_000_000_000
RECORDS = RecordTypes(record for each in TYPES for record in each.record_types)
REBALANCE = PlainRebalanceView(
    *("tiny", "s", NOW_MS - 900, 4, "Open", "member entered", "b"), ended_ms=NOW_MS - 700, members=2, came=("b",)
)
COORDINATOR = "kafka_server_group_coordinator_metrics_"


def committed(group: str, offset: int) -> Change:
    value = offset_value(offset.to_bytes(8, "big") + (0).to_bytes(4, "big"), b"", NOW_MS)
    return OffsetsPut(group, [StoredOffsets("orders", [0], [value])])


def followed(*changes: Change) -> OffsetsPartition:
    partition = OffsetsPartition(RECORDS)
    partition.apply(encode(changes))
    return partition


SHOWN = (EpochPut("s", 4), MemberPut("s", "b"), MemberPut("s", "a"), committed("s", 4))


def picture(partition: OffsetsPartition, reports: Reports | None = None) -> Picture:
    memory, log, reports = Memory(5_000), OffsetsLog(), reports or Reports()
    memory.partitions.seen("orders", b"1" * 16, [PartitionRow(0, 1, 10, NOW_MS - 100, 500)], NOW_MS)
    log.partitions[0] = partition
    memory.measure(log, NOW_MS)
    reports.metadata = ClusterMetadata("c1", 2)
    reports.metadata.topics = {"orders": TopicInfo("orders", b"1" * 16, (PartitionInfo(0, 1, (1,), (1,)),), {})}
    reports.metadata.names = {b"1" * 16: "orders"}
    return Picture(memory, log, Trends(), reports, Seen(NOW_MS, 5_000, NOW_MS, 1, 0))


def ask(given: Picture, operation: Operation[R_co]) -> R_co:
    return asyncio.run(Answers(given, None).answer(operation))  # type: ignore[return-value, arg-type]


def test_a_group_of_another_type_is_shown_with_its_type_state_members_offsets_and_lag() -> None:
    given = picture(followed(*SHOWN), Reports(rebalances={"s": (REBALANCE,)}))
    (row,) = ask(given, ListGroupRows()).groups
    assert (row.group_id, row.group_type, row.protocol_type, row.state, row.members) == ("s", "tiny", "tiny", "Open", 2)
    assert (row.kind, row.lag, row.topics, row.rebalances) == ("consumer", 6, ("orders",), 1)
    view = ask(given, GetGroup("s"))
    assert [(each.member_id, each.client_id, each.assignment) for each in view.members] == [
        ("a", "", {}),
        ("b", "", {}),
    ]
    assert view.partitions == (PartitionLag("orders", 0, 4, 1, 10, 6, None, NOW_MS, None),)
    assert view.rebalances == (REBALANCE,)
    assert ask(given, GetOverview()).groups == {"Open": 1}


def test_its_members_come_and_go_and_a_tombstone_ends_it() -> None:
    partition = followed(*SHOWN, MemberGone("s", "a"))
    assert [each.member_id for each in partition.groups["s"].members] == ["b"]
    partition.apply(encode((MemberGone("s", "b"),)))
    assert (partition.groups["s"].state, partition.groups["s"].group_type) == ("Empty", "tiny")
    partition.apply(encode((TinyDeleted("s"),)))
    assert partition.groups["s"].persisted is None, "an offset is left"
    assert followed(TinyDeleted("never there")).groups == {}


def test_a_tombstone_ends_what_stood_before_it_however_keys_were_ordered_before() -> None:
    """The key of a group's record is older than its members': taken in the order of keys, they came after its end."""
    gone = followed(EpochPut("s", 1), MemberPut("s", "a"), TinyDeleted("s"))
    assert gone.groups == {}
    again = followed(EpochPut("s", 1), MemberPut("s", "a"), TinyDeleted("s"), MemberPut("s", "b"))
    assert [each.member_id for each in again.groups["s"].members] == ["b"]


def test_records_of_types_that_nobody_knows_are_passed_over_and_counted() -> None:
    partition = OffsetsPartition()
    partition.apply(
        [*encode(SHOWN), Record(b"\0\x09xyz", b"later"), Record(b"\0\x09xyz", None), Record(b"\0\x0a", b"")]
    )
    assert (partition.unknown, partition.unreadable) == (5, 0)
    assert partition.groups["s"].group_type == "classic", "of which offsets are all that is known"
    log = OffsetsLog()
    log.partitions = {0: partition, 1: OffsetsPartition()}
    assert log.unknown == 5


def test_groups_are_counted_by_type_and_the_old_counts_are_of_classic_groups() -> None:
    classic = GroupMetadata("consumer", 3, "range", None, NOW_MS)
    partition = followed(*SHOWN, GroupPut("g", classic), committed("simple", 1))
    given = picture(partition)
    groups = [(each, each.state, len(each.members)) for each in partition.groups.values()]
    found = {name: {row[0]: row[1] for row in rows} for name, rows in group_families(groups, given.memory)}
    assert found[COORDINATOR + "group_count"] == {("classic",): 2, ("consumer",): 0, ("tiny",): 1}
    assert found[COORDINATOR + "classic_group_count"][("Empty",)] == 2
    old = "kafka_coordinator_group_groupmetadatamanager_"
    assert (found[old + "numgroups"], found[old + "numgroupsempty"]) == ({(): 2}, {(): 2})
    assert found["kafka_consumergroup_members"][("s",)] == 2
    assert found.keys() <= BY_NAME.keys()


def test_what_a_group_of_another_type_was_is_remembered() -> None:
    kinds = Kinds()
    kinds.seen(followed(*SHOWN).groups.values(), ())
    assert kinds.known == {"s": "consumer"}


def test_the_history_keeps_rebalances_of_all_types(tmp_path: Path) -> None:
    classic = ClassicRebalanceView("s", NOW_MS - 1_000, 3, "member left", "m", joined_ms=NOW_MS - 950)
    kept: tuple[RebalanceView, ...] = (classic, REBALANCE)
    history = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert history.write(NOW_MS, [("s", LagPoint(NOW_MS, 1, 0.0, 1))], kept)
    history.close()
    again = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert again.rebalances("s", 0, NOW_MS) == kept
    assert again.seeds(NOW_MS).rebalances == kept
    again.close()


def test_a_row_of_another_type_names_its_group_and_what_is_none_is_nothing() -> None:
    text = packed(REBALANCE)
    assert is_of(text, "s")
    assert not is_of(text, "t")
    assert unpacked(text) == REBALANCE
    for wrong in ('["t"' + text[4:], '["s", "AAAA"]', '["s", "%"]', '["s", 7]', "[]", "7", '{"a": 1, "b": 2}'):
        assert unpacked(wrong) is None, wrong


def test_a_consumer_groups_members_are_shown_with_what_they_hold() -> None:
    """Partitions that a member has to give back are still its own. A topic that does not exist is left out."""
    orders, gone = b"1" * 16, b"2" * 16
    metadata = MemberMetadata("a-client", "/10.0.0.1", "static", names=frozenset(("orders",)))
    state = MemberState.UNREVOKED_PARTITIONS
    partition = followed(
        MemberRecord("s", "m", metadata),
        GroupEpoch("s", 4, 7),
        TargetAssignment("s", "m", {orders: frozenset((0, 2, 3)), gone: frozenset((0,))}),
        AssignmentEpoch("s", 4, NOW_MS),
        CurrentAssignment("s", "m", Current(2, 1, state, {orders: {2: 2, 0: 2}, gone: {0: 2}}, {orders: {1: 2}})),
        committed("s", 4),
    )
    given = picture(partition)
    (row,) = ask(given, ListGroupRows()).groups
    assert (row.group_type, row.protocol_type, row.state, row.members) == ("consumer", "consumer", "Reconciling", 1)
    assert (row.epoch, row.assignment_epoch) == (4, 4)
    view = ask(given, GetGroup("s"))
    (member,) = view.members
    assert (member.client_id, member.host, member.group_instance_id) == ("a-client", "/10.0.0.1", "static")
    assert member.assignment == {"orders": (0, 1, 2)}
    assert (member.epoch, member.to_give_back, member.to_come) == (2, {"orders": (1,)}, {"orders": (3,)})
    assert [(each.partition, each.committed, each.member_id) for each in view.partitions] == [
        (0, 4, "m"),
        (1, None, "m"),
        (2, None, "m"),
    ]
    groups = [(each, each.state, len(each.members)) for each in partition.groups.values()]
    found = {name: {row[0]: row[1] for row in rows} for name, rows in group_families(groups, given.memory)}
    assert found[COORDINATOR + "consumer_group_count"][("Reconciling",)] == 1
    progress = ("epoch", "assignment_epoch", "partitions_to_give_back", "partitions_to_come")
    assert [found[f"coterie_group_{each}"] for each in progress] == [{("s",): n} for n in (4, 4, 1, 1)]


def test_a_group_is_followed_from_one_type_to_the_other_and_back() -> None:
    driver, partition, read = MixedDriver(Classic("C1", "0-5")), OffsetsPartition(GROUP_RECORDS), 0
    driver.commit_offset(GROUP, 4, generation=5, member_id="C1")
    seen = []
    for text in ("A e0 join", "A e6", "A e-1"):
        driver.told(text)
        partition.apply(driver.log[read:])
        read = len(driver.log)
        (row,) = ask(picture(partition), ListGroupRows()).groups
        seen.append((row.group_type, row.state, row.members, row.lag))
    assert seen == [
        ("consumer", "Reconciling", 2, 6),
        ("consumer", "Reconciling", 2, 6),
        ("classic", "Stable", 1, 6),
    ]
