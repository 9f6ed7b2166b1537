"""How a rebalance begins, completes and is timed, whatever brought it about.

Requests that lead here are in join.py, sync.py and membership.py. After every change of the membership the
completion of the join phase is checked again (a group must not hang because nobody looked).
"""

from __future__ import annotations

from functools import partial

from actors.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from actors.coordinator.errors import Error
from actors.coordinator.group import Group, GroupState, Member, ParkedJoin, ParkedSync, RebalanceEvent
from actors.coordinator.messages import Now, SyncGroupResponse, join_error
from actors.coordinator.records import GroupPut
from actors.coordinator.runtime import Runtime
from actors.coordinator.timers import Timer
from actors.coordinator.writer import Write


class EmptiedGroupWrite(Write):
    """The record of a group whose last member has gone.

    The group is Empty whatever becomes of it: without the record a successor finds the last Stable
    generation, whose members then expire.
    """

    __slots__ = ()

    def committed(self, now: Now) -> None: ...

    def failed(self, error: int, now: Now) -> None: ...


class Rebalancer:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._timers = runtime.timers

    # -- sessions

    def arm_session(self, member: Member, now: Now) -> None:
        self._timers.arm(member.session, now.monotonic_ms + member.session_timeout_ms)

    def watch(self, group: Group, member: Member) -> None:
        """Have the member's session timer expel it from `group`."""
        member.session.action = partial(self._session_expired, group, member)

    def arm_new_member(self, member: Member, now: Now) -> None:
        self._timers.arm(member.session, now.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def _session_expired(self, group: Group, member: Member, now: Now) -> None:
        if not member.is_new and (member.parked_join or member.parked_sync):
            return  # it waits for us; the end of the phase arms the timer again
        self._runtime.metrics.members_expired += 1
        self.remove(group, member)
        reason = "new member timed out" if member.is_new else "session expired"
        self.membership_changed(group, reason, member.member_id, now, even_initially=True)

    def expect_join(self, group: Group, member_id: str, session_timeout_ms: int, now: Now) -> None:
        """Keep a place for an id just given out."""
        timer = Timer(partial(self._pending_expired, group, member_id))
        group.pending_joins[member_id] = timer
        self._timers.arm(timer, now.monotonic_ms + session_timeout_ms)

    def _pending_expired(self, group: Group, member_id: str, now: Now) -> None:
        del group.pending_joins[member_id]
        self.check_join_phase(group, now, even_initially=True)
        self._runtime.reap(group.group_id)

    # -- membership

    def remove(self, group: Group, member: Member) -> None:
        """Take a member out and answer what it has parked."""
        member.session.cancel()
        group.remove(member)
        self._answer_removed(member)

    def _answer_removed(self, member: Member) -> None:
        if member.parked_join is not None:
            token, request = member.parked_join
            self._runtime.answer(token, join_error(request, Error.UNKNOWN_MEMBER_ID, member_id=""))
            member.parked_join = None  # the group no longer counts it
        self.answer_sync(member, SyncGroupResponse(Error.UNKNOWN_MEMBER_ID))

    def membership_changed(
        self, group: Group, reason: str, member_id: str, now: Now, *, even_initially: bool = False
    ) -> None:
        """Somebody came, changed or went: start a rebalance, or see whether the running one is complete."""
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self.check_join_phase(group, now, even_initially=even_initially)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self.prepare(group, reason, member_id, now)
            case GroupState.EMPTY if group.members:
                self.prepare(group, reason, member_id, now)

    def park_join(self, group: Group, member: Member, parked: ParkedJoin) -> None:
        """Park a join. One it supersedes is answered too.

        Kafka leaves the older request unanswered. Here answers leave a connection in the order of its
        requests, so a gap would hold up all that follow; REBALANCE_IN_PROGRESS makes a client that still
        listens join again, and the newest request gets the real answer.
        """
        older = group.park_join(member, parked)
        if older is not None:
            self._runtime.answer(older.token, join_error(older.request, Error.REBALANCE_IN_PROGRESS))

    def park_sync(self, group: Group, member: Member, parked: ParkedSync) -> None:
        """Park a sync; one it supersedes is answered as in `park_join`."""
        self.answer_sync(member, SyncGroupResponse(Error.REBALANCE_IN_PROGRESS))
        member.parked_sync = parked
        self.synced(group, member)

    def synced(self, group: Group, member: Member) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            group.sync_timer.cancel()

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the member's parked sync, if it has one."""
        parked, member.parked_sync = member.parked_sync, None
        if parked is not None:
            self._runtime.answer(parked.token, response)
        return parked is not None

    # -- the join phase

    def prepare(self, group: Group, reason: str, member_id: str, now: Now) -> None:
        """Ask all members to join again."""
        self.reset_assignments(group, Error.REBALANCE_IN_PROGRESS, now)
        group.sync_timer.cancel()
        group.history.append(RebalanceEvent(now.wall_ms, group.generation_id, reason[:255], member_id))
        initially = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, now.wall_ms)
        if initially:
            self._start_initial_delay(group, now)
        elif group.all_joined:
            self._complete_join(group, now)
        else:
            self._arm_join_timer(group, now)

    def reset_assignments(self, group: Group, error: int, now: Now) -> None:
        """The assignment under way is void: answer those who wait for it."""
        if group.state is not GroupState.COMPLETING_REBALANCE:
            return
        group.assignment_in_flight = False
        for member in group.members.values():
            member.assignment = b""
            if self.answer_sync(member, SyncGroupResponse(error)):
                self.arm_session(member, now)

    def _arm_join_timer(self, group: Group, now: Now) -> None:
        group.join_timer.action = partial(self._complete_join, group)
        delay_ms = max(group.rebalance_timeout_ms, 1)  # zero would spin while only absent members remain
        self._timers.arm(group.join_timer, now.monotonic_ms + delay_ms)

    def _start_initial_delay(self, group: Group, now: Now) -> None:
        """Wait for others to come before the first rebalance of an empty group (KIP-134)."""
        delay_ms = self._runtime.config.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.join_timer.action = partial(self._initial_delay_over, group, delay_ms)
        self._timers.arm(group.join_timer, now.monotonic_ms + delay_ms)

    def _initial_delay_over(self, group: Group, waited_ms: int, now: Now) -> None:
        if not group.new_member_added or not group.initial_delay_left_ms:
            self._complete_join(group, now)
            return
        group.new_member_added = False
        delay_ms = min(self._runtime.config.group_initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms = max(group.initial_delay_left_ms - waited_ms, 0)
        group.join_timer.action = partial(self._initial_delay_over, group, delay_ms)
        self._timers.arm(group.join_timer, now.monotonic_ms + delay_ms)

    def check_join_phase(self, group: Group, now: Now, *, even_initially: bool = False) -> None:
        """Complete the join phase if nobody is awaited any more.

        The initial delay is sat out, except when it is an expiry that leaves nobody to wait for.
        """
        if group.state is not GroupState.PREPARING_REBALANCE or not group.all_joined:
            return
        if even_initially or not group.in_initial_delay:
            self._complete_join(group, now)

    def _complete_join(self, group: Group, now: Now) -> None:
        group.join_timer.cancel()
        self._remove_absent(group)
        if group.members and not self._elect_leader(group):
            self._arm_join_timer(group, now)  # only absent static members are left, and they have sessions
            return
        group.next_generation()
        group.pending_sync.clear()
        self._runtime.metrics.rebalances_completed += 1
        if group.members:
            self._begin_generation(group, now)
        else:
            self._become_empty(group, now)

    def _remove_absent(self, group: Group) -> None:
        """Dynamic members that have not joined again are out; static ones keep their place (KIP-345)."""
        for member in list(group.members.values()):
            if member.parked_join is None and member.group_instance_id is None:
                self.remove(group, member)

    @staticmethod
    def _elect_leader(group: Group) -> bool:
        """Keep the leader if it has joined again, else take the oldest member that has. False: nobody has."""
        joined = [m.member_id for m in group.members.values() if m.parked_join is not None]
        if joined and group.leader_id not in joined:
            group.leader_id = joined[0]
        return bool(joined)

    def _become_empty(self, group: Group, now: Now) -> None:
        group.protocol_name = None
        group.leader_id = None
        group.note_subscribed_topics()
        group.transition(GroupState.EMPTY, now.wall_ms)
        record = group.to_record(lambda _: b"")
        self._runtime.write(EmptiedGroupWrite([GroupPut(group.group_id, record)]), now)

    def _begin_generation(self, group: Group, now: Now) -> None:
        group.protocol_name = group.vote()
        group.note_subscribed_topics()
        group.transition(GroupState.COMPLETING_REBALANCE, now.wall_ms)
        group.assignment_in_flight = False
        for member in group.members.values():
            member.is_new = False
            self.arm_session(member, now)
            group.pending_sync.add(member.member_id)
            parked = group.take_join(member)
            if parked is not None:
                response = group.join_response(member, parked.request.api_version)
                self._runtime.answer(parked.token, response)
        generation = group.generation_id
        group.sync_timer.action = partial(self._sync_overdue, group, generation)
        self._timers.arm(group.sync_timer, now.monotonic_ms + group.rebalance_timeout_ms)

    # -- the sync phase

    def _sync_overdue(self, group: Group, generation: int, now: Now) -> None:
        """Who has not asked for its assignment in a whole rebalance timeout is out, static or not."""
        if group.generation_id != generation or not group.pending_sync:
            return
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        overdue = [m for m in group.members.values() if m.member_id in group.pending_sync]
        for member in overdue:
            self.remove(group, member)
        self._runtime.metrics.members_expired += len(overdue)
        self.membership_changed(group, "sync timed out", ",".join(m.member_id for m in overdue), now)
