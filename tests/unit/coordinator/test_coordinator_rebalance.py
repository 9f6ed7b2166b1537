"""Rebalances after the first: who is waited for, who leads, and what a member that joins again is told.

Statements B-11 to B-18 and B-28 to B-41.
"""

from __future__ import annotations

import pytest

from actors.coordinator.classic.group import MAX_GENERATION
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from tests.support.coordination import (
    Client,
    Driver,
    form,
    stable_group,
)
from tests.support.coordination_groups import DELAY, OTHER, completing, preparing, trio


@pytest.mark.conformance("B-11")
def test_a_newcomer_sends_the_others_back_to_join() -> None:
    driver = Driver()
    a, b, _, d = preparing(driver)
    assert d.join_answer is None
    assert [a.heartbeat(), b.heartbeat()] == [27, 27]
    assert driver.group().generation_id == 2


@pytest.mark.conformance("B-12")
def test_the_last_rejoin_completes_the_rebalance_for_all() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    a.join(), b.join()
    assert [x.join_answer for x in (a, b, d)] == [None] * 3
    before = driver.now
    c.join()
    assert driver.now == before
    assert {x.joined().generation_id for x in (a, b, c, d)} == {3}


@pytest.mark.conformance("B-13")
def test_a_member_that_only_heartbeats_is_dropped_after_the_rebalance_timeout() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    a.join(), b.join()
    for _ in range(19):
        driver.advance(3_000)
        assert c.heartbeat() == 27
    driver.advance(2_999)
    assert a.join_answer is None
    driver.advance(1)
    assert {x.joined().generation_id for x in (a, b, d)} == {3}
    assert c.member_id not in driver.group().members
    assert c.heartbeat() == 25


@pytest.mark.conformance("B-14")
def test_join_timer_is_the_longest_rebalance_timeout() -> None:
    driver = Driver()
    timeouts = (5_000, 10_000, 30_000)
    a, b, c = (Client(driver, str(ms), rebalance_ms=ms, session_ms=100_000) for ms in timeouts)
    stable_group(driver, a, b, c)
    assert driver.group().roster.rebalance_timeout_ms == 30_000
    Client(driver, "d", rebalance_ms=1_000).join()
    b.join()
    driver.advance(29_999)
    assert b.join_answer is None
    driver.advance(1)
    assert b.joined().generation_id == 3


@pytest.mark.conformance("B-15")
def test_the_leader_alone_gets_the_members() -> None:
    driver = Driver(DELAY)
    clients = [Client(driver, name, protocols=(("range", name.encode()),)).join() for name in "abc"]
    driver.advance(6_000)
    answers = [client.joined() for client in clients]
    assert {(x.generation_id, x.leader, x.protocol_type, x.protocol_name) for x in answers} == {
        (1, clients[0].member_id, "consumer", "range")
    }
    assert [(m.member_id, m.metadata) for m in answers[0].members] == [
        (client.member_id, client.name.encode()) for client in clients
    ]
    assert answers[1].members == answers[2].members == ()


@pytest.mark.conformance("B-16")
def test_a_leader_that_rejoins_stays_leader() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)  # d joined first in this round
    c.join(), b.join(), a.join()
    assert {x.joined().leader for x in (a, b, c, d)} == {a.member_id}


@pytest.mark.conformance("B-17")
def test_a_leader_that_stays_away_is_replaced_by_one_that_rejoined() -> None:
    driver = Driver()
    _, b, c, d = preparing(driver)
    c.join(), b.join()
    driver.advance(60_000)
    assert {x.joined().leader for x in (b, c, d)} == {b.member_id}  # the oldest
    assert len(b.joined().members) == 3


@pytest.mark.conformance("B-18")
def test_a_leader_that_leaves_is_replaced() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    assert driver.leave("g", (a.member_id, None)).members[0].error_code == 0
    assert driver.group().leader_id in (b.member_id, c.member_id)
    assert_led_by_one_of(driver, b, c)


@pytest.mark.conformance("B-18")
@pytest.mark.parametrize("rejoined", [True, False])
def test_a_leader_that_leaves_while_the_others_join_is_replaced(rejoined: bool) -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    b.join()
    if rejoined:
        a.join()
    assert driver.leave("g", (a.member_id, None)).members[0].error_code == 0
    assert_led_by_one_of(driver, b, c, d)


@pytest.mark.conformance("B-18")
def test_a_leader_that_leaves_before_its_sync_is_replaced() -> None:
    driver = Driver()
    a, b, c = clients = trio(driver)
    for client in clients:
        client.join()
    for client in clients:
        client.joined()
    b.ask_sync()
    assert driver.leave("g", (a.member_id, None)).members[0].error_code == 0
    answer = b.sync_answer
    assert answer is not None
    assert answer.error_code == 27, "nobody else could have answered it"
    assert_led_by_one_of(driver, b, c)


def assert_led_by_one_of(driver: Driver, *clients: Client) -> None:
    """They rejoin: all hear of the same leader, who alone hears of all, divides the work and is obeyed."""
    for client in clients:
        client.join()
    answers = [client.joined() for client in clients]
    ids = {client.member_id for client in clients}
    (leader,) = {answer.leader for answer in answers}
    assert leader in ids
    for answer in answers:
        heard = {member.member_id for member in answer.members}
        assert heard == (ids if answer.member_id == leader else set())
    form(driver, clients)
    assert driver.state() == "Stable"


@pytest.mark.conformance("B-12")
def test_a_member_that_expires_completes_the_rebalance_of_the_others() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    a.join(), b.join()
    driver.advance(10_000)
    assert {x.joined().generation_id for x in (a, b, d)} == {3}
    assert c.member_id not in driver.group().members


@pytest.mark.conformance("B-28")
def test_identical_rejoin_while_completing_is_answered_at_once() -> None:
    driver = Driver()
    a, b, _ = completing(driver)
    b.ask_sync()
    leader, follower = driver.answer(a.ask_join()), driver.answer(b.ask_join())
    assert (leader.generation_id, follower.generation_id) == (a.generation, a.generation)
    assert len(leader.members) == 3
    assert follower.members == ()
    assert driver.state() == "CompletingRebalance"
    assert b.sync_answer is None


@pytest.mark.conformance("B-29")
def test_changed_rejoin_while_completing_rebalances() -> None:
    driver = Driver()
    _, b, c = completing(driver)
    c.ask_sync()
    b.ask_join(protocols=OTHER)
    assert c.sync_answer is not None
    assert c.sync_answer.error_code == 27
    assert driver.state() == "PreparingRebalance"
    assert b.join_answer is None


@pytest.mark.conformance("B-30")
def test_a_newcomer_while_completing_rebalances() -> None:
    driver = Driver()
    a, b, c = completing(driver)
    driver.holds = True
    a.ask_sync({a.member_id: b"x"}), b.ask_sync()
    Client(driver, "d").join()
    assert [x.sync_answer.error_code for x in (a, b) if x.sync_answer] == [27, 27]
    assert driver.state() == "PreparingRebalance"
    driver.release()
    assert driver.state() == "PreparingRebalance"
    assert {member.assignment for member in driver.group().members.values()} == {b""}
    assert c.heartbeat() == 27


@pytest.mark.conformance("B-31")
def test_unchanged_rejoin_of_a_follower_in_stable_is_answered_at_once() -> None:
    driver = Driver()
    _, b, _ = trio(driver)
    answer = driver.answer(b.ask_join())
    assert (answer.error_code, answer.generation_id, answer.members) == (0, 2, ())
    assert driver.state() == "Stable"


@pytest.mark.conformance("B-32")
def test_changed_rejoin_of_a_follower_in_stable_rebalances() -> None:
    driver = Driver()
    _, b, _ = trio(driver)
    b.ask_join(protocols=OTHER)
    assert b.join_answer is None
    assert driver.state() == "PreparingRebalance"


@pytest.mark.conformance("B-33")
def test_unchanged_rejoin_of_the_leader_in_stable_rebalances() -> None:
    driver = Driver()
    a, _, _ = trio(driver)
    a.ask_join()
    assert a.join_answer is None
    assert driver.state() == "PreparingRebalance"


@pytest.mark.conformance("B-34")
@pytest.mark.parametrize("member_id", ["", "any"])
def test_join_of_a_dead_group(member_id: str) -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    driver.delete_group("g")
    assert driver.state() == "Dead"
    assert driver.answer(Client(driver).ask_join(member_id=member_id)).error_code == 15


@pytest.mark.conformance("B-35")
def test_a_new_member_waits_five_minutes_at_most() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a", rebalance_ms=600_000, session_ms=1_000_000))
    b = Client(driver, "b", session_ms=6_000).join()
    driver.advance(299_999)
    assert b.join_answer is None
    driver.advance(1)
    assert b.join_answer is not None
    assert (b.join_answer.error_code, b.join_answer.member_id) == (25, "")
    assert list(driver.group().members) == [a.member_id]


@pytest.mark.conformance("B-36")
def test_a_parked_known_member_does_not_expire() -> None:
    driver = Driver()
    a, b, c, _ = preparing(driver)
    a.join(), b.join()
    for _ in range(10):
        driver.advance(5_000)
        c.heartbeat()
    assert {a.member_id, b.member_id} <= set(driver.group().members)
    assert a.join_answer is None


@pytest.mark.conformance("B-36", "B-66")
def test_the_session_of_a_member_that_waited_counts_from_the_answer_of_its_join() -> None:
    """Not from the request, and it does count: a member that dies while it waits must not stay."""
    driver = Driver()
    a, b, c, d = preparing(driver)
    a.join(), b.join()
    for _ in range(3):
        driver.advance(5_000)
        c.heartbeat()
    c.join()
    assert driver.state() == "CompletingRebalance"
    driver.advance(9_999)
    assert [each.joined().error_code for each in (a, b, c, d)] == [0] * 4
    assert set(driver.group().members) == {each.member_id for each in (a, b, c, d)}
    assert [b.heartbeat(), c.heartbeat(), d.heartbeat()] == [0, 0, 0]
    driver.advance(1)
    assert set(driver.group().members) == {each.member_id for each in (b, c, d)}


@pytest.mark.conformance("B-37")
def test_the_newest_join_of_a_member_gets_the_answer() -> None:
    driver = Driver()
    a, b, c, _ = preparing(driver)
    older = a.ask_join()
    newer = a.ask_join()
    # Not left open, as answers leave a connection in order: told to join again, which it has done.
    assert driver.answer(older).error_code == 27
    assert driver.answer(newer) is None
    b.join(), c.join()
    assert driver.answer(newer).error_code == 0
    assert driver.group().roster.awaiting_join == 0


@pytest.mark.conformance("B-38")
def test_a_group_all_of_whose_members_time_out_becomes_empty() -> None:
    driver = Driver()
    trio(driver)
    driver.advance(10_000)
    assert driver.state() == "Empty"
    change = GROUP_RECORDS.decode(*driver.log[-1])
    assert isinstance(change, GroupPut)
    assert (change.metadata.generation_id, change.metadata.members) == (3, ())
    assert (change.metadata.protocol_type, change.metadata.protocol_name) == ("consumer", None)
    assert change.metadata.state_timestamp_ms == driver.now.wall_ms


@pytest.mark.conformance("B-39")
def test_join_v0_takes_the_session_timeout_for_rebalances() -> None:
    driver = Driver(DELAY)
    Client(driver, "a", version=0, session_ms=7_000).ask_join()
    (member,) = driver.group().members.values()
    assert member.rebalance_timeout_ms == 7_000


@pytest.mark.conformance("B-40")
@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_null_protocol_name_is_empty_before_v7(version: int, name: str | None) -> None:
    driver = Driver()
    assert driver.answer(Client(driver, version=version).ask_join(member_id="x")).protocol_name == name


@pytest.mark.conformance("B-41")
def test_ten_rebalances_are_ten_generations() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    start = driver.group().generation_id
    for _ in range(10):
        for client in (a, b, c):
            client.join()
        form(driver, (a, b, c))
    assert driver.group().generation_id == start + 10
    assert {event.reason for event in list(driver.group().history)[-10:]} == {"leader rejoined"}


def test_generation_wraps_to_one() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.group().generation_id = MAX_GENERATION
    assert a.join().joined().generation_id == 1
