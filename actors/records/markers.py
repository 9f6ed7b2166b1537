"""The records of control batches: they end transactions (KIP-98)."""

from __future__ import annotations

import struct
from typing import Final

_KEY: Final = struct.Struct(">hh")  # version and type
ABORT: Final = 0
COMMIT: Final = 1
UNKNOWN: Final = -1


def marker_of(key: bytes | None) -> int:
    """The type of the marker with this key: ABORT, COMMIT, one that concerns no transaction, or UNKNOWN."""
    if key is None or len(key) < _KEY.size:
        return UNKNOWN
    return int(_KEY.unpack_from(key)[1])
