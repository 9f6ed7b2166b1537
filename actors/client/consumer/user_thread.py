"""The thread that uses a consumer: there is one at a time; how it waits, and how others wake it."""

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
    """Refuses a second thread while one uses the consumer, and does the waiting for the one that does."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._closed = False
        self._woken = False

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Within the block, this thread uses the consumer. Raises ConcurrentUseError if another one does.

        The same thread may enter again, from a callback.
        """
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
        """True if a thread uses the consumer now."""
        return self._lock.locked()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Let no thread enter any more."""
        self._closed = True

    # --- waking up ------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the wait that is under way, or the next one, raise WakeupError. Called from another thread."""
        self._woken = True
        self._changes.tell()

    def raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError

    def forget_wakeup(self) -> None:
        """Drop a wake-up that no wait has raised yet."""
        self._woken = False

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, done: Callable[[], bool], until_ms: int) -> bool:
        """Wait until `done()` or until this time (monotonic ms). Returns whether it is done; raises WakeupError."""
        while True:
            seen = self._changes.count
            if done():
                return True
            if self._woken or self._changes.now_ms() >= until_ms:
                return False
            self._changes.wait(seen, until_ms)

    def result(self, future: concurrent.futures.Future[T], until_ms: int, late: Callable[[], str]) -> T:
        """Wait for a future's result; at the timeout the future is cancelled.

        Raises WakeupError, KafkaTimeoutError with the text of `late`, and what the future raises. Whoever completes the
        future has to call `Changes.tell`.
        """
        if not self.wait_for(future.done, until_ms):
            future.cancel()
            self.raise_if_woken()
            raise KafkaTimeoutError(late())
        return future.result()
