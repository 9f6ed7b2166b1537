"""Seals on the versions of deployed pools: what has one was deployed by a program on this cluster's Ray.

The key stands in the data directory, for the cluster's own user alone. It is another one than the cluster's secret,
which may be changed.
"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Final

from actors.runtime.data_folder import place_of
from actors.runtime.private import read_own

POOLS_KEY: Final = "pools-key"


def seal_of_pool(folder: Path, digest: bytes) -> bytes:
    """The seal on what has this digest (HMAC-SHA-256). Raises OSError, ValueError if the key cannot be read."""
    return hmac.digest(bytes.fromhex(read_own(place_of(folder) / POOLS_KEY)), digest, "sha256")
