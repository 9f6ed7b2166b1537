"""The steps that a member takes towards its target, whichever protocol it speaks, and what leads to them.

1. `keep`: what it says of itself is kept, and the group's epoch rises if that makes a difference.
2. `compute`: if the epoch is ahead of the target's, the target is computed, unless the last one is too new.
3. `move`: this member, and no other, makes a step (reconcile.py).
"""

from __future__ import annotations

from collections.abc import Generator

from actors.coordinator.assignors.slices import Pace
from actors.coordinator.consumer import target
from actors.coordinator.consumer.membership import forget_unused, look_at_topics
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Cause, Draft
from actors.coordinator.consumer.reconcile import Step, reconcile
from actors.coordinator.consumer.records import AssignmentEpoch, CurrentAssignment, MemberRecord, TargetAssignment
from actors.coordinator.consumer.state import known
from actors.coordinator.consumer.topics import existing
from actors.coordinator.consumer.values import Current, MemberMetadata, Partitions, count_of
from actors.coordinator.errors import Error

LARGE = 5_000
"""A member with more partitions than these takes a turn for each part of its step."""
NOBODY = MemberMetadata()
"""The metadata of a member that has just come."""


def keep(draft: Draft, member_id: str, member: MemberMetadata) -> bool:
    """Keep what a member says of itself. Returns whether it subscribes to something else than before."""
    state = draft.state
    older = state.metadata.get(member_id)
    winner = target.chosen(state, draft.configured)
    if member != older:
        draft.write(MemberRecord(draft.group_id, member_id, member))
    before = older or NOBODY
    must_raise = _note_regex(draft, before.regex, member.regex) or draft.must_raise
    must_raise |= member.names != before.names
    must_raise |= target.chosen(state, draft.configured) != winner
    if older is None:
        draft.came = known(member_id, member, draft.process)
    look_at_topics(draft, _cause(member_id, older, member, must_raise=must_raise), must_raise=must_raise)
    return (member.names, member.regex) != (before.names, before.regex)


def _note_regex(draft: Draft, older: str, regex: str) -> bool:
    """Forget what an expression was resolved to that nobody has any more. Returns whether the epoch has to rise."""
    if regex == older:
        return False
    forget_unused(draft, (older,))
    return not regex or regex in draft.state.resolved


def _cause(member_id: str, older: MemberMetadata | None, member: MemberMetadata, *, must_raise: bool) -> Cause:
    if older is None:
        reason = "member joined"
    else:
        reason = "subscription or assignor changed" if must_raise else "topics changed"
    return Cause(reason, member_id, known(member_id, member))


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


def move(
    draft: Draft, member_id: str, owned: Partitions | None, *, has_changed: bool
) -> Generator[None, None, Current | None]:
    """The member's holding from now on, given what it says that it owns. None: it is to be fenced."""
    state = draft.state
    current = state.current_of(member_id)
    if state.is_reconciled(member_id) and not has_changed:
        return current
    topics = existing(state.topics_of(state.metadata[member_id]), draft.topics)
    step = Step(
        target=state.targets.get(member_id, target.NOTHING),
        epoch=state.assignment_epoch,
        owned=owned,
        subscribed=frozenset(topic.topic_id for topic in topics),
        has_changed=has_changed,
        is_free=lambda at: state.is_free(at, member_id),
    )
    held = count_of(current.assigned) + count_of(current.pending)
    is_large = held + count_of(step.target) > LARGE
    if is_large:
        yield
    made = reconcile(current, step)
    if is_large:
        yield
    if made is not None and made is not current:
        draft.write(CurrentAssignment(draft.group_id, member_id, made))
        draft.work += held // 2  # to give something up costs as much as to get it
    return made
