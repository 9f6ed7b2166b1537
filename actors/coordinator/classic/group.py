"""A classic group as it lives in memory: its state, its generation, and what may happen to it when.

Not here: who is in it (roster.py, member.py), what requests and timers do to it (join.py, sync.py, membership.py,
rebalance.py, and what groups of all types share), and its durable side (records.py). Nothing here reads a clock,
answers a request or writes a record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

from actors.coordinator.classic.member import Member, ParkedJoin, Protocols
from actors.coordinator.classic.messages import JoinGroupRequest, JoinGroupResponse
from actors.coordinator.classic.records import CLASSIC, NO_TIMESTAMP, GroupDeleted, GroupMetadata, GroupPut
from actors.coordinator.classic.reports import ClassicStatus
from actors.coordinator.classic.roster import Roster
from actors.coordinator.classic.states import TRANSITIONS, GroupState
from actors.coordinator.classic.waits import InitialDelay, Replacement
from actors.coordinator.errors import Error
from actors.coordinator.groups.config import HISTORY_LENGTH
from actors.coordinator.groups.group import IllegalTransitionError, RetentionBase
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.reports import RebalanceEvent
from actors.coordinator.timers import Timer, Timers, nothing
from actors.coordinator.turn import Now

MAX_GENERATION = 2_147_483_647


_DEAD, _EMPTY, _COMPLETING = GroupState.DEAD, GroupState.EMPTY, GroupState.COMPLETING_REBALANCE


class ClassicGroup:
    """One group. Others read its fields; only its own methods change them (`GroupState` has the table).

    It has more fields than most classes: those of Kafka's classic group, and what a rebalance can wait for.
    """

    type_name: ClassVar[str] = CLASSIC

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.roster = Roster()
        self.members = self.roster.by_id
        self.pending_joins: dict[str, Timer] = {}
        """Ids that were given out with MEMBER_ID_REQUIRED (KIP-394) and not used yet, with what ends the wait."""
        self.pending_sync: set[str] = set()
        """The members that have not sent SyncGroup in this generation."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the members read, all together; None if that cannot be told."""
        self.initial_delay: InitialDelay | None = None
        """Set in PreparingRebalance if the group was Empty before."""
        self.awaits_announced = False
        """Set in PreparingRebalance when all have joined, and a moment is given to newcomers that were announced."""
        self.announced_wait_over = False
        """Set in PreparingRebalance when that moment has passed: there is no second one."""
        self.join_timer = Timer(nothing)
        self.sync_timer = Timer(nothing)
        self.assignment_in_flight = False
        """True once the leader's assignment of this generation has been handed to the log."""
        self.replacement = Replacement()
        self.key_prefixes: dict[str, bytes] = {}
        """The beginnings of the keys of offset records, by topic."""
        self.history: deque[RebalanceEvent] = deque(maxlen=HISTORY_LENGTH)

    @classmethod
    def from_record(cls, group_id: str, record: GroupMetadata) -> ClassicGroup:
        """The group as its last record describes it."""
        group = cls(group_id, record.state_timestamp_ms)
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        for member in record.members:
            group.roster.add(Member.from_record(member, record.protocol_type, record.protocol_name))
        group.roster.set_leader(record.leader_id)
        group.state = GroupState.STABLE if record.members else GroupState.EMPTY
        group._note_subscribed_topics()
        return group

    def reborn(self) -> ClassicGroup:
        """The Empty group that takes a Dead one's place when its tombstone could not be written.

        Dead is final, so this is a new object. Pending member ids are forgotten; their clients get UNKNOWN_MEMBER_ID
        and join anew.
        """
        group = ClassicGroup(self.group_id, self.state_timestamp_ms)
        group.protocol_type = self.protocol_type
        group.generation_id = self.generation_id
        group.history = self.history
        group._note_subscribed_topics()
        return group

    def to_record(
        self, assignment: Callable[[Member], bytes], members: Iterable[Member] | None = None
    ) -> GroupMetadata:
        """The group's record, with the assignment that `assignment` gives for each member."""
        return GroupMetadata(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(m.to_record(self.protocol_name, assignment(m)) for m in members or self.members.values()),
        )

    # -- transitions

    def _enter(self, to: GroupState) -> None:
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"group {self.group_id}: {self.state} to {to}")
        self.state = to

    def begin_rebalance(self, reason: str, member_id: str, now: Now, initial_delay_ms: int) -> None:
        """Have all members join again because of `member_id`. An assignment under way does not count any more."""
        before = self.state
        self._enter(GroupState.PREPARING_REBALANCE)
        self.state_timestamp_ms = now.wall_ms
        self.history.append(RebalanceEvent(now.wall_ms, self.generation_id, reason[:255], member_id))
        self.sync_timer.cancel()
        if before is GroupState.EMPTY:
            self.initial_delay = InitialDelay(initial_delay_ms, self.roster.rebalance_timeout_ms)
        elif before is GroupState.COMPLETING_REBALANCE:
            self.assignment_in_flight = False
            for member in self.members.values():
                member.assignment = b""

    def begin_generation(self, wall_ms: int) -> None:
        """Begin the next generation, with the present members. The leader's assignment is awaited."""
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._end_join_phase(wall_ms)
        self.protocol_name = self.roster.vote()
        self._note_subscribed_topics()
        for member in self.members.values():
            member.is_new = False
            self.pending_sync.add(member.member_id)

    def become_empty(self, wall_ms: int) -> None:
        """End the join phase when no member is left."""
        self._enter(GroupState.EMPTY)
        self._end_join_phase(wall_ms)
        self.protocol_name = None
        self.roster.set_leader(None)
        self._note_subscribed_topics()

    def _end_join_phase(self, wall_ms: int) -> None:
        """The next generation. Kafka's number overflows to below zero, which means "none"; ours begins again at 1."""
        self.state_timestamp_ms = wall_ms
        self.generation_id = 1 if self.generation_id >= MAX_GENERATION else self.generation_id + 1
        self.pending_sync.clear()
        self.join_timer.cancel()
        self.initial_delay = None
        self.awaits_announced = self.announced_wait_over = False
        self.roster.expected = 0

    def begin_assignment(self) -> None:
        """The leader's assignment was handed to the log. The state changes when it has committed."""
        self.assignment_in_flight = True

    def complete_assignment(self, assignments: Mapping[str, bytes], wall_ms: int) -> None:
        """The leader's assignment has committed: each member gets its own."""
        self._enter(GroupState.STABLE)
        self.state_timestamp_ms = wall_ms
        self.assignment_in_flight = False
        for member in self.members.values():
            member.assignment = assignments[member.member_id]

    def begin_deletion(self) -> None:
        """The group's tombstone is being written.

        The state's timestamp stays: retention counts from when the group became empty, and the write may fail.
        """
        self._enter(GroupState.DEAD)

    # -- questions

    @property
    def leader_id(self) -> str | None:
        """The member that decides the assignment; None if there is no member."""
        return self.roster.leader_id

    @property
    def is_simple(self) -> bool:
        """True if the group is used for its offsets only, without members."""
        return self.protocol_type is None and self.state is GroupState.EMPTY and not self.pending_joins

    @property
    def shown(self) -> ClassicGroup:
        return self

    @property
    def is_vacant(self) -> bool:
        """True if it has neither members nor pending member ids."""
        return not self.members and not self.pending_joins

    @property
    def all_joined(self) -> bool:
        """True if the join phase waits for nobody."""
        return len(self.members) == self.roster.awaiting_join and not self.pending_joins

    @property
    def awaited(self) -> tuple[str, ...]:
        """The member ids, pending ones included, that the running phase waits for."""
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                return (*(member.member_id for member in self.roster.absent()), *self.pending_joins)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return tuple(sorted(self.pending_sync))
            case _:
                return ()

    @property
    def phase_timer(self) -> Timer | None:
        """The timer that ends the running phase at the latest; None if none is running."""
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                return self.join_timer
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return self.sync_timer
            case _:
                return None

    def accepts(self, request: JoinGroupRequest, max_size: int) -> bool:
        """True if `group.max.size` leaves room for this join.

        A static member's next incarnation comes without a member id and takes its own place. Kafka refuses it when the
        group is full, which locks out a member that merely restarts.
        """
        member_id = request.member_id or self.roster.by_instance.get(request.group_instance_id or "", "")
        member = self.members.get(member_id)
        match self.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                already_parked = member is not None and member.parked_join is not None
                return already_parked or self.roster.awaiting_join < max_size
            case _:
                return member is not None or len(self.members) < max_size

    def identify(self, member_id: str, group_instance_id: str | None, generation_id: int) -> Member | Error:
        """The member that sent a heartbeat or a sync of the current generation, or the error it is answered."""
        if self.state is GroupState.DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        member = self.roster.identify(member_id, group_instance_id)
        if generation_id != self.generation_id and not isinstance(member, Error):
            return Error.ILLEGAL_GENERATION
        return member

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a join offering these protocols can become part of this group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.roster.all_support_one_of(protocols)

    def join_response(self, member: Member, api_version: int) -> JoinGroupResponse:
        """The successful answer to a member's join. The leader also gets the metadata of all members."""
        leads = member.member_id == self.leader_id
        return JoinGroupResponse(
            error_code=Error.NONE,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name if api_version >= 7 else self.protocol_name or "",
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=self.roster.listed(self.protocol_name) if leads else (),
        )

    # -- what groups of all types have (groups/group.py)

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def phase_ends_ms(self) -> int | None:
        timer = self.phase_timer
        return None if timer is None else timer.due_ms

    def status(self, now: Now) -> ClassicStatus:
        due_ms = self.phase_ends_ms
        return ClassicStatus(
            self.generation_id,
            self.awaited,
            None if due_ms is None else due_ms - now.monotonic_ms,
            tuple(self.history),
            self.state_name,
            len(self.members),
        )

    def timers(self) -> Iterator[Timer]:
        yield self.join_timer
        yield self.sync_timer
        yield from self.client_timers()

    def client_timers(self) -> Iterator[Timer]:
        for member in self.members.values():
            yield member.session
        yield from self.pending_joins.values()

    def tombstones(self) -> list[GroupDeleted]:
        return [GroupDeleted(self.group_id)]

    def own_record(self) -> list[GroupPut]:
        if self.state is not GroupState.EMPTY or self.protocol_type is not None:
            return []
        return [GroupPut(self.group_id, self.to_record(lambda _: b""))]

    def check_commit(self, request: OffsetCommitRequest, timers: Timers, now: Now) -> int:
        _, generation_id, member_id, group_instance_id = request[:4]
        state = self.state
        if state is _DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and state is _EMPTY:
            return 0  # admin tools, and consumers that assign themselves
        if generation_id < 0 and not member_id and group_instance_id is None:
            return Error.UNKNOWN_MEMBER_ID
        member = self.roster.identify(member_id, group_instance_id)
        if isinstance(member, Error):
            return member
        if generation_id != self.generation_id:
            return Error.ILLEGAL_GENERATION
        if state is _COMPLETING:
            return Error.REBALANCE_IN_PROGRESS
        timers.arm(member.session, now.monotonic_ms + member.session_timeout_ms)
        return 0

    def check_fetch(self, member_id: str | None, member_epoch: int) -> int:
        return 0

    def check_offset_delete(self) -> Error:
        if self.state is not GroupState.EMPTY and self.protocol_type != "consumer":
            return Error.NON_EMPTY_GROUP  # nobody can tell what its members read
        return Error.NONE

    def reads(self, topic: str) -> bool:
        if self.state is GroupState.EMPTY:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def retention_base(self) -> RetentionBase | None:
        topics = self.subscribed_topics
        if self.is_simple:
            return lambda _, value: value.commit_timestamp_ms
        if self.state is GroupState.EMPTY and self.protocol_type is not None:
            emptied_ms = self.state_timestamp_ms
            if emptied_ms == NO_TIMESTAMP:
                return lambda _, value: value.commit_timestamp_ms
            return lambda _, value: emptied_ms
        if self.state is GroupState.STABLE and self.protocol_type == "consumer" and topics is not None:
            return lambda topic, value: None if topic in topics else value.commit_timestamp_ms
        return None

    # -- members

    def expect(self, member_id: str, timer: Timer) -> None:
        """Keep a place for a member id that was just given out, until `timer` is due."""
        self.pending_joins[member_id] = timer

    def forget_pending(self, member_id: str) -> bool:
        """Drop a pending member id, which was used or is not awaited any more. False if there is no such id."""
        timer = self.pending_joins.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def admit(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one decides the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.initial_delay is not None:
            self.initial_delay.member_came = True
        self.roster.add(member)

    def remove(self, member: Member) -> ParkedJoin | None:
        """Take a member out; its parked join, if any. Its timer and its parked requests are left to the caller."""
        self.pending_sync.discard(member.member_id)
        return self.roster.remove(member)

    def replace(self, member: Member, member_id: str) -> None:
        """Give a static member's place to its next incarnation (KIP-345)."""
        awaited = member.member_id in self.pending_sync
        self.pending_sync.discard(member.member_id)
        self.roster.replace(member, member_id)
        if awaited:
            self.pending_sync.add(member_id)

    def synced(self, member: Member) -> None:
        """The member has sent SyncGroup. When all have, the sync phase waits for nobody."""
        self.pending_sync.discard(member.member_id)
        if not self.pending_sync:
            self.sync_timer.cancel()

    def _note_subscribed_topics(self) -> None:
        of_consumers = self.protocol_type == "consumer"
        self.subscribed_topics = self.roster.topics(self.protocol_name) if of_consumers else None
