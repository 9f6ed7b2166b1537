"""The values that every coordinator shares: the time of a turn, requests and their answers, and the tokens between."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

Token = Hashable
"""Stands for one request of one client. The driver chooses it, and gets it back with the answer."""


class Now(NamedTuple):
    """The time of a turn. Deadlines count in monotonic time, timestamps in records and retention in wall time."""

    monotonic_ms: int
    wall_ms: int


class Response(Protocol):
    """A plain value, made into Kafka's message elsewhere."""


class Request(Protocol):
    """A plain value, made from Kafka's message elsewhere."""

    def refused(self, error: int) -> Any:
        """The response that answers the whole request with `error`, in the form its type has for that."""


Handle = Callable[[Token, Any, Now], None]
"""Carries out a request of one type, and sees to its answer, now or later."""
