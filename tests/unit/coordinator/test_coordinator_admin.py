"""ListGroups, DescribeGroups, DeleteGroups, OffsetDelete: statements B-100 to B-104."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import DescribeGroupsRequest
from actors.coordinator.classic.records import GroupDeleted
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteGroupsRequest, OffsetDeleteRequest
from actors.coordinator.groups.offset_records import OffsetsDeleted
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)
from tests.support.offset_rows import naive_replay


@pytest.mark.conformance("B-100")
def test_describe_a_missing_group() -> None:
    described = Driver().describe("g")
    assert (described.error_code, described.group_state, described.members) == (0, "Dead", ())
    assert (described.protocol_type, described.protocol_data) == ("", "")


@pytest.mark.conformance("B-101")
def test_describe_stable_and_preparing() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b", instance="i"))
    described = driver.describe("g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.member_assignment, m.member_metadata) for m in described.members] == [
        (a.member_id, b"a", subscription("orders")),
        (b.member_id, b"b", subscription("orders")),
    ]
    member = described.members[1]
    assert (member.group_instance_id, member.client_id, member.client_host) == ("i", "b", "/127.0.0.1")
    a.ask_join()
    described = driver.describe("g")
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(m.member_assignment, m.member_metadata) for m in described.members] == [(b"a", b""), (b"b", b"")]


def test_describe_empty_and_without_id() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    described = driver.describe("g")
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", ())
    assert driver.call(DescribeGroupsRequest((None, "g"))).groups[0].error_code == 24


def test_describe_and_list_show_a_group_once_it_has_committed() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1)
    assert driver.describe("g").group_state == "Dead"
    assert driver.list_groups() == ()
    driver.release()
    assert driver.describe("g").group_state == "Empty"
    assert [g.group_id for g in driver.list_groups()] == ["g"]


def zoo(driver: Driver) -> None:
    """Groups in every state: stable, preparing, completing, empty, and dead while the driver holds."""
    for name in ("stable", "preparing", "completing"):
        (member,) = stable_group(driver, Client(driver, "a", group_id=name))
        if name == "preparing":
            Client(driver, "b", group_id=name).join()
        if name == "completing":
            member.ask_join()
    driver.commit_offset("empty", 1)
    driver.commit_offset("dead", 1)
    driver.holds = True
    driver.delete_group("dead")


@pytest.mark.conformance("B-102")
@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        (("stable", "EMPTY"), (), ["stable", "empty"]),
        ((" PreparingRebalance ",), (), ["preparing"]),
        (("completingrebalance",), ("Classic",), ["completing"]),
        (("bogus",), (), []),
        ((), ("consumer",), []),
        ((), ("CLASSIC", "share"), ["stable", "preparing", "completing", "empty", "dead"]),
        (("dead",), (), ["dead"]),
    ],
)
def test_list_filters(states: tuple[str, ...], types: tuple[str, ...], listed: list[str]) -> None:
    driver = Driver()
    zoo(driver)
    assert [group.group_id for group in driver.list_groups(states, types)] == listed


def test_listed_fields() -> None:
    driver = Driver()
    zoo(driver)
    first = driver.list_groups()[0]
    assert (first.group_id, first.protocol_type, first.group_state, first.group_type) == (
        "stable",
        "consumer",
        "Stable",
        "classic",
    )


@pytest.mark.conformance("B-103")
def test_delete_groups() -> None:
    driver = Driver()
    zoo(driver)
    driver.release()
    driver.holds = False
    driver.commit_offset("empty", 2, partition=1)
    ids = ("empty", "stable", "preparing", "completing", "missing", "dead", None)
    before = len(driver.log)
    results = dict(driver.call(DeleteGroupsRequest(ids)).results)
    assert results == {
        "empty": 0,
        "stable": 68,
        "preparing": 68,
        "completing": 68,
        "missing": 69,
        "dead": 69,
        "": 24,
    }
    changes = [GROUP_RECORDS.decode(*record) for record in driver.log[before:]]
    assert changes == [
        OffsetsDeleted("empty", [("orders", 0)]),
        OffsetsDeleted("empty", [("orders", 1)]),
        GroupDeleted("empty"),
    ]
    assert driver.group_or_none("empty") is None
    assert driver.fetch("empty") == ()


def test_a_group_whose_deletion_is_refused_is_as_before() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(7)
    driver.leave("g", (a.member_id, None))
    emptied = driver.group().state_timestamp_ms
    driver.advance(1_000)
    driver.holds = True
    token = driver.delete_group("g")
    assert driver.delete_group("g") in driver.answers  # twice: it is Dead already
    assert driver.offset("g") == 7  # nothing of a deletion shows that may still come to nothing
    driver.refuse(19)
    assert driver.answer(token).results == (("g", 15),)
    assert driver.state() == "Empty"
    assert (driver.group().generation_id, driver.group().protocol_type) == (2, "consumer")
    assert driver.group().state_timestamp_ms == emptied
    assert driver.offset("g") == 7
    driver.release()
    driver.holds = False
    assert driver.answer(driver.delete_group("g")).results == (("g", 0),)


def test_a_deletion_replicated_too_late_still_takes_place() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.delete_group("g")
    driver.append()
    driver.advance(5_000)
    assert driver.answer(token).results == (("g", 15),)
    assert driver.state() == "Dead"
    driver.commit()
    assert driver.group_or_none() is None


def test_deletion_covers_commits_under_way() -> None:
    driver = Driver()
    driver.holds = True
    commit = driver.commit_offset("g", 1)
    delete = driver.delete_group("g")
    driver.release()
    assert driver.answer(commit).error_codes == [0]
    assert driver.answer(delete).results == (("g", 0),)
    assert driver.fetch("g") == ()
    assert list(driver.durable.items()) == []


@pytest.mark.conformance("B-104")
def test_offset_delete_in_a_stable_consumer_group() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1, topic="orders"), a.commit(2, topic="old")
    response = driver.delete_offsets("g", ("orders", 0), ("old", 0), ("old", 9))
    assert response.error_code == 0
    assert response.partitions == (("orders", 0, 86), ("old", 0, 0), ("old", 9, 0))
    assert GROUP_RECORDS.decode(*driver.log[-1]) == OffsetsDeleted("g", [("old", 0)])
    assert [driver.offset("g", "orders"), driver.offset("g", "old")] == [1, -1]


@pytest.mark.conformance("B-104")
def test_offset_delete_in_a_connect_group() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a", protocol_type="connect", protocols=(("x", b""),)))
    a.commit(1)
    assert driver.delete_offsets("g", ("orders", 0)).error_code == 68
    driver.leave("g", (a.member_id, None))
    assert driver.delete_offsets("g", ("orders", 0)).error_code == 0
    assert driver.offset("g") == -1


def test_offset_delete_when_the_topics_cannot_be_told() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a", protocols=(("range", b"\x00"),)))
    a.commit(1)
    assert driver.delete_offsets("g", ("orders", 0)).partitions == (("orders", 0, 86),)


@pytest.mark.parametrize(("group_id", "error"), [("missing", 69), ("", 24), (None, 24), ("dead", 69)])
def test_offset_delete_refused(group_id: str | None, error: int) -> None:
    driver = Driver()
    zoo(driver)
    assert driver.call(OffsetDeleteRequest(group_id, (("orders", 0),))).error_code == error


def large_groups(*names: str) -> Driver:
    """Empty groups with far more offsets than fit into one append."""
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_message_bytes=2_000))
    for name in names:
        for partition in range(30):
            driver.commit_offset(name, 7, partition=partition)
    return driver


def test_groups_with_more_offsets_than_an_append_takes_can_be_deleted() -> None:
    """Their tombstones made one append, which the log refused each time."""
    driver = large_groups("g", "h")
    before = len(driver.batch_ends)
    assert driver.call(DeleteGroupsRequest(("g", "h", "none"))).results == (("g", 0), ("h", 0), ("none", 69))
    assert len(driver.batch_ends) - before > 2
    assert naive_replay(driver.log).get("g") is None
    assert driver.list_groups() == ()
    assert (driver.shard.coordinator.metrics.group_deletions, driver.shard.coordinator.metrics.offset_deletions) == (
        2,
        60,
    )
    for name in ("g", "h"):
        changes = [
            change for record in driver.log if (change := GROUP_RECORDS.decode(*record)) and change.group_id == name
        ]
        assert changes[-1] == GroupDeleted(name), "when the group goes, none of its offsets is left"


def test_a_group_whose_tombstones_are_refused_halfway_is_there_again_with_what_is_left() -> None:
    driver = large_groups("g")
    driver.holds = True
    token = driver.ask(DeleteGroupsRequest(("g",)))
    driver.append(), driver.commit(), driver.turn()
    assert driver.answer(token) is None
    assert driver.describe("g").group_state == "Dead"
    driver.refuse(19)
    assert driver.answer(token).results[0][1] != 0
    assert driver.describe("g").group_state == "Empty"
    assert 0 < len(driver.fetch("g")) < 30
    driver.holds = False
    driver.turn()
    assert driver.call(DeleteGroupsRequest(("g",))).results == (("g", 0),)


def test_a_deletion_of_several_groups_says_which_of_them_timed_out() -> None:
    driver = large_groups("g", "h")
    driver.holds = True
    token = driver.ask(DeleteGroupsRequest(("g", "h")))
    driver.advance(5_000)
    assert [code for _, code in driver.answer(token).results] == [15, 15]
    driver.holds = False
    driver.release()
    driver.turn()
    assert driver.list_groups() == (), "it may still commit"
