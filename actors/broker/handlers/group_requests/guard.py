"""Requests on their way to shards, where ACLs are checked: what a client may not do is answered here.

`entrance/routing` asks for each such request, before it is a shard's, unless it knows of this connection that it may
do the same with every group and topic, by the ACLs that are in force (super users, and who has ACLs for all of them and
no denial). Of others it is noted which groups they may use, so that a heartbeat is judged once.

Topics are judged here, too, and not in the shards: the broker has the ACLs and knows the client, so that shards need
neither, and need not be told of changes. It costs those nothing who may do the same with every topic: their requests go
on as they came. The request of another client is decoded, once. If it may have all that it asks for, its frame goes on;
else what is left of it is asked of the shard, and the answers are merged (`cutting.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actors.broker.authorization import AllowAll, Authorization
from actors.broker.connections.connection import Connection
from actors.broker.handlers.authorization import DENIED
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests import consumer_groups, offset_commit, offset_delete, offset_fetch
from actors.broker.handlers.group_requests.cutting import Cut
from actors.broker.handlers.registry import Api
from actors.broker.handlers.rights import DESCRIBE_TOPIC, READ_TOPIC, Right
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.wire.api_keys import ApiKey
from actors.wire.framing import decode_request_header
from actors.wire.messages import (
    ApiMessage,
    ConsumerGroupHeartbeatRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from actors.wire.offset_columns import OffsetCommitColumns


@dataclass(frozen=True, slots=True)
class _Topics:
    """A request that names topics, too."""

    right: Right
    """On each topic."""
    message: type[ApiMessage]
    cut: Callable[[HandlerContext, Request], Cut | None]
    """Cuts a request that was decoded; None if it may go to its shard as it came."""


_OF_TOPICS: Final[dict[int, _Topics]] = {
    ApiKey.OFFSET_COMMIT: _Topics(READ_TOPIC, OffsetCommitColumns, offset_commit.cut),
    ApiKey.OFFSET_FETCH: _Topics(DESCRIBE_TOPIC, OffsetFetchRequest, offset_fetch.cut),
    ApiKey.OFFSET_DELETE: _Topics(READ_TOPIC, OffsetDeleteRequest, offset_delete.cut),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _Topics(DESCRIBE_TOPIC, ConsumerGroupHeartbeatRequest, consumer_groups.cut),
}


def answers(
    context: HandlerContext,
    authorizer: Authorization | AllowAll,
    connection: Connection,
    api: Api,
    frame: bytes,
    key: bytes,
) -> bool:
    """True if a request about one key is answered here, now or later. If not, it may go to the key's shard."""
    api_key = int(api.key)
    if connection.cleared.get((api_key, key)) is authorizer.edition:
        return False
    assert api.names is not None, "others go to no shard as they came"
    right = api.names.right
    if not authorizer.allows(connection, right.operation, right.resource, key.decode(), api_key):
        _refuse(connection, api.names.kind, frame)
        return True
    topics = _OF_TOPICS.get(api_key)
    if topics is not None and not authorizer.allows_all_topics(connection, topics.right.operation):
        return _is_cut(context, connection, topics, frame)
    authorizer.clear(connection, right.operation, right.resource, api_key, key)
    return False


def _is_cut(context: HandlerContext, connection: Connection, topics: _Topics, frame: bytes) -> bool:
    header = decode_request_header(frame)
    message = topics.message.decode(frame, header.api_version, header.body_offset)
    request = Request(header, message, connection, None)
    cut = topics.cut(context, request)
    if cut is None:
        return False
    request.slot = connection.slots.open(0, header.api_key, header.api_version, header.correlation_id)
    cut.ask(context, request)
    return True


def _refuse(connection: Connection, kind: CoordinatorKind, frame: bytes) -> None:
    header = decode_request_header(frame)
    answer = kind.requests.error_answer(header, frame, DENIED[kind.resource])
    connection.slots.open(0, header.api_key, header.api_version, header.correlation_id).finish(answer)
