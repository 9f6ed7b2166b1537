"""Changes of topics against a client's quota for them (KIP-599)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from actors.broker.handlers.context import HandlerContext, Request

EXCEEDED: Final = "the client changes topics faster than its controller_mutation_rate allows: try again later"


def charge(
    context: HandlerContext, request: Request, strict_from: int, costs: Mapping[int, int]
) -> tuple[Collection[int], int]:
    """Have a client pay for changes, by their places, in partitions.

    Returns the refused places; and the throttle time in ms.

    Clients of versions before `strict_from` do not know the error, and are throttled only.
    """
    quotas = context.broker.quotas
    strict = request.version >= strict_from
    return quotas.mutated(request.connection, request.header.client_id, costs, strict=strict)
