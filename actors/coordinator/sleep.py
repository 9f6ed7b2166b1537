"""Decides whether a shard's process may be given back: nothing is under way, and its coordinator needs none now.

Expired state is removed first. Then the answer holds for as long as nobody asks the shard anything: only time can
change what it holds, and the answer says when.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from actors.coordinator.runtime import Runtime
from actors.coordinator.timers import Timer
from actors.coordinator.turn import Now, Request, Token

_WRITES_MS: Final = 2_000
"""The time for which the answer waits for the writes that remove expired state.

Without that the shard would be busy with them, and asked again after another `coterie.shard.idle.ms` only.
"""
_LOOK_MS: Final = 50
_WRITING: Final = "a write is under way"

Looked = Callable[[int | None, Now], None]
"""Told when the next of what is kept expires (wall ms; in the past: now), or None if nothing ever does."""


class Sleeper(Protocol):
    """The part of the coordinator that the host has to know."""

    def why_awake(self) -> str:
        """The reason why it needs a process now, for people; empty if it does not."""

    def expire(self, done: Looked, now: Now) -> None:
        """Remove all that has expired, and tell `done` the next expiry."""

    def stays_awake(self, why: str) -> Any:
        """The answer that a process is needed."""

    def may_sleep(self, due_ms: int | None) -> Any:
        """The answer that no process is needed until `due_ms` (wall clock), with what has to be known meanwhile."""


class Sleep:
    """Answers the broker's question whether the process may be given back."""

    def __init__(self, runtime: Runtime, sleeper: Sleeper) -> None:
        self._runtime = runtime
        self._sleeper = sleeper
        self._asked: set[Token] = set()

    def handle(self, token: Token, request: Request, now: Now) -> None:
        """Answer the question. The answer may wait for the removal of what has expired."""
        self._runtime.park(token, request)
        self._asked.add(token)
        busy = self._busy_because()
        if busy:
            self._answer(token, self._sleeper.stays_awake(busy))
        else:
            self._sleeper.expire(partial(self._looked, token, now.monotonic_ms + _WRITES_MS), now)

    def forget(self) -> None:
        """The shard is unloaded: nobody waits for an answer any more."""
        self._asked.clear()

    def _answer(self, token: Token, response: Any) -> None:
        self._asked.discard(token)
        self._runtime.answer(token, response)

    def _looked(self, token: Token, until_ms: int, due_ms: int | None, now: Now) -> None:
        busy = self._busy_because()
        if busy == _WRITING and now.monotonic_ms < until_ms:
            again = Timer(partial(self._sleeper.expire, partial(self._looked, token, until_ms)))
            self._runtime.timers.arm(again, now.monotonic_ms + _LOOK_MS)
            return
        if not busy and due_ms is not None and due_ms <= now.wall_ms:
            busy = "something has expired"
        answer = self._sleeper.stays_awake(busy) if busy else self._sleeper.may_sleep(due_ms)
        self._answer(token, answer)

    def _busy_because(self) -> str:
        if self._runtime.writer.pending_entities():
            return _WRITING
        busy = self._sleeper.why_awake()
        waiting = (request for token, request in self._runtime.unanswered.items() if token not in self._asked)
        if not busy and any(getattr(request, "keeps_awake", True) for request in waiting):
            return "a request is under way"
        return busy
