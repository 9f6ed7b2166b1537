"""The brokers that the cluster is to have, and the starts of their processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actors.controller.sessions import Launcher


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a broker did not start `last`, and the time `since` when it has failed each time (of the loop)."""

    reason: str
    since: float
    last: float


class Starts:
    """The brokers that are wanted, and those whose processes are on their way.

    `is_missing` says whether one is wanted and not here; none is while the controller stops.
    """

    def __init__(self, launcher: Launcher, loop: asyncio.AbstractEventLoop, is_missing: Callable[[int], bool]) -> None:
        self.wanted: set[int] = set()
        self.starting: set[int] = set()  # on their way: neither here nor lost
        self.failures: dict[int, Failure] = {}  # of brokers that have not registered since
        self._launcher = launcher
        self._loop = loop
        self._is_missing = is_missing
        self._recent: dict[int, list[float]] = {}  # the times at which each was started again, in the last minute

    def begin(self, broker_ids: Iterable[int]) -> None:
        """Start brokers of which none runs."""
        for broker_id in broker_ids:
            self.starting.add(broker_id)
            self._launcher.start_broker(broker_id)

    def again(self, broker_id: int, at_least_s: float = 0.0) -> None:
        """Start a broker again, after `at_least_s`. If it keeps dying, the pauses grow."""
        now = self._loop.time()
        recent = [at for at in self._recent.get(broker_id, []) if now - at < 60.0]
        self._recent[broker_id] = [*recent, now]
        delay = 0.0 if len(recent) < 3 else min(0.5 * 2 ** (len(recent) - 3), 30.0)
        self.starting.add(broker_id)
        self._launcher.kill_broker(broker_id)
        self._loop.call_later(max(delay, at_least_s), self._start_if_missing, broker_id)

    def failed(self, broker_id: int, reason: str) -> None:
        """A broker's process ended before it registered, or could not begin."""
        self.starting.discard(broker_id)
        known, now = self.failures.get(broker_id), self._loop.time()
        self.failures[broker_id] = Failure(reason, now if known is None else known.since, now)

    def forgive(self, broker_id: int) -> None:
        """Failures from before no longer count: the broker has registered, or a person has it started again."""
        self.failures.pop(broker_id, None)

    def want_no_more(self, broker_id: int) -> None:
        """The broker was removed: it is not started again."""
        self.wanted.discard(broker_id)
        self.starting.discard(broker_id)
        self.forget(broker_id)

    def forget(self, broker_id: int) -> None:
        """The next start of this broker has no pause before it."""
        self._recent.pop(broker_id, None)

    def _start_if_missing(self, broker_id: int) -> None:
        if self._is_missing(broker_id):
            self._launcher.start_broker(broker_id)
