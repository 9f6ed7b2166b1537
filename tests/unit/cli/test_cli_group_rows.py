"""Tables of consumer groups: Kafka's columns, lag, and who is named where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.cli.group_rows import (
    OFFSET_COLUMNS,
    foreign_columns,
    foreign_rows,
    member_columns,
    member_rows,
    offset_rows,
    remarks,
    state_columns,
    state_row,
    status_columns,
    verbose_state_row,
)
from actors.cli.groups_status import Known
from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.lookups import described_groups
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.client.records import Node
from actors.links.group_status import PlainStatus, RebalanceEvent
from tests.support.fake_admin import FakeAdmin

BROKER = Node(0, "127.0.0.1", 9092)


def member(name: str, instance: str | None, *partitions: tuple[str, int]) -> MemberDescription:
    held = tuple(TopicPartition(*partition) for partition in partitions)
    return MemberDescription(name, instance, "c", "/127.0.0.1", (), held, b"", b"")


ONE, TWO = member("m-1", None, ("t", 1), ("a", 0)), member("m-2", "box-2", ("t", 0))
STABLE = GroupDescription("g", "Stable", "consumer", "range", (ONE, TWO), BROKER)
EMPTY = GroupDescription("g", "Empty", "consumer", "", (), BROKER)
MOVING = GroupDescription("g", "PreparingRebalance", "consumer", "", (), BROKER)


def test_columns_are_kafkas() -> None:
    heads = [column.replace("_", "-").upper() for column in OFFSET_COLUMNS]
    assert " ".join(heads) == "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"


def test_held_partitions_come_first_in_order_then_those_nobody_holds() -> None:
    first, second, old = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("old", 3)
    committed = {second: OffsetAndMetadata(4), old: OffsetAndMetadata(1, "note", 2)}
    logs = {first: Log(0, 9), second: Log(0, 10), old: Log(0, 1)}
    rows = offset_rows(STABLE, committed, logs)
    assert [(row["topic"], row["partition"], row["consumer_id"]) for row in rows] == [
        ("a", 0, "m-1"),
        ("t", 0, "m-2"),
        ("t", 1, "m-1"),
        ("old", 3, None),
    ]
    assert [(row["current_offset"], row["log_end_offset"], row["lag"]) for row in rows] == [
        (None, None, None),
        (None, 9, None),
        (4, 10, 6),
        (1, 1, 0),
    ]
    assert (rows[3]["leader_epoch"], rows[3]["metadata"]) == (2, "note")


def test_a_group_that_rebalances_shows_its_members_and_what_it_had_committed() -> None:
    """Nobody holds anything then: there was no table at all."""
    idle = member("m-1", None)
    moving = GroupDescription("g", "PreparingRebalance", "consumer", "", (idle,), BROKER)
    rows = offset_rows(moving, {TopicPartition("t", 0): OffsetAndMetadata(4)}, {TopicPartition("t", 0): Log(0, 9)})
    assert [(row["topic"], row["partition"], row["lag"], row["consumer_id"]) for row in rows] == [
        ("t", 0, 5, None),
        (None, None, None, "m-1"),
    ]
    stable = GroupDescription("g", "Stable", "consumer", "range", (idle,), BROKER)
    assert len(offset_rows(stable, {TopicPartition("t", 0): OffsetAndMetadata(4)}, {})) == 1


def test_a_stable_group_that_holds_nothing_shows_its_members() -> None:
    stable = GroupDescription("g", "Stable", "consumer", "range", (member("m-1", None),), BROKER)
    assert [(row["topic"], row["consumer_id"]) for row in offset_rows(stable, {}, {})] == [(None, "m-1")]


CONNECT = GroupDescription("w", "Stable", "connect", "sessioned", (member("w-1", None), member("w-2", None)), BROKER)


def test_members_of_a_group_that_is_no_consumers_are_shown_with_its_type_and_state() -> None:
    assert [(row["protocol_type"], row["state"], row["consumer_id"]) for row in foreign_rows(CONNECT)] == [
        ("connect", "Stable", "w-1"),
        ("connect", "Stable", "w-2"),
    ]
    empty = GroupDescription("w", "Empty", "connect", "", (), BROKER)
    assert [(row["state"], row["consumer_id"]) for row in foreign_rows(empty)] == [("Empty", None)]
    assert list(remarks(empty)) == ["Group 'w' has no active members."]


def test_what_a_group_that_is_no_consumers_has_committed_is_shown_without_its_members() -> None:
    assert offset_rows(CONNECT, {}, {}) == []
    rows = offset_rows(CONNECT, {TopicPartition("t", 0): OffsetAndMetadata(4)}, {TopicPartition("t", 0): Log(0, 9)})
    assert [(row["topic"], row["lag"], row["consumer_id"]) for row in rows] == [("t", 5, None)]


def test_types_have_a_column_only_where_a_group_is_no_consumers() -> None:
    assert "protocol_type" not in (*member_columns([STABLE, EMPTY], verbose=True), *state_columns([STABLE]))
    assert member_columns([STABLE, CONNECT], verbose=False)[:2] == ("group", "protocol_type")
    assert state_columns([CONNECT])[:2] == ("group", "protocol_type")
    assert state_row(CONNECT)["protocol_type"] == "connect"
    assert {row["#partitions"] for row in member_rows(CONNECT)} == {None}, "only its members can tell"


def test_members_show_what_they_hold() -> None:
    rows = member_rows(STABLE)
    assert [(row["consumer_id"], row["#partitions"], row["assignment"]) for row in rows] == [
        ("m-1", 2, "a(0), t(1)"),
        ("m-2", 1, "t(0)"),
    ]


def test_instance_ids_have_a_column_only_where_there_are_some() -> None:
    assert "group_instance_id" in member_columns([STABLE], verbose=False)
    assert "group_instance_id" not in member_columns([EMPTY], verbose=False)
    assert member_columns([EMPTY], verbose=True)[-1] == "assignment"


def test_state_names_coordinator_assignor_and_size() -> None:
    assert state_row(STABLE) == {
        "group": "g",
        "type": "classic",
        "protocol_type": "consumer",
        "coordinator": "127.0.0.1:9092 (0)",
        "assignment_strategy": "range",
        "state": "Stable",
        "#members": 2,
    }


def test_remarks_are_made_on_groups_without_members_or_in_motion() -> None:
    assert list(remarks(STABLE)) == []
    assert list(remarks(EMPTY)) == ["Consumer group 'g' has no active members."]
    assert list(remarks(MOVING)) == ["Warning: Consumer group 'g' is rebalancing."]


def moving(name: str, epoch: int, held: tuple[int, ...], target: tuple[int, ...], **more: Any) -> MemberDescription:
    """A member of a consumer group, with partitions of `t`."""
    parts = [tuple(TopicPartition("t", each) for each in some) for some in (held, target)]
    return MemberDescription(name, None, "c", "/h", ("t",), parts[0], epoch=epoch, target=parts[1], **more)


NEW = replace(
    GroupDescription("n", "Reconciling", "consumer", "uniform", (), BROKER, "consumer", 8, 7),
    members=(moving("m-1", 6, (0, 1), (0,), is_classic=False), moving("m-2", 7, (), (1,), is_classic=False)),
)


def test_members_of_a_consumer_group_show_their_targets_and_what_they_have_to_give_back() -> None:
    first, second = member_rows(NEW)
    columns = ("consumer_id", "#partitions", "epoch", "assignment", "target_epoch", "target", "to_give_back")
    assert member_columns([NEW], verbose=True)[1:] == (columns[0], "host", "client_id", *columns[1:])
    assert [first[each] for each in columns] == ["m-1", 2, 6, "t(0,1)", 7, "t(0)", "t(1)"]
    assert [second[each] for each in columns] == ["m-2", 0, 7, "", 7, "t(1)", ""]
    assert member_columns([NEW], verbose=False) == member_columns([EMPTY], verbose=False)
    assert "epoch" not in member_columns([STABLE], verbose=True)


def test_who_speaks_the_new_protocol_is_shown_only_where_not_all_members_do() -> None:
    mixed = replace(NEW, members=(*NEW.members, moving("old", 7, (2,), (2,))))
    assert "upgraded" in member_columns([mixed], verbose=True)
    assert "upgraded" not in member_columns([NEW], verbose=True)
    assert [row["upgraded"] for row in member_rows(mixed)] == [True, True, False]
    assert member_columns([mixed], verbose=True)[-1] == "upgraded", "as Kafka's tool has it"


def test_the_type_of_groups_was_not_shown_where_they_are_of_different_types() -> None:
    """Since consumer groups are described as classic ones are, nothing told them apart, and JSON had no type either."""
    assert state_columns([NEW, STABLE])[:3] == ("group", "type", "coordinator")
    assert member_columns([NEW, STABLE], verbose=False)[:3] == ("group", "type", "consumer_id")
    assert "type" not in (*state_columns([STABLE, EMPTY]), *member_columns([NEW], verbose=True))
    assert state_columns([NEW, CONNECT])[:3] == ("group", "type", "protocol_type")
    rows = (state_row(NEW), state_row(STABLE), *member_rows(NEW), *member_rows(STABLE), *foreign_rows(CONNECT))
    assert [row["type"] for row in rows] == ["consumer", "classic", "consumer", "consumer", *["classic"] * 4]


def test_the_epoch_of_a_consumer_group_was_of_another_moment_than_that_of_its_target() -> None:
    """It was taken from Coterie's monitor, and could be below the target's."""
    row = verbose_state_row(NEW, Known(PlainStatus("consumer", "Reconciling", 6, 2, ("m-1",), 250, ()), None))
    assert (row["epoch"], row["target_epoch"], row["waits_for"]) == (8, 7, ["m-1"])


def test_the_state_of_a_consumer_group_has_its_epoch_and_that_of_its_target() -> None:
    row = state_row(NEW)
    assert (row["assignment_strategy"], row["#members"], row["epoch"], row["target_epoch"]) == ("uniform", 2, 8, 7)
    assert status_columns([NEW])[2:4] == ("epoch", "target_epoch")
    assert status_columns([NEW, STABLE])[2:5] == ("generation", "epoch", "target_epoch")
    assert "type" not in state_columns([NEW])
    assert list(remarks(NEW)) == ["Warning: Consumer group 'n' is rebalancing."]
    held = [(row["partition"], row["consumer_id"]) for row in offset_rows(NEW, {}, {})]
    assert held == [(0, "m-1"), (1, "m-1"), (None, "m-2")]


TINY = GroupDescription("s", "Open", "tiny", "", (), BROKER, "tiny")


def test_a_group_of_a_type_that_cannot_be_described_is_shown_with_what_is_known_of_it() -> None:
    """DescribeGroups says that it is dead, so it did not exist."""
    assert (
        offset_rows(TINY, {TopicPartition("t", 0): OffsetAndMetadata(4)}, {TopicPartition("t", 0): Log(0, 9)})[0]["lag"]
        == 5
    )
    (row,) = foreign_rows(TINY)
    shown = {column: row[column] for column in foreign_columns(TINY)}
    assert shown == {"group": "s", "type": "tiny", "protocol_type": "tiny", "state": "Open"}
    assert state_columns([TINY, STABLE])[:3] == ("group", "type", "protocol_type")
    assert (state_row(TINY)["type"], state_row(TINY)["#members"]) == ("tiny", None)
    assert member_rows(TINY) == []
    assert list(remarks(TINY)) == ["Group 's' is of type tiny: its members and what they have cannot be described."]


def test_with_what_coterie_knows_a_group_of_another_type_has_members_and_an_epoch() -> None:
    status = PlainStatus("tiny", "Open", 4, 2, ("a",), 250, (RebalanceEvent(0, 3, "member entered", "a"),))
    row = verbose_state_row(TINY, Known(status, None))
    assert (row["#members"], row["epoch"], row["waits_for"], row["ends_in_ms"]) == (2, 4, ["a"], 250)
    assert row["rebalances"][0]["ended_generation"] == 3
    assert "generation" not in row
    assert status_columns([TINY]) == ("lag", "lag_seconds", "epoch", "waits_for", "ends_in_ms")
    assert status_columns([STABLE]) == ("lag", "lag_seconds", "generation", "waits_for", "ends_in_ms")
    assert status_columns([STABLE, TINY])[2:4] == ("generation", "epoch")


@pytest.mark.parametrize("asked", [("s",), ("g", "s", "gone")])
def test_groups_that_describe_groups_calls_dead_are_looked_for_in_the_list(asked: tuple[str, ...]) -> None:
    admin = FakeAdmin(groups={"s": TINY, "g": EMPTY})
    found = described_groups(admin, asked)  # type: ignore[arg-type]
    assert list(found) == list(asked)
    assert (found["s"].state, found["s"].type, found["s"].protocol_type) == ("Open", "tiny", "tiny")
    assert [found[each].state for each in asked if each != "s"] == ["Empty", "Dead"][: len(asked) - 1]
