"""Answers of the controller that wait until all living brokers know what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _Waiting:
    version: int
    send: Callable[[], None]
    timer: asyncio.TimerHandle | None = None


class Unacked:
    """The answers that wait, each for `wait_s` at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_s: float) -> None:
        self._loop = loop
        self._wait_s = wait_s
        self._waiting: list[_Waiting] = []

    def add(self, version: int, send: Callable[[], None]) -> None:
        """Have `send` wait for the brokers to have the image of this version."""
        waiting = _Waiting(version, send)
        waiting.timer = self._loop.call_later(self._wait_s, self._send, waiting)
        self._waiting.append(waiting)

    def send_up_to(self, version: int) -> None:
        """All brokers have the image of this version: send what waited for it or an earlier one."""
        for waiting in [w for w in self._waiting if w.version <= version]:
            self._send(waiting)

    def _send(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            if waiting.timer is not None:
                waiting.timer.cancel()
            waiting.send()
