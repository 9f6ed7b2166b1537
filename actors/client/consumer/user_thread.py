"""The thread that uses a consumer: one at a time, and how it waits and is woken up."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from actors.client.errors import ClosedError, ConcurrentUseError, KafkaTimeoutError, WakeupError
from actors.client.net.changes import Changes

T = TypeVar("T")


class UserThread:
    """Guards a consumer against several threads at once, and does the waiting for the one that is in it."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._closed = False
        self._woken = False

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Only one thread at a time; the same thread may come again from a callback."""
        if self._closed:
            raise ClosedError
        me = threading.get_ident()
        if self._owner == me:
            yield
            return
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUseError
        self._owner = me
        try:
            yield
        finally:
            self._owner = None
            self._lock.release()

    @property
    def busy(self) -> bool:
        """Whether a thread is using the consumer now."""
        return self._lock.locked()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """No thread comes in any more."""
        self._closed = True

    # --- waking up ------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """From another thread: what waits now, or the next that would, raises WakeupError."""
        self._woken = True
        self._changes.tell()

    def raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError

    def forget_wakeup(self) -> None:
        """A wake-up that nobody has heard yet counts no more."""
        self._woken = False

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, done: Callable[[], bool], until_ms: int) -> bool:
        """Wait until `done()`, a wake-up or that time (monotonic ms); whether it is done."""
        while True:
            seen = self._changes.count
            if done():
                return True
            if self._woken or self._changes.now_ms() >= until_ms:
                return False
            self._changes.wait(seen, until_ms)

    def result(self, future: concurrent.futures.Future[T], until_ms: int, late: str) -> T:
        """A future's result; what comes too late is cancelled.

        Raises WakeupError, KafkaTimeoutError with the text `late`, and what the future raises. The future has to
        tell of its end.
        """
        if not self.wait_for(future.done, until_ms):
            future.cancel()
            self.raise_if_woken()
            raise KafkaTimeoutError(late)
        return future.result()
