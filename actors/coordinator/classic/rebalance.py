"""The course of a rebalance: its beginning, its end and its timers, whatever its cause.

Requests that lead here are in join.py, sync.py and membership.py. After every change of the membership it is checked
whether the join phase is complete; otherwise a group could wait for somebody who has gone.
"""

from __future__ import annotations

from functools import partial

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.history import ClassicHistory, RebalancePhase
from actors.coordinator.classic.member import Member, ParkedJoin, ParkedSync
from actors.coordinator.classic.messages import SyncGroupResponse, join_error
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.classic.states import GroupState
from actors.coordinator.classic.waits import InitialDelay
from actors.coordinator.errors import Error
from actors.coordinator.groups.config import ANNOUNCED_WAIT_MS, NEW_MEMBER_JOIN_TIMEOUT_MS
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.timers import Timer
from actors.coordinator.turn import Now
from actors.coordinator.writer import Write


class EmptiedGroupWrite(Write):
    """The record of a group whose last member has gone.

    The group is Empty whatever becomes of the record. If that is lost, the next load finds the last Stable generation,
    whose members then expire.
    """

    __slots__ = ()

    def committed(self, now: Now) -> None: ...

    def failed(self, error: int, now: Now) -> None: ...


class Rebalancer:
    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self._timers = runtime.timers
        self.history = ClassicHistory(runtime.rebalances)

    # -- sessions

    def arm_session(self, member: Member, now: Now) -> None:
        self._timers.arm(member.session, now.monotonic_ms + member.session_timeout_ms)

    def watch(self, group: ClassicGroup, member: Member) -> None:
        """Have the member's session timer remove it from `group` when it is due."""
        member.session.action = partial(self._session_expired, group, member)

    def arm_new_member(self, member: Member, now: Now) -> None:
        self._timers.arm(member.session, now.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def _session_expired(self, group: ClassicGroup, member: Member, now: Now) -> None:
        if not member.is_new and (member.parked_join or member.parked_sync):
            return  # the member waits for our answer; the end of the phase arms the timer again
        self._runtime.metrics.members_expired += 1
        self.remove(group, member, expelled=True)
        self.history.wait_ended(group.group_id, RebalancePhase.JOINING, member, now)
        reason = "new member timed out" if member.is_new else "session expired"
        self.membership_changed(group, reason, member.member_id, now, even_initially=True)

    def expect_join(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, now: Now) -> None:
        """Keep a place for a member id that was just given out, for one session timeout."""
        timer = Timer(partial(self._pending_expired, group, member_id))
        group.expect(member_id, timer)
        self._timers.arm(timer, now.monotonic_ms + session_timeout_ms)

    def _pending_expired(self, group: ClassicGroup, member_id: str, now: Now) -> None:
        group.forget_pending(member_id)
        self.history.never_came(group.group_id, member_id, now)
        self.check_join_phase(group, now, even_initially=True)
        self._runtime.reap(group.group_id)

    # -- membership

    def remove(self, group: ClassicGroup, member: Member, *, expelled: bool) -> None:
        """Take a member out and answer what it has parked. `expelled`: it has not asked for that."""
        member.session.cancel()
        parked = group.remove(member)
        self.history.went(group.group_id, member, expelled=expelled)
        if parked is not None:
            response = join_error(parked.request, Error.UNKNOWN_MEMBER_ID, member_id="")
            self._runtime.answer(parked.token, response)
        self.answer_sync(member, SyncGroupResponse(Error.UNKNOWN_MEMBER_ID))

    def membership_changed(
        self, group: ClassicGroup, reason: str, member_id: str, now: Now, *, even_initially: bool = False
    ) -> None:
        """A member came, changed or went: begin a rebalance, or check whether the running one is complete."""
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self.check_join_phase(group, now, even_initially=even_initially)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self.prepare(group, reason, member_id, now)
            case GroupState.EMPTY if group.members:
                self.prepare(group, reason, member_id, now)

    def park_join(self, group: ClassicGroup, member: Member, parked: ParkedJoin, now: Now) -> None:
        """Park a join. If it supersedes one, that is answered REBALANCE_IN_PROGRESS.

        Kafka leaves the older request unanswered. Here answers leave a connection in the order of its requests, so a
        gap would hold up all that follow. A client that still waits for the older answer joins again.
        """
        older = group.roster.park_join(member, parked)
        self.history.wait_ended(group.group_id, RebalancePhase.JOINING, member, now)
        if older is not None:
            self._runtime.answer(older.token, join_error(older.request, Error.REBALANCE_IN_PROGRESS))

    def park_sync(self, group: ClassicGroup, member: Member, parked: ParkedSync, now: Now) -> None:
        """Park a sync. If it supersedes one, that is answered as in `park_join`."""
        self.answer_sync(member, SyncGroupResponse(Error.REBALANCE_IN_PROGRESS))
        member.park_sync(parked)
        group.synced(member)
        if not group.assignment_in_flight:
            self.history.wait_ended(group.group_id, RebalancePhase.SYNCING, member, now)

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the member's parked sync, if it has one."""
        parked = member.take_sync()
        if parked is not None:
            self._runtime.answer(parked.token, response)
        return parked is not None

    # -- the join phase

    def prepare(
        self, group: ClassicGroup, reason: str, member_id: str, now: Now, error: int = Error.REBALANCE_IN_PROGRESS
    ) -> None:
        """Ask all members to join again. Parked syncs are answered `error`."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(group, error, now)
        group.begin_rebalance(reason, member_id, now, self._runtime.config.group_initial_rebalance_delay_ms)
        member = group.members.get(member_id)
        self.history.begin(group.group_id, group.generation_id, reason, member_id, member, now)
        if group.initial_delay is not None and not group.roster.is_whole:
            self._wait_for_others(group, group.initial_delay, now)
        elif not group.all_joined:
            self._wait_for_members(group, now)
        elif not self._awaits_announced(group, now):
            self._complete_join(group, now)

    def _answer_syncs(self, group: ClassicGroup, error: int, now: Now) -> None:
        for member in group.members.values():
            if self.answer_sync(member, SyncGroupResponse(error)):
                self.arm_session(member, now)

    def _wait_for_members(self, group: ClassicGroup, now: Now) -> None:
        delay_ms = max(group.roster.rebalance_timeout_ms, 1)  # with 0 it would be due again and again
        self._timers.start(group.join_timer, now.monotonic_ms + delay_ms, partial(self._complete_join, group))

    def _wait_for_others(self, group: ClassicGroup, delay: InitialDelay, now: Now) -> None:
        over = partial(self._initial_delay_over, group, delay)
        self._timers.start(group.join_timer, now.monotonic_ms + delay.wait_ms, over)

    def _initial_delay_over(self, group: ClassicGroup, delay: InitialDelay, now: Now) -> None:
        if delay.prolong():
            self._wait_for_others(group, delay, now)
        else:
            self._complete_join(group, now)

    def check_join_phase(self, group: ClassicGroup, now: Now, *, even_initially: bool = False) -> None:
        """Complete the join phase if nobody is awaited any more.

        The initial delay is waited for to its end, unless all members that were announced have come, or
        `even_initially`: an expiry may have left nobody to wait for.
        """
        if group.state is not GroupState.PREPARING_REBALANCE or not group.all_joined:
            return
        if group.initial_delay is not None:
            complete = even_initially or group.roster.is_whole
        else:
            complete = not self._awaits_announced(group, now)
        if complete:
            self._complete_join(group, now)

    def _awaits_announced(self, group: ClassicGroup, now: Now) -> bool:
        """Decides whether to wait a moment for members that newcomers of this rebalance have announced.

        Several that a pool starts together join within moments. A group whose members are quick to join again would
        else take up the first of them alone, and rebalance once more for each of the others.
        """
        if not group.roster.is_short or group.announced_wait_over:
            return False
        if not group.awaits_announced:
            group.awaits_announced = True
            over = partial(self._announced_wait_over, group)
            self._timers.start(group.join_timer, now.monotonic_ms + ANNOUNCED_WAIT_MS, over)
        return True

    def _announced_wait_over(self, group: ClassicGroup, now: Now) -> None:
        group.announced_wait_over = True
        if group.all_joined:
            self._complete_join(group, now)
        else:  # somebody has come meanwhile, and is still to join
            self._wait_for_members(group, now)

    def _complete_join(self, group: ClassicGroup, now: Now) -> None:
        self._remove_absent(group, now)
        if not group.members:
            self._become_empty(group, now)
        elif group.roster.elect_leader():
            self._begin_generation(group, now)
        else:
            self._wait_for_members(group, now)  # only absent static members are left, and they have sessions

    def _remove_absent(self, group: ClassicGroup, now: Now) -> None:
        """Remove dynamic members that have not joined again. Static ones keep their place (KIP-345)."""
        for member in group.roster.absent():
            self.history.wait_ended(group.group_id, RebalancePhase.JOINING, member, now)
            if member.group_instance_id is None:
                self.remove(group, member, expelled=True)

    def _become_empty(self, group: ClassicGroup, now: Now) -> None:
        group.become_empty(now.wall_ms)
        self.history.complete(group.group_id, now)
        self._runtime.metrics.rebalances_completed += 1
        record = group.to_record(lambda _: b"")
        self._runtime.write(EmptiedGroupWrite([GroupPut(group.group_id, record)]), now)

    def _begin_generation(self, group: ClassicGroup, now: Now) -> None:
        group.begin_generation(now.wall_ms)
        self.history.end_join(group.group_id, len(group.members), now)
        self._runtime.metrics.rebalances_completed += 1
        for member in group.members.values():
            self.arm_session(member, now)
            parked = group.roster.take_join(member)
            if parked is not None:
                self._runtime.answer(parked.token, group.join_response(member, parked.request.api_version))
        overdue_ms = now.monotonic_ms + group.roster.rebalance_timeout_ms
        self._timers.start(group.sync_timer, overdue_ms, partial(self._sync_overdue, group, group.generation_id))

    # -- the sync phase

    def _sync_overdue(self, group: ClassicGroup, generation: int, now: Now) -> None:
        """Remove members, static or not, that have not sent SyncGroup within the rebalance timeout."""
        if group.generation_id != generation or not group.pending_sync:
            return
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        overdue = [m for m in group.members.values() if m.member_id in group.pending_sync]
        for member in overdue:
            self.history.wait_ended(group.group_id, RebalancePhase.SYNCING, member, now)
            self.remove(group, member, expelled=True)
        self._runtime.metrics.members_expired += len(overdue)
        self.membership_changed(group, "sync timed out", ",".join(m.member_id for m in overdue), now)
