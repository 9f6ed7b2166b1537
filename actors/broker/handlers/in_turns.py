"""Requests that may be about so much that handling one would hold up the broker's loop: they are handled in pieces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.turns import Step
from actors.runtime.logs import about
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage

log = logging.getLogger(__name__)

Work: TypeAlias = Generator[Step, None, ApiMessage | None]
"""Yields after each piece, and returns the answer; None if that comes later still, in another way.

It yields None, or a future that has to be done before it goes on: of a job in a thread.
"""


def in_turns(
    context: HandlerContext,
    request: Request,
    work: Work,
    failed: Callable[..., ApiMessage],
    *,
    to_the_end: bool = False,
) -> ApiMessage | None:
    """The answer, if the first piece is all; else None, and the answer comes later.

    Until then nothing more is read from the client, so that its requests are handled one after the other as ever.
    `failed` makes the answer if a later piece raises. `to_the_end`: also if the client has gone meanwhile.
    """
    try:
        step = next(work)
    except StopIteration as done:
        answer: ApiMessage | None = done.value
        return answer
    request.connection.hold()
    broker = context.broker
    rest = _rest(broker.loop, request, work, failed, to_the_end)
    broker.turns.begin(rest, request.connection, request.header.client_id, step)
    return None


def _rest(
    loop: asyncio.AbstractEventLoop,
    request: Request,
    work: Work,
    failed: Callable[..., ApiMessage],
    to_the_end: bool,
) -> Iterator[Step]:
    connection = request.connection
    answer: ApiMessage | None = None
    try:
        while to_the_end or connection.transport is not None:
            try:
                yield next(work)
            except StopIteration as done:
                answer = done.value
                break
        if answer is not None:
            request.reply(answer)
    except Exception:  # a bug of the API's handler: the connection has to be released
        key, peer = request.header.api_key, connection.peer
        log.exception("API %d from %s failed", key, peer, extra=about(peer=peer))
        _give_up(request, failed)
    loop.call_soon(connection.release)  # that has more handled, which is not for this request's time


def _give_up(request: Request, failed: Callable[..., ApiMessage]) -> None:
    """After a bug: answer with an error, or close the connection of a client that waits for no answer."""
    if request.slot is None:
        request.connection.close("a request that is not answered failed")
    else:
        request.reply(failed(request.message, request.version, ErrorCode.UNKNOWN_SERVER_ERROR))
