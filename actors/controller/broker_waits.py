"""Programs that wait for brokers: until they serve, are back, or cannot start. All of it on the controller's loop.

Nobody asks again and again: whatever may have changed the answer says so (`look`), and those that wait look then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from actors.controller.starts import Starts

FAILING_SECONDS: Final = 5.0
"""A broker may try to start for so long before its failure is reported."""


class BrokerWaits:
    """Waits for the brokers in `starts`. `see` is the folder of logs that an error names."""

    def __init__(self, loop: asyncio.AbstractEventLoop, starts: Starts) -> None:
        self._loop = loop
        self._starts = starts
        self._waiting: set[asyncio.Future[None]] = set()

    def look(self) -> None:
        """Brokers may serve now, or have failed to start."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def until_ready(
        self,
        broker_ids: Collection[int],
        ready: Callable[[], bool],
        is_starting: Callable[[], bool],
        timeout_s: float,
        see: str,
    ) -> None:
        """Wait until brokers that are started for the first time are `ready`.

        Raises RuntimeError with the reason if one of them fails to start, or once `timeout_s` has passed since the last
        time at which any process was starting: those have deadlines of their own.
        """
        deadline = self._loop.time() + timeout_s
        while not ready():
            reasons = [self._starts.failures[each].reason for each in broker_ids if each in self._starts.failures]
            if reasons:
                raise RuntimeError(reasons[0])
            if is_starting():
                deadline = self._loop.time() + timeout_s
            elif self._loop.time() > deadline:
                raise RuntimeError(f"the brokers did not come up within {timeout_s:.0f} s; see {see}")
            await self._news(deadline)

    async def until_back(
        self,
        broker_id: int,
        is_back: Callable[[], bool],
        timeout_s: float,
        see: str,
        failing_s: float = FAILING_SECONDS,
    ) -> None:
        """Wait until a broker `is_back` that is started again.

        Raises RuntimeError with the reason if it fails to start again and again for `failing_s`, or once `timeout_s`
        has passed. A single failure is none: Ray may not have noticed yet that a node has ended.
        """
        deadline = self._loop.time() + timeout_s
        while not is_back():
            failure = self._starts.failures.get(broker_id)
            if failure is not None and failure.last - failure.since > failing_s:
                raise RuntimeError(f"broker {broker_id} does not start: {failure.reason}")
            if self._loop.time() > deadline:
                raise RuntimeError(f"broker {broker_id} did not come back within {timeout_s:.0f} s; see {see}")
            await self._news(deadline)

    async def _news(self, until: float) -> None:
        """Wait for the next `look`, or a little longer than until this time of the loop."""
        news = self._loop.create_future()
        timer = self._loop.call_at(until + 0.001, lambda: None if news.done() else news.set_result(None))
        self._waiting.add(news)
        try:
            await news
        finally:
            timer.cancel()
            self._waiting.discard(news)
