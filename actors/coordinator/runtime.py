"""The means that a shard provides to the coordinator it hosts: its timers, the writer, and the answers."""

from __future__ import annotations

from typing import Any

from actors.coordinator.metrics import Metrics
from actors.coordinator.records import encode
from actors.coordinator.timers import Timers
from actors.coordinator.turn import Now, Request, Token
from actors.coordinator.writer import Write, WriteLimits, Writer


class Runtime:
    def __init__(self, limits: WriteLimits) -> None:
        self.metrics = Metrics()
        self.timers = Timers()
        self.writer = Writer(limits, self.timers, self.metrics)
        self.replies: list[tuple[Token, Any]] = []
        """Tokens and responses, in the order in which they were given. The list stays the same object."""
        self.unanswered: dict[Token, Request] = {}

    def park(self, token: Token, request: Request) -> None:
        """Remember a request that is answered later. If the shard is unloaded, it is answered with an error."""
        self.unanswered[token] = request

    def answer(self, token: Token, response: Any) -> None:
        """Answer a parked request, unless it has been answered already or its client has gone."""
        if self.unanswered.pop(token, None) is not None:
            self.replies.append((token, response))

    def refuse_all(self, error: int) -> None:
        """Answer all parked requests with an error."""
        for token, request in list(self.unanswered.items()):
            self.answer(token, request.refused(error))

    def write(self, write: Write, now: Now) -> None:
        """Have the records of a write appended atomically."""
        records = encode(write.changes)
        size_bytes = sum(len(key) + len(value or b"") for key, value in records)
        self.writer.submit(write, [key for key, _ in records], [value for _, value in records], size_bytes, now)
