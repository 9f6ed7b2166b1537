"""A classic group as it lives in memory: its state, its members, and what follows from them alone.

Not here: what requests and timers do to it (join.py, sync.py, membership.py, rebalance.py), and its durable
side (durable.py). Nothing here reads a clock, answers a request or writes a record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from actors.coordinator.config import HISTORY_LENGTH
from actors.coordinator.errors import Error
from actors.coordinator.messages import (
    JoinGroupMember,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    Token,
)
from actors.coordinator.records import GroupMetadata, MemberMetadata, subscribed_topics
from actors.coordinator.timers import Timer
from actors.errors import CoterieError

MAX_GENERATION = 2_147_483_647


class GroupState(StrEnum):
    EMPTY = "Empty"
    """No members. Ends when one joins, or when the group is deleted or expires."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again. Ends when all have, or at the join deadline."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The leader's assignment is awaited. Ends when it is durable, or when the membership changes again."""
    STABLE = "Stable"
    """Every member can have its assignment. Ends when the membership changes."""
    DEAD = "Dead"
    """The group's deletion is being written, or its shard has gone. Ends with the object."""


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}


class IllegalTransitionError(CoterieError):
    """A group was told to enter a state it cannot enter from where it is. A bug; nothing was changed."""


class ParkedJoin(NamedTuple):
    token: Token
    request: JoinGroupRequest


class ParkedSync(NamedTuple):
    token: Token
    request: SyncGroupRequest


class RebalanceEvent(NamedTuple):
    """Why a rebalance began, and by whose doing."""

    wall_ms: int
    generation_id: int
    """The generation that ended."""
    reason: str
    member_id: str


Protocols = tuple[tuple[str, bytes], ...]


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(self, member_id: str, request: JoinGroupRequest) -> None:
        self.member_id = member_id
        self.group_instance_id = request.group_instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.effective_rebalance_timeout_ms
        self.protocols: Protocols = request.protocols
        self.assignment = b""
        self.parked_join: ParkedJoin | None = None
        self.parked_sync: ParkedSync | None = None
        self.is_new = True
        """Until its first join phase completes."""
        self.session = Timer(_nothing)

    @classmethod
    def from_record(cls, record: MemberMetadata, protocol_type: str, protocol_name: str | None) -> Member:
        """A loaded member knows only the protocol that was selected."""
        request = JoinGroupRequest(
            group_id=None,
            member_id=record.member_id,
            protocol_type=protocol_type,
            protocols=((protocol_name or "", record.subscription),),
            session_timeout_ms=record.session_timeout_ms,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            group_instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
        )
        member = cls(record.member_id, request)
        member.assignment = record.assignment
        member.is_new = False
        return member

    def to_record(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


def _nothing(_: object) -> None:
    """What a timer does that was never given anything to do."""


class Group:
    """The live side of one group. Its methods keep the counters beside the members true."""

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, Timer] = {}
        """Ids given out with MEMBER_ID_REQUIRED and not yet used."""
        self.pending_sync: set[str] = set()
        self.awaiting_join = 0
        self.supported_protocols: dict[str, int] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False
        self.initial_delay_left_ms = 0
        self.join_timer = Timer(_nothing)
        self.sync_timer = Timer(_nothing)
        self.assignment_in_flight = False
        """The leader's assignment of this generation has been handed to the log."""
        self.replacement_in_flight = False
        """A static member's replacement has been handed to the log; others wait in `waiting`."""
        self.waiting: list[ParkedJoin] = []
        self.key_prefixes: dict[str, bytes] = {}
        self.history: deque[RebalanceEvent] = deque(maxlen=HISTORY_LENGTH)

    @classmethod
    def from_record(cls, group_id: str, record: GroupMetadata) -> Group:
        group = cls(group_id, record.state_timestamp_ms)
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        for member in record.members:
            group.add(Member.from_record(member, record.protocol_type, record.protocol_name))
        group.leader_id = record.leader_id
        group.state = GroupState.STABLE if record.members else GroupState.EMPTY
        group.note_subscribed_topics()
        return group

    def to_record(
        self, assignment: Callable[[Member], bytes], members: Iterator[Member] | None = None
    ) -> GroupMetadata:
        """What the log is to say about this group, each member with the assignment given for it."""
        return GroupMetadata(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(m.to_record(self.protocol_name, assignment(m)) for m in members or self.members.values()),
        )

    # -- state

    def transition(self, to: GroupState, wall_ms: int) -> None:
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"group {self.group_id}: {self.state} to {to}")
        self.previous_state = self.state
        self.state = to
        if to is not GroupState.DEAD:  # a deletion can fail, and retention counts from when it emptied
            self.state_timestamp_ms = wall_ms

    @property
    def in_initial_delay(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Used for its offsets only."""
        return self.protocol_type is None and self.state is GroupState.EMPTY and not self.pending_joins

    @property
    def is_vacant(self) -> bool:
        """Nobody is in it, and nobody has been promised a place."""
        return not self.members and not self.pending_joins

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_joins

    @property
    def awaited(self) -> tuple[str, ...]:
        """Whom the running phase waits for."""
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                absent = [m.member_id for m in self.members.values() if m.parked_join is None]
                return (*absent, *self.pending_joins)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return tuple(sorted(self.pending_sync))
            case _:
                return ()

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def next_generation(self) -> None:
        """Kafka lets the number overflow into the negative, which means "none"; ours wraps to 1."""
        self.generation_id = 1 if self.generation_id >= MAX_GENERATION else self.generation_id + 1

    def accepts(self, request: JoinGroupRequest, max_size: int) -> bool:
        """Whether `group.max.size` leaves room for this join.

        A static member's next incarnation comes without a member id and takes its own place: Kafka refuses
        it when the group is full, which locks out a member that merely restarts.
        """
        member_id = request.member_id or self.static_members.get(request.group_instance_id or "", "")
        member = self.members.get(member_id)
        match self.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                already_parked = member is not None and member.parked_join is not None
                return already_parked or self.awaiting_join < max_size
            case _:
                return member is not None or len(self.members) < max_size

    def identify(self, member_id: str, group_instance_id: str | None) -> Member | Error:
        """The member a request speaks for. An instance id is checked before the member id."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return Error.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return Error.FENCED_INSTANCE_ID
        return self.members.get(member_id) or Error.UNKNOWN_MEMBER_ID

    # -- members

    def add(self, member: Member) -> None:
        if self.leader_id is None:
            self.leader_id = member.member_id
        if self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY:
            self.new_member_added = True
        self._count_protocols(member.protocols, 1)
        self._place(member)

    def _place(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.awaiting_join += member.parked_join is not None

    def remove(self, member: Member) -> None:
        """Take a member out. Its timer and what it has parked are the caller's."""
        self._displace(member)
        self._count_protocols(member.protocols, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def _displace(self, member: Member) -> None:
        del self.members[member.member_id]
        self.pending_sync.discard(member.member_id)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        self.awaiting_join -= member.parked_join is not None

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member's place to its next incarnation, leadership included."""
        led = self.leader_id == member.member_id
        awaited = member.member_id in self.pending_sync
        self._displace(member)
        member.member_id = member_id
        self._place(member)
        if led:
            self.leader_id = member_id
        if awaited:
            self.pending_sync.add(member_id)

    def update(self, member: Member, request: JoinGroupRequest) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.effective_rebalance_timeout_ms
        self._count_protocols(member.protocols, 1)

    def park_join(self, member: Member, parked: ParkedJoin) -> ParkedJoin | None:
        """Park a join; returns the one it supersedes."""
        older = member.parked_join
        self.awaiting_join += older is None
        member.parked_join = parked
        return older

    def take_join(self, member: Member) -> ParkedJoin | None:
        parked = member.parked_join
        self.awaiting_join -= parked is not None
        member.parked_join = None
        return parked

    # -- protocols

    def _count_protocols(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            count = self.supported_protocols.get(name, 0) + by
            if count:
                self.supported_protocols[name] = count
            else:
                del self.supported_protocols[name]

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a join offering these protocols can become part of this group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported_protocols.get(name) == everyone for name, _ in protocols
        )

    def vote(self, instead: tuple[Member, Protocols] | None = None) -> str | None:
        """The protocol the members elect; with `instead`, as if that member had those protocols.

        Each votes for the first of its own list that all support. A tie goes to the one voted for first.
        """
        lists = [
            [name for name, _ in (instead[1] if instead and m is instead[0] else m.protocols)]
            for m in self.members.values()
        ]
        common = set.intersection(*map(set, lists)) if lists else set()
        votes: dict[str, int] = {}
        for names in lists:
            choice = next((name for name in names if name in common), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__, default=None)

    def note_subscribed_topics(self) -> None:
        """What all members together read; None when that cannot be told."""
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != "consumer":
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = subscribed_topics(member.metadata(self.protocol_name))
            if subscription is None:
                return None
            topics |= subscription
        return frozenset(topics)

    # -- answers that only read the group

    def join_response(self, member: Member, api_version: int) -> JoinGroupResponse:
        """Success for this member; the leader also gets everybody's metadata."""
        leads = member.member_id == self.leader_id
        return JoinGroupResponse(
            error_code=Error.NONE,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name if api_version >= 7 else self.protocol_name or "",
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=self.member_list() if leads else (),
        )

    def member_list(self) -> tuple[JoinGroupMember, ...]:
        return tuple(
            JoinGroupMember(m.member_id, m.group_instance_id, m.metadata(self.protocol_name))
            for m in self.members.values()
        )
