"""The file of the history: how it is opened, which errors mean damage, and what becomes of a damaged file.

Damage is what no waiting mends: a file that is no database, or is malformed, or lacks a table. It is set aside. A disk
that is full or fails, a file that is locked or may not be written, says nothing about the file: it stays where it is.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Final

from actors.monitor.history_mending import mend
from actors.monitor.history_seeds import create_kinds

log = logging.getLogger(__name__)

VERSION: Final = 1

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
_OF_THE_WORLD: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_AUTH,
    }
)


def is_damage(error: sqlite3.Error) -> bool:
    """True if the file itself is at fault."""
    code: int | None = getattr(error, "sqlite_errorcode", None)  # only what SQLite itself says has one
    if code is None:
        return not isinstance(error, sqlite3.OperationalError)
    return code & 0xFF not in _OF_THE_WORLD


def opened(path: Path, now_ms: int) -> sqlite3.Connection:
    """The database at `path`, mended. A damaged one is set aside, and a new one begun. Raises OSError."""
    try:
        try:
            return connected(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            set_aside(path, error, now_ms)
            return connected(path)
    except sqlite3.DatabaseError as error:
        raise OSError(f"{path} cannot be opened: {error}") from error


def connected(path: Path | None) -> sqlite3.Connection:
    """The database at `path`, or in memory. Raises OSError, sqlite3.DatabaseError."""
    if path is not None:
        path.touch(mode=0o600, exist_ok=True)
    db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
    try:
        _prepare(db)
        if said := mend(db):
            log.warning("%s is mended: %s", path, said)
    except BaseException:  # whatever it is, the file would stay open
        db.close()
        raise
    return db


def set_aside(path: Path, error: Exception, now_ms: int) -> None:
    """Rename a damaged file, and what belongs to it. Raises OSError."""
    aside = path.with_name(f"{path.name}.damaged-{now_ms}")
    log.error("%s is damaged (%s): it is set aside as %s, and a new one begun", path, error, aside.name)
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _prepare(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        raise sqlite3.DatabaseError(f"it is of version {version}")
    if version == 0:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT")
    create_kinds(db)
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    # It may lose its last moments in a crash of the machine, but it is never damaged by one.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
