"""Work on records that is too long for the broker's loop: in threads, and for each partition one job after the other.

Batches are decompressed and checked (`log/admission.py`) and stored ones are searched here. Whoever has a job done is
called in the loop, where leadership and the log have to be looked at anew: both may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from actors.records.errors import LogError, Refusal
from actors.wire.errors import ErrorCode

R = TypeVar("R")
Key = tuple[str, int]

_SWITCH_SECONDS: Final = 0.0001
"""The time within which a computing thread gives way to the event loop while a job runs; else it is Python's 5 ms.

The loop waits so long in each callback for which it wakes up. With 5 ms, heartbeats beside a stream of hostile batches
waited 150 ms. Where only files are read in threads, to give way so often costs more than it gains.
"""
_CLOSED: Final = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
_THREADS: Final = 2
"""One long job holds up nobody else's; more would only compete for the interpreter."""


class RecordJobs:
    """Runs jobs in `executor`; by default in threads of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor | None = None) -> None:
        self._loop = loop
        self._executor = executor or ThreadPoolExecutor(_THREADS, thread_name_prefix="records")
        self._last: dict[Key, asyncio.Future[Any]] = {}
        self._closed = False
        self._running = 0
        self._usual_seconds = sys.getswitchinterval()

    def busy(self, partition: Key) -> bool:
        """True if a job of this partition is under way."""
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
        outcome: asyncio.Future[R | Refusal] = self._loop.create_future()
        self._start(None, job, outcome)
        return outcome

    def _start(
        self, partition: Key | None, job: Callable[[], R], outcome: asyncio.Future[R | Refusal], _: Any = None
    ) -> None:
        if self._closed:
            self._end(partition, outcome)
            outcome.set_result(_CLOSED)
            return
        self._running += 1
        sys.setswitchinterval(_SWITCH_SECONDS)
        running = self._loop.run_in_executor(self._executor, _outcome_of, job)
        running.add_done_callback(partial(self._settle, partition, outcome))

    def _settle(
        self, partition: Key | None, outcome: asyncio.Future[R | Refusal], done: asyncio.Future[R | Refusal]
    ) -> None:
        self._end(partition, outcome)
        self._running -= 1
        if not self._running:
            sys.setswitchinterval(self._usual_seconds)
        if self._closed or done.cancelled():
            outcome.set_result(_CLOSED)
        elif (error := done.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())

    def _end(self, partition: Key | None, outcome: asyncio.Future[Any]) -> None:
        if partition is not None and self._last.get(partition) is outcome:
            del self._last[partition]

    def close(self) -> None:
        """Begin no more jobs. The outcome of a job under way no longer counts: the logs are being closed."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)


def _outcome_of(job: Callable[[], R]) -> R | Refusal:
    try:
        return job()
    except LogError as error:
        return Refusal.of(error)
