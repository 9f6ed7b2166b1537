"""Describes rebalances: who came and went and how, how long each phase took, and whom it waited for.

It is for people to read. Nothing that the coordinator decides depends on it, nothing of it is in the log, and
heartbeats and commits do not touch it. All of it is bounded: of many members only some are named, and of many
rebalances that nobody has fetched the oldest are dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.turn import Now

PROCESSES_MAX: Final = 500
"""Of how many members it is kept what they have said of their processes."""
PROCESS_TEXT_MAX: Final = 100
NAMED_MAX: Final = 50
"""How many members are named of those that came, of those that left, and of those that were expelled."""
LAST_MAX: Final = 5
"""How many of the members are remembered that a phase waited for last."""
OVER_MAX: Final = 1_000
"""How many rebalances are kept that are over and were not fetched."""
REPLACED: Final = "static member replaced without a rebalance"
"""The reason of what is remembered in the manner of a rebalance, and was none (KIP-345)."""
_TEXT_MAX: Final = 255


class Member(Protocol):
    """What is told of a member, whatever the type of its group."""

    @property
    def member_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def process(self) -> str:
        """What it says of its process; empty if it has said nothing."""


class RebalancePhase(StrEnum):
    """How far a rebalance is.

    =======  ==================================================  ==================
    phase    what ends it                                        method of Rebalance
    =======  ==================================================  ==================
    Joining  all members have joined, or their time is over      end_join
             nobody is left                                      complete
             its group is dropped                                break_off
    Syncing  the assignment is durable                           complete
             another rebalance begins; its group is dropped      break_off
    Over     (none)
    =======  ==================================================  ==================
    """

    JOINING = "Joining"
    SYNCING = "Syncing"
    OVER = "Over"


_FROM: Final[dict[str, frozenset[RebalancePhase]]] = {
    "end_join": frozenset({RebalancePhase.JOINING}),
    "complete": frozenset({RebalancePhase.JOINING, RebalancePhase.SYNCING}),
    "break_off": frozenset({RebalancePhase.JOINING, RebalancePhase.SYNCING}),
}
"""The phases in which each may happen."""


class Awaited(NamedTuple):
    """Somebody a phase waited for, and for how long."""

    member_id: str
    client_id: str
    host: str
    ms: int


class Names:
    """Member ids in the order in which they were added. The first NAMED_MAX are kept, all are counted."""

    __slots__ = ("_names", "count")

    def __init__(self) -> None:
        self._names: list[str] = []
        self.count = 0

    def add(self, name: str) -> None:
        """One more."""
        self.count += 1
        if len(self._names) < NAMED_MAX:
            self._names.append(name)

    def __iter__(self) -> Iterator[str]:
        """The names; last, how many more there were."""
        yield from self._names
        if self.count > NAMED_MAX:
            yield f"and {self.count - NAMED_MAX} more"


class Changes:
    """Who came, left, was expelled or replaced since the last join phase ended. The next rebalance is about them."""

    __slots__ = ("came", "expelled", "gone", "left", "processes", "replaced")

    def __init__(self) -> None:
        self.came = Names()
        self.left = Names()
        self.expelled = Names()
        self.replaced = Names()
        """Older incarnations of static members: nobody has said that they leave, and most were killed."""
        self.processes: dict[str, str] = {}
        """What members have said of their processes that came, or were not heard to say it before."""
        self.gone: Member | None = None
        """Who went last."""


class Rebalance:
    """One rebalance. Times of `began`, `joined` and `ended` are those of the turns in which it happened."""

    __slots__ = (
        "began",
        "changes",
        "client_id",
        "ended",
        "generation_id",
        "group_id",
        "host",
        "joined",
        "joins",
        "member_id",
        "members",
        "phase",
        "reason",
        "syncs",
    )

    def __init__(
        self, group_id: str, generation_id: int, reason: str, member_id: str, member: Member | None, now: Now
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        """The generation that ended."""
        self.reason = reason[:_TEXT_MAX]
        self.member_id = member_id[:_TEXT_MAX]
        self.client_id = member.client_id if member is not None else ""
        self.host = member.client_host if member is not None else ""
        self.phase = RebalancePhase.JOINING
        self.began = now
        self.joined: Now | None = None
        self.ended: Now | None = None
        self.members = 0
        """How many the next generation has."""
        self.changes = Changes()
        self.joins: deque[Awaited] = deque(maxlen=LAST_MAX)
        """Who joined last, latest last; those who did not come are later than all."""
        self.syncs: deque[Awaited] = deque(maxlen=LAST_MAX)
        """Who sent SyncGroup last before the assignment was written: the leader is the last one."""

    def wait_ended(self, member_id: str, client_id: str, host: str, now: Now) -> None:
        """A member that the present phase waited for has come, or is not waited for any more."""
        joining = self.phase is RebalancePhase.JOINING
        awaited = self.joins if joining else self.syncs
        since = self.began if joining or self.joined is None else self.joined
        for older in [each for each in awaited if each.member_id == member_id]:
            awaited.remove(older)
        awaited.append(Awaited(member_id, client_id, host, max(now.monotonic_ms - since.monotonic_ms, 0)))

    def end_join(self, members: int, now: Now) -> None:
        """The join phase is over; the next generation has so many members."""
        self._move("end_join", RebalancePhase.SYNCING)
        self.joined, self.members = now, members

    def complete(self, now: Now) -> None:
        """The assignment is durable, or nobody is left to be assigned anything."""
        if self.phase is RebalancePhase.JOINING:
            self.joined = now
        self._move("complete", RebalancePhase.OVER)
        self.ended = now

    def break_off(self) -> None:
        """It leads nowhere: another one begins, or the group is gone."""
        self._move("break_off", RebalancePhase.OVER)

    def _move(self, how: str, to: RebalancePhase) -> None:
        if self.phase not in _FROM[how]:
            raise IllegalTransitionError(f"a rebalance of group {self.group_id}: {how} in {self.phase}")
        self.phase = to


def _note_process(changes: Changes, member: Member) -> None:
    if member.process and len(changes.processes) < PROCESSES_MAX:
        changes.processes[member.member_id] = member.process[:PROCESS_TEXT_MAX]


class RebalanceLog:
    """The rebalances of a shard's groups: those that run, and those that are over and were not fetched yet."""

    def __init__(self) -> None:
        self.running: dict[str, Rebalance] = {}
        """By group id, in the order in which they began."""
        self._changes: dict[str, Changes] = {}  # not part of a rebalance yet
        self._over: deque[Rebalance] = deque()
        self._dropped = 0

    # -- who comes and goes

    def _changes_of(self, group_id: str) -> Changes:
        running = self.running.get(group_id)
        if running is not None and running.phase is RebalancePhase.JOINING:
            return running.changes
        return self._changes.setdefault(group_id, Changes())

    def came(self, group_id: str, member: Member) -> None:
        """A member has come. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        changes.came.add(member.member_id)
        _note_process(changes, member)

    def told_process(self, group_id: str, member: Member) -> None:
        """A member of a group that was loaded has joined again. A rebalance runs, or follows at once."""
        _note_process(self._changes_of(group_id), member)

    def replaced(self, group_id: str, older: str, member_id: str) -> None:
        """A static member has come back under another id. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        changes.replaced.add(older)
        changes.came.add(member_id)

    def replaced_quietly(
        self, group_id: str, generation_id: int, older: str, member: Member, members: int, silent_ms: int, now: Now
    ) -> None:
        """A static member has come back as `member` and kept its share; nothing had been heard of it for so long."""
        since = Now(now.monotonic_ms - silent_ms, now.wall_ms - silent_ms)
        over = Rebalance(group_id, generation_id, REPLACED, member.member_id, member, since)
        over.changes.replaced.add(older)
        over.changes.came.add(member.member_id)
        _note_process(over.changes, member)
        over.wait_ended(member.member_id, member.client_id, member.client_host, now)
        over.end_join(members, now)
        over.complete(now)
        self._keep(over)

    def went(self, group_id: str, member: Member, *, expelled: bool) -> None:
        """A member has left, or was expelled. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        (changes.expelled if expelled else changes.left).add(member.member_id)
        changes.gone = member

    def wait_ended(self, group_id: str, phase: RebalancePhase, member: Member, now: Now) -> None:
        """A member has joined, or sent its SyncGroup, or is not waited for any more. Nothing if the phase is over."""
        running = self.running.get(group_id)
        if running is not None and running.phase is phase:
            running.wait_ended(member.member_id, member.client_id, member.client_host, now)

    def never_came(self, group_id: str, member_id: str, now: Now) -> None:
        """A client to which this member id was given has not come back with it."""
        running = self.running.get(group_id)
        if running is not None and running.phase is RebalancePhase.JOINING:
            running.wait_ended(member_id, "", "", now)

    # -- phases

    def begin(
        self, group_id: str, generation_id: int, reason: str, member_id: str, member: Member | None, now: Now
    ) -> None:
        """A rebalance begins, caused by `member_id`; `member` is that one, if it is still there."""
        self.forget(group_id, keep_changes=True)
        changes = self._changes.pop(group_id, None)
        gone = changes.gone if changes is not None else None
        if member is None and gone is not None and gone.member_id in member_id.split(","):
            member = gone
        running = self.running[group_id] = Rebalance(group_id, generation_id, reason, member_id, member, now)
        if changes is not None:
            running.changes = changes

    def end_join(self, group_id: str, members: int, now: Now) -> None:
        """A group's join phase is over, with so many members."""
        self.running[group_id].end_join(members, now)

    def complete(self, group_id: str, now: Now) -> None:
        """A group's assignment is durable, or it has become empty."""
        running = self.running.pop(group_id)
        running.complete(now)
        self._keep(running)

    def forget(self, group_id: str, *, keep_changes: bool = False) -> None:
        """A group's rebalance, if one runs, leads nowhere."""
        if not keep_changes:
            self._changes.pop(group_id, None)
        running = self.running.pop(group_id, None)
        if running is not None:
            running.break_off()
            self._keep(running)

    def clear(self) -> None:
        """The shard forgets everything. What was not fetched of what is over still is to be."""
        for group_id in list(self.running):
            self.forget(group_id)
        self._changes.clear()

    def _keep(self, over: Rebalance) -> None:
        if len(self._over) == OVER_MAX:
            self._over.popleft()
            self._dropped += 1
        self._over.append(over)

    # -- to look at

    def take_over(self) -> tuple[list[Rebalance], int]:
        """Those that are over and were not fetched yet, in the order in which they ended; how many were dropped."""
        taken = list(self._over), self._dropped
        self._over.clear()
        self._dropped = 0
        return taken
