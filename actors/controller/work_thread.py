"""The thread that makes a controller's calls of Ray, one after the other, so that none of them stops its loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

log = logging.getLogger(__name__)


class Work(Protocol):
    """Does what it is given, in the order given. Nobody waits for it."""

    def put(self, work: Callable[[], None]) -> None: ...

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """`put` it after this time."""


class WorkThread:
    """Work in a thread of its own, which ends with the process."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Do it once all that was put before has been done. Any thread may call this."""
        self._work.put(work)

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """`put` it after this time."""
        timer = threading.Timer(delay_s, self._work.put, (work,))
        timer.daemon = True
        timer.start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                work()
            except Exception:  # nobody looks at this thread, and the next work is another one
                log.exception("starting or ending a process")
