"""Requests of groups on their way to shards, where ACLs are checked: what a client may not do is answered here.

The front door asks for each such request, before it is a shard's, unless it knows of this connection that it may do the
same with every group and topic, by the ACLs that are in force (super users, and who has ACLs for all of them and no
denial). Of others it is noted which groups they may use, so that a heartbeat is judged once.

Topics are judged here, too, and not in the shards: the broker has the ACLs and knows the client, so that shards need
neither, and need not be told of changes. It costs those nothing who may do the same with every topic: their requests go
on as they came. Of other clients, a commit is read here as columns and a second time in its shard; only if a topic is
denied is it made anew, without that topic (`judged_offsets.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.broker.authorization import Authorization
from actors.broker.connection import Connection
from actors.broker.handlers import judged_offsets
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.registry import APIS
from actors.broker.handlers.rights import DESCRIBE_TOPIC, READ_TOPIC, Right
from actors.group_api import error_answer
from actors.security.acl import ResourceType
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader, decode_request_header

_Judge = Callable[[HandlerContext, Request, bytes], bool]

_OF_GROUP: Final = {
    int(key): next(right for right in api.rights if right.resource is ResourceType.GROUP)
    for key, api in APIS.items()
    if api.kind is not None
}
"""The right on the group that each request needs."""
_OF_TOPICS: Final[dict[int, tuple[Right, _Judge]]] = {
    ApiKey.OFFSET_COMMIT: (READ_TOPIC, judged_offsets.commit),
    ApiKey.OFFSET_FETCH: (DESCRIBE_TOPIC, judged_offsets.fetch),
    ApiKey.OFFSET_DELETE: (READ_TOPIC, judged_offsets.delete),
}
"""The requests that name topics, too: the right on each topic, and what judges them."""


def answers(
    context: HandlerContext, authorizer: Authorization, connection: Connection, api_key: int, frame: bytes, group: bytes
) -> bool:
    """Whether a request about one group is answered here, now or later. If not, it may go to the group's shard."""
    if connection.cleared.get((api_key, group)) is authorizer.edition:
        return False
    right = _OF_GROUP[api_key]
    if not authorizer.allows(connection, right.operation, right.resource, group.decode(), api_key):
        _refuse(connection, decode_request_header(frame), frame)
        return True
    if api_key in _OF_TOPICS:
        of_topics, judge = _OF_TOPICS[api_key]
        if not authorizer.allows_all_topics(connection, of_topics.operation):
            return judge(context, Request(decode_request_header(frame), None, connection, None), frame)
    authorizer.clear(connection, right.operation, api_key, group)
    return False


def _refuse(connection: Connection, header: RequestHeader, frame: bytes) -> None:
    answer = error_answer(header, frame, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    connection.slots.open(0, header.api_key, header.api_version, header.correlation_id).finish(answer)
