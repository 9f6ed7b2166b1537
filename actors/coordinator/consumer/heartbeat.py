"""A member's heartbeat, step by step (KIP-848).

1. The member is found, let in, or put in its former place; what it says of itself is kept.
2. The group's epoch rises if the member subscribes to something else, if members now wish for another assignor, or if
   topics have changed.
3. If the epoch is ahead of the target's, and the last computation is long enough ago, the target is computed.
4. This member, and no other, makes a step towards its target (reconcile.py).

Records are written in that order, and only for what has changed: most heartbeats write none.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.coordinator.assignors.slices import Pace
from actors.coordinator.consumer import regexes, target
from actors.coordinator.consumer.membership import find, forget_unused, look_at_topics
from actors.coordinator.consumer.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Refusal,
)
from actors.coordinator.consumer.operations import Answer, Cause, Draft, Operation
from actors.coordinator.consumer.reconcile import Step, reconcile
from actors.coordinator.consumer.records import AssignmentEpoch, CurrentAssignment, MemberRecord, TargetAssignment
from actors.coordinator.consumer.state import ConsumerState, known
from actors.coordinator.consumer.topics import existing
from actors.coordinator.consumer.values import JOIN_EPOCH, Current, MemberMetadata, count_of, partitions_of
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token

LARGE = 5_000
"""A member with more partitions than these takes a turn for each part of its step."""
NOBODY = MemberMetadata()
"""What is known of a member that has just come."""


class Heartbeat(Operation):
    """A heartbeat of a member that joins, or is one."""

    def __init__(self, token: Token, request: ConsumerGroupHeartbeatRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(int(refusal.error), refusal.message)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        request, state = self._request, draft.state
        held_before = partitions_of(state.current_of(request.member_id).assigned)
        refusal = refusal_of(draft, request)
        if refusal is not None:
            return refusal
        has_changed = self._note(draft)
        if state.group_epoch > state.assignment_epoch:
            failure = yield from compute(draft)
            if failure is not None:
                return failure
        current = yield from self._reconcile(draft, has_changed=has_changed)
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
        member_id, state = self._request.member_id, draft.state
        older = state.metadata.get(member_id)
        member = self._updated(older or NOBODY)
        winner = target.chosen(state, draft.configured)
        if member != older:
            draft.write(MemberRecord(draft.group_id, member_id, member))
        before = older or NOBODY
        must_raise = self._note_regex(draft, before.regex, member.regex)
        must_raise |= member.names != before.names
        must_raise |= target.chosen(state, draft.configured) != winner
        if older is None:
            draft.came = known(member_id, member)
        look_at_topics(draft, self._cause(older, member, must_raise=must_raise), must_raise=must_raise)
        return (member.names, member.regex) != (before.names, before.regex)

    def _updated(self, member: MemberMetadata) -> MemberMetadata:
        """The member with what it has sent. What it did not send stays."""
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

    def _note_regex(self, draft: Draft, older: str, regex: str) -> bool:
        """Forget what an expression was resolved to that nobody has any more. Returns whether the epoch has to rise."""
        if regex == older:
            return False
        forget_unused(draft, (older,))
        return not regex or regex in draft.state.resolved

    def _cause(self, older: MemberMetadata | None, member: MemberMetadata, *, must_raise: bool) -> Cause:
        if older is None:
            reason = "member joined"
        else:
            reason = "subscription or assignor changed" if must_raise else "topics changed"
        return Cause(reason, self._request.member_id, known(self._request.member_id, member))

    # -- its next step

    def _reconcile(self, draft: Draft, *, has_changed: bool) -> Generator[None, None, Current | None]:
        member_id, state = self._request.member_id, draft.state
        current = state.current_of(member_id)
        if state.is_reconciled(member_id) and not has_changed:
            return current
        topics = existing(state.topics_of(state.metadata[member_id]), draft.topics)
        step = Step(
            target=state.targets.get(member_id, target.NOTHING),
            epoch=state.assignment_epoch,
            owned=self._request.topic_partitions,
            subscribed=frozenset(topic.topic_id for topic in topics),
            has_changed=has_changed,
            is_free=lambda at: state.is_free(at, member_id),
        )
        is_large = count_of(current.assigned) + count_of(step.target) > LARGE
        if is_large:
            yield
        made = reconcile(current, step)
        if is_large:
            yield
        if made is not None and made is not current:
            draft.write(CurrentAssignment(draft.group_id, member_id, made))
        return made


def refusal_of(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """Why a heartbeat is refused; None if its sender is a member, or has been let in."""
    return find(draft, request) or regexes.check(draft, request.member_id, request.subscribed_topic_regex)


def is_at_rest(state: ConsumerState, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat is one of a member that has all it can have, and says nothing new. Most are."""
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


def compute(draft: Draft) -> Generator[None, None, Refusal | None]:
    """Compute the target of the group's epoch, if it is time. Returns why that fails."""
    state, group_id = draft.state, draft.group_id
    if not target.is_due(state, draft.settings.assignment_interval_ms, draft.now):
        return None
    assignor = draft.assignors[target.chosen(state, draft.configured)]
    pace = Pace()
    spec = yield from target.spec_steps(state, draft.topics, pace)
    try:
        made = yield from assignor.steps(spec)
    except Exception as error:  # assignors may be anybody's, and the trouble of one group is not the shard's
        return Refusal(Error.UNKNOWN_SERVER_ERROR, f"The assignor {assignor.name} has failed: {error}")
    for member_id in state.metadata:
        if target.has_changed(state, made, member_id):
            draft.write(TargetAssignment(group_id, member_id, made.get(member_id, target.NOTHING)))
        if pace.full():
            yield
    draft.write(AssignmentEpoch(group_id, state.group_epoch, draft.latest.wall_ms))
    return None
