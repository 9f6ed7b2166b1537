"""Another attempt after a retriable error, until a deadline (KIP-580): one helper for everything that waits for it.

Other places repeat things without waiting here: a peer and a lookup refuse until their backoff is over, a fetch and a
producer's batch carry the time of their next attempt, and a poll does again what the last one could not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Final, TypeVar

from actors.client.errors import KafkaError
from actors.client.net.backoff import Backoff

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

NEVER_MS: Final = 1 << 62
"""The deadline of retries that somebody else ends."""


class Retries:
    """The attempts at one thing. `now_ms` and `deadline_ms` are monotonic milliseconds."""

    def __init__(self, backoff: Backoff, now_ms: Callable[[], int], deadline_ms: int = NEVER_MS) -> None:
        self._backoff = backoff
        self._now_ms = now_ms
        self._deadline_ms = deadline_ms
        self._failures = 0

    async def pause(self) -> bool:
        """Wait after a failed attempt, longer after each. False, at once, if the wait would reach the deadline."""
        delay_ms = self._next_delay_ms()
        if self._now_ms() + delay_ms >= self._deadline_ms:
            return False
        await asyncio.sleep(delay_ms / 1000)
        return True

    async def pause_to_deadline(self, first_ms: int | None = None) -> bool:
        """As `pause`, but the last wait is cut short, for an attempt at the deadline. False, at once, after that.

        `first_ms`: the first wait, instead of the backoff's.
        """
        delay_ms = self._next_delay_ms()
        if first_ms is not None and self._failures == 1:
            delay_ms = first_ms
        left_ms = self._deadline_ms - self._now_ms()
        if left_ms <= 0:
            return False
        await asyncio.sleep(min(delay_ms, left_ms) / 1000)
        return True

    def _next_delay_ms(self) -> int:
        self._failures += 1
        return self._backoff.delay_ms(self._failures)

    async def until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The first result of `attempt`. Raises its first error that is not retriable, or the last in time."""
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.retriable or not await self.pause():
                    raise

    async def until_each_done(
        self, things: Iterable[K], ask: Callable[[list[K]], Awaitable[Mapping[K, T | KafkaError]]]
    ) -> dict[K, T | KafkaError]:
        """Call `ask` for all things, and again for those with a retriable error. The last outcome of each thing."""
        left, outcomes = list(dict.fromkeys(things)), dict[K, T | KafkaError]()
        while left:
            outcomes |= await ask(left)
            left = [each for each in left if isinstance(e := outcomes.get(each), KafkaError) and e.retriable]
            if not left or not await self.pause():
                break
        return outcomes
