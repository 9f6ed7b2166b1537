"""Finds the member that sends a heartbeat, lets it in, or puts it in its former place; and takes members out.

With members the subscriptions of a group change, so it is here that its epoch rises.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest, Refusal
from actors.coordinator.consumer.operations import Cause, Draft
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    LegacyTopics,
    MemberRecord,
    ResolvedRegex,
    TargetAssignment,
)
from actors.coordinator.consumer.state import ConsumerState, known
from actors.coordinator.consumer.values import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Current, Held, Partitions, held_at
from actors.coordinator.errors import Error


def new_member_id(new_id: Callable[[], str]) -> str:
    """An id for a member that sends none, of whichever protocol: a UUID as Kafka writes it.

    It has 22 characters, and the first is no hyphen. `new_id` makes UUIDs as all others write them.
    """
    while True:
        text = urlsafe_b64encode(bytes.fromhex(new_id().replace("-", ""))).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def find(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """The reason why the sender of a heartbeat is refused.

    None if it is a member, or may become one under the id it sends.

    A static member that comes back has the place of its former incarnation afterwards.
    """
    state = draft.state
    member_id, instance_id = request.member_id, request.instance_id
    holder = None if instance_id is None else state.instances.get(instance_id)
    if len(state.metadata) >= draft.max_size and member_id not in state.metadata and holder is None:
        return Refusal(Error.GROUP_MAX_SIZE_REACHED, f"The group has its {draft.max_size} members.")
    if request.member_epoch == JOIN_EPOCH:
        return _return_to_place(draft, member_id, holder) if holder is not None else None
    refusal = identify(state, member_id, instance_id)
    return refusal if refusal is not None else _check_epoch(state.current_of(member_id), request)


def identify(state: ConsumerState, member_id: str, instance_id: str | None) -> Refusal | None:
    """The reason why nobody is known by these ids, or None. An instance id is checked before the member id."""
    if instance_id is not None:
        holder = state.instances.get(instance_id)
        if holder is None:
            return Refusal(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            return Refusal(Error.FENCED_INSTANCE_ID, f"Instance id {instance_id} belongs to another member.")
    if member_id not in state.metadata:
        return Refusal(Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member.")
    return None


def _check_epoch(current: Current, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """A member may be one epoch behind, if its answer was lost, and if it has nothing that is not its own."""
    epoch = request.member_epoch
    if epoch == current.epoch:
        return None
    if epoch == current.previous_epoch and epoch < current.epoch and _has_only(request.topic_partitions, current):
        return None
    behind = "greater" if epoch > current.epoch else "smaller"
    return Refusal(
        Error.FENCED_MEMBER_EPOCH,
        f"The epoch {epoch} is {behind} than the member's, which is {current.epoch}. It has to join again.",
    )


def _has_only(owned: Partitions | None, current: Current) -> bool:
    if owned is None:
        return False
    return all(partitions <= current.assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())


def _return_to_place(draft: Draft, member_id: str, holder: str) -> Refusal | None:
    """Put a static member that joins in the place of the one that has its instance id."""
    former = draft.state.metadata[holder]
    current = draft.state.current_of(holder)
    if former.classic is None and current.epoch != STATIC_LEAVE_EPOCH:
        text = f"Instance id {former.instance_id} is in use by member {holder}, which has not left."
        return Refusal(Error.UNRELEASED_INSTANCE_ID, text)
    take_place(draft, member_id, holder)
    return None


def take_place(draft: Draft, member_id: str, holder: str) -> None:
    """Make a member of all that another one is and has, who is none from then on."""
    former, current = draft.state.metadata[holder], draft.state.current_of(holder)
    target = draft.state.targets.get(holder, {})
    _write_tombstones(draft, holder)
    draft.write(MemberRecord(draft.group_id, member_id, former))
    draft.write(TargetAssignment(draft.group_id, member_id, target))
    draft.write(CurrentAssignment(draft.group_id, member_id, replace(current, epoch=JOIN_EPOCH, previous_epoch=0)))
    draft.took_over = holder, known(member_id, former, draft.process)


def _write_tombstones(draft: Draft, member_id: str) -> None:
    draft.write(CurrentAssignment(draft.group_id, member_id))
    draft.write(TargetAssignment(draft.group_id, member_id))
    draft.write(MemberRecord(draft.group_id, member_id))


# -- going


def step_aside(draft: Draft, member_id: str) -> None:
    """A static member is away for a while: it keeps what is assigned to it, and gives up what it had to give back."""
    current = draft.state.current_of(member_id)
    nothing: Held = {}
    kept = held_at(current.assigned, 0)
    gone = replace(current, epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending=nothing)
    draft.write(CurrentAssignment(draft.group_id, member_id, gone))


def remove(draft: Draft, member_ids: Collection[str], reason: str, *, expels: bool = False) -> Refusal | None:
    """Take members out. The group's epoch rises once; the next heartbeat computes the target of those who are left.

    If only classic ones are left, the group becomes a classic group, if it may. Returns why nobody can go now. Those
    who are expelled always can.
    """
    state = draft.state
    gone = {member_id: state.metadata[member_id] for member_id in member_ids}
    draft.went = [known(*each) for each in gone.items()]
    draft.expels = expels
    downgraded = draft.downgrade(draft, gone, reason)
    if isinstance(downgraded, Refusal) and not expels:
        return downgraded
    if downgraded is True:
        return None
    for member_id in gone:
        _write_tombstones(draft, member_id)
    forget_unused(draft, {member.regex for member in gone.values()})
    raise_epoch(draft, draft.topics_hash(), Cause(reason, ",".join(gone), draft.went[0]))
    if not state.metadata:
        draft.write(AssignmentEpoch(draft.group_id, state.group_epoch))
    return None


def forget_unused(draft: Draft, regexes: Iterable[str]) -> None:
    """Remove what regular expressions were resolved to that no member has any more."""
    for regex in sorted(regexes):
        if regex and regex not in draft.state.regexes:
            draft.write(ResolvedRegex(draft.group_id, regex))


def raise_epoch(draft: Draft, metadata_hash: int, cause: Cause) -> None:
    """The group's target has to be computed anew."""
    draft.cause = cause
    draft.write(GroupEpoch(draft.group_id, draft.state.group_epoch + 1, metadata_hash))


def look_at_topics(draft: Draft, cause: Cause, *, must_raise: bool) -> None:
    """Raise the group's epoch if it has to be, or if topics that are subscribed to have changed."""
    if not must_raise and not draft.must_look_at_topics:
        return
    found = draft.topics_hash()
    if must_raise or found != draft.state.metadata_hash:
        raise_epoch(draft, found, cause)
    draft.has_looked_at_topics = True
    if draft.state.has_legacy_topics:
        draft.write(LegacyTopics(draft.group_id))
