"""The state that a Monitor takes over from the history when it begins: all groups' last hour, and their kinds.

Without it the last hour would begin with the Monitor's process: a group that lagged or rebalanced before would look as
if it never had.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from actors.links.views import RebalanceView
from actors.monitor.curves import SAME_MS
from actors.monitor.history_rows import unpacked
from actors.monitor.trends import POINTS, STEP_MS

HOUR_MS: Final = 3_600_000
_REBALANCES: Final = 20_000
_FINEST: Final = 0
_LAG: Final = (
    "SELECT wall_ms / :step, max(lag) FROM lag WHERE grain = :grain AND group_id = :group_id AND wall_ms >= :since "
    "GROUP BY 1 ORDER BY 1"
)
_LAST: Final = (
    "SELECT row FROM rebalances WHERE group_id = :group_id AND began_ms >= :since ORDER BY began_ms, generation_id"
)

Trend = tuple[tuple[int, int | None], ...]
"""Steps of STEP_MS since the epoch with the greatest lag of each, oldest first."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The last Monitor's knowledge when it ended."""

    rebalances: tuple[RebalanceView, ...] = ()
    """Those that began in the last hour, oldest first."""
    trends: Mapping[str, Trend] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)


def create_kinds(db: sqlite3.Connection) -> None:
    """Make the table of kinds, which files of older versions lack."""
    db.execute("CREATE TABLE IF NOT EXISTS kinds (name TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID")


def write_kinds(db: sqlite3.Connection, kinds: Iterable[tuple[str, str]]) -> None:
    """Remember what groups are."""
    db.executemany("INSERT OR REPLACE INTO kinds VALUES (?, ?)", kinds)


def forget_kinds(db: sqlite3.Connection) -> None:
    """Of groups of which nothing else is known."""
    db.execute("DELETE FROM kinds WHERE name NOT IN (SELECT name FROM groups)")


def read_seeds(db: sqlite3.Connection, now_ms: int) -> Seeds:
    """All that a Monitor begins with."""
    groups = db.execute("SELECT id, name FROM groups").fetchall()
    rebalances = sorted(_rebalances(db, groups, now_ms), key=lambda each: each.began_ms)
    trends = {name: found for group_id, name in groups if (found := _trend(db, group_id, now_ms))}
    kinds = dict(db.execute("SELECT name, kind FROM kinds").fetchall())
    return Seeds(tuple(rebalances[-_REBALANCES:]), trends, kinds)


def _rebalances(db: sqlite3.Connection, groups: list[tuple[int, str]], now_ms: int) -> Iterator[RebalanceView]:
    for group_id, name in groups:
        for (row,) in db.execute(_LAST, {"group_id": group_id, "since": now_ms - HOUR_MS}):
            if (found := unpacked(row)) is not None and found.group_id == name:
                yield found


def _trend(db: sqlite3.Connection, group_id: int, now_ms: int) -> Trend:
    first = now_ms // STEP_MS - POINTS + 1
    asked = {"step": STEP_MS, "grain": _FINEST, "group_id": group_id, "since": first * STEP_MS - SAME_MS}
    rows: list[tuple[int, int | None]] = db.execute(_LAG, asked).fetchall()
    return tuple((step, lag) for step, lag in _whole(rows) if step >= first)


def _whole(rows: list[tuple[int, int | None]]) -> Iterator[tuple[int, int | None]]:
    """With the steps of which nothing was written because all stayed the same."""
    for (step, lag), (following, then) in pairwise(rows):
        yield step, lag
        same = then if lag else lag
        if not same and (following - step) * STEP_MS <= SAME_MS + STEP_MS:
            yield from ((between, same) for between in range(step + 1, following))
    yield from rows[-1:]
