"""The check of the rights that a client's request needs. Each handler asks here, before it looks at what exists.

Without an authorizer everybody has all rights, and nothing is asked. Names are compared, never looked up: what a client
may not see is answered the same whether it exists or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    Right,
)
from actors.security.acl import CLUSTER_NAME, ResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage
from actors.wire.operations import NOT_ASKED

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of who lacks a right on a resource."""


def may(context: HandlerContext, request: Request, right: Right, name: str = CLUSTER_NAME) -> bool:
    """True if the client has this right on the resource of this name. A denial is logged."""
    allows = context.broker.authorizer.allows
    return allows(request.connection, right.operation, right.resource, name, request.header.api_key)


def would(context: HandlerContext, request: Request, right: Right, name: str = CLUSTER_NAME) -> bool:
    """As `may`, where nothing is denied: something is left out, or another right will do as well."""
    return context.broker.authorizer.would_allow(request.connection, right.operation, right.resource, name)


def denied(context: HandlerContext, request: Request, right: Right, names: Iterable[str | None]) -> Collection[str]:
    """The resources among these names that the client has not this right on. Nobody is denied a None."""
    return _without(may, context, request, right, names)


def hidden(context: HandlerContext, request: Request, right: Right, names: Iterable[str | None]) -> Collection[str]:
    """As `denied`, where nothing is denied: what is not to be shown."""
    return _without(would, context, request, right, names)


def _without(
    has: Callable[[HandlerContext, Request, Right, str], bool],
    context: HandlerContext,
    request: Request,
    right: Right,
    names: Iterable[str | None],
) -> Collection[str]:
    if not context.broker.authorizer.checks:  # names may be many
        return ()
    return {name for name in dict.fromkeys(names) if name is not None and not has(context, request, right, name)}


def sees_all_topics(context: HandlerContext, request: Request) -> bool:
    """True if it is certain that no topic is hidden from a client, so that names need not be looked at."""
    return context.broker.authorizer.allows_all_topics(request.connection, DESCRIBE_TOPIC.operation)


def not_creatable(context: HandlerContext, request: Request, names: Iterable[str]) -> Collection[str]:
    """The topics among these that the client may not create: it needs a right on the cluster, or on the topic."""
    if would(context, request, CREATE_CLUSTER):
        return ()
    return denied(context, request, CREATE_TOPIC, names)


def may_produce_anything(context: HandlerContext, request: Request) -> bool:
    """True if the client may be an idempotent producer: a right on the cluster, or on any topic (KIP-679)."""
    authorizer = context.broker.authorizer
    return authorizer.allows_any_topic(request.connection, WRITE_TOPIC.operation) or may(
        context, request, IDEMPOTENT_WRITE
    )


def operations(context: HandlerContext, request: Request, resource_type: ResourceType, name: str) -> int:
    """The client's allowed operations on a resource, as a bit field."""
    return context.broker.authorizer.operations(request.connection, resource_type, name)


def cluster_operations(context: HandlerContext, request: Request, asked: bool) -> int:
    """The client's allowed operations on the cluster, if it asks.

    A client that may not describe the cluster is told nothing: 0.
    """
    if not asked:
        return NOT_ASKED
    if not would(context, request, DESCRIBE_CLUSTER):
        return 0
    return operations(context, request, ResourceType.CLUSTER, CLUSTER_NAME)


Handle = Callable[[HandlerContext, Request], ApiMessage | None]


def guarded(handle: Handle, failed: Callable[..., ApiMessage], right: Right) -> Handle:
    """A handler that refuses the whole request of who lacks a right on the cluster."""

    def checked(context: HandlerContext, request: Request) -> ApiMessage | None:
        if may(context, request, right):
            return handle(context, request)
        return failed(request.message, request.version, DENIED[right.resource])

    return checked
