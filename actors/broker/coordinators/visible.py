"""Which topics a client may see, for a shard that has found them by a client's regular expression.

Shards know no ACLs. What they have found goes to the broker, which leaves out what the client may not describe.
"""

from __future__ import annotations

from actors.broker.authorization import Authorization
from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import ShardLink
from actors.links.known_topics import TopicNames
from actors.links.relay import PAYLOADS, Kind
from actors.security.acl import AclOperation, ResourceType


class VisibleTopics:
    """Answers the shards' questions by the ACLs that are in force."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def asked(self, link: ShardLink, connection_id: int, question: int, payload: bytes) -> None:
        """A shard asks for a client. If that one has gone, nobody knows what it might have seen."""
        connection = link.opened.get(connection_id)
        if connection is None:
            link.protocol.send(Kind.VISIBLE, 0, question, b"")
            return
        authorizer = self._context.authorizer
        if authorizer is not None:
            names = PAYLOADS.read(TopicNames, payload).names
            payload = PAYLOADS.encode(TopicNames(_seen(authorizer, connection, names)))
        link.protocol.send(Kind.VISIBLE, 0, question, payload)


def _seen(authorizer: Authorization, connection: Connection, names: tuple[str, ...]) -> tuple[str, ...]:
    operation, kind = AclOperation.DESCRIBE, ResourceType.TOPIC
    if authorizer.allows_all_topics(connection, operation):
        return names
    return tuple(name for name in names if authorizer.would_allow(connection, operation, kind, name))
