"""The history stays whole with values that no row can hold, and with errors in the middle of a look."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.links.views import ClassicRebalanceView, Event, LagPoint, Waited
from actors.monitor.history import FILE, History
from actors.monitor.history_file import connected
from tests.support.examples import examples

NOW_MS = 1_700_000_000_000
LARGEST = 2**63 - 1

numbers = st.one_of(
    st.integers(),
    st.sampled_from([-(2**63) - 1, -(2**63), -1, 0, LARGEST, LARGEST + 1, 2 * LARGEST, 2**64, 2**200]),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "\0", "a\0b", "a", "\ud800", "x\udfff", "\n", "x" * 32_768, "'; DROP TABLE lag --", "\U0010ffff"]
    ),
    st.text(st.characters(), max_size=8),
)
points = st.builds(
    LagPoint,
    st.just(NOW_MS),
    st.none() | numbers,
    st.none() | st.floats() | numbers,
    st.none() | numbers,
)
rebalances = st.builds(
    ClassicRebalanceView,
    group_id=texts,
    began_ms=numbers,
    generation_id=numbers,
    reason=texts,
    member_id=texts,
    client_id=texts,
    members=numbers,
    came=st.lists(texts, max_size=2).map(tuple),
    waited=st.lists(st.builds(Waited, texts, texts, numbers, texts, texts), max_size=2).map(tuple),
)
events = st.builds(Event, numbers, numbers, texts, texts, texts)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connected(tmp_path / FILE)) as made:
        yield made


@pytest.fixture
def history(tmp_path: Path, connection: sqlite3.Connection) -> History:
    return History(tmp_path / FILE, connection, 168, 1 << 28)


def point(at_ms: int, lag: int) -> LagPoint:
    return LagPoint(at_ms, lag, lag / 10, lag)


def lags_of(history: History, group: str) -> list[int | None]:
    return [each.lag for each in history.lag(group, NOW_MS, NOW_MS + 3_600_000, 1000)]


def ownerless(path: Path) -> set[int]:
    """The ids in use that no group has: the next new group would get them."""
    with closing(sqlite3.connect(path)) as db:
        used = db.execute("SELECT group_id FROM lag UNION SELECT group_id FROM rebalances").fetchall()
        return {number for (number,) in used} - {number for (number,) in db.execute("SELECT id FROM groups")}


@given(st.lists(st.tuples(texts, points), max_size=4), st.lists(rebalances, max_size=2), st.lists(events, max_size=2))
@examples(60)
def test_whatever_a_value_is_it_costs_its_own_row_only(
    lags: list[tuple[str, LagPoint]], told: list[ClassicRebalanceView], happened: list[Event]
) -> None:
    with TemporaryDirectory() as folder:
        history = History.open(Path(folder), NOW_MS, 10**6, 1 << 28)
        good = [each for each in lags if each[0] not in ("billing", "late")]
        for number in range(3):
            at_ms = NOW_MS + number * 5_000
            seen = [("billing", point(at_ms, number + 1)), *good, *([("late", point(at_ms, 9))] if number else [])]
            assert history.write(at_ms, seen, told, [*happened, Event(7, at_ms, "a", "b", "c")])
        assert history.problem == ""
        assert lags_of(history, "billing") == [1, 2, 3]
        assert lags_of(history, "late") == [9, 9]
        assert Event(7, NOW_MS + 10_000, "a", "b", "c") in history.events(100)
        for group, _ in good:
            history.lag(group, -(2**80), 2**80, 5)
            history.rebalances(group, -(2**80), 2**80)
        history.close()
        assert ownerless(Path(folder) / FILE) == set()
        again = History.open(Path(folder), NOW_MS, 10**6, 1 << 28)
        assert lags_of(again, "billing") == [1, 2, 3]
        again.close()


def test_what_cannot_be_written_is_said_once(history: History, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            at_ms = NOW_MS + number
            history.write(at_ms, [(f"g{each}", LagPoint(at_ms, 2**63, None, 0)) for each in range(9)])
    assert caplog.text.count("the lag of group") == 5
    assert caplog.text.count("nor can 4 other rows") == 1


@pytest.mark.parametrize("lasts", [1, 1_000_000], ids=["once", "for good"])
def test_an_error_at_any_step_of_a_look_leaves_memory_as_the_file_is(tmp_path: Path, lasts: int) -> None:
    """Ids that a look had given stayed in memory when it was rolled back, and the file gave them again."""
    for step in range(1, 10_000):
        folder = tmp_path / str(step)
        folder.mkdir()
        with closing(connected(folder / FILE)) as db:
            history = History(folder / FILE, db, 168, 1 << 28)
            history.write(NOW_MS, [("first", point(NOW_MS, 1))])
            written = stopped_at(step, lasts, db, history)
            history.write(NOW_MS + 20_000, [("other", point(NOW_MS + 20_000, 5))])
            there = bool(history.events(1))  # SQLite may say that it was interrupted when all is safe already
            assert there >= written
            assert bool(history.rebalances("second", 0, NOW_MS * 2)) == there
            history.write(NOW_MS + 25_000, [(each, point(NOW_MS + 25_000, 6)) for each in ("first", "second", "third")])
            more = [2] if there else []
            assert lags_of(history, "first") == [1, *more, 6]
            assert lags_of(history, "second") == lags_of(history, "third") == [*more, 6]
            assert lags_of(history, "other") == [5]
            coarse = db.execute("SELECT DISTINCT name FROM groups JOIN lag ON id = group_id WHERE grain = 1")
            assert {name for (name,) in coarse} == {"first", "second", "third", "other"}, "each has its first point"
        assert ownerless(folder / FILE) == set()
        if written:
            assert step > 50, "the look has more steps than that"
            return
    raise AssertionError("it is never written")


def stopped_at(step: int, lasts: int, db: sqlite3.Connection, history: History) -> bool:
    """Write a look, interrupted after so many steps of SQLite, once or for good. True if it says that it is written."""
    left = chain([0] * step, repeat(1, lasts), repeat(0))
    db.set_progress_handler(lambda: next(left), 1)
    at_ms = NOW_MS + 15_000
    rebalance = ClassicRebalanceView("second", at_ms, 1, "why", "m")
    lags = [(each, point(at_ms, 2)) for each in ("first", "second", "third")]
    written = history.write(at_ms, lags, [rebalance], [Event(1, at_ms, "a", "b", "c")])
    db.set_progress_handler(None, 1)
    assert written == (history.problem == "")
    return written


def test_an_error_while_the_old_is_forgotten_gives_no_id_to_two_groups(tmp_path: Path) -> None:
    """The names of groups were deleted, and when they could not be read again, memory still had their ids."""
    for step in range(1, 10_000):
        folder = tmp_path / str(step)
        folder.mkdir()
        with closing(connected(folder / FILE)) as db:
            history = History(folder / FILE, db, 1, 1 << 28)
            later_ms = NOW_MS + 2 * 3_600_000  # a History forgets old points after its first write
            left = chain([0] * step, [1], repeat(0))
            db.set_progress_handler(lambda left=left: next(left), 1)
            history.write(later_ms, [("kept", point(later_ms, 60)), ("old", point(NOW_MS, 1))])
            db.set_progress_handler(None, 1)
            through = history.problem == ""
            history.write(later_ms + 1, [("new", point(later_ms + 1, 5))])
            history.write(later_ms + 2, [("old", point(later_ms + 2, 6)), ("kept", point(later_ms + 2, 7))])
            assert [each.lag for each in history.lag("new", later_ms, later_ms + 9, 9)] == [5]
            assert [each.lag for each in history.lag("old", later_ms, later_ms + 9, 9)] == [6]
        assert ownerless(folder / FILE) == set()
        if through:
            return
    raise AssertionError("it is never forgotten")


def test_a_full_disk_costs_the_look_and_nothing_else(history: History, connection: sqlite3.Connection) -> None:
    history.write(NOW_MS, [("first", point(NOW_MS, 1))])
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    at_ms = NOW_MS + 5_000
    assert not history.write(at_ms, [("first", point(at_ms, 2)), *((f"g{n}", point(at_ms, n)) for n in range(1000))])
    assert history.problem == "database or disk is full"
    connection.execute("PRAGMA max_page_count = 1000000")
    at_ms = NOW_MS + 10_000
    assert history.write(at_ms, [("other", point(at_ms, 3)), ("first", point(at_ms, 4)), ("g7", point(at_ms, 5))])
    assert [lags_of(history, each) for each in ("first", "other", "g7", "g8")] == [[1, 4], [3], [5], []]
    assert history.problem == ""


def test_a_file_that_another_process_has_locked_is_not_taken_for_a_damaged_one(
    tmp_path: Path, history: History, connection: sqlite3.Connection
) -> None:
    connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not history.write(NOW_MS, [("first", point(NOW_MS, 1))])
    assert history.problem == "database is locked"
    assert history.write(NOW_MS + 1, [("first", point(NOW_MS + 1, 2))])
    assert lags_of(history, "first") == [2]
    assert not list(tmp_path.glob("*damaged*"))


def test_a_file_that_cannot_be_opened_stays_where_it_is(tmp_path: Path) -> None:
    """A good file was set aside, and the Monitor ended with an error that nobody expected."""
    (tmp_path / FILE).mkdir()
    (tmp_path / FILE / "inside").touch()
    with pytest.raises(OSError, match="unable to open"):
        History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


def test_a_file_that_lacks_its_tables_is_set_aside(tmp_path: Path) -> None:
    with closing(connected(tmp_path / FILE)) as db:
        db.execute("DROP TABLE lag")
    history = History.open(tmp_path, NOW_MS, 168, 1 << 28)
    assert history.write(NOW_MS, [("first", point(NOW_MS, 1))])
    assert lags_of(history, "first") == [1]
    assert list(tmp_path.glob("*damaged*"))
    history.close()


def test_a_rebalance_that_cannot_be_read_is_left_out(history: History, connection: sqlite3.Connection) -> None:
    good = ClassicRebalanceView("first", NOW_MS, 1, "why", "m")
    history.write(NOW_MS, [], [good])
    rows = [(1, NOW_MS + number, 1, text) for number, text in enumerate(["", "{}", "[]", "[1, []]", "nul"], 1)]
    with connection:
        connection.executemany("INSERT INTO rebalances VALUES (?, ?, ?, ?)", rows)
    assert history.rebalances("first", 0, NOW_MS * 2) == (good,)


def test_names_that_differ_anywhere_are_different_groups(history: History) -> None:
    names = ["a", "A", "a\0", "a\0b", "a\0c", "", "\0", "\u00e9", "e\u0301", "x" * 32_767, "x" * 32_766]
    history.write(NOW_MS, [(name, point(NOW_MS, number)) for number, name in enumerate(names)])
    assert [lags_of(history, name) for name in names] == [[number] for number in range(len(names))]
