"""The thread that has a pool follow its load: it asks for the figures, and carries out what the rule decides."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from actors.members.autoscale import Autoscale, Load, Scaler

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 10.0


class Figures(Protocol):
    """The source of a pool's load; `PoolLoad`."""

    def look(self) -> Load: ...
    def close(self) -> None: ...


class Scaling:
    """Looks every `interval_s`, and calls `resize` with a size and a reason. That returns when the change is made.

    So there is one change at a time. If a look fails, the next one may not.
    """

    def __init__(self, policy: Autoscale, figures: Figures, resize: Callable[[int, str], None]) -> None:
        self._interval_s = policy.interval_s
        self._scaler = Scaler(policy)
        self._figures = figures
        self._resize = resize
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coterie-autoscale", daemon=True)

    def start(self) -> None:
        """Have the thread run."""
        self._thread.start()

    def end(self) -> None:
        """Change nothing any more. A change that is under way goes on."""
        self._ended.set()

    def join(self) -> None:
        """Wait until the thread has ended, for ten seconds at most."""
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with contextlib.closing(self._figures):
            while not self._ended.wait(self._interval_s):
                try:
                    self._step()
                except Exception:  # nobody looks at this thread, and the load goes on
                    if not self._ended.is_set():
                        log.exception("a pool's size could not be looked after")

    def _step(self) -> None:
        load = self._figures.look()
        decision = self._scaler.decide(load)
        if decision.size == load.size:
            log.debug("the size stays %d: %s", load.size, decision.reason)
        elif not self._ended.is_set():
            self._resize(decision.size, decision.reason)
