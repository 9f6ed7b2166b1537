"""The running time of the user's code in a member: the handler's tries, and its hooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actors.members.pools.handling.work import Work


class Running:
    """Measures how long the user's code has been running: tries of the handler, and its hooks. Any thread may ask."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[int, float] = {}
        self._lock = threading.Lock()
        self._busy_s = 0.0  # until the last moment in which none ran
        self._busy_since = 0.0
        self._hook: tuple[float, str] | None = None

    def begin(self, work: Work) -> None:
        """A handler runs for this work from now on."""
        now = self._monotonic()
        with self._lock:
            if not self._since:
                self._busy_since = now
            self._since[id(work)] = now

    def end(self, work: Work) -> None:
        """It has returned, or raised."""
        now = self._monotonic()
        with self._lock:
            del self._since[id(work)]
            if not self._since:
                self._busy_s += now - self._busy_since

    def busy_ms(self) -> int:
        """The milliseconds for which at least one handler has run since the member began."""
        with self._lock:
            present_s = self._monotonic() - self._busy_since if self._since else 0.0
            return int((self._busy_s + present_s) * 1000)

    @contextmanager
    def hook(self, name: str) -> Iterator[None]:
        """A hook of the handler runs within this. They run in the member's thread, one at a time."""
        self._hook = (self._monotonic(), name)
        try:
            yield
        finally:
            self._hook = None

    def longest(self) -> tuple[int, str]:
        """The milliseconds that the oldest try or hook has run, 0 if none runs; the hook's name, "" for the handler."""
        tries = [(since, "") for since in list(self._since.values())]
        hook = self._hook
        began = min(tries if hook is None else [*tries, hook], default=None)
        return (0, "") if began is None else (int((self._monotonic() - began[0]) * 1000), began[1])
