"""A shard that is loaded, given up or refused by its log: statements D-04 to D-09, D-14 and D-15."""

from __future__ import annotations

from typing import Any

import pytest

from actors.coordinator.classic.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from actors.coordinator.classic.records import group_key
from actors.coordinator.groups.messages import (
    DeleteGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)
from tests.support.offset_rows import commit_request, projection


@pytest.mark.conformance("D-04")
def test_a_stable_group_goes_on_after_a_failover() -> None:
    driver = Driver()
    members = stable_group(driver, Client(driver, "a"), Client(driver, "b"), Client(driver, "s", instance="i"))
    before = projection(driver.durable)
    described = driver.describe("g")
    driver.fail_over()
    assert [member.heartbeat() for member in members] == [0, 0, 0]
    assert driver.state() == "Stable"
    assert driver.describe("g") == described
    assert projection(driver.durable) == before
    assert driver.group().leader_id == members[0].member_id


@pytest.mark.conformance("D-05")
def test_a_rebalance_in_flight_is_lost_in_a_failover() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    c = Client(driver, "c").join()
    a.ask_join()
    driver.fail_over()
    for client in (a, c):
        assert client.join_answer is not None
        assert client.join_answer.error_code == 16
    assert driver.state() == "Stable"
    assert driver.group().generation_id == 2
    assert b.heartbeat(2) == 0
    a.ask_join()
    assert driver.state() == "PreparingRebalance"
    assert b.heartbeat(2) == 27


@pytest.mark.conformance("D-06")
def test_a_member_silent_after_loading_is_removed() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    driver.advance(5_000)
    driver.fail_over()
    driver.advance(9_999)
    assert b.heartbeat() == 0
    driver.advance(1)
    assert list(driver.group().members) == [b.member_id]
    assert a.heartbeat() == 25


@pytest.mark.conformance("D-07")
def test_a_loaded_member_that_lists_two_protocols_has_changed() -> None:
    driver = Driver()
    two = (("range", subscription("orders")), ("sticky", subscription("orders")))
    _, b = stable_group(driver, Client(driver, "a", protocols=two), Client(driver, "b", protocols=two))
    assert driver.answer(b.ask_join()).error_code == 0
    driver.fail_over()
    b.ask_join()
    assert b.join_answer is None
    assert driver.state() == "PreparingRebalance"


JOIN = JoinGroupRequest("g", "m", "consumer", (("range", b""),), 10_000)
SYNC = SyncGroupRequest("g", 1, "m", None, "consumer", "range")
COMMIT = commit_request("g", -1, "", None, [("t", 0, 1, -1, ""), ("t", 1, 1, -1, "")])
LEAVE = LeaveGroupRequest("g", (LeavingMember("m"),))


def told(driver: Driver) -> dict[str, Any]:
    """The answer to each request, as far as the shard's state decides it."""
    left = driver.call(LEAVE)
    return {
        "join": driver.call(JOIN).error_code,
        "sync": driver.call(SYNC).error_code,
        "heartbeat": driver.call(HeartbeatRequest("g", 1, "m")).error_code,
        "leave": left.error_code,
        "members that left": left.members,
        "commit": driver.call(COMMIT).error_codes,
        "fetch": driver.call(OffsetFetchRequest("g", None)).error_code,
        "delete offsets": driver.call(OffsetDeleteRequest("g", ())).error_code,
        "describe": driver.call(DescribeGroupsRequest(("g",))).groups[0].error_code,
        "delete": driver.call(DeleteGroupsRequest(("g",))).results,
        "list": driver.call(ListGroupsRequest()).error_code,
    }


def everything(code: int) -> dict[str, Any]:
    """The answers if all have the same code."""
    alike = dict.fromkeys(("join", "sync", "heartbeat", "leave", "fetch", "delete offsets", "describe", "list"), code)
    return alike | {"members that left": (), "commit": [code, code], "delete": (("g", code),)}


@pytest.mark.conformance("D-08")
def test_answers_while_loading() -> None:
    driver = Driver(loaded=False)
    driver.shard.start_loading(0)
    assert told(driver) == everything(14) | {"sync": 27, "heartbeat": 0}


@pytest.mark.parametrize("state", ["never led", "unloaded", "failed"])
def test_answers_when_not_led(state: str) -> None:
    driver = Driver(log=[(group_key("g"), b"")] if state == "failed" else (), loaded=state != "never led")
    if state == "unloaded":
        driver.shard.unload()
    assert told(driver) == everything(16)


def test_what_is_wrong_with_a_request_is_said_first() -> None:
    driver = Driver(loaded=False)
    driver.shard.start_loading(0)
    assert driver.call(JoinGroupRequest("", "m", "consumer", (), 10_000)).error_code == 24
    assert driver.call(JoinGroupRequest("g", "m", "consumer", (), 1)).error_code == 26
    assert driver.call(SyncGroupRequest("g", 1, "m")).error_code == 23
    assert driver.call(HeartbeatRequest("", 1, "m")).error_code == 24
    assert driver.call(OffsetFetchRequest(None, None)).error_code == 24


@pytest.mark.conformance("D-09")
def test_unloading_answers_what_is_parked_and_stops_the_timers() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    c = Client(driver, "c", group_id="h").join()
    c.joined()
    Client(driver, "d", group_id="h").join()
    a.ask_join(), b.ask_join()
    a.joined(), b.joined()
    b.ask_sync()
    driver.shard.unload()
    driver.collect(driver.shard)
    assert b.sync_answer is not None
    assert b.sync_answer.error_code == 16
    parked = [r.error_code for r in driver.answers.values() if getattr(r, "error_code", 0) == 16]
    assert len(parked) == 2  # the sync, and d's join
    assert driver.shard.next_deadline() is None
    answered = len(driver.answers)
    driver.advance(1_000_000)
    assert len(driver.answers) == answered


@pytest.mark.conformance("D-14")
def test_of_two_timers_due_at_once_the_first_may_void_the_second() -> None:
    # Both sessions end in one turn: the first expiry rebalances, and the leader's parked sync timer is void.
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a", rebalance_ms=10_000), Client(driver, "b", rebalance_ms=10_000))
    a.ask_join(), b.ask_join()
    a.joined(), b.joined()
    sync_due, session_due = driver.group().sync_timer.due_ms, driver.group().members[a.member_id].session.due_ms
    assert sync_due == session_due
    driver.jump(10_000)
    assert driver.state() == "Empty"
    assert driver.group().generation_id == b.generation + 1
    assert driver.group().sync_timer.due_ms is None


@pytest.mark.conformance("D-15")
def test_all_operations_of_a_refused_append_fail_and_leave_no_trace() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1)
    driver.commit_offset("h", 5)
    before = projection(driver.durable), driver.describe("g"), driver.list_groups(), len(driver.log)
    driver.holds = True
    shard, now = driver.shard, driver.now
    shard.handle(901, commit_request("g", a.generation, a.member_id, None, [("orders", 0, 2, -1, "")]), now)
    shard.handle(902, DeleteGroupsRequest(("h",)), now)
    shard.handle(903, commit_request("new", -1, "", None, [("orders", 0, 3, -1, "")]), now)
    driver.turn()
    assert len(driver.held) == 1  # one turn, one append
    driver.refuse(19)
    assert driver.answers[901].error_codes == [15]
    assert driver.answers[902].results == (("h", 15),)
    assert driver.answers[903].error_codes == [15]
    driver.holds = False
    assert (projection(driver.durable), driver.describe("g"), driver.list_groups(), len(driver.log)) == before
    assert driver.group_or_none("new") is None
    assert driver.offset("h") == 5
