"""The background thread of a client, with its event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs `loop` from `start` to `close`. Any thread may call its methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.loop = loop
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._work: list[asyncio.Task[None]] = []
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the thread, with work that it does until `close`."""
        self._work.append(self.loop.create_task(work))
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop; returns a future of its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called on the loop. After `close` it is not called."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def close(self, last: Callable[[], None], timeout_s: float) -> None:
        """Call `last` on the loop, cancel all tasks, and end the thread. Without `start` before, nothing happens."""
        if self._is_closed or not self._work:
            return
        self._is_closed = True
        self.soon(self._stop, last)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _stop(self, last: Callable[[], None]) -> None:
        last()
        self.loop.stop()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            # A task that is cancelled may start another: a producer's request that ends has the next one sent.
            while open_tasks := asyncio.all_tasks(self.loop):
                for task in open_tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*open_tasks, return_exceptions=True))
        finally:
            self.loop.close()
