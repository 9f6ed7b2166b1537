"""The words for a broker that is about to go: `coterie status`, `coterie top` and the console say the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from actors.links.removals import RemovalStatus

_LAST_DATE_MS: Final = 253_402_300_799_000  # the year 9999: settings may be longer than dates


def leaving(removal: RemovalStatus | None, drained_until_ms: int | None) -> Iterator[str]:
    """That a broker is being removed, and that its Ray node is drained; nothing for one that stays."""
    if removal is not None:
        yield f"being removed: {removal}"
    if drained_until_ms is not None:
        until = f", until {moment(drained_until_ms)}" if drained_until_ms else ""
        yield f"its Ray node is drained{until}: it leads only what no other broker can lead"


def moment(wall_ms: int) -> str:
    """A wall time in UTC, to the second."""
    return datetime.fromtimestamp(min(wall_ms, _LAST_DATE_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
