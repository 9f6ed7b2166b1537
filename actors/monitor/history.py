"""The Monitor's memory on disk: lag of groups over time, rebalances, events. Bounded by time and by size.

Lag is kept in three grains: each look for two hours, one point a minute for two days, one in ten minutes for as long as
`coterie.monitor.retention.hours` says. A value that stays the same is written only once in ten minutes (`curves`).

**A look is written whole or not at all.** The part of the file that is kept in memory, ids of groups and the last
points of curves, changes only when the rows are safe. A value that no row can hold costs its own row: the others are
written. A disk that is full, or a file that is locked, costs the look. A file that is damaged is set aside, and a new
one begun: nothing but pictures of the past depends on it (`history_file`). A file of an older version in which one id
belongs to two groups is mended when it is opened: `history_mending` says how, and why.

SQLite blocks, so that everything here runs in a thread of its own (`Historian`).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, ParamSpec

from actors.links.views import Event, LagPoint, RebalanceView
from actors.monitor.curves import Curves, Last, grains, thinned
from actors.monitor.history_file import connected, is_damage, opened, set_aside
from actors.monitor.history_rows import packed, unpacked
from actors.monitor.history_seeds import Seeds, forget_kinds, read_seeds, write_kinds
from actors.runtime.private import FOLDER_MODE, narrow

log = logging.getLogger(__name__)
P = ParamSpec("P")

FILE: Final = "history.db"
_HOUR_MS: Final = 3_600_000
_CHECK_ROUNDS: Final = 60  # the number of writes between two looks at age and size
_NAMED: Final = 5  # the number of refused rows that a log names
_LARGEST: Final = (1 << 63) - 1
_NO_VALUE: Final = (
    *(OverflowError, UnicodeError),
    *(sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""Raised for a value that no row can hold: an integer beyond 64 bits, text that is no Unicode, a text too long."""

_INSERT_LAG: Final = "INSERT OR REPLACE INTO lag VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_REBALANCE: Final = "INSERT OR REPLACE INTO rebalances VALUES (?, ?, ?, ?)"
_INSERT_EVENT: Final = "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)"

_Point = tuple[int, int | None, float | None, int | None]


@dataclass(slots=True)
class _Draft:
    """The changes to be remembered once a look is safe in the file."""

    ids: dict[str, int] = field(default_factory=dict)
    curves: dict[tuple[int, int], Last] = field(default_factory=dict)
    refused: dict[str, Exception] = field(default_factory=dict)
    """The values that no row can hold, by their subjects."""


class History:
    """The file. One thread at a time may use it. Only `open` raises (OSError)."""

    def __init__(self, path: Path, connection: sqlite3.Connection, retention_hours: int, max_bytes: int) -> None:
        self._path = path
        self._db = connection
        self._grains = grains(retention_hours)
        self._keep_ms = retention_hours * _HOUR_MS
        self._max_bytes = max_bytes
        self._ids: dict[str, int] = {}  # as the file has them
        self._curves = Curves(self._grains)
        self._rounds = 0
        self._refused: frozenset[str] = frozenset()  # at the last look
        self.problem = ""
        """The reason why nothing is written just now, or empty."""

    @classmethod
    def open(cls, folder: Path, now_ms: int, retention_hours: int, max_bytes: int) -> History:
        """The history in `folder`. A file that is no database, or a damaged one, is set aside. Raises OSError."""
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        narrow(folder)
        path = folder / FILE
        return cls(path, opened(path, now_ms), retention_hours, max_bytes)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # --- writing ---

    def write(
        self,
        now_ms: int,
        lags: Iterable[tuple[str, LagPoint]],
        rebalances: Iterable[RebalanceView] = (),
        events: Iterable[Event] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> bool:
        """Add a look's findings, a point of each group, and forget points that are too old.

        Whatever goes wrong is logged once. Returns whether it is written: all that rows can hold, or else nothing.
        """
        try:
            with self._db:
                self._db.rollback()  # of a look that could not even be rolled back; else nothing
                draft = self._write(lags, rebalances, events, kinds or {})
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ms)
            return False
        self._ids |= draft.ids
        self._curves.written(draft.curves)
        self._tell_refused(draft.refused)
        self._tidy(now_ms)
        return True

    def _write(
        self,
        lags: Iterable[tuple[str, LagPoint]],
        rebalances: Iterable[RebalanceView],
        events: Iterable[Event],
        kinds: Mapping[str, str],
    ) -> _Draft:
        draft = _Draft()
        for group, point in lags:
            self._try(draft, f"the lag of group {group!r}", self._write_point, draft, group, point)
        for each in rebalances:
            self._try(draft, f"a rebalance of group {each.group_id!r}", self._write_rebalance, draft, each)
        for event in events:
            row = (event.number, event.wall_ms, event.kind, event.subject, event.text)
            self._try(draft, f"event {event.number}", self._db.execute, _INSERT_EVENT, row)
        for name, kind in kinds.items():
            self._try(draft, f"what group {name!r} is", write_kinds, self._db, [(name, kind)])
        return draft

    def _write_point(self, draft: _Draft, group: str, point: LagPoint) -> None:
        number = self._id(draft, group)
        rows, changes = self._curves.due(number, point)
        for row in rows:
            self._db.execute(_INSERT_LAG, row)
        draft.curves |= changes

    def _write_rebalance(self, draft: _Draft, rebalance: RebalanceView) -> None:
        place = (self._id(draft, rebalance.group_id), rebalance.began_ms, rebalance.epoch)
        self._db.execute(_INSERT_REBALANCE, (*place, packed(rebalance)))

    def _id(self, draft: _Draft, group: str) -> int:
        found = self._ids.get(group) or draft.ids.get(group)
        if found is None:
            self._db.execute("INSERT OR IGNORE INTO groups (name) VALUES (?)", (group,))
            (found,) = self._db.execute("SELECT id FROM groups WHERE name = ?", (group,)).fetchone()
            draft.ids[group] = found
        return found

    def _known(self, group: str) -> int | None:
        row = self._db.execute("SELECT id FROM groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else int(row[0])

    def _try(self, draft: _Draft, what: str, write: Callable[P, object], *values: P.args, **named: P.kwargs) -> None:
        """Write one row, or what belongs together of one. That no row can hold it is the look's only loss."""
        try:
            write(*values, **named)
        except _NO_VALUE as error:
            draft.refused[what] = error

    def _tell_refused(self, refused: dict[str, Exception]) -> None:
        """Once for each thing, until it can be written again."""
        new = {what: error for what, error in refused.items() if what not in self._refused}
        for what, error in list(new.items())[:_NAMED]:
            log.error("%s: %s cannot be written: %s", self._path, what, error)
        if len(new) > _NAMED:
            log.error("%s: nor can %d other rows", self._path, len(new) - _NAMED)
        self._refused = frozenset(refused)

    # --- forgetting ---

    def _tidy(self, now_ms: int) -> None:
        self._rounds += 1
        try:
            if self._rounds % _CHECK_ROUNDS == 1:
                self._forget(now_ms)
            self.problem = ""
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ms)

    def _forget(self, now_ms: int) -> None:
        with self._db:
            for grain in self._grains:
                self._delete(grain.number, now_ms - grain.keep_ms)
            for table, column in (("rebalances", "began_ms"), ("events", "wall_ms")):
                self._db.execute(f"DELETE FROM {table} WHERE {column} < ?", (now_ms - self._keep_ms,))
        self._forget_groups()
        self._shrink()

    def _delete(self, grain: int, before_ms: int) -> None:
        self._db.execute("DELETE FROM lag WHERE grain = ? AND wall_ms < ?", (grain, before_ms))

    def _forget_groups(self) -> None:
        """Of groups without anything in it, not even the name stays."""
        kept: dict[str, int] = {}  # where it is not known whether they are gone, nothing is known of any
        try:
            with self._db:
                self._db.execute(
                    "DELETE FROM groups WHERE id NOT IN (SELECT group_id FROM lag) "
                    "AND id NOT IN (SELECT group_id FROM rebalances)"
                )
                forget_kinds(self._db)
                left = self._db.execute("SELECT name, id FROM groups").fetchall()
            kept = dict(left)
        finally:
            self._ids = kept
            self._curves.keep(frozenset(kept.values()))

    def _shrink(self) -> None:
        """While the file is too big, the oldest quarter of each table goes."""
        tables = [("lag", "wall_ms"), ("rebalances", "began_ms"), ("events", "wall_ms")]
        for _ in range(64):
            if self.size_bytes <= self._max_bytes:
                break
            with self._db:
                for table, column in tables:
                    self._db.execute(
                        f"DELETE FROM {table} WHERE {column} <= (SELECT min({column}) + (max({column}) - "
                        f"min({column})) / 4 FROM {table})"
                    )
        self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def known_size(self) -> int | None:
        """The size of what is in use of the file; None if it cannot be had."""
        try:
            return self.size_bytes
        except sqlite3.DatabaseError as error:
            log.error("%s cannot be read: %s", self._path, error)
            return None

    @property
    def size_bytes(self) -> int:
        """The size of what is in use of the file. Raises sqlite3.DatabaseError."""
        (pages,), (free,), (size,) = (
            self._db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
        )
        return (int(pages) - int(free)) * int(size)

    def _failed(self, error: sqlite3.DatabaseError, now_ms: int) -> None:
        if is_damage(error):
            self._begin_anew(error, now_ms)
        elif self.problem != str(error):
            log.error("%s cannot be written: %s", self._path, error)
        self.problem = str(error)

    def _begin_anew(self, error: sqlite3.DatabaseError, now_ms: int) -> None:
        self._db.close()
        try:
            set_aside(self._path, error, now_ms)
            self._db = connected(self._path)
        except (OSError, sqlite3.DatabaseError) as again:
            log.error("%s cannot be begun anew: %s", self._path, again)
            self._db = connected(None)
        self._ids.clear()
        self._curves.keep(())

    # --- reading ---

    def lag(self, group: str, since_ms: int, until_ms: int, points: int) -> tuple[LagPoint, ...]:
        """A group's lag between two times, oldest first, in at most `points` points."""
        try:
            rows = self._rows(group, _within(since_ms), _within(until_ms))
        except (sqlite3.DatabaseError, UnicodeError) as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        return thinned([LagPoint(*row) for row in rows], since_ms, until_ms, points)

    def _rows(self, group: str, since_ms: int, until_ms: int) -> list[_Point]:
        """The points of the finest grain there is of each time."""
        if (number := self._known(group)) is None:
            return []
        found: list[_Point] = []
        until = until_ms
        for grain in self._grains:
            rows = self._db.execute(
                "SELECT wall_ms, lag, lag_seconds, committed FROM lag WHERE grain = ? AND group_id = ? "
                "AND wall_ms BETWEEN ? AND ? ORDER BY wall_ms",
                (grain.number, number, since_ms, until),
            ).fetchall()
            found = rows + found
            if rows:
                until = rows[0][0] - 1
        return found + self._newest(number, max(since_ms, found[-1][0] + 1) if found else since_ms, until_ms)

    def _newest(self, group: int, since_ms: int, until_ms: int) -> list[_Point]:
        """The last look's point, if it was not written because it was the same: the curve goes on to now."""
        found = self._curves.newest(group)
        if found is None or not since_ms <= found.wall_ms <= until_ms:
            return []
        return [(found.wall_ms, found.lag, found.lag_seconds, found.committed)]

    def rebalances(self, group: str, since_ms: int, until_ms: int, most: int = 200) -> tuple[RebalanceView, ...]:
        """The last rebalances of a group that began between two times, oldest first. One that is no row is left out."""
        try:
            if (number := self._known(group)) is None:
                return ()
            rows = self._db.execute(
                "SELECT row FROM rebalances WHERE group_id = ? AND began_ms BETWEEN ? AND ? "
                "ORDER BY began_ms DESC, generation_id DESC LIMIT ?",
                (number, _within(since_ms), _within(until_ms), most),
            ).fetchall()
        except (sqlite3.DatabaseError, UnicodeError) as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        return tuple(found for (row,) in reversed(rows) if (found := unpacked(row)) is not None)

    def seeds(self, now_ms: int) -> Seeds:
        """The state that a Monitor takes over when it begins."""
        try:
            return read_seeds(self._db, now_ms)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            log.error("%s cannot be read: %s", self._path, error)
            return Seeds()

    def events(self, most: int) -> tuple[Event, ...]:
        """The last events, oldest first."""
        try:
            rows = self._db.execute("SELECT * FROM events ORDER BY number DESC LIMIT ?", (most,)).fetchall()
        except sqlite3.DatabaseError as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        return tuple(Event(*row) for row in reversed(rows))


def _within(wall_ms: int) -> int:
    """The nearest time that SQLite can compare with."""
    return max(-_LARGEST, min(wall_ms, _LARGEST))
