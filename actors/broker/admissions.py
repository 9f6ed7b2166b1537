"""Work on records that is too long for the broker's loop: in threads, and for each partition one job after the other.

Batches are decompressed and checked (`log/admission.py`) and stored ones are searched here. Whoever has a job done is
called in the loop, where leadership and the log have to be looked at anew: both may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from actors.records.errors import LogError, Refusal

R = TypeVar("R")
Key = tuple[str, int]

_THREADS: Final = 2
"""One long job holds up nobody else's; more would only compete for the interpreter."""


class Admissions:
    """Runs jobs in `executor`; by default in threads of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor | None = None) -> None:
        self._loop = loop
        self._executor = executor or ThreadPoolExecutor(_THREADS, thread_name_prefix="records")
        self._last: dict[Key, asyncio.Future[Any]] = {}

    def busy(self, partition: Key) -> bool:
        """Whether a job of this partition is under way."""
        return partition in self._last

    def run(self, partition: Key, job: Callable[[], R]) -> asyncio.Future[R | Refusal]:
        """Run `job` in a thread, after all others of the partition. The future has its outcome."""
        outcome: asyncio.Future[R | Refusal] = self._loop.create_future()
        before = self._last.get(partition)
        self._last[partition] = outcome
        start = partial(self._start, partition, job, outcome)
        if before is None:
            start()
        else:
            before.add_done_callback(start)
        return outcome

    def search(self, job: Callable[[], R]) -> asyncio.Future[R | Refusal]:
        """Run a job that changes nothing in a thread, whatever else is done for its partition."""
        return self._loop.run_in_executor(self._executor, _outcome_of, job)

    def _start(self, partition: Key, job: Callable[[], R], outcome: asyncio.Future[R | Refusal], _: Any = None) -> None:
        running = self._loop.run_in_executor(self._executor, _outcome_of, job)
        running.add_done_callback(partial(self._settle, partition, outcome))

    def _settle(self, partition: Key, outcome: asyncio.Future[R | Refusal], done: asyncio.Future[R | Refusal]) -> None:
        if self._last.get(partition) is outcome:
            del self._last[partition]
        if outcome.cancelled() or done.cancelled():
            outcome.cancel()
        elif (error := done.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())

    def close(self) -> None:
        """Begin no more jobs."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _outcome_of(job: Callable[[], R]) -> R | Refusal:
    try:
        return job()
    except LogError as error:
        return Refusal.of(error)
