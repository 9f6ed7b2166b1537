"""A member's heartbeat, step by step (KIP-848).

1. The member is found, let in, or put in its former place; what it says of itself is kept.
2. The group's epoch rises if the member subscribes to something else, if members now wish for another assignor, or if
   topics have changed.
3. If the epoch is ahead of the target's, and the last computation is long enough ago, the target is computed.
4. This member, and no other, makes a step towards its target (steps.py).

Records are written in that order, and only for what has changed: most heartbeats write none.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.coordinator.consumer import regexes
from actors.coordinator.consumer.membership import find
from actors.coordinator.consumer.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Refusal,
)
from actors.coordinator.consumer.operations import Answer, Draft, Operation
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.steps import NOBODY, compute, keep, move
from actors.coordinator.consumer.values import JOIN_EPOCH, MemberMetadata, partitions_of
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token


class Heartbeat(Operation):
    """A heartbeat of a member that joins, or is one."""

    def __init__(self, token: Token, request: ConsumerGroupHeartbeatRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(int(refusal.error), refusal.message)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        request, state = self._request, draft.state
        draft.process = request.process
        held_before = partitions_of(state.current_of(request.member_id).assigned)
        refusal = refusal_of(draft, request)
        if refusal is not None:
            return refusal
        has_changed = self._note(draft)
        if state.group_epoch > state.assignment_epoch:
            failure = yield from compute(draft)
            if failure is not None:
                return failure
        current = yield from move(draft, request.member_id, request.topic_partitions, has_changed=has_changed)
        if current is None:
            return Refusal(Error.FENCED_MEMBER_EPOCH, "The member's state is not known here. It has to join again.")
        draft.heard = request.member_id
        draft.must_resolve = regexes.must_resolve(draft)
        held = partitions_of(current.assigned)
        is_told = request.member_epoch == JOIN_EPOCH or request.is_full or held != held_before
        return ConsumerGroupHeartbeatResponse(
            error_code=Error.NONE,
            member_id=request.member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=draft.settings.heartbeat_interval_ms,
            assignment=held if is_told else None,
        )

    # -- what the member says of itself

    def _note(self, draft: Draft) -> bool:
        """Keep what the member says. Returns whether it subscribes to something else than before."""
        member_id = self._request.member_id
        return keep(draft, member_id, self._updated(draft.state.metadata.get(member_id, NOBODY)))

    def _updated(self, member: MemberMetadata) -> MemberMetadata:
        """The member with what it has sent. Fields that it did not send stay."""
        request = self._request
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return MemberMetadata(
            client_id=request.client_id,
            client_host=request.client_host,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            names=member.names if names is None else frozenset(names),
            regex=member.regex if regex is None else regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        )


def refusal_of(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """The reason why a heartbeat is refused; None if its sender is a member, or has been let in."""
    return find(draft, request) or regexes.check(draft, request.member_id, request.subscribed_topic_regex)


def is_at_rest(state: ConsumerState, request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if a heartbeat is one of a member that has all it can have, and says nothing new. Most are."""
    member = state.metadata.get(request.member_id)
    return (
        member is not None
        and request.member_epoch == state.current_of(request.member_id).epoch > 0
        and state.group_epoch == state.assignment_epoch
        and state.is_reconciled(request.member_id)
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and (request.client_id, request.client_host) == (member.client_id, member.client_host)
        and request.instance_id in (None, member.instance_id)
        and not state.regexes
        and request.rack_id is None
        and request.server_assignor is None
        and member.classic is None
    )
