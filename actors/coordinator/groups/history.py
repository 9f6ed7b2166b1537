"""Describes rebalances: who came and went and how, why each began, how long it took, and whom it waited for.

It is for people to read. Nothing that the coordinator decides depends on it, nothing of it is in the log, and
heartbeats and commits do not touch it. All of it is bounded: of many members only some are named, and of many
rebalances that nobody has fetched the oldest are dropped and counted.

`Rebalance` is what all types of groups have in common. A type whose rebalances have phases adds them, as
`classic/history.py` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.groups.reports import WAITED_MAX, WHOLE, PlainRebalanceView, RebalanceView, Waited
from actors.coordinator.turn import Now

PROCESSES_MAX: Final = 500
"""The number of members whose descriptions of their processes are kept."""
PROCESS_TEXT_MAX: Final = 100
NAMED_MAX: Final = 50
"""The most members that are named of those that came, of those that left, and of those that were expelled."""
LAST_MAX: Final = 5
"""The number of members that are remembered of those a phase waited for last."""
OVER_MAX: Final = 1_000
"""The most rebalances that are kept once they are over and until they are fetched."""
REPLACED: Final = "static member replaced without a rebalance"
"""The reason of what is remembered in the manner of a rebalance, and was none (KIP-345)."""
_TEXT_MAX: Final = 255


class Member(Protocol):
    """The part of a member that is told, whatever the type of its group."""

    @property
    def member_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def process(self) -> str:
        """The description it has given of its process; empty if it has given none."""


class Awaited(NamedTuple):
    """Somebody a phase waited for, and for how long."""

    member_id: str
    client_id: str
    host: str
    ms: int


class RebalancedGroup(NamedTuple):
    """The group that a rebalance is of."""

    group_type: str
    group_id: str
    epoch: int
    """The epoch that ends."""
    state: str
    """Kafka's name of the state in which it is while it rebalances."""


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
    """The members that came, left, were expelled or replaced since the last join phase ended.

    The next rebalance is about them.
    """

    __slots__ = ("came", "expelled", "gone", "left", "processes", "replaced")

    def __init__(self) -> None:
        self.came = Names()
        self.left = Names()
        self.expelled = Names()
        self.replaced = Names()
        """Older incarnations of static members: nobody has said that they leave, and most were killed."""
        self.processes: dict[str, str] = {}
        """The processes of members that came, or were not heard to describe theirs before."""
        self.gone: Member | None = None
        """The member that went last."""


class Rebalance(ABC):
    """One rebalance, as far as all types have it. `began` and `ended` are the turns in which that happened."""

    __slots__ = (
        "began",
        "changes",
        "client_id",
        "ended",
        "group_id",
        "host",
        "member_id",
        "members",
        "reason",
    )

    def __init__(self, group_id: str, reason: str, member_id: str, member: Member | None, now: Now) -> None:
        self.group_id = group_id
        self.reason = reason[:_TEXT_MAX]
        self.member_id = member_id[:_TEXT_MAX]
        self.client_id = self.host = ""
        if member is not None:
            self.caused_by(member)
        self.began = now
        self.ended: Now | None = None
        self.members = 0
        """The number of the group's members after it."""
        self.changes = Changes()

    def caused_by(self, member: Member) -> None:
        """This member has caused it."""
        self.client_id, self.host = member.client_id, member.client_host

    @property
    @abstractmethod
    def takes_changes(self) -> bool:
        """True if members that come or go now are part of it; else the next one is about them."""

    @abstractmethod
    def complete(self, now: Now) -> None:
        """The assignment is durable, or nobody is left to be assigned anything."""

    @abstractmethod
    def break_off(self) -> None:
        """It leads nowhere: another one begins, or the group is gone."""

    @abstractmethod
    def view(self) -> RebalanceView:
        """As it is told."""


class PlainRebalance(Rebalance):
    """A rebalance without phases. While it runs the group is in one state."""

    __slots__ = ("_is_over", "_waits", "epoch", "group_type", "state")

    def __init__(self, group: RebalancedGroup, reason: str, member_id: str, member: Member | None, now: Now) -> None:
        super().__init__(group.group_id, reason, member_id, member, now)
        self.group_type, self.epoch, self.state = group.group_type, group.epoch, group.state
        self._is_over = False
        self._waits: deque[Awaited] = deque(maxlen=LAST_MAX)

    @property
    def takes_changes(self) -> bool:
        return not self._is_over

    def wait_ended(self, member: Member, now: Now) -> None:
        """A member that it waited for has come, or is not waited for any more."""
        wait_ended(self._waits, self.began, member.member_id, member.client_id, member.client_host, now)

    def complete(self, now: Now) -> None:
        self._end("complete")
        self.ended = now

    def break_off(self) -> None:
        self._end("break_off")

    def _end(self, how: str) -> None:
        if self._is_over:
            raise IllegalTransitionError(f"a rebalance of group {self.group_id}: {how}, and it is over")
        self._is_over = True

    def view(self) -> PlainRebalanceView:
        changes = self.changes
        return PlainRebalanceView(
            group_type=self.group_type,
            group_id=self.group_id,
            began_ms=self.began.wall_ms,
            epoch=self.epoch,
            state=self.state,
            reason=self.reason,
            member_id=self.member_id,
            client_id=self.client_id,
            host=self.host,
            ended_ms=wall_ms(self.ended),
            members=self.members,
            came=tuple(changes.came),
            left=tuple(changes.left),
            expelled=tuple(changes.expelled),
            waited=longest((WHOLE, self._waits)),
            processes=changes.processes,
            replaced=tuple(changes.replaced),
        )


def wait_ended(waits: deque[Awaited], since: Now, member_id: str, client_id: str, host: str, now: Now) -> None:
    """Note that a member which was waited for `since` then has come, or is not waited for any more."""
    for older in [each for each in waits if each.member_id == member_id]:
        waits.remove(older)
    waits.append(Awaited(member_id, client_id, host, max(now.monotonic_ms - since.monotonic_ms, 0)))


def longest(*phases: tuple[str, Iterable[Awaited]]) -> tuple[Waited, ...]:
    """Those who did not come at once in phases of these names, the longest first, as they are told."""
    waited = [
        Waited(each.member_id, phase, each.ms, each.client_id, each.host)
        for phase, waits in phases
        for each in waits
        if each.ms
    ]
    return tuple(sorted(waited, key=attrgetter("ms"), reverse=True)[:WAITED_MAX])


def wall_ms(when: Now | None) -> int | None:
    """The wall time of a turn, if there was one."""
    return None if when is None else when.wall_ms


def note_process(changes: Changes, member: Member) -> None:
    """Keep what a member says of its process, if it says something."""
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

    @property
    def settled(self) -> bool:
        """True if all that came, went or changed has been part of a rebalance."""
        return not self._changes

    @property
    def finished(self) -> int:
        """The number of rebalances that are over and have not been taken yet."""
        return len(self._over)

    def _changes_of(self, group_id: str) -> Changes:
        running = self.running.get(group_id)
        if running is not None and running.takes_changes:
            return running.changes
        return self._changes.setdefault(group_id, Changes())

    def came(self, group_id: str, member: Member) -> None:
        """A member has come. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        changes.came.add(member.member_id)
        note_process(changes, member)

    def told_process(self, group_id: str, member: Member) -> None:
        """A member that is there already says it. A rebalance runs, or follows at once."""
        note_process(self._changes_of(group_id), member)

    def replaced(self, group_id: str, older: str, member_id: str) -> None:
        """A static member has come back under another id. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        changes.replaced.add(older)
        changes.came.add(member_id)

    def went(self, group_id: str, member: Member, *, expelled: bool) -> None:
        """A member has left, or was expelled. A rebalance runs, or follows at once."""
        changes = self._changes_of(group_id)
        (changes.expelled if expelled else changes.left).add(member.member_id)
        changes.gone = member

    # -- its life

    def begin(self, rebalance: Rebalance, *, cause_is_there: bool = True) -> None:
        """A rebalance begins, and what ran of its group leads nowhere. The member that caused it may have gone."""
        group_id = rebalance.group_id
        self.forget(group_id, keep_changes=True)
        changes = self._changes.pop(group_id, None)
        if changes is not None:
            rebalance.changes = changes
            gone = None if cause_is_there else changes.gone
            if gone is not None and gone.member_id in rebalance.member_id.split(","):
                rebalance.caused_by(gone)
        self.running[group_id] = rebalance

    def complete(self, group_id: str, now: Now) -> None:
        """A group's assignment is durable, or it has become empty."""
        running = self.running.pop(group_id)
        running.complete(now)
        self.keep(running)

    def forget(self, group_id: str, *, keep_changes: bool = False) -> None:
        """A group's rebalance, if one runs, leads nowhere."""
        if not keep_changes:
            self._changes.pop(group_id, None)
        running = self.running.pop(group_id, None)
        if running is not None:
            running.break_off()
            self.keep(running)

    def clear(self) -> None:
        """The shard forgets everything. Rebalances that are over and were not fetched can still be."""
        for group_id in list(self.running):
            self.forget(group_id)
        self._changes.clear()

    def keep(self, over: Rebalance) -> None:
        """A rebalance is over, or something that is remembered like one: it is to be told."""
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
