"""Code of the user's that does not return, wherever a member calls it: its pool kills it, and says why. No broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.links.member import MemberAddress, MemberConnection, MemberReport
from actors.links.member_deaths import InHand, Span
from actors.members.member_link import MemberClient
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Slot, Version
from actors.members.pools.supervision import Supervision
from actors.runtime.environment import Clock, Environment
from tests.support.member import T0, Member, record

DEADLINE_S = 60
LIMIT_MS = 8_000
HERE = MemberAddress("127.0.0.1", 0, 1, "node", b"s" * 16)
HOOKS = ("setup", "on_assigned", "on_revoked", "teardown", "close")


class Stuck:
    """Does not return from one of its methods, until it is let go."""

    def __init__(self, where: str) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._where = where

    def at(self, where: str) -> None:
        if where == self._where:
            self.inside.set()
            assert self.go_on.wait(DEADLINE_S)

    def __call__(self, each: Any) -> None:
        self.at("")

    def setup(self) -> None:
        self.at("setup")

    def on_assigned(self, partitions: Any) -> None:
        self.at("on_assigned")

    def on_revoked(self, partitions: Any) -> None:
        self.at("on_revoked")

    def teardown(self) -> None:
        self.at("teardown")

    def close(self) -> None:
        self.at("close")


class StuckOnLoop(Stuck):
    async def __call__(self, each: Any) -> None:  # type: ignore[override]
        self.at("")

    async def setup(self) -> None:  # type: ignore[override]
        self.at("setup")

    async def on_assigned(self, partitions: Any) -> None:  # type: ignore[override]
        self.at("on_assigned")

    async def on_revoked(self, partitions: Any) -> None:  # type: ignore[override]
        self.at("on_revoked")

    async def teardown(self) -> None:  # type: ignore[override]
        self.at("teardown")

    async def close(self) -> None:  # type: ignore[override]
        self.at("close")


class Actor:
    """Listens at once."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def address(self, timeout_s: float) -> MemberAddress | None:
        return HERE

    def is_placed(self) -> bool:
        return True

    def serve(self, *, wait: bool = False) -> None: ...

    def kill(self) -> None:
        self.killed.set()

    def how_it_died(self, timeout_s: float) -> str | None:
        return "it was gone"


class Pool:
    """One place, whose members are sockets that say what the test wants."""

    wants = "a process"

    def __init__(self) -> None:
        self.made: list[Actor] = []
        self.members: list[MemberConnection] = []
        self.removed: list[str] = []
        self.slots = Supervision(
            Version(MemberSpec(("t",), "g", "host:1", options={"max_poll_interval_ms": LIMIT_MS}), self),
            lambda ids, why: self.removed.extend(ids),
            instance_prefix="g-1",
            monotonic=time.monotonic,
            connect=self._connect,
        )

    def start(self, spec: MemberSpec) -> Actor:
        self.made.append(Actor())
        return self.made[-1]

    def _connect(self, _: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        self.members.append(MemberConnection(theirs))
        return MemberClient(MemberConnection(ours))

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        with self.slots.changed:
            while not condition():
                assert time.monotonic() < deadline
                self.slots.changed.wait(0.05)

    def kills(self) -> list[str]:
        notes = [line.text for line in self.slots.journal.read()]
        return [text.partition("is killed by its pool: ")[2] for text in notes if "is killed by its pool" in text]


@contextmanager
def pool() -> Iterator[tuple[Pool, Slot]]:
    made = Pool()
    (slot,) = made.slots.add(1)
    made.slots.begin([slot])
    made.until(lambda: slot.reading is not None)
    try:
        yield made, slot
    finally:
        slot.retire()
        for member in made.members:
            member.close()
        made.slots.retire([slot], DEADLINE_S, why="over")


def hang(where: str, kind: type[Stuck], order: dict[str, Any], took_ms: int) -> MemberReport:
    """The report of a member that has been stuck at `where` for `took_ms`."""
    passed_s = 0.0
    stuck = kind(where)
    clock = Clock(monotonic=lambda: time.monotonic() + passed_s)
    member = Member(stuck, [], environment=Environment(clock=clock), **order)
    member.consumer.polls += [
        lambda: member.consumer.listener.on_partitions_assigned([T0]),
        {T0: [record(1)]},
        lambda: member.consumer.listener.on_partitions_revoked([T0]),
    ]
    thread = threading.Thread(target=member.loop.run)
    thread.start()
    try:
        assert stuck.inside.wait(DEADLINE_S)
        passed_s = took_ms / 1000
        return member.loop.report()
    finally:
        passed_s = 0.0
        stuck.go_on.set()
        thread.join(DEADLINE_S)
        assert member.loop.report().handling_ms == 0


@pytest.mark.parametrize("order", [{}, {"concurrency": 2}], ids=["one by one", "side by side"])
@pytest.mark.parametrize("kind", [Stuck, StuckOnLoop])
@pytest.mark.parametrize("where", ["", *HOOKS])
def test_a_member_stuck_in_a_hook_was_lost_for_ever_and_looked_healthy(
    where: str, kind: type[Stuck], order: dict[str, Any]
) -> None:
    """Only tries of the handler itself had a limit."""
    limit_ms = 120_000 if where == "setup" else LIMIT_MS
    within = hang(where, kind, order, limit_ms // 2)
    report = hang(where, kind, order, limit_ms + 1)
    assert (within.in_hook, report.in_hook) == (where, where)
    with pool() as (killer, slot):
        killer.members[0].send(within)
        killer.until(lambda: slot.report == within)
        assert killer.kills() == []
        killer.members[0].send(report)
        killer.until(killer.made[0].killed.is_set)
        killer.members[0].close()
        killer.until(lambda: len(killer.made) == 2)
        name = f"its handler's {where}" if where else "its handler"
        more = "120 s and than " if where == "setup" else ""
        why = f"{name} has been running for {report.handling_ms} ms, longer than {more}max_poll_interval_ms={LIMIT_MS}"
        assert killer.kills() == [why]
        assert killer.removed == []


def test_a_setup_may_take_as_long_as_a_start_however_short_the_polls_limit_is() -> None:
    with pool() as (killer, slot):
        loading = MemberReport("Starting", handling_ms=119_999, in_hook="setup")
        killer.members[0].send(loading)
        killer.members[0].send(MemberReport("Running"))
        killer.until(lambda: slot.report.state == "Running")
        assert killer.kills() == []


def test_a_member_that_had_failed_was_never_done_with_when_its_teardown_hung() -> None:
    """It has no successor, and its place in the group is taken away."""
    with pool() as (killer, slot):
        killer.members[0].send(MemberReport("Failing", "bad record", handling_ms=LIMIT_MS + 1, in_hook="teardown"))
        killer.until(lambda: slot.over)
        assert killer.made[0].killed.is_set()
        assert killer.removed == [slot.instance_id]
        assert (slot.report.state, slot.report.error) == ("Failed", "bad record")
        assert len(killer.made) == 1


def test_records_in_hand_beside_a_hook_that_hangs_are_not_blamed_for_it() -> None:
    with pool() as (killer, slot):
        in_hand = InHand(spans=(Span("t", 0, 5, 6),))
        killer.members[0].send(in_hand)
        killer.until(lambda: slot.in_hand == in_hand)
        killer.members[0].send(MemberReport("Running", handling_ms=LIMIT_MS + 1, in_hook="on_assigned"))
        killer.until(killer.made[0].killed.is_set)
        killer.members[0].close()
        killer.until(lambda: len(killer.made) == 2)
        assert killer.slots.blame.notes.notes == ()
