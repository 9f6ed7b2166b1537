"""What a ConsumerActor tells its pool, several times a second: a line of JSON each, over a socket of its own.

The socket's end is also how the pool hears of a member's death; a call through Ray would say so later.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from actors import CoterieError


class ReportError(CoterieError):
    """A line is no report."""


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """Where a member's reports are to be had, and whose process it is."""

    host: str
    port: int
    pid: int
    node_id: str
    """Of its Ray node."""


@dataclass(frozen=True, slots=True)
class MemberReport:
    """How a member is doing."""

    state: str = "Starting"
    error: str | None = None
    member_id: str = ""
    generation_id: int = -1
    assignment: tuple[tuple[str, int], ...] = ()
    """Topic and partition, in order."""
    handled: int = 0
    dead_letters: int = 0
    handling_ms: int = 0
    """How long the handler has been running; 0 while it does not."""

    def encode(self) -> bytes:
        """The line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """What `encode` made. Raises ReportError: an actor that is killed may leave half a line."""
        try:
            fields = json.loads(line)
            assignment = tuple((str(topic), int(partition)) for topic, partition in fields.pop("assignment"))
            return cls(**fields, assignment=assignment)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ReportError(f"no report of a member: {line[:80]!r}") from error
