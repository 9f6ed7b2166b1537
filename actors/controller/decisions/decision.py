"""The form of a decision: from the metadata, the settings and what is asked, the result and the records to commit.

It applies nothing, and uses no Ray, socket, clock or randomness. A client's mistake is refused: for one item of a call
in its result, for a call as a whole by a RefusedError. Any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from actors import CoterieError
from actors.links.operations import Result
from actors.wire.errors import ErrorCode
from placement.records import Record

NewId: TypeAlias = Callable[[], bytes]
"""Makes 16 random bytes."""
Decision: TypeAlias = tuple[Result, Sequence[Record]]


class RefusedError(CoterieError):
    """A request, or a part of it, is refused: the code that the client gets, and why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
