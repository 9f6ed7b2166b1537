"""The faults of a ConsumerGroupHeartbeat by itself, whatever its group is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest, Refusal
from actors.coordinator.consumer.values import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from actors.coordinator.errors import Error
from actors.coordinator.record_fields import fits

NAMES_MAX: Final = 50_000
"""The most topics that a member may name. A record has no room for many more, and all that time others wait."""


def check(request: ConsumerGroupHeartbeatRequest, assignors: Sequence[str]) -> Refusal | None:
    """The reason why a heartbeat is refused; None if it is not."""
    wrong = _ids(request) or (_join(request) if request.member_epoch == JOIN_EPOCH else _epoch(request))
    if wrong:
        return Refusal(Error.INVALID_REQUEST, wrong)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = f"ServerAssignor {request.server_assignor} is not one of: {', '.join(assignors)}."
        return Refusal(Error.UNSUPPORTED_ASSIGNOR, text)
    return None


def _ids(request: ConsumerGroupHeartbeatRequest) -> str:
    needs_member_id = request.api_version >= 1 or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    if needs_member_id and _is_blank(request.member_id):
        return "MemberId is empty."
    if _is_blank(request.group_id):
        return "GroupId is empty."
    if request.instance_id is not None and _is_blank(request.instance_id):
        return "InstanceId is empty."
    if request.rack_id is not None and _is_blank(request.rack_id):
        return "RackId is empty."
    if names_too_many(request.subscribed_topic_names):
        return f"SubscribedTopicNames has more than {NAMES_MAX} names."
    return "" if _fits(request) else "A text is longer than 32,767 bytes."


def names_too_many(names: Sequence[str] | None) -> bool:
    """True if a member names more topics than it may."""
    return names is not None and len(names) > NAMES_MAX


def _is_blank(text: str) -> bool:
    return not text.strip()


def _fits(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if the texts that stand in records' keys fit there."""
    return fits(request.group_id, request.member_id, request.subscribed_topic_regex)


def _join(request: ConsumerGroupHeartbeatRequest) -> str:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs has to be given to join."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions has to be given, and empty, to join."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "SubscribedTopicNames or SubscribedTopicRegex has to be given to join."
    return ""


def _epoch(request: ConsumerGroupHeartbeatRequest) -> str:
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId has to be given to leave for a while."
    if request.member_epoch < STATIC_LEAVE_EPOCH:
        return f"MemberEpoch is {request.member_epoch}."
    return ""
