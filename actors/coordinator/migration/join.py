"""JoinGroup to a consumer group: answered as soon as its records have committed, for nobody waits for anybody.

A classic member takes the same steps by its JoinGroup as one of the new protocol by a heartbeat. The partitions that it
owns stand in its subscription; the member's epoch is its generation. There is no leader.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import NamedTuple

from actors.coordinator.classic.messages import JoinGroupRequest, JoinGroupResponse, join_error
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.membership import identify, new_member_id, take_place
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import AGAIN, Answer, Draft, Operation
from actors.coordinator.consumer.records import tombstones
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.steps import NOBODY, compute, keep, move
from actors.coordinator.consumer.values import ClassicMetadata, MemberMetadata
from actors.coordinator.errors import Error
from actors.coordinator.migration.downgrade import Downgrades
from actors.coordinator.migration.embedded import CONSUMERS, Subscription, by_id, read_subscription
from actors.coordinator.migration.waits import Waits
from actors.coordinator.record_fields import fits
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.turn import Token

ID_REQUIRED_FROM = 4


class Means(NamedTuple):
    """The parts of the shard that a join needs."""

    waits: Waits
    new_id: Callable[[], str]
    downgrades: Downgrades


class Join(Operation):
    """A classic member joins. If the group has no members, it becomes a classic group first."""

    _request: JoinGroupRequest

    def __init__(self, token: Token, request: JoinGroupRequest, group: ConsumerGroup, means: Means) -> None:
        self.token = token
        self._request = request
        self._group = group
        self._means = means
        self._again: JoinGroupRequest | None = None

    @property
    def request(self) -> JoinGroupRequest:
        """The request that it comes from; by the id that the member has got, if it has to be asked again."""
        return self._again or self._request

    def answer_of(self, refusal: Refusal) -> JoinGroupResponse:
        return join_error(self._request, refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        self._again = None  # it may have been run before, and put off
        draft.process = self._request.process
        if not draft.state.metadata:
            return self._begin_classic_group(draft)
        subscription = self._subscription()
        error = self._why_not(draft, subscription)
        if error or subscription is None:
            return Refusal(error or Error.INCONSISTENT_GROUP_PROTOCOL)
        replaces = self._replaces_one_of_the_new_protocol(draft.state)
        member_id = self._enter(draft)
        if not isinstance(member_id, str):
            return member_id
        answer = yield from self._join(draft, member_id, subscription)
        if replaces and not isinstance(answer, Refusal):
            return self._downgrade(draft, member_id) or answer
        return answer

    def _begin_classic_group(self, draft: Draft) -> Answer:
        request = self._request
        if request.member_id:
            return Refusal(Error.UNKNOWN_MEMBER_ID)
        if not request.protocol_type or not request.protocols:
            return Refusal(Error.INCONSISTENT_GROUP_PROTOCOL)
        for tombstone in tombstones(draft.group_id, draft.state):
            draft.write(tombstone)
        draft.write_of_another_type(GroupPut(draft.group_id, GroupMetadata("", 0, None, None, draft.now.wall_ms)))
        return AGAIN

    # -- who joins

    def _subscription(self) -> Subscription | None:
        """The member's subscription; None if that cannot be read."""
        protocols = self._request.protocols
        try:
            return read_subscription(protocols[0][1]) if protocols else None
        except CorruptRecordError:
            return None

    def _why_not(self, draft: Draft, subscription: Subscription | None) -> Error:
        request, state = self._request, draft.state
        if draft.of_broker.migration_policy == "disabled":
            return Error.INCONSISTENT_GROUP_PROTOCOL
        is_known = request.member_id in state.metadata or (request.group_instance_id or "") in state.instances
        if len(state.metadata) >= draft.max_size and not is_known:
            return Error.GROUP_MAX_SIZE_REACHED
        if request.protocol_type != CONSUMERS or not _is_common(state, request) or subscription is None:
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if self._has_been_expelled(state, subscription):
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if fits(request.member_id) else Error.UNKNOWN_MEMBER_ID

    def _has_been_expelled(self, state: ConsumerState, subscription: Subscription) -> bool:
        """True if the member still reads partitions of a membership that has ended, and has not heard of that.

        Let in under its id, it would read them until its next SyncGroup, beside those who have them now. Kafka does so.
        """
        request = self._request
        is_unknown = request.group_instance_id is None and request.member_id not in state.metadata
        return is_unknown and bool(request.member_id and subscription.owned)

    def _enter(self, draft: Draft) -> str | Answer:
        """The id of the member that joins; or the answer, if it has to come back, or is refused."""
        request = self._request
        instance_id = request.group_instance_id
        if request.member_id:
            known = identify(draft.state, request.member_id, instance_id) if instance_id is not None else None
            return request.member_id if known is None else known
        made = new_member_id(self._means.new_id)
        if instance_id is None and request.api_version >= ID_REQUIRED_FROM:
            return join_error(request, Error.MEMBER_ID_REQUIRED, member_id=made)
        holder = draft.state.instances.get(instance_id or "")
        if holder is not None:
            take_place(draft, made, holder)
        return made

    def _replaces_one_of_the_new_protocol(self, state: ConsumerState) -> bool:
        request = self._request
        holder = None if request.member_id else state.instances.get(request.group_instance_id or "")
        return holder is not None and state.metadata[holder].classic is None

    # -- its step

    def _join(self, draft: Draft, member_id: str, subscription: Subscription) -> Generator[None, None, Answer]:
        state = draft.state
        has_changed = keep(draft, member_id, self._updated(state.metadata.get(member_id, NOBODY), subscription))
        if state.group_epoch > state.assignment_epoch:
            failure = yield from compute(draft)
            if failure is not None:
                return failure
        current = yield from move(draft, member_id, by_id(subscription.owned, draft.topics), has_changed=has_changed)
        if current is None:
            return Refusal(Error.UNKNOWN_MEMBER_ID)
        request = self._request
        draft.noted = lambda: self._means.waits.joined(self._group, member_id, request, draft.now)
        return JoinGroupResponse(Error.NONE, current.epoch, CONSUMERS, request.protocols[0][0], member_id=member_id)

    def _downgrade(self, draft: Draft, member_id: str) -> Answer | None:
        """Have the member join the classic group that it is now, for the last one of the new protocol was replaced."""
        if not self._means.downgrades.with_all(draft, member_id):
            return None
        draft.noted = lambda: None  # the classic group has timers of its own
        self._again = replace(self._request, member_id=member_id)
        return AGAIN

    def _updated(self, member: MemberMetadata, subscription: Subscription) -> MemberMetadata:
        """The member with what it says now. It has no regular expression; an assignor that it wished for stays."""
        request = self._request
        return replace(
            member,
            client_id=request.client_id,
            client_host=request.client_host,
            instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
            names=subscription.topics,
            regex="",
            rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
            classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
        )


def _is_common(state: ConsumerState, request: JoinGroupRequest) -> bool:
    """True if all classic members support one of the protocols that a join lists."""
    return any(state.protocols.get(name, 0) == state.classic_members for name, _ in request.protocols)
