"""Slots of a pool whose members' ends are in this process, and actors without Ray. Holds no tests."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable

from actors.links.member import MemberAddress, MemberConnection, MemberReport
from actors.members.member_link import MemberClient
from actors.members.pools.handler_member import READY, MemberSpec
from actors.members.pools.slots import Version
from actors.members.pools.supervision import PATIENCE, Patience, Supervision

SECRET = b"s" * 16
HERE = MemberAddress("127.0.0.1", 0, 1, "node", SECRET)


class Actor:
    """An actor that listens as soon as `listens` is set, and has a node once `placed` is."""

    def __init__(self) -> None:
        self.listens = threading.Event()
        self.placed = threading.Event()
        self.killed = False
        self.served: list[float] = []
        self.died: str | Exception | None = "it was gone"

    def address(self, timeout_s: float) -> MemberAddress | None:
        return HERE if self.listens.wait(min(timeout_s, 0.01)) else None

    def is_placed(self) -> bool:
        return self.placed.is_set()

    def serve(self, *, wait: bool = False) -> None:
        if not wait:
            self.served.append(time.monotonic())

    def kill(self) -> None:
        self.killed = True

    def how_it_died(self, timeout_s: float) -> str | None:
        if isinstance(self.died, Exception):
            raise self.died
        return self.died


class Actors:
    """Starts actors; all at once unless `wait` is set."""

    wants = "num_gpus=1"

    def __init__(self, *, wait: bool = False) -> None:
        self.made: list[Actor] = []
        self.specs: list[MemberSpec] = []
        self._wait = wait

    def start(self, spec: MemberSpec) -> Actor:
        actor = Actor()
        if not self._wait:
            actor.placed.set()
            actor.listens.set()
        self.made.append(actor)
        self.specs.append(spec)
        return actor


class Ends:
    """Slots whose members are sockets that say what the test wants."""

    def __init__(self, actors: Actors, *reports: MemberReport, patience: Patience = PATIENCE) -> None:
        self.removed: list[str] = []
        self.reasons: list[str] = []
        self._reports = reports
        self.slots = Supervision(
            Version(MemberSpec(("t",), "g", "host:1"), actors),
            self._remove,
            instance_prefix="g-1",
            monotonic=time.monotonic,
            connect=self._connect,
            patience=patience,
        )

    def _remove(self, instance_ids: list[str], why: str) -> None:
        self.removed.extend(instance_ids)
        self.reasons.append(why)

    def _connect(self, _: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        for report in self._reports:
            member.send(report)
        member.close()
        theirs.close()
        return MemberClient(MemberConnection(ours))


def until(slots: Supervision, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    with slots.changed:
        while not condition():
            assert time.monotonic() < deadline
            slots.changed.wait(0.05)  # of an actor's end nobody is told


SPEC = MemberSpec(("t",), "g", "host:1")


class Renewed(Ends):
    """Slots whose members stop when they are told to, or end by themselves."""

    def __init__(self, actors: Actors) -> None:
        super().__init__(actors)
        self.members: list[MemberConnection] = []
        # Of a successor the first one is awaited before its turn, and the other one is reported after.
        self.states = [READY, "Running"]
        self._sockets: list[socket.socket] = []

    def is_told(self, number: int) -> bool:
        """True if a member has been sent something that it has not read."""
        return bool(select.select([self._sockets[number]], [], [], 0)[0])

    def _connect(self, _: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        for state in self.states:
            member.send(MemberReport(state, handled=7))
        self.members.append(member)
        self._sockets.append(theirs)
        return MemberClient(MemberConnection(ours))


def end(slots: Supervision, renewed: Renewed) -> None:
    """Have the members stop, so that no thread is left."""
    for slot in slots.all():
        slot.retire()
    for member in renewed.members[1:]:
        member.close()
    slots.retire(slots.all(), 60.0, why="over")
