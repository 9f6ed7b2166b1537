"""Many equal fields in one struct: to take them apart at once is faster than one after the other."""

from __future__ import annotations

import struct
from typing import Final

_KEPT_UP_TO: Final = 256


class Repeated:
    """Some fields (as `struct` writes them, big-endian), any number of times."""

    __slots__ = ("_fields", "_kept", "size")

    def __init__(self, fields: str) -> None:
        self._fields = fields
        self.size = struct.calcsize(">" + fields)
        """Of one."""
        self._kept: dict[int, struct.Struct] = {}

    def times(self, count: int) -> struct.Struct:
        """So many of them. Small ones are kept; a large one is made anew, as it takes some room."""
        made = self._kept.get(count)
        if made is None:
            made = struct.Struct(">" + self._fields * count)
            if count <= _KEPT_UP_TO:
                self._kept[count] = made
        return made
