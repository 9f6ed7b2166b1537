"""The output of a connection: parts of answers, in order. Those that are in files are read while the client takes them.

So a large answer needs little memory and little of a turn, however slowly it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from actors.wire.framing import Part

PIECE_BYTES = 256 << 10
"""The bytes written at a time: enough to be worth a call, and small enough to stay in the processor's cache."""


class Outgoing:
    """The parts of answers that the transport has not been given yet."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def memory_bytes(self) -> int:
        """The bytes that the parts hold in memory. Those in files hold nothing."""
        return sum(len(part) for part in self._parts if isinstance(part, bytes))

    def add(self, parts: Sequence[Part]) -> None:
        """Parts that leave after all that were added before."""
        self._parts.extend(parts)

    def next_piece(self) -> list[bytes]:
        """Remove and return what is to be written next. Raises StorageError or OSError if a file cannot be read."""
        piece: list[bytes] = []
        room = PIECE_BYTES
        while self._parts and room > 0:
            part = self._parts[0]
            data = part if isinstance(part, bytes) else part.read(room)
            if data is part or not len(part):
                self._parts.popleft()
            piece.append(data)
            room -= len(data)
        return piece

    def clear(self) -> None:
        """Forget them, because the connection has gone."""
        self._parts.clear()
