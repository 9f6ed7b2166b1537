"""Describes rebalances of classic groups: how long each phase took, and whom it waited for.

The memory of rebalances of all types is in `groups/history.py`, which also says who may see it.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

from actors.coordinator.classic.reports import JOIN, SYNC, ClassicRebalanceView
from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.groups.history import (
    LAST_MAX,
    REPLACED,
    Awaited,
    Member,
    Rebalance,
    RebalanceLog,
    longest,
    note_process,
    wait_ended,
    wall_ms,
)
from actors.coordinator.turn import Now


class RebalancePhase(StrEnum):
    """The phases of a rebalance.

    =======  ==================================================  =========================
    phase    what ends it                                        method of ClassicRebalance
    =======  ==================================================  =========================
    Joining  all members have joined, or their time is over      end_join
             nobody is left                                      complete
             its group is dropped                                break_off
    Syncing  the assignment is durable                           complete
             another rebalance begins; its group is dropped      break_off
    Over     (none)
    =======  ==================================================  =========================
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


class ClassicRebalance(Rebalance):
    """One rebalance of a classic group. `joined` is the turn in which its join phase ended."""

    __slots__ = ("generation_id", "joined", "joins", "phase", "syncs")

    def __init__(
        self, group_id: str, generation_id: int, reason: str, member_id: str, member: Member | None, now: Now
    ) -> None:
        super().__init__(group_id, reason, member_id, member, now)
        self.generation_id = generation_id
        """The generation that ended."""
        self.phase = RebalancePhase.JOINING
        self.joined: Now | None = None
        self.joins: deque[Awaited] = deque(maxlen=LAST_MAX)
        """The members that joined last, latest last; those who did not come are later than all."""
        self.syncs: deque[Awaited] = deque(maxlen=LAST_MAX)
        """The members that sent SyncGroup last before the assignment was written: the leader is the last one."""

    @property
    def takes_changes(self) -> bool:
        return self.phase is RebalancePhase.JOINING

    def wait_ended(self, member_id: str, client_id: str, host: str, now: Now) -> None:
        """A member that the present phase waited for has come, or is not waited for any more."""
        joining = self.phase is RebalancePhase.JOINING
        since = self.began if joining or self.joined is None else self.joined
        wait_ended(self.joins if joining else self.syncs, since, member_id, client_id, host, now)

    def end_join(self, members: int, now: Now) -> None:
        """The join phase is over; the next generation has so many members."""
        self._move("end_join", RebalancePhase.SYNCING)
        self.joined, self.members = now, members

    def complete(self, now: Now) -> None:
        if self.phase is RebalancePhase.JOINING:
            self.joined = now
        self._move("complete", RebalancePhase.OVER)
        self.ended = now

    def break_off(self) -> None:
        self._move("break_off", RebalancePhase.OVER)

    def _move(self, how: str, to: RebalancePhase) -> None:
        if self.phase not in _FROM[how]:
            raise IllegalTransitionError(f"a rebalance of group {self.group_id}: {how} in {self.phase}")
        self.phase = to

    def view(self) -> ClassicRebalanceView:
        changes = self.changes
        return ClassicRebalanceView(
            group_id=self.group_id,
            began_ms=self.began.wall_ms,
            generation_id=self.generation_id,
            reason=self.reason,
            member_id=self.member_id,
            client_id=self.client_id,
            host=self.host,
            joined_ms=wall_ms(self.joined),
            ended_ms=wall_ms(self.ended),
            members=self.members,
            came=tuple(changes.came),
            left=tuple(changes.left),
            expelled=tuple(changes.expelled),
            waited=longest((JOIN, self.joins), (SYNC, self.syncs)),
            processes=changes.processes,
            replaced=tuple(changes.replaced),
        )


class ClassicHistory:
    """The events of rebalances of a shard's classic groups."""

    def __init__(self, log: RebalanceLog) -> None:
        self._log = log
        self.came, self.told_process, self.replaced, self.went = log.came, log.told_process, log.replaced, log.went
        self.complete = log.complete

    def begin(
        self, group_id: str, generation_id: int, reason: str, member_id: str, member: Member | None, now: Now
    ) -> None:
        """A rebalance begins, caused by `member_id`; `member` is that one, if it is still there."""
        made = ClassicRebalance(group_id, generation_id, reason, member_id, member, now)
        self._log.begin(made, cause_is_there=member is not None)

    def end_join(self, group_id: str, members: int, now: Now) -> None:
        """A group's join phase is over, with so many members."""
        running = self._running(group_id)
        if running is None:
            raise IllegalTransitionError(f"group {group_id} ends a join phase, and has no rebalance")
        running.end_join(members, now)

    def wait_ended(self, group_id: str, phase: RebalancePhase, member: Member, now: Now) -> None:
        """A member has joined, or sent its SyncGroup, or is not waited for any more. Nothing if the phase is over."""
        running = self._running(group_id)
        if running is not None and running.phase is phase:
            running.wait_ended(member.member_id, member.client_id, member.client_host, now)

    def never_came(self, group_id: str, member_id: str, now: Now) -> None:
        """A client to which this member id was given has not come back with it."""
        running = self._running(group_id)
        if running is not None and running.phase is RebalancePhase.JOINING:
            running.wait_ended(member_id, "", "", now)

    def replaced_quietly(
        self, group_id: str, generation_id: int, older: str, member: Member, members: int, silent_ms: int, now: Now
    ) -> None:
        """A static member has come back as `member` and kept its share; nothing had been heard of it for so long."""
        since = Now(now.monotonic_ms - silent_ms, now.wall_ms - silent_ms)
        over = ClassicRebalance(group_id, generation_id, REPLACED, member.member_id, member, since)
        over.changes.replaced.add(older)
        over.changes.came.add(member.member_id)
        note_process(over.changes, member)
        over.wait_ended(member.member_id, member.client_id, member.client_host, now)
        over.end_join(members, now)
        over.complete(now)
        self._log.keep(over)

    def _running(self, group_id: str) -> ClassicRebalance | None:
        found = self._log.running.get(group_id)
        return found if isinstance(found, ClassicRebalance) else None
