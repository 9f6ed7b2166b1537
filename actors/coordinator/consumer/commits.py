"""The checks of a member's commits and fetches of a consumer group's offsets.

A commit that was sent before the member's last epoch is good for what the member has held since then; it is taken or
refused as a whole. A fetch has to have the member's epoch.
"""

from __future__ import annotations

from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.topics import TopicImage
from actors.coordinator.consumer.values import Current
from actors.coordinator.errors import Error
from actors.coordinator.groups.messages import OffsetCommitRequest, partition_numbers

FIRST_VERSION = 9
"""Of OffsetCommit, that a member of the new protocol may use."""


def check_commit(state: ConsumerState, request: OffsetCommitRequest, image: TopicImage | None) -> Error:
    """The error of a commit, which is that of all its partitions; NONE if it is allowed."""
    epoch, member = request.generation_id, state.metadata.get(request.member_id)
    if epoch < 0 and not state.metadata:
        return Error.NONE
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if member.classic is None and request.api_version < FIRST_VERSION:
        return Error.UNSUPPORTED_VERSION
    current = state.current_of(request.member_id)
    if epoch == current.epoch or (epoch < current.epoch and _has_held(current, request, image)):
        return Error.NONE
    return Error.STALE_MEMBER_EPOCH if member.classic is None else Error.ILLEGAL_GENERATION


def _has_held(current: Current, request: OffsetCommitRequest, image: TopicImage | None) -> bool:
    """True if the member has held every partition since the epoch that the request names."""
    for each in request.topics:
        topic = None if image is None else image.named(each.topic)
        if topic is None:
            return False
        held = {**current.pending.get(topic.topic_id, {}), **current.assigned.get(topic.topic_id, {})}
        for partition in partition_numbers(each.partitions.indexes):
            since = held.get(partition)
            if since is None or since > request.generation_id:
                return False
    return True


def check_fetch(state: ConsumerState, member_id: str | None, member_epoch: int) -> Error:
    """The error of a fetch; one that names nobody is allowed to all."""
    if member_id is None and member_epoch < 0:
        return Error.NONE
    member = state.metadata.get(member_id or "")
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if member_epoch == state.current_of(member_id or "").epoch:
        return Error.NONE
    return Error.STALE_MEMBER_EPOCH if member.classic is None else Error.ILLEGAL_GENERATION
