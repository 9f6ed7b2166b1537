"""What the Monitor remembers on disk: lag of groups over time, rebalances, events. Bounded by time and by size.

Lag is kept in three grains: each look for two hours, one point a minute for two days, one in ten minutes for as long as
`coterie.monitor.retention.hours` says. What stays the same is written only once in ten minutes. A file that is damaged
is set aside, and a new one begun: nothing but pictures of the past depends on it. SQLite blocks, so that everything
here runs in a thread of its own (`Historian`).
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actors.links.views import Event, LagPoint, RebalanceView, Waited
from actors.runtime.private import FOLDER_MODE, narrow

log = logging.getLogger(__name__)

FILE: Final = "history.db"
VERSION: Final = 1
SAME_MS: Final = 600_000
"""How often a value that stays the same is written."""
_HOUR_MS: Final = 3_600_000
_CHECK_ROUNDS: Final = 60  # how many writes there are between two looks at age and size

_SCHEMA: Final = """
CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE lag (
  grain INTEGER, group_id INTEGER, wall_ms INTEGER, lag INTEGER, lag_seconds REAL, committed INTEGER,
  PRIMARY KEY (grain, group_id, wall_ms)) WITHOUT ROWID;
CREATE TABLE rebalances (
  group_id INTEGER, began_ms INTEGER, generation_id INTEGER, row TEXT NOT NULL,
  PRIMARY KEY (group_id, began_ms, generation_id)) WITHOUT ROWID;
CREATE TABLE events (number INTEGER PRIMARY KEY, wall_ms INTEGER, kind TEXT, subject TEXT, text TEXT);
"""

_Point = tuple[int, int | None, float | None, int | None]
_LagRow = tuple[int, int, int, int | None, float | None, int | None]


@dataclass(frozen=True, slots=True)
class Grain:
    """How dense points are, and how long they are kept. 0 for every look."""

    number: int
    every_ms: int
    keep_ms: int


def grains(retention_hours: int) -> tuple[Grain, ...]:
    """The three of them, from fine to coarse."""
    most = retention_hours * _HOUR_MS
    kept = ((0, 2 * _HOUR_MS), (60_000, 48 * _HOUR_MS), (600_000, most))
    return tuple(Grain(number, every, min(keep, most)) for number, (every, keep) in enumerate(kept))


class History:
    """The file. One thread at a time may use it. Only `open` raises (OSError)."""

    def __init__(self, path: Path, connection: sqlite3.Connection, retention_hours: int, max_bytes: int) -> None:
        self._path = path
        self._db = connection
        self._grains = grains(retention_hours)
        self._keep_ms = retention_hours * _HOUR_MS
        self._max_bytes = max_bytes
        self._ids: dict[str, int] = {}
        # By grain and group: what was written last, and what was the same after it and was not written.
        self._last: dict[tuple[int, int], tuple[LagPoint, LagPoint | None]] = {}
        self._rounds = 0
        self.problem = ""
        """Why nothing is written just now, or empty."""

    @classmethod
    def open(cls, folder: Path, now_ms: int, retention_hours: int, max_bytes: int) -> History:
        """The history in `folder`. What is no database, or a damaged one, is set aside. Raises OSError."""
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        narrow(folder)
        path = folder / FILE
        return cls(path, _opened(path, now_ms), retention_hours, max_bytes)

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
    ) -> None:
        """Add what a look has found, and forget what is too old. Whatever goes wrong is logged once."""
        try:
            with self._db:
                self._write(lags, rebalances, events)
            self._rounds += 1
            if self._rounds % _CHECK_ROUNDS == 1:
                self._forget(now_ms)
            self.problem = ""
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ms)

    def _write(
        self, lags: Iterable[tuple[str, LagPoint]], rebalances: Iterable[RebalanceView], events: Iterable[Event]
    ) -> None:
        rows = [row for group, point in lags for row in self._lag_rows(self._id(group), point)]
        self._db.executemany("INSERT OR REPLACE INTO lag VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._db.executemany(
            "INSERT OR REPLACE INTO rebalances VALUES (?, ?, ?, ?)",
            [(self._id(each.group_id), each.began_ms, each.generation_id, _packed(each)) for each in rebalances],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
            [(each.number, each.wall_ms, each.kind, each.subject, each.text) for each in events],
        )

    def _lag_rows(self, group: int, point: LagPoint) -> list[_LagRow]:
        rows: list[_LagRow] = []
        for grain in self._grains:
            key = (grain.number, group)
            written, skipped = self._last.get(key, (None, None))
            if written is not None:
                age = point.wall_ms - written.wall_ms
                if age < grain.every_ms or (_same(written, point) and age < SAME_MS):
                    self._last[key] = (written, point)
                    continue
                if skipped is not None and _same(written, skipped) and not _same(written, point):
                    rows.append(_lag_row(grain, group, skipped))  # until when it stayed as it was
            self._last[key] = (point, None)
            rows.append(_lag_row(grain, group, point))
        return rows

    def _id(self, group: str) -> int:
        found = self._ids.get(group)
        if found is None:
            self._db.execute("INSERT OR IGNORE INTO groups (name) VALUES (?)", (group,))
            found = self._ids[group] = self._known(group) or 0
        return found

    def _known(self, group: str) -> int | None:
        row = self._db.execute("SELECT id FROM groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else int(row[0])

    # --- forgetting ---

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
        with self._db:
            self._db.execute(
                "DELETE FROM groups WHERE id NOT IN (SELECT group_id FROM lag) "
                "AND id NOT IN (SELECT group_id FROM rebalances)"
            )
        self._ids = {str(name): int(number) for number, name in self._db.execute("SELECT id, name FROM groups")}
        kept = set(self._ids.values())
        self._last = {key: value for key, value in self._last.items() if key[1] in kept}

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

    @property
    def size_bytes(self) -> int:
        """The size of what is in use of the file."""
        (pages,), (free,), (size,) = (
            self._db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
        )
        return (int(pages) - int(free)) * int(size)

    def _failed(self, error: sqlite3.DatabaseError, now_ms: int) -> None:
        if not isinstance(error, sqlite3.OperationalError):  # it is damaged, and not merely full or busy
            self._begin_anew(error, now_ms)
        elif self.problem != str(error):
            log.error("%s cannot be written: %s", self._path, error)
        self.problem = str(error)

    def _begin_anew(self, error: sqlite3.DatabaseError, now_ms: int) -> None:
        self._db.close()
        try:
            _set_aside(self._path, error, now_ms)
            self._db = _connected(self._path)
        except (OSError, sqlite3.DatabaseError) as again:
            log.error("%s cannot be begun anew: %s", self._path, again)
            self._db = _connected(None)
        self._ids.clear()
        self._last.clear()

    # --- reading ---

    def lag(self, group: str, since_ms: int, until_ms: int, points: int) -> tuple[LagPoint, ...]:
        """A group's lag between two times, oldest first, in at most `points` points."""
        try:
            rows = self._rows(group, since_ms, until_ms)
        except sqlite3.DatabaseError as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        step = max(1, -(-len(rows) // max(1, points)))
        # The last of each few, so that the newest one is always there.
        return tuple(LagPoint(*row) for row in rows[::-1][::step][::-1])

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
        """What the last look has found, if it was not written because it was the same: the curve goes on to now."""
        _, skipped = self._last.get((self._grains[0].number, group), (None, None))
        if skipped is None or not since_ms <= skipped.wall_ms <= until_ms:
            return []
        return [_lag_row(self._grains[0], group, skipped)[2:]]

    def rebalances(self, group: str, since_ms: int, until_ms: int, most: int = 200) -> tuple[RebalanceView, ...]:
        """The last rebalances of a group that began between two times, oldest first."""
        try:
            if (number := self._known(group)) is None:
                return ()
            rows = self._db.execute(
                "SELECT row FROM rebalances WHERE group_id = ? AND began_ms BETWEEN ? AND ? "
                "ORDER BY began_ms DESC, generation_id DESC LIMIT ?",
                (number, since_ms, until_ms, most),
            ).fetchall()
        except sqlite3.DatabaseError as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        return tuple(_unpacked(row) for (row,) in reversed(rows))

    def events(self, most: int) -> tuple[Event, ...]:
        """The last events, oldest first."""
        try:
            rows = self._db.execute("SELECT * FROM events ORDER BY number DESC LIMIT ?", (most,)).fetchall()
        except sqlite3.DatabaseError as error:
            log.error("%s cannot be read: %s", self._path, error)
            return ()
        return tuple(Event(*row) for row in reversed(rows))


def _lag_row(grain: Grain, group: int, point: LagPoint) -> _LagRow:
    return (grain.number, group, point.wall_ms, point.lag, point.lag_seconds, point.committed)


def _same(before: LagPoint, now: LagPoint) -> bool:
    return (before.lag, before.committed) == (now.lag, now.committed) and not now.lag


def _opened(path: Path, now_ms: int) -> sqlite3.Connection:
    try:
        return _connected(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and not path.exists():
            raise OSError(f"{path} cannot be made: {error}") from error
        _set_aside(path, error, now_ms)
        return _connected(path)


def _connected(path: Path | None) -> sqlite3.Connection:
    """The database at `path`, or in memory. Raises sqlite3.DatabaseError."""
    if path is not None:
        path.touch(mode=0o600, exist_ok=True)
    db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
    try:
        _prepare(db)
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        raise sqlite3.DatabaseError(f"it is of version {version}")
    if version == 0:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {VERSION}")
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    # It may lose its last moments in a crash of the machine, but it is never damaged by one.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")


def _set_aside(path: Path, error: Exception, now_ms: int) -> None:
    """Rename a damaged file, and what belongs to it. Raises OSError."""
    aside = path.with_name(f"{path.name}.damaged-{now_ms}")
    log.error("%s is damaged (%s): it is set aside as %s, and a new one begun", path, error, aside.name)
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _packed(rebalance: RebalanceView) -> str:
    return json.dumps([getattr(rebalance, name) for name in _FIELDS] + [_waited_rows(rebalance)])


_FIELDS: Final = tuple(name for name in RebalanceView.__dataclass_fields__ if name != "waited")
_TUPLES: Final = frozenset(("came", "left", "expelled"))


def _waited_rows(rebalance: RebalanceView) -> list[list[object]]:
    return [[each.member_id, each.phase, each.ms, each.client_id, each.host] for each in rebalance.waited]


def _unpacked(text: str) -> RebalanceView:
    *values, waited = json.loads(text)
    named: dict[str, Any] = {
        name: tuple(value) if name in _TUPLES else value for name, value in zip(_FIELDS, values, strict=False)
    }
    return RebalanceView(**named, waited=tuple(Waited(*each) for each in waited))
