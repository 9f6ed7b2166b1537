"""The memory of a rebalance: members that came, left or were expelled, its phases, and those they waited for."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.history import ClassicHistory, ClassicRebalance, RebalancePhase
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.messages import JoinGroupRequest
from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.groups.history import (
    LAST_MAX,
    NAMED_MAX,
    OVER_MAX,
    REPLACED,
    Rebalance,
    RebalanceLog,
)
from actors.coordinator.turn import Now
from tests.support.coordination import Client, Driver, form, stable_group
from tests.support.coordination_groups import DELAY, completing, preparing, trio


def over(driver: Driver) -> list[ClassicRebalance]:
    """The rebalances that are over, which are fetched by it."""
    return [classic(each) for each in driver.shard.coordinator.rebalances.take_over()[0]]


def classic(found: Rebalance) -> ClassicRebalance:
    assert isinstance(found, ClassicRebalance)
    return found


def last(driver: Driver) -> ClassicRebalance:
    return over(driver)[-1]


def member(member_id: str) -> Member:
    return Member(member_id, JoinGroupRequest("g", member_id, "consumer", (), 10_000))


def running(driver: Driver) -> ClassicRebalance:
    (found,) = driver.shard.coordinator.rebalances.running.values()
    return classic(found)


def test_a_first_rebalance_says_who_came_and_when_the_assignment_was_safe() -> None:
    driver = Driver(DELAY)
    a = Client(driver, "a").join()
    driver.advance(2_000)
    b = Client(driver, "b").join()
    driver.advance(6_000)
    form(driver, [a, b])
    told = last(driver)
    assert (told.group_id, told.generation_id, told.reason) == ("g", 0, "member joined")
    assert (told.member_id, told.client_id, told.host) == (a.member_id, "a", "/127.0.0.1")
    assert list(told.changes.came) == [a.member_id, b.member_id]
    assert told.members == 2
    assert told.joined is not None
    assert told.ended is not None
    assert told.began.wall_ms < told.joined.wall_ms <= told.ended.wall_ms == driver.now.wall_ms
    assert [(each.member_id, each.ms) for each in told.joins] == [(b.member_id, 2_000)]
    assert driver.shard.coordinator.rebalances.running == {}
    assert over(driver) == [], "it is told once"


def test_the_members_that_come_last_are_those_that_were_waited_for() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    over(driver)
    a.join()
    driver.advance(300)
    c.join()
    driver.advance(4_000)
    b.join()
    form(driver, [a, b, c, d])
    told = last(driver)
    waited = {each.member_id: each.ms for each in told.joins}
    assert list(waited) == [a.member_id, c.member_id, b.member_id], "latest last"
    assert (waited[c.member_id], waited[b.member_id]) == (300, 4_300)
    assert [each.client_id for each in told.joins] == ["a", "c", "b"]
    assert (list(told.changes.came), told.member_id) == ([d.member_id], d.member_id)


def test_the_sync_phase_waits_for_the_leader_until_it_has_sent_the_assignment() -> None:
    driver = Driver()
    a, b, c = completing(driver)
    over(driver)
    b.ask_sync()
    driver.advance(700)
    a.ask_sync({x.member_id: b"" for x in (a, b, c)})
    driver.advance(500)
    c.ask_sync()
    told = last(driver)
    assert [(each.client_id, each.ms) for each in told.syncs] == [("b", 0), ("a", 700)]


def test_a_member_that_does_not_come_in_time_was_waited_for_and_is_expelled() -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    a.join(), b.join()
    for _ in range(20):
        driver.advance(3_000)
        c.heartbeat()
    form(driver, [a, b, d])
    told = last(driver)
    assert (list(told.changes.expelled), list(told.changes.left)) == ([c.member_id], [])
    assert (told.joins[-1].member_id, told.joins[-1].ms) == (c.member_id, 60_000)
    assert told.members == 3


def test_one_that_leaves_and_one_whose_session_ends_are_told_apart() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    over(driver)
    driver.leave("g", (b.member_id, None))
    assert (running(driver).member_id, running(driver).client_id) == (b.member_id, "b"), "although it is not there"
    a.join()
    for _ in range(4):
        driver.advance(3_000)
    form(driver, [a])
    told = last(driver)
    assert (list(told.changes.left), list(told.changes.expelled)) == ([b.member_id], [c.member_id])
    assert (told.reason, told.members) == ("member left", 1)


def test_members_that_do_not_sync_in_time_are_expelled_by_the_next_rebalance() -> None:
    driver = Driver()
    a, b, c = completing(driver)
    a.ask_sync({x.member_id: b"" for x in (a, b, c)})
    b.ask_sync()
    over(driver)
    for _ in range(21):
        driver.advance(3_000)
        for each in (a, b, c):
            each.heartbeat()
    told = running(driver)
    assert (told.reason, list(told.changes.expelled)) == ("sync timed out", [c.member_id])
    assert told.client_id == "c"


def test_a_rebalance_that_another_breaks_off_has_no_end() -> None:
    driver = Driver()
    completing(driver)
    over(driver)
    Client(driver, "d").join()
    (broken,) = over(driver)
    assert broken.phase is RebalancePhase.OVER
    assert broken.joined is not None
    assert broken.ended is None
    assert running(driver).reason == "member joined"


def test_the_last_member_that_leaves_ends_a_rebalance_with_nobody() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    over(driver)
    driver.leave("g", (a.member_id, None))
    told = last(driver)
    assert (told.members, list(told.changes.left)) == (0, [a.member_id])
    assert told.joined == told.ended == driver.now


def test_an_id_that_was_given_out_and_not_used_was_waited_for() -> None:
    driver = Driver()
    stable_group(driver, a := Client(driver, "a"))
    over(driver)
    ghost = Client(driver, "ghost")
    ghost_id = driver.answer(ghost.ask_join()).member_id
    b = Client(driver, "b").join()
    a.join()
    for _ in range(4):
        driver.advance(2_600)
        b.heartbeat()
    form(driver, [a, b])
    waited = last(driver).joins[-1]
    assert (waited.member_id, waited.client_id) == (ghost_id, "")
    assert waited.ms >= 9_000


def test_the_next_incarnation_of_a_static_member_came_and_the_older_one_did_not_leave() -> None:
    driver = Driver()
    stable_group(driver, a := Client(driver, "a", instance="i"), Client(driver, "b"))
    over(driver)
    older = a.member_id
    heir = Client(driver, "a", instance="i", protocols=(("other", b""), ("range", b"")))
    Client(driver, "c").join()
    heir.join()
    told = running(driver)
    assert (list(told.changes.replaced), list(told.changes.left)) == ([older], [])
    assert len(list(told.changes.came)) == 2


def test_a_static_member_that_comes_back_to_its_share_is_remembered_with_how_long_it_was_away() -> None:
    """A pool's member was killed and replaced, and nobody could see that."""
    driver = Driver()
    a, s = stable_group(driver, Client(driver, "a"), Client(driver, "s", instance="i"))
    over(driver)
    for client in (a, s):
        client.heartbeat()
    driver.advance(1_700)
    a.heartbeat()
    heir = Client(driver, "s", instance="i").join()
    (told,) = over(driver)
    assert (told.reason, told.phase, told.generation_id) == (
        REPLACED,
        RebalancePhase.OVER,
        driver.group().generation_id,
    )
    assert (list(told.changes.replaced), list(told.changes.came)) == (
        [s.member_id],
        [driver.group().roster.by_instance["i"]],
    )
    assert (told.joins[-1].client_id, told.joins[-1].ms) == (heir.name, 1_700)
    assert told.ended is not None
    assert (told.ended.wall_ms - told.began.wall_ms, told.members) == (1_700, 2)
    assert not driver.shard.coordinator.rebalances.running


def test_a_shard_that_gives_its_partition_up_tells_of_what_it_breaks_off() -> None:
    driver = Driver()
    preparing(driver)
    over(driver)
    old = driver.fail_over()
    (told,), dropped = old.coordinator.rebalances.take_over()
    broken = classic(told)
    assert (broken.phase, broken.ended, dropped) == (RebalancePhase.OVER, None, 0)
    assert driver.shard.coordinator.rebalances.running == {}


def test_of_many_members_some_are_named_and_all_are_counted() -> None:
    log, now = RebalanceLog(), Now(1, 1)
    ClassicHistory(log).begin("g", 0, "why", "m", None, now)
    for number in range(NAMED_MAX + 7):
        log.came("g", member(f"m{number}"))
    assert len(list(log.running["g"].changes.came)) == NAMED_MAX + 1
    assert list(log.running["g"].changes.came)[-1] == "and 7 more"


def test_rebalances_that_nobody_fetches_are_dropped_oldest_first_and_counted() -> None:
    log = RebalanceLog()
    for number in range(OVER_MAX + 3):
        ClassicHistory(log).begin("g", number, "why", "m", None, Now(number, number))
        log.complete("g", Now(number, number))
    kept, dropped = log.take_over()
    assert (dropped, len(kept), classic(kept[0]).generation_id) == (3, OVER_MAX, 3)
    assert log.take_over() == ([], 0)


@pytest.mark.parametrize("phase", list(RebalancePhase))
@pytest.mark.parametrize("how", ["end_join", "complete", "break_off"])
def test_a_rebalance_moves_as_its_table_says_and_not_otherwise(phase: RebalancePhase, how: str) -> None:
    allowed = {
        (RebalancePhase.JOINING, "end_join"): RebalancePhase.SYNCING,
        (RebalancePhase.JOINING, "complete"): RebalancePhase.OVER,
        (RebalancePhase.JOINING, "break_off"): RebalancePhase.OVER,
        (RebalancePhase.SYNCING, "complete"): RebalancePhase.OVER,
        (RebalancePhase.SYNCING, "break_off"): RebalancePhase.OVER,
    }
    now = Now(1, 1)
    rebalance = ClassicRebalance("g", 0, "why", "m", None, now)
    rebalance.phase = phase
    moves = {
        "end_join": lambda: rebalance.end_join(1, now),
        "complete": lambda: rebalance.complete(now),
        "break_off": rebalance.break_off,
    }
    if (phase, how) in allowed:
        moves[how]()
        assert rebalance.phase is allowed[phase, how]
    else:
        with pytest.raises(IllegalTransitionError):
            moves[how]()
        assert (rebalance.phase, rebalance.joined, rebalance.ended) == (phase, None, None)


def test_no_more_than_the_last_few_are_remembered_and_none_twice() -> None:
    rebalance = ClassicRebalance("g", 0, "why", "m", None, Now(0, 0))
    for number in range(20):
        rebalance.wait_ended(f"m{number % 7}", "c", "h", Now(number, number))
    assert [each.ms for each in rebalance.joins] == list(range(20))[-LAST_MAX:]
    assert len({each.member_id for each in rebalance.joins}) == LAST_MAX


def test_what_a_member_says_of_its_process_is_told_when_it_comes_and_when_it_joins_again_after_a_load() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    over(driver)
    c = Client(driver, "c")
    c.member_id = driver.answer(c.ask_join()).member_id
    c.ask_join(process="pool pid 7 on node 3f2a")
    assert running(driver).changes.processes == {c.member_id: "pool pid 7 on node 3f2a"}
    a.join(), b.join()
    form(driver, [a, b, c])
    driver.fail_over()
    over(driver)
    b.ask_join(process="spark pid 8")
    driver.fail_over()
    a.ask_join(process="consumer pid 9")
    assert running(driver).changes.processes == {a.member_id: "consumer pid 9"}, "it leads, so it begins a rebalance"
    c.ask_join(process="pool pid 7 on node 3f2a")
    assert running(driver).changes.processes[c.member_id].startswith("pool")
