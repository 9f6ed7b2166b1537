"""Members that say nothing: when the pool sends heartbeats for them, and when it ends them. No process, no time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest

from actors.links.member import MemberReport
from actors.members.logs.journal import Journal
from actors.members.member_link import LEASE_SECONDS
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Slot, Together, Version
from actors.members.pools.watch.heartbeats import Membership
from actors.members.pools.watch.watching import MACHINE_SECONDS, Watching

LOOK_S = 0.25  # no rounding
ME = Membership("g-0", "member-1", 4)


def joined(**more: Any) -> MemberReport:
    return MemberReport("Running", member_id="member-1", generation_id=4, **more)


class Link:
    """A connection over which nothing comes."""

    def __init__(self) -> None:
        self.unanswered = 0.0
        self.renewals = 0
        self.hung_up = False

    def renew_lease(self) -> None:
        self.renewals += 1

    def unanswered_s(self) -> float:
        return self.unanswered

    def hang_up(self) -> None:
        self.hung_up = True


class Pool:
    """One member, its watch, and what becomes of it; `go` has time pass."""

    def __init__(self, *, leased: bool = False, **options: Any) -> None:
        self.now = 0.0
        self.journal = Journal(lambda: 0)
        self.sent: list[tuple[float, Membership]] = []
        self.ended: list[str] = []
        self.closed = False
        self.link = Link()
        options = {"group_protocol": "classic", **options}
        version = Version(MemberSpec(("t",), "g", "host:1", options=options), cast("Any", None))
        self.slot = Slot(0, "g-0", Together(0), version)
        self.slot.reading, self.slot.pid, self.slot.report = cast("Any", self.link), 70, joined()
        self.watching = Watching(self, self, lambda: self.now, leased=leased)

    def all(self) -> list[Slot]:
        return [self.slot]

    def end_now(self, slot: Slot, why: str) -> None:
        self.ended.append(why)

    def send(self, member: Membership) -> None:
        self.sent.append((self.now, member))

    def close(self) -> None:
        self.closed = True

    def go(self, seconds: float, *, heard: bool = False) -> None:
        until = self.now + seconds
        while self.now < until - LOOK_S / 2:
            self.now += LOOK_S
            if heard:
                self.slot.report = joined()
            self.watching.look()

    def notes(self) -> list[str]:
        return [line.text for line in self.journal.read()]


def test_a_member_that_reports_sends_its_own_heartbeats() -> None:
    pool = Pool()
    pool.go(60, heard=True)
    assert pool.sent == []
    assert pool.ended == []


def test_heartbeats_go_on_while_a_handler_keeps_the_interpreters_lock_and_end_with_its_silence() -> None:
    """It was expelled and completed six times, or killed for ever, without a word but "has died"."""
    pool = Pool()
    pool.go(40)
    assert [member for _, member in pool.sent] == [ME] * len(pool.sent)
    assert [at for at, _ in pool.sent][:3] == [1.0, 4.0, 7.0]
    assert pool.sent[-1][0] == 40.0
    assert pool.ended == []
    (note,) = pool.notes()
    assert "max_poll_interval_ms=300000" in note
    pool.go(60, heard=True)
    assert pool.sent[-1][0] == 40.0


def test_the_pool_sends_no_heartbeat_early_whose_answer_a_member_should_have_itself() -> None:
    """The answer may be an assignment (KIP-848): a member that is silent for a second only would not hear of it."""
    pool = Pool(group_protocol="auto")
    pool.go(40)
    assert [at for at, _ in pool.sent][:2] == [10.0, 13.0]
    assert pool.ended == []


@pytest.mark.parametrize(("protocol", "sent"), [("auto", False), ("consumer", False), ("classic", True)])
def test_a_pool_that_was_cut_off_from_a_member_had_answered_for_one_that_sent_its_own_heartbeats(
    protocol: str, sent: bool
) -> None:
    """An order to give something up went to the pool, and five minutes later the member lost all that it had."""
    pool = Pool(group_protocol=protocol)
    for passed in range(int(MACHINE_SECONDS)):
        pool.link.unanswered = float(passed)
        pool.go(1)
    assert bool(pool.sent) is sent
    pool.link.unanswered = 0.0  # its machine answers, and its process does not
    pool.go(1)
    assert pool.sent


@pytest.mark.parametrize(("session_ms", "interval_ms"), [(6_000, 3_000), (6_000, 5_000), (6_000, 500), (45_000, 3_000)])
def test_no_session_ends_before_the_first_heartbeat_of_the_pool(session_ms: int, interval_ms: int) -> None:
    """The member's own last one may be an interval old when it falls silent."""
    pool = Pool(session_timeout_ms=session_ms, heartbeat_interval_ms=interval_ms)
    pool.go(20)
    times = [-interval_ms / 1000, *(at for at, _ in pool.sent)]
    assert max(b - a for a, b in pairwise(times)) * 1000 < session_ms


@pytest.mark.parametrize(
    "report",
    [MemberReport("Starting"), MemberReport("Running"), MemberReport("Stopped", member_id="m", generation_id=1)],
)
def test_no_heartbeat_is_sent_for_a_member_that_is_not_in_the_group(report: MemberReport) -> None:
    pool = Pool()
    pool.slot.report = report
    pool.go(40)
    assert pool.sent == []


def test_heartbeats_are_of_the_generation_that_was_reported_last() -> None:
    pool = Pool()
    pool.go(2)
    pool.slot.report = MemberReport("Running", member_id="member-2", generation_id=5)
    pool.go(2)
    assert [member for _, member in pool.sent] == [ME, Membership("g-0", "member-2", 5)]


def test_a_pool_that_kills_says_that_it_killed_after_how_long_and_by_which_setting() -> None:
    pool = Pool(max_poll_interval_ms=60_000)
    pool.slot.report = joined(handling_ms=20_000)
    pool.go(39.75)
    assert pool.ended == []
    pool.go(1)
    (why,) = pool.ended
    assert "for 60250 ms, longer than max_poll_interval_ms=60000" in why
    sent = len(pool.sent)
    pool.go(MACHINE_SECONDS - 1)
    assert len(pool.ended) == 1
    assert len(pool.sent) == sent, "it is to be gone"
    assert not pool.link.hung_up
    pool.go(2)
    assert pool.link.hung_up, "a process that does not end has no place for ever"


def test_a_hook_that_keeps_the_interpreters_lock_has_the_limit_of_a_handler_and_is_named() -> None:
    pool = Pool(max_poll_interval_ms=60_000)
    pool.slot.report = joined(handling_ms=20_000, in_hook="on_assigned")
    pool.go(41)
    (why,) = pool.ended
    assert "its handler's on_assigned has been running for 60250 ms, longer than max_poll_interval_ms=60000" in why


@pytest.mark.parametrize(("limit_ms", "longest_s"), [(8_000, 120), (300_000, 300)])
def test_a_setup_that_keeps_the_interpreters_lock_has_the_time_of_a_start(limit_ms: int, longest_s: int) -> None:
    """It was killed after the time between two polls, though it does not poll yet."""
    pool = Pool(max_poll_interval_ms=limit_ms)
    pool.slot.report = MemberReport("Starting")
    pool.go(longest_s)
    assert pool.ended == []
    pool.go(1)
    (why,) = pool.ended
    assert f"longer than 120 s and than max_poll_interval_ms={limit_ms}" in why


def test_reports_that_are_late_on_a_busy_machine_kill_nobody_whose_limit_is_short() -> None:
    pool = Pool(max_poll_interval_ms=6_000)
    pool.go(9)
    assert pool.ended == []
    pool.go(2)
    assert pool.ended


def test_time_in_which_the_pool_itself_stood_still_is_nobodys_silence() -> None:
    """Its members' reports wait unread meanwhile."""
    pool = Pool()
    pool.go(1, heard=True)
    pool.now += 3600
    pool.watching.look()
    assert pool.ended == []
    assert len(pool.sent) == 1


def test_a_machine_that_has_vanished_ends_its_connection_and_it_is_said() -> None:
    pool = Pool()
    pool.link.unanswered = MACHINE_SECONDS + 1
    pool.go(LOOK_S)
    assert pool.link.hung_up
    assert pool.slot.lost == "is lost: its machine has not answered for 30 s"
    assert pool.sent == []


def test_a_leash_is_held_while_the_member_says_nothing() -> None:
    """It was held when a report came, so a member ended itself as soon as its handler gave the lock back."""
    pool = Pool(leased=True)
    pool.go(40)
    assert pool.link.renewals >= 10
    free = Pool()
    free.go(40)
    assert free.link.renewals == 0


def test_the_silence_of_a_process_is_not_that_of_its_successor() -> None:
    pool = Pool()
    pool.go(200)
    pool.slot.reading = cast("Any", Link())
    pool.go(200)
    assert pool.ended == []


def test_a_member_that_waits_for_those_it_starts_with_is_not_silent() -> None:
    """Nobody reads what it reports until then."""
    pool = Pool(max_poll_interval_ms=1_000)
    pool.slot.link, pool.slot.reading = pool.slot.reading, None
    pool.go(40)
    assert pool.ended == []


def test_the_connections_end_with_the_watch() -> None:
    pool = Pool()
    pool.watching.end()
    assert pool.closed


@pytest.mark.parametrize("silent", ["the pool's process", "the network", "neither"])
def test_a_member_that_its_lease_had_ended_seemed_to_have_died_of_its_record(silent: str) -> None:
    """A pool that had stood still for 15 s blamed the record that was in hand."""
    pool = Pool(leased=True)
    pool.go(20)
    if silent == "the pool's process":
        pool.now += LEASE_SECONDS
        assert pool.slot.lease.may_have_ended(pool.now), "before anybody has looked"
    elif silent == "the network":
        pool.link.unanswered = LEASE_SECONDS - 3
    pool.go(LOOK_S)
    pool.link.unanswered = 0.0
    assert pool.slot.lease.may_have_ended(pool.now) == (silent != "neither")
    pool.go(LEASE_SECONDS)
    assert not pool.slot.lease.may_have_ended(pool.now), "it has lived on"


def test_a_member_without_a_lease_does_not_end_by_one() -> None:
    pool = Pool()
    pool.go(1)
    pool.now += 3600
    pool.go(LOOK_S)
    assert not pool.slot.lease.may_have_ended(pool.now)
