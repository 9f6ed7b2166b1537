"""Makes a consumer group of a classic group that has members, when one of the new protocol joins.

Each member goes on as a classic member of the new group, at the generation that it has, with what its last assignment
gives it. All of that is written in one append with what the join comes to.

A cooperative member that has just been told to give something up still has it, until it joins once more. In Kafka that
is free at once, and has two owners for a moment; here the member has to give it back first.

A rebalance that was under way ends with the classic group. The partitions it was about, such as those of a member that
had left, are divided by the first target of the new one: the joiner raises the epoch even if it brings nothing new. It
does so as well if a partition is nobody's: the leader that would have noticed it is a leader no more. In Kafka both are
left without an owner until something else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.messages import SyncGroupResponse, join_error
from actors.coordinator.classic.states import GroupState
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Cluster, Drafted
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    MemberRecord,
    TargetAssignment,
)
from actors.coordinator.consumer.replaced import Replaced, no_consumer_group
from actors.coordinator.consumer.state import FIRST_EPOCH, ConsumerState, TopicPartition
from actors.coordinator.consumer.topics import TopicImage, existing, group_hash
from actors.coordinator.consumer.values import ClassicMetadata, Current, MemberMetadata, MemberState, Partitions
from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.offset_records import OffsetsDeleted, OffsetsPut
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.migration.embedded import CONSUMERS, Subscription, by_id, read_assignment, read_subscription
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write


class Upgrades:
    """Those of a shard's groups."""

    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self._runtime = runtime
        self._cluster = cluster

    def replacing(self, group: Group, token: Token, now: Now) -> Replaced | Refusal | None:
        """The replacement of a group for a member that joins it, or the reason why there can be none.

        None: a record of the group is under way. It says what members have, so its outcome is waited for.
        """
        if not isinstance(group, ClassicGroup):
            return no_consumer_group(group.group_id)
        why_not = self._why_not(group)
        if why_not:
            return Refusal(
                Error.GROUP_ID_NOT_FOUND, f"Group {group.group_id} cannot become a consumer group: {why_not}."
            )
        if self._is_written(group.group_id):
            waiting = Later(self._runtime, token)
            self._runtime.writer.wait_for(group.group_id, self._runtime.writer.last_batch_id, waiting, now)
            return None
        assert self._cluster.topics is not None
        try:
            return ReplacedClassic(
                self._runtime, group, tuple(converted(group, self._cluster.topics)), self._cluster.topics
            )
        except CorruptRecordError as error:
            return Refusal(Error.GROUP_ID_NOT_FOUND, f"Group {group.group_id} cannot become a consumer group: {error}.")

    def _why_not(self, group: ClassicGroup) -> str:
        settings = self._cluster.settings
        if not settings.may_upgrade:
            return f"the migration policy is {settings.migration_policy}"
        if group.protocol_type != CONSUMERS:
            return f"its protocol type is {group.protocol_type}"
        if len(group.members) > settings.max_size:
            return f"it has more than {settings.max_size} members"
        return ""

    def _is_written(self, group_id: str) -> bool:
        pending = self._runtime.writer.pending_changes(group_id)
        return any(not isinstance(change, OffsetsPut | OffsetsDeleted) for change in pending)


class Later(Write):
    """A heartbeat that waits for a group's record."""

    __slots__ = ("_runtime", "_token")

    def __init__(self, runtime: GroupRuntime, token: Token) -> None:
        super().__init__([])
        self._runtime = runtime
        self._token = token

    def committed(self, now: Now) -> None:
        self._again(now)

    def failed(self, error: int, now: Now) -> None:
        self._again(now)

    def _again(self, now: Now) -> None:
        request = self._runtime.unanswered.get(self._token)
        if request is not None:
            self._runtime.again(self._token, request, now)

    def timed_out(self, now: Now) -> None:
        request = self._runtime.unanswered.get(self._token)
        if request is not None:
            self._runtime.answer(self._token, request.refused(Error.COORDINATOR_NOT_AVAILABLE))


# -- records


def converted(group: ClassicGroup, topics: TopicImage) -> Iterator[GroupChange]:
    """The records that make a classic group a consumer group. Raises CorruptRecordError for what cannot be read."""
    # Before its first generation a group is at 0, which would tell a member to join again and again.
    group_id, generation = group.group_id, max(group.generation_id, FIRST_EPOCH)
    read: dict[bytes, Subscription] = {}  # most members that own nothing say the same
    said = {each.member_id: _subscription(each, group.protocol_name, read) for each in group.members.values()}
    members = {each.member_id: _member(each, said[each.member_id]) for each in group.members.values()}
    shares = {each.member_id: _share(each, topics) for each in group.members.values()}
    given = {(topic_id, each) for share in shares.values() for topic_id, numbers in share.items() for each in numbers}
    names = frozenset().union(*(member.names for member in members.values()))
    yield from group.tombstones()
    yield from (MemberRecord(group_id, *each) for each in members.items())
    yield GroupEpoch(group_id, generation, group_hash(existing(names, topics)))
    yield from (TargetAssignment(group_id, *each) for each in shares.items())
    yield AssignmentEpoch(group_id, generation)
    for member in group.members.values():
        owned = by_id(said[member.member_id].owned, topics)
        left = {(topic_id, each) for topic_id, numbers in owned.items() for each in numbers} - given
        given |= left
        yield CurrentAssignment(group_id, member.member_id, _current(shares[member.member_id], left, generation))


def _current(share: Partitions, left: Iterable[TopicPartition], generation: int) -> Current:
    """The partitions of a member at its generation: its share, and the rest of those that it had."""
    held = {topic_id: dict.fromkeys(numbers, generation) for topic_id, numbers in share.items()}
    pending: dict[bytes, dict[int, int]] = {}
    for topic_id, partition in left:
        pending.setdefault(topic_id, {})[partition] = generation
    state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
    return Current(generation, generation, state, held, pending)


def _subscription(member: Member, protocol_name: str | None, read: dict[bytes, Subscription]) -> Subscription:
    """The subscription that a member sent when it joined last.

    One that has just come need not support what the others had selected.
    """
    data = member.metadata(protocol_name) or member.protocols[0][1]
    found = read.get(data)
    if found is None:
        found = read[data] = read_subscription(data)
    return found


def _member(member: Member, subscription: Subscription) -> MemberMetadata:
    """The metadata of a classic member."""
    return MemberMetadata(
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        names=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _share(member: Member, topics: TopicImage) -> dict[bytes, frozenset[int]]:
    given = read_assignment(member.assignment)
    if given.user_data:
        raise CorruptRecordError(f"the assignment of member {member.member_id} has data that would be lost")
    return by_id(given.partitions, topics)


def _state(changes: Sequence[GroupChange]) -> ConsumerState:
    drafted = Drafted(ConsumerState())
    for change in changes:
        change.apply(drafted)
    state: ConsumerState = drafted.persisted
    held = sum(
        len(partitions)
        for current in state.current.values()
        for part in (current.assigned, current.pending)
        for partitions in part.values()
    )
    if held != len(state.owners):
        raise CorruptRecordError("two of its members have one partition")
    return state


def _has_all(state: ConsumerState, topics: TopicImage) -> bool:
    """True if each partition of the group's topics is given to a member. One that is not may have come since."""
    names = frozenset().union(*(member.names for member in state.metadata.values()))
    given = {(topic_id, each) for share in state.targets.values() for topic_id, some in share.items() for each in some}
    wanted = ((topic.topic_id, each) for topic in existing(names, topics) for each in range(topic.partitions))
    return all(each in given for each in wanted)


# -- the group that is replaced


class ReplacedClassic:
    """A classic group stands still from now on, until it is known whether the records of the other one are written."""

    def __init__(
        self, runtime: GroupRuntime, group: ClassicGroup, changes: Sequence[GroupChange], topics: TopicImage
    ) -> None:
        self.group = group
        self.changes = changes
        self.state = _state(changes)
        is_stable = group.state is GroupState.STABLE and self.state.persisted_state == "Stable"
        self.is_settled = is_stable and _has_all(self.state, topics)
        self._runtime = runtime
        self.sessions = {
            each.member_id: each.session.due_ms
            for each in group.members.values()
            if each.session.due_ms is not None and not (each.is_new or each.parked_join or each.parked_sync)
        }
        self._due = [(timer, timer.due_ms) for timer in group.timers() if timer.due_ms is not None]
        for timer, _ in self._due:
            timer.cancel()
        self._rebalance = runtime.rebalances.running.pop(group.group_id, None)

    def gone(self, now: Now) -> None:
        """Its members are of the consumer group now. Those who wait for the rest of a rebalance are to join that."""
        for member in self.group.members.values():
            self._answer(member)
        if self._rebalance is not None:
            self._rebalance.break_off()
            self._runtime.rebalances.keep(self._rebalance)

    def _answer(self, member: Member) -> None:
        join, sync = self.group.roster.take_join(member), member.take_sync()
        if join is not None:
            self._runtime.answer(join.token, join_error(join.request, Error.REBALANCE_IN_PROGRESS))
        if sync is not None:
            self._runtime.answer(sync.token, SyncGroupResponse(Error.REBALANCE_IN_PROGRESS))

    def back(self, now: Now) -> None:
        """Its timers run on."""
        for timer, due_ms in self._due:
            self._runtime.timers.arm(timer, due_ms)
        if self._rebalance is not None:
            self._runtime.rebalances.running[self.group.group_id] = self._rebalance
