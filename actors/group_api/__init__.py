"""The requests that a coordinator shard answers, one file for each API.

`parse` turns Kafka's message into the coordinator's request, `answer` the coordinator's response into Kafka's.
"""

from __future__ import annotations

from types import ModuleType

from actors.group_api import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from actors.group_api.topics import Topics
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import RequestHeader, encode_response
from actors.wire.messages import ApiMessage, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

__all__ = [
    "MODULES",
    "Topics",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "decode",
    "delete_groups",
    "describe_groups",
    "error_answer",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "sync_group",
]

MODULES: dict[int, ModuleType] = {
    module.API.api_key: module
    for module in (
        offset_commit,
        offset_fetch,
        join_group,
        heartbeat,
        leave_group,
        sync_group,
        describe_groups,
        list_groups,
        delete_groups,
        offset_delete,
        consumer_group_heartbeat,
        consumer_group_describe,
    )
}


class _AnyTopics(Topics):
    """Topics of which all exist, so that an error of the group is answered for every partition."""

    def __init__(self, message: ApiMessage) -> None:
        super().__init__()
        for topic in getattr(message, "topics", None) or ():
            name = topic.name or getattr(topic, "topic_id", b"").hex()
            topic_id = getattr(topic, "topic_id", b"")
            self.add(name, topic_id if any(topic_id) else b"", 1 << 31)


def decode(header: RequestHeader, frame: bytes) -> ApiMessage:
    """The request in a frame. Raises WireError if it is malformed or of a version not served."""
    module = MODULES[header.api_key]
    first, last = module.VERSIONS
    if not first <= header.api_version <= last:
        raise WireError(f"{module.API.__name__} v{header.api_version} is not served ({first} to {last} are)")
    message: ApiMessage = module.API.decode(frame, header.api_version, header.body_offset)
    return message


def error_answer(header: RequestHeader, frame: bytes, code: ErrorCode) -> bytes:
    """The whole response frame that says `code` to the group request in `frame`, without asking any shard."""
    message = decode(header, frame)
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        if isinstance(message, JoinGroupRequest):
            message.member_id = ""  # as in Kafka, where other errors repeat it
        elif isinstance(message, SyncGroupRequest) and not sync_group.names_protocol(message, header.api_version):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # Kafka looks at this first
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # As a shard that loads would: heartbeats succeed, and a member that syncs is sent back to join.
        if isinstance(message, HeartbeatRequest):
            code = ErrorCode.NONE
        elif isinstance(message, SyncGroupRequest):
            code = ErrorCode.REBALANCE_IN_PROGRESS
    module = MODULES[header.api_key]
    topics = _AnyTopics(message)
    request = module.parse(header, message, "", topics)
    response = None if request is None else request.refused(int(code))
    return encode_response(
        module.answer(message, response, header.api_version, topics), header.api_version, header.correlation_id
    )
