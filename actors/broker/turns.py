"""Long work for clients: a piece of it in each turn of the broker's loop, so that others are served meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from actors.broker.connections.connection import Connection
from actors.broker.quotas import NoQuotas, Quotas

log = logging.getLogger(__name__)

Step: TypeAlias = "asyncio.Future[Any] | None"
"""After a piece of work: what the next one waits for, or None if that can be done in the next turn."""

PIECE_SECONDS: Final = 0.004
"""The time that a piece of work may take whose parts differ much, by the clock."""

PLACES_A_TURN: Final = 1000
"""The number of partitions, or of other parts that take as long, in a piece of work: some milliseconds."""


_Work: TypeAlias = tuple[Iterator[Step], Connection, str | None]


class Turns:
    """The work under way. In each turn of the loop one piece is done, and all that want one take turns.

    The time of a piece is its client's, if that has a `request_percentage`. `clock` goes on while the loop's stands.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, quotas: Callable[[], Quotas | NoQuotas], clock: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._quotas = quotas
        self._clock = clock
        self._waiting: deque[_Work] = deque()
        self._going = False

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, work: Iterator[Step], connection: Connection, client_id: str | None, first: Step = None) -> None:
        """Do this work of a client, which yields after each piece, from the next turn on, or when `first` is done."""
        self._continue((work, connection, client_id), first)

    def _continue(self, work: _Work, step: Step) -> None:
        if step is not None:
            step.add_done_callback(lambda _: self._continue(work, None))
            return
        self._waiting.append(work)
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._going:
            self._going = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._going = False
        work, connection, client_id = self._waiting.popleft()
        quotas = self._quotas()
        charged = quotas.have_time and quotas.time_begins(connection, client_id, self._clock)
        try:
            self._continue((work, connection, client_id), next(work))
        except StopIteration:
            pass
        except Exception:  # the others go on
            log.exception("a piece of work")
        if charged:
            quotas.time_ends(connection)
        self._go_on()
