"""The Monitor's history on disk: what it keeps, for how long, and what becomes of a file that is damaged."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.links.views import ClassicRebalanceView, Event, LagPoint, Waited
from actors.monitor.history import FILE, History
from actors.monitor.history_file import opened
from tests.support.monitor_histories import forgets

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
REBALANCE = ClassicRebalanceView(
    group_id="billing",
    began_ms=NOW_MS,
    generation_id=4,
    reason="its session ended",
    member_id="m-1",
    client_id="c",
    host="/10.0.0.1",
    joined_ms=NOW_MS + 5,
    ended_ms=NOW_MS + 9,
    members=2,
    came=("m-3",),
    expelled=("m-1",),
    waited=(Waited("m-2", "join", 4, "c", "/10.0.0.2"),),
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History.open(tmp_path / "monitor", NOW_MS, 168, 1 << 28)
    yield made
    made.close()


def point(at_ms: int, lag: int | None, committed: int = 0) -> LagPoint:
    return LagPoint(at_ms, lag, None if lag is None else lag / 10, committed)


def test_what_was_written_is_there_after_the_next_start(tmp_path: Path) -> None:
    event = Event(1, NOW_MS, "election", "orders-3", "broker 1 leads")
    first = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    first.write(NOW_MS, [("billing", point(NOW_MS, 5))], [REBALANCE], [event])
    first.close()
    again = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert again.lag("billing", 0, NOW_MS, 100) == (point(NOW_MS, 5),)
    assert again.rebalances("billing", 0, NOW_MS) == (REBALANCE,)
    assert again.events(10) == (event,)
    assert again.lag("another", 0, NOW_MS, 100) == ()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    again.close()


def test_the_past_is_kept_in_fewer_points_the_older_it_is(history: History) -> None:
    for number in range(0, 3 * 86_400_000, 60_000):
        history.write(NOW_MS + number, [("billing", point(NOW_MS + number, number // 1_000))])
    now = NOW_MS + 3 * 86_400_000
    forgets(history, now)
    found = history.lag("billing", 0, now, 1_000_000)
    steps = [(b.wall_ms - a.wall_ms, now - b.wall_ms) for a, b in itertools.pairwise(found)]
    assert {step for step, age in steps if age < 46 * HOUR_MS} == {60_000}
    assert {step for step, age in steps if age > 49 * HOUR_MS} == {600_000}
    assert len(history.lag("billing", 0, now, 100)) <= 100
    assert history.lag("billing", 0, now, 100)[-1] == found[-1], "the newest is always there"


def test_what_stays_the_same_is_written_seldom_and_the_moment_it_changes_is_kept(history: History) -> None:
    for number in range(100):
        history.write(NOW_MS + number * 5_000, [("billing", point(NOW_MS + number * 5_000, 0, 7))])
        found = history.lag("billing", 0, NOW_MS + HOUR_MS, 100)
        assert sorted({0, number * 5_000}) == [each.wall_ms - NOW_MS for each in found], "the last look is there"
    assert len(history.lag("billing", 0, NOW_MS + 400_000, 100)) == 1
    history.write(NOW_MS + 500_000, [("billing", point(NOW_MS + 500_000, 9, 7))])
    found = history.lag("billing", 0, NOW_MS + HOUR_MS, 100)
    assert [(each.wall_ms - NOW_MS, each.lag) for each in found] == [(0, 0), (495_000, 0), (500_000, 9)]


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    history = History.open(tmp_path, NOW_MS, 1, 1 << 28)
    history.write(NOW_MS, [("billing", point(NOW_MS, 5))], [REBALANCE], [Event(1, NOW_MS, "a", "b", "c")])
    forgets(history, NOW_MS + 2 * HOUR_MS)
    assert history.lag("billing", 0, NOW_MS + HOUR_MS, 100) == ()
    assert history.rebalances("billing", 0, NOW_MS + HOUR_MS) == ()
    assert history.events(10) == ()
    history.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as file:
        assert file.execute("SELECT count(*) FROM groups").fetchone() == (0,)


def test_a_file_that_grows_too_big_loses_the_oldest(tmp_path: Path) -> None:
    history = History.open(tmp_path, NOW_MS, 168, 300_000)
    for number in range(40):
        at = NOW_MS + number * 5_000
        history.write(at, [(f"group-{each}", point(at, number + each + 1)) for each in range(300)])
    forgets(history, NOW_MS + 200_000)
    assert history.size_bytes <= 300_000
    assert history.lag("group-7", 0, NOW_MS + HOUR_MS, 100)[-1].wall_ms == NOW_MS + 39 * 5_000
    history.close()


@pytest.mark.parametrize(
    "damage", [b"this is no database, whatever it is called" * 100, b"SQLite format 3\0" + b"\xff" * 8000]
)
def test_a_damaged_file_is_set_aside_with_a_word_in_the_log(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(damage)
    with caplog.at_level(logging.ERROR):
        history = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert "is damaged" in caplog.text
    assert [each.read_bytes() for each in tmp_path.glob(f"{FILE}.damaged-*")] == [damage]
    history.write(NOW_MS, [("billing", point(NOW_MS, 5))])
    assert history.lag("billing", 0, NOW_MS, 10) == (point(NOW_MS, 5),)
    history.close()


def test_a_file_that_gets_damaged_while_it_is_used_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    for number in range(50):
        history.write(NOW_MS + number, [(f"group-{each}", point(NOW_MS + number, each)) for each in range(100)])
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("INSERT INTO groups (name) VALUES ('another')")  # pages in memory count no more after it
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100_000)
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            at = NOW_MS + (number + 1) * 700_000
            history.write(at, [(f"other-{each}", point(at, each)) for each in range(100)])
    assert "is damaged" in caplog.text
    assert list(tmp_path.glob(f"{FILE}.damaged-*"))
    assert history.lag("other-7", 0, NOW_MS + HOUR_MS, 10)
    assert history.problem == ""
    history.close()


class Disk:
    """A connection to a database on a disk that may be full."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.full = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def __enter__(self) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self.connection.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.connection.__exit__(*error)


def test_a_disk_that_is_full_is_said_once_and_gets_no_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk: Any = Disk(opened(tmp_path / FILE, NOW_MS))
    history = History(tmp_path / FILE, disk, 168, 1 << 28)
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            history.write(NOW_MS + number, [("billing", point(NOW_MS + number, 5))])
    disk.full = False
    assert caplog.text.count("disk is full") == 1
    assert history.problem == "database or disk is full"
    history.write(NOW_MS + 5, [("billing", point(NOW_MS + 5, 5))])
    assert history.problem == ""
