"""Frames that come in more than one read."""

from __future__ import annotations


class Gathering:
    """Keeps the beginning of a frame until the rest has been read. All its pieces are joined once, at the end."""

    __slots__ = ("_have", "_need", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = 0

    def __len__(self) -> int:
        """The bytes that are kept."""
        return sum(map(len, self._pieces))

    def whole(self, data: bytes) -> bytes:
        """The kept pieces, followed by `data`; b"" while the frame is not whole."""
        if not self._pieces:
            return data
        self._pieces.append(data)
        self._have += len(data)
        if self._have < self._need:
            return b""
        joined = b"".join(self._pieces)
        self._pieces.clear()
        return joined

    def keep(self, rest: bytes, need: int) -> None:
        """Keep the beginning of a frame until there are `need` bytes of it."""
        self._pieces.append(rest)
        self._have, self._need = len(rest), need

    def clear(self) -> None:
        """Forget what was kept."""
        self._pieces.clear()
