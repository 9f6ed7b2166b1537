"""The meaning of each answer to a heartbeat: a table of error codes.

A refusal is one of five things (`Meaning`). The member's parts act on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from actors.client.error_codes import error_for
from actors.client.errors import KafkaError, UnsupportedVersionError
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import ConsumerGroupHeartbeatResponse


class Meaning(Enum):
    """The meaning of an answer for the member."""

    DONE = "the heartbeat counts"
    MOVED = "another broker is the coordinator: look for it, and send the heartbeat there at once"
    LATER = "the same heartbeat again, after a backoff"
    DENIED = "as LATER, and the program has to know"
    OUT = "the coordinator has expelled the member: it may join again"
    NEVER = "the group will not have this member"


MEANINGS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        Code.NONE: Meaning.DONE,
        Code.NOT_COORDINATOR: Meaning.MOVED,
        Code.COORDINATOR_NOT_AVAILABLE: Meaning.MOVED,
        Code.COORDINATOR_LOAD_IN_PROGRESS: Meaning.LATER,
        Code.TOPIC_AUTHORIZATION_FAILED: Meaning.DENIED,
        Code.FENCED_MEMBER_EPOCH: Meaning.OUT,
        Code.UNKNOWN_MEMBER_ID: Meaning.OUT,
    }
)
"""All other codes mean NEVER."""

OF_THE_PROTOCOL: Final = (Code.UNSUPPORTED_VERSION, Code.GROUP_ID_NOT_FOUND)
"""The group has no members of this protocol, or no longer."""

_NOT_SERVED: Final = (
    "the broker does not serve the consumer protocol (KIP-848), or not what this member needs of it. Have it served "
    "(the feature group.version, and group.coordinator.rebalance.protocols), or take group_protocol='classic'"
)


def meaning_of(code: int) -> Meaning:
    """The meaning of an answer with this error code."""
    return MEANINGS.get(code, Meaning.NEVER)


def refusal(response: ConsumerGroupHeartbeatResponse, group_id: str) -> KafkaError:
    """The error for an answer that refuses a heartbeat."""
    detail = response.error_message
    if response.error_code == Code.UNSUPPORTED_VERSION:
        detail = _NOT_SERVED
    return error_for(response.error_code, f"heartbeat of group {group_id}", detail)


def unanswered(error: KafkaError, group_id: str) -> KafkaError:
    """The error for a heartbeat that could not be sent."""
    if isinstance(error, UnsupportedVersionError):
        return UnsupportedVersionError(f"heartbeat of group {group_id}: {error}: {_NOT_SERVED}")
    return error
