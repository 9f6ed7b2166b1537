"""The thread that has the Monitor's history: SQLite blocks, and the loop must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from actors.links.views import Event, LagPoint, RebalanceView
from actors.monitor.history import History
from actors.monitor.history_seeds import Seeds

P = ParamSpec("P")
T = TypeVar("T")


class Historian:
    """A History in a thread of its own. Calls are carried out one after the other."""

    def __init__(self, thread: ThreadPoolExecutor, history: History) -> None:
        self._thread = thread
        self._history = history

    @classmethod
    async def open(cls, folder: Path, now_ms: int, retention_hours: int, max_bytes: int) -> Historian:
        """Open the history in `folder`. Raises OSError."""
        thread = ThreadPoolExecutor(1, "history")
        opening = asyncio.get_running_loop().run_in_executor(
            thread, History.open, folder, now_ms, retention_hours, max_bytes
        )
        try:
            return cls(thread, await opening)
        except BaseException:  # cancelled, too: the thread would stay
            thread.shutdown(wait=False)
            raise

    @property
    def problem(self) -> str:
        """The reason why nothing is written just now, or empty."""
        return self._history.problem

    async def size_bytes(self) -> int | None:
        """The size of what is in use of the file; None if it cannot be had."""
        return await self._call(History.known_size)

    async def write(
        self,
        now_ms: int,
        lags: Iterable[tuple[str, LagPoint]],
        rebalances: Iterable[RebalanceView] = (),
        events: Iterable[Event] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> bool:
        """Add what a look has found. Returns whether it is written."""
        return await self._call(History.write, now_ms, list(lags), list(rebalances), list(events), kinds)

    async def lag(self, group: str, since_ms: int, until_ms: int, points: int) -> tuple[LagPoint, ...]:
        """A group's lag between two times, oldest first."""
        return await self._call(History.lag, group, since_ms, until_ms, points)

    async def rebalances(self, group: str, since_ms: int, until_ms: int) -> tuple[RebalanceView, ...]:
        """The last rebalances of a group that began between two times, oldest first."""
        return await self._call(History.rebalances, group, since_ms, until_ms)

    async def seeds(self, now_ms: int) -> Seeds:
        """The state that a Monitor takes over when it begins."""
        return await self._call(History.seeds, now_ms)

    async def events(self, most: int) -> tuple[Event, ...]:
        """The last events, oldest first."""
        return await self._call(History.events, most)

    async def close(self) -> None:
        """Close the file, when all that was asked before is done."""
        await self._call(History.close)
        self._thread.shutdown()

    async def _call(self, work: Callable[Concatenate[History, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        def do() -> T:
            return work(self._history, *arguments, **named)

        return await asyncio.get_running_loop().run_in_executor(self._thread, do)
