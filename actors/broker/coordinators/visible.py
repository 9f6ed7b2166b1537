"""The topics that a client may see, for a shard that has found them by a client's regular expression.

Shards know no ACLs. They send the names that they have found to the broker, which leaves out those that the client may
not describe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.broker.authorization import AllowAll, Authorization
from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import ShardLink
from actors.broker.turns import PLACES_A_TURN
from actors.links.known_topics import TopicNames
from actors.links.relay import PAYLOADS, Kind
from actors.security.acl import AclOperation, ResourceType

_TOPIC: Final = ResourceType.TOPIC


class VisibleTopics:
    """Answers the shards' questions by the ACLs that are in force."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def asked(self, link: ShardLink, connection_id: int, question: int, payload: bytes) -> None:
        """A shard asks for a client. If that one has gone, nobody knows what it might have seen."""
        connection, authorizer = link.opened.get(connection_id), self._context.authorizer
        if connection is None:
            link.protocol.send(Kind.VISIBLE, 0, question, b"")
        elif authorizer.allows_all_topics(connection, AclOperation.DESCRIBE):
            link.protocol.send(Kind.VISIBLE, 0, question, payload)
        else:
            names = PAYLOADS.read(TopicNames, payload).names
            self._context.turns.begin(_judged(link, authorizer, connection, question, names), connection, None)


def _judged(
    link: ShardLink, authorizer: Authorization | AllowAll, connection: Connection, question: int, names: tuple[str, ...]
) -> Iterator[None]:
    """Answer the question, after some of the names in each turn of the loop."""
    seen: list[str] = []
    for first in range(0, len(names), PLACES_A_TURN):
        piece = names[first : first + PLACES_A_TURN]
        seen += [each for each in piece if authorizer.would_allow(connection, AclOperation.DESCRIBE, _TOPIC, each)]
        yield
    has_gone = link.opened.get(connection.id) is not connection
    link.protocol.send(Kind.VISIBLE, 0, question, b"" if has_gone else PAYLOADS.encode(TopicNames(tuple(seen))))
