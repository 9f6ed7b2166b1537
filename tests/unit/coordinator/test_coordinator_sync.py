"""SyncGroup, Heartbeat and LeaveGroup: statements B-50 to B-78."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import HeartbeatRequest, LeaveGroupRequest, LeavingMember, SyncGroupRequest
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from tests.support.coordination import (
    Client,
    Driver,
    form,
    stable_group,
)
from tests.support.coordination_groups import completing, trio


def assign(members: list[Client]) -> dict[str, bytes]:
    return {client.member_id: client.name.encode() for client in members}


# -- SyncGroup


@pytest.mark.conformance("B-50", "B-51")
def test_syncs_are_answered_when_the_assignment_is_durable() -> None:
    driver = Driver()
    a, b, c = members = completing(driver)
    driver.holds = True
    b.ask_sync()
    a.ask_sync(assign(members))
    driver.append()
    c.ask_sync()
    assert [x.sync_answer for x in members] == [None] * 3
    assert driver.state() == "CompletingRebalance"
    driver.commit()
    assert [x.synced() for x in members] == [b"a", b"b", b"c"]
    assert driver.state() == "Stable"
    assert b.sync_answer is not None
    assert (b.sync_answer.protocol_type, b.sync_answer.protocol_name) == ("consumer", "range")


@pytest.mark.conformance("B-52")
def test_a_late_follower_gets_the_stored_assignment_at_once() -> None:
    driver = Driver()
    a, b, c = members = completing(driver)
    a.ask_sync(assign(members))
    b.ask_sync()
    assert driver.state() == "Stable"
    c.ask_sync()
    assert c.synced() == b"c"
    a.ask_sync({a.member_id: b"other"})  # a leader's assignment comes too late now
    assert a.synced() == b"a"


@pytest.mark.conformance("B-53")
def test_a_member_the_leader_leaves_out_gets_nothing() -> None:
    driver = Driver()
    a, b, c = completing(driver)
    b.ask_sync(), c.ask_sync()
    a.ask_sync({a.member_id: b"all"})
    assert [a.synced(), b.synced(), c.synced()] == [b"all", b"", b""]


@pytest.mark.conformance("B-54")
def test_an_assignment_for_a_stranger_is_not_stored() -> None:
    driver = Driver()
    a, b, c = members = completing(driver)
    a.ask_sync({**assign(members), "ghost": b"boo"})
    change = GROUP_RECORDS.decode(*driver.log[-1])
    assert isinstance(change, GroupPut)
    assert {m.member_id for m in change.metadata.members} == {a.member_id, b.member_id, c.member_id}


@pytest.mark.conformance("B-55")
@pytest.mark.parametrize(("refusal", "answer"), [(6, 16), (19, 15), (10, -1), (56, 16), (3, 15), (42, 42)])
def test_an_assignment_that_cannot_be_written(refusal: int, answer: int) -> None:
    driver = Driver()
    a, b, _ = members = completing(driver)
    driver.holds = True
    b.ask_sync(), a.ask_sync(assign(members))
    driver.refuse(refusal)
    assert [x.sync_answer.error_code for x in (a, b) if x.sync_answer] == [answer, answer]
    assert driver.state() == "PreparingRebalance"
    assert {m.assignment for m in driver.group().members.values()} == {b""}


def test_an_assignment_not_replicated_in_time_fails_the_syncs() -> None:
    driver = Driver()
    a, b, _ = members = completing(driver)
    driver.holds = True
    b.ask_sync(), a.ask_sync(assign(members))
    driver.append()
    driver.advance(5_000)
    assert [x.sync_answer.error_code for x in (a, b) if x.sync_answer] == [15, 15]
    assert driver.state() == "PreparingRebalance"
    driver.commit()  # it stands in the log, and says what it says
    assert driver.state() == "PreparingRebalance"
    persisted = driver.durable.get("g")
    assert persisted is not None
    assert persisted.persisted is not None
    assert persisted.persisted.generation_id == 3


@pytest.mark.conformance("B-56")
def test_an_assignment_written_after_a_new_rebalance_is_discarded() -> None:
    driver = Driver()
    a, _, _ = members = completing(driver)
    driver.holds = True
    a.ask_sync(assign(members))
    d = Client(driver, "d")
    d.join()
    assert driver.state() == "PreparingRebalance"
    driver.release()
    assert driver.state() == "PreparingRebalance"
    driver.holds = False
    for client in members:
        client.join()
    assert driver.state() == "CompletingRebalance"
    form(driver, [*members, d])
    assert driver.group().generation_id == 4


@pytest.mark.conformance("B-56")
@pytest.mark.parametrize("error", [0, 15])
def test_an_assignment_whose_write_ends_in_the_next_generation_is_discarded(error: int) -> None:
    """Both generations complete their rebalance; only the newer one waits for an assignment of its own."""
    driver = Driver()
    members = completing(driver)
    driver.holds = True
    members[0].ask_sync(assign(members))
    members.append(Client(driver, "d").join())
    for client in members[:3]:
        client.join()
    assert (driver.state(), driver.group().generation_id) == ("CompletingRebalance", 4)
    for client in members:
        client.joined()
    waiting = members[1].ask_sync()
    if error:
        driver.refuse(error)
    else:
        driver.release()
    assert driver.answer(waiting) is None
    assert (driver.state(), driver.group().generation_id) == ("CompletingRebalance", 4)
    assert [client.member_id for client in members] == list(driver.group().members)


def test_a_second_sync_of_the_leader_waits_for_the_first() -> None:
    driver = Driver()
    a, _, _ = members = completing(driver)
    driver.holds = True
    first = a.ask_sync(assign(members))
    second = a.ask_sync({a.member_id: b"changed my mind"})
    assert driver.answer(first).error_code == 27
    assert len(driver.held) == 1
    driver.release()
    assert driver.answer(second).assignment == b"a"


@pytest.mark.conformance("B-57")
def test_sync_while_preparing() -> None:
    driver = Driver()
    a, _, _ = trio(driver)
    Client(driver, "d").join()
    a.ask_sync()
    assert a.sync_answer is not None
    assert a.sync_answer.error_code == 27


@pytest.mark.conformance("B-58")
def test_sync_of_the_wrong_generation_or_member() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    assert driver.answer(a.ask_sync(generation_id=1)).error_code == 22
    assert driver.answer(a.ask_sync(member_id="ghost")).error_code == 25
    assert driver.answer(a.ask_sync(group_id="missing")).error_code == 25
    driver.leave("g", *((x.member_id, None) for x in (a, b, c)))
    assert driver.state() == "Empty"
    assert driver.answer(a.ask_sync(generation_id=3)).error_code == 25


@pytest.mark.conformance("B-59")
@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": None},
        {"protocol_name": None},
        {"protocol_name": "other"},
        {"protocol_type": "connect"},
        {"protocol_name": "other", "api_version": 4},
    ],
)
def test_sync_with_the_wrong_protocol(changes: dict[str, object]) -> None:
    driver = Driver()
    a, _, _ = trio(driver)
    assert driver.answer(a.ask_sync(**changes)).error_code == 23


def test_sync_before_v5_names_no_protocol() -> None:
    driver = Driver()
    a, _, _ = trio(driver)
    assert driver.answer(a.ask_sync(protocol_type=None, protocol_name=None, api_version=4)).error_code == 0


@pytest.mark.conformance("B-60")
def test_a_leader_that_never_syncs_is_removed() -> None:
    driver = Driver()
    a, b, c = completing(driver)
    b.ask_sync()
    for _ in range(12):
        driver.advance(4_999)
        assert [x.heartbeat() for x in (a, c)] == [0, 0]
    driver.advance(12)
    assert b.sync_answer is not None
    assert b.sync_answer.error_code == 27
    assert driver.state() == "PreparingRebalance"
    assert list(driver.group().members) == [b.member_id]
    assert driver.group().leader_id == b.member_id


@pytest.mark.conformance("B-61")
def test_a_follower_that_never_syncs_is_removed_from_a_stable_group() -> None:
    driver = Driver()
    a, b, c = members = completing(driver)
    b.ask_sync(), a.ask_sync(assign(members))
    for _ in range(12):
        driver.advance(4_999)
        assert [x.heartbeat() for x in members] == [0, 0, 0]
    driver.advance(12)
    assert driver.state() == "PreparingRebalance"
    assert list(driver.group().members) == [a.member_id, b.member_id]
    assert c.heartbeat() == 25


@pytest.mark.conformance("B-62")
def test_nothing_happens_when_all_have_synced() -> None:
    driver = Driver()
    members = trio(driver)
    for _ in range(30):
        driver.advance(5_000)
        assert [x.heartbeat() for x in members] == [0, 0, 0]
    assert driver.state() == "Stable"
    assert driver.group().generation_id == 2


# -- Heartbeat


@pytest.mark.conformance("B-63", "B-67")
def test_heartbeat_in_stable_extends_the_session() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.advance(9_999)
    assert a.heartbeat() == 0
    driver.advance(9_999)
    assert driver.state() == "Stable"
    driver.advance(1)
    assert driver.state() == "Empty"


@pytest.mark.conformance("B-64")
def test_heartbeat_in_preparing_extends_the_session() -> None:
    driver = Driver()
    a, b, _ = trio(driver)
    Client(driver, "d").join()
    driver.advance(9_999)
    assert a.heartbeat() == 27
    driver.advance(9_999)
    assert a.member_id in driver.group().members
    assert b.member_id not in driver.group().members
    driver.advance(1)
    assert a.member_id not in driver.group().members


@pytest.mark.conformance("B-65")
def test_heartbeat_in_completing() -> None:
    driver = Driver()
    a, b, _ = completing(driver)
    assert [a.heartbeat(), b.heartbeat()] == [0, 0]


@pytest.mark.conformance("B-66")
def test_a_silent_member_is_removed() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    driver.advance(5_000)
    assert [a.heartbeat(), b.heartbeat()] == [0, 0]
    driver.advance(4_999)
    assert driver.state() == "Stable"
    driver.advance(1)
    assert driver.state() == "PreparingRebalance"
    assert c.member_id not in driver.group().members
    assert a.heartbeat() == 27
    driver.advance(10_000)
    assert driver.state() == "Empty"


@pytest.mark.conformance("B-68")
def test_heartbeats_that_are_refused() -> None:
    driver = Driver()
    a, _, _ = trio(driver)
    assert a.heartbeat(generation=1) == 22
    assert driver.call(HeartbeatRequest("g", 2, "ghost")).error_code == 25
    assert driver.call(HeartbeatRequest("missing", 2, a.member_id)).error_code == 25
    assert driver.call(HeartbeatRequest("", 2, a.member_id)).error_code == 24
    driver.commit_offset("doomed", 1)
    driver.holds = True
    driver.delete_group("doomed")
    assert driver.call(HeartbeatRequest("doomed", 0, "any")).error_code == 15


@pytest.mark.conformance("B-69")
def test_heartbeat_while_loading() -> None:
    driver = Driver(loaded=False)
    driver.shard.start_loading(0)
    assert driver.call(HeartbeatRequest("g", 7, "any")).error_code == 0


@pytest.mark.conformance("B-78")
def test_the_session_starts_anew_when_the_assignment_arrives() -> None:
    driver = Driver()
    a, b, c = members = completing(driver)
    driver.advance(9_000)
    a.ask_sync(assign(members)), b.ask_sync()
    assert driver.state() == "Stable"
    driver.advance(1_000)  # c has been silent since its join was answered
    assert set(driver.group().members) == {a.member_id, b.member_id}
    driver.advance(8_999)
    assert set(driver.group().members) == {a.member_id, b.member_id}
    driver.advance(1)
    assert driver.state() == "Empty"
    assert c.heartbeat() == 25


def test_sync_in_stable_extends_the_session() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.advance(9_999)
    a.ask_sync()
    driver.advance(9_999)
    assert driver.state() == "Stable"


# -- LeaveGroup


@pytest.mark.conformance("B-70")
def test_a_member_leaves_a_stable_group() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    response = driver.leave("g", (c.member_id, None))
    assert (response.error_code, response.members[0].error_code) == (0, 0)
    assert [a.heartbeat(), b.heartbeat(), c.heartbeat()] == [27, 27, 25]


@pytest.mark.conformance("B-71")
def test_the_last_member_leaves() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    assert driver.state() == "Empty"
    change = GROUP_RECORDS.decode(*driver.log[-1])
    assert isinstance(change, GroupPut)
    assert (change.metadata.generation_id, change.metadata.members, change.metadata.leader_id) == (2, (), None)


@pytest.mark.conformance("B-72")
def test_a_batch_of_leaves_is_one_rebalance() -> None:
    driver = Driver()
    a, b, s, t = (Client(driver, n, instance=i) for n, i in [("a", None), ("b", None), ("s", "i"), ("t", "j")])
    stable_group(driver, a, b, s, t)
    before = len(driver.group().history)
    response = driver.leave("g", (a.member_id, None), ("ghost", None), ("other", "i"), (t.member_id, "j"))
    assert [m.error_code for m in response.members] == [0, 25, 82, 0]
    assert len(driver.group().history) == before + 1
    assert set(driver.group().members) == {b.member_id, s.member_id}


@pytest.mark.conformance("B-73")
def test_leaving_by_instance_id() -> None:
    driver = Driver()
    a, s = stable_group(driver, Client(driver, "a"), Client(driver, "s", instance="i"))
    response = driver.leave("g", ("", "i"), ("", "unknown"), ("", None))
    assert [tuple(m) for m in response.members] == [("", "i", 0), ("", "unknown", 25), ("", None, 25)]
    assert s.member_id not in driver.group().members
    assert a.heartbeat() == 27


@pytest.mark.conformance("B-74")
def test_a_pending_id_leaves() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    pending = driver.answer(Client(driver, "d").ask_join()).member_id
    for client in (a, b, c):
        client.ask_join(reason="again")
    assert a.join_answer is None
    assert driver.leave("g", (pending, "instance ids do not matter here")).members[0].error_code == 0
    assert a.joined().generation_id == 3
    assert driver.leave("g", (pending, None)).members[0].error_code == 25


@pytest.mark.conformance("B-75")
def test_a_parked_joiner_leaves() -> None:
    driver = Driver()
    trio(driver)
    d = Client(driver, "d").join()
    assert driver.leave("g", (d.member_id, None)).members[0].error_code == 0
    assert d.join_answer is not None
    assert (d.join_answer.error_code, d.join_answer.member_id) == (25, "")


def test_a_parked_syncer_leaves() -> None:
    driver = Driver()
    _, b, _ = completing(driver)
    b.ask_sync()
    driver.leave("g", (b.member_id, None))
    assert b.sync_answer is not None
    assert b.sync_answer.error_code == 25


@pytest.mark.conformance("B-76")
@pytest.mark.parametrize(("known", "error"), [(True, 0), (False, 25)])
@pytest.mark.parametrize("version", [0, 2])
def test_leave_before_v3_speaks_at_the_top(known: bool, error: int, version: int) -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    response = driver.leave("g", (a.member_id if known else "ghost", None), version=version)
    assert (response.error_code, response.members) == (error, ())


@pytest.mark.conformance("B-77")
def test_leave_of_a_missing_group() -> None:
    driver = Driver()
    response = driver.leave("g", ("a", None), ("", "i"))
    assert response.error_code == 0
    assert [m.error_code for m in response.members] == [25, 25]
    assert driver.leave("g", ("a", None), version=2).error_code == 25


@pytest.mark.parametrize("group_id", ["", None])
def test_no_group_id(group_id: str | None) -> None:
    driver = Driver()
    assert driver.call(LeaveGroupRequest(group_id, (LeavingMember("a"),))).error_code == 24
    assert driver.call(SyncGroupRequest(group_id, 1, "a", None, "consumer", "range")).error_code == 24
