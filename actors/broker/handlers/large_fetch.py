"""A fetch of so many partitions that a look at all of them would hold up the broker's loop.

It is tried as any other (fetch.py), but a piece of its partitions at a time, and waits for records as any other. Until
it is answered nothing more is read from its client: it is a single one of a connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from actors.broker.fetches import Key, ParkedFetch
from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, FetchResponse

log = logging.getLogger(__name__)


class Fetch(Protocol):
    """The fetch to be answered."""

    def attempt_in_pieces(self, last: bool) -> Generator[None, None, FetchResponse | None]:
        """Look at the partitions. The response; None if there is too little and this is not the last try."""

    def partitions(self) -> list[Key]:
        """The partitions that the fetch waits for."""


class LargeFetch:
    """One request. An attempt may take many turns of the loop, in which more records come, or its time ends."""

    def __init__(
        self, context: HandlerContext, request: Request, fetch: Fetch, failed: Callable[..., ApiMessage]
    ) -> None:
        self._broker = context.broker
        self._request = request
        self._fetch = fetch
        self._failed = failed
        self._parked: ParkedFetch | None = None
        self._trying = False
        self._again = False
        self._last = False

    def begin(self, wait_ms: int) -> None:
        """Try it for the first time, from the next turn on; it may wait for so long."""
        self._request.connection.hold()
        if wait_ms > 0:
            self._parked = ParkedFetch(self._retry, self._fetch.partitions(), self._request.connection)
            self._broker.fetches.park(self._parked, wait_ms)
        self._retry(last=wait_ms <= 0)

    def _retry(self, last: bool) -> bool:
        """Something has come, or the time is over. It is not answered at once."""
        self._last |= last
        if self._trying:
            self._again = True
        else:
            self._trying = True
            self._broker.turns.begin(self._tries(), self._request.connection, self._request.header.client_id)
        return False

    def _tries(self) -> Iterator[None]:
        connection = self._request.connection
        answer: ApiMessage | None = None
        while answer is None:
            self._again, last = False, self._last
            attempt = self._fetch.attempt_in_pieces(last)
            while True:
                if connection.transport is None:
                    return
                try:
                    next(attempt)
                except StopIteration as done:
                    answer = done.value
                    break
                except Exception:  # a bug: the connection is held until there is an answer
                    log.exception("a large fetch failed")
                    answer = self._failed(self._request.message, self._request.version, ErrorCode.UNKNOWN_SERVER_ERROR)
                    break
                yield
            if answer is None and not self._again:
                self._trying = False
                return
        if self._parked is not None:
            self._broker.fetches.end(self._parked)
        self._request.reply(answer)
        self._broker.loop.call_soon(connection.release)  # that has more handled, which is not for this request's time
