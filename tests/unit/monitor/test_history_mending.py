"""A history in which one id belongs to two groups, as older versions left it, is mended when it is opened."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from actors.links.views import ClassicRebalanceView, LagPoint
from actors.monitor.history import FILE, History
from actors.monitor.history_file import connected
from actors.monitor.history_mending import mend
from actors.monitor.history_rows import packed

NOW_MS = 1_700_000_000_000
Row = tuple[int, int, int, int]
"""Grain, id, seconds from the beginning, lag."""


def rebalance(group: str, at_s: int) -> ClassicRebalanceView:
    began_ms = NOW_MS + at_s * 1000
    return ClassicRebalanceView(group, began_ms, 4, "why", "m", ended_ms=began_ms + 500)


def left_by_an_older_version(
    folder: Path, groups: dict[str, int], rows: Iterable[Row], told: Iterable[tuple[int, ClassicRebalanceView]] = ()
) -> None:
    with closing(connected(folder / FILE)) as db, db:
        db.executemany("INSERT INTO groups (name, id) VALUES (?, ?)", groups.items())
        db.executemany(
            "INSERT INTO lag VALUES (?, ?, ?, ?, ?, ?)",
            [(grain, number, NOW_MS + at_s * 1000, lag, lag / 10, lag) for grain, number, at_s, lag in rows],
        )
        db.executemany(
            "INSERT INTO rebalances VALUES (?, ?, ?, ?)",
            [(number, each.began_ms, each.generation_id, packed(each)) for number, each in told],
        )


@contextmanager
def opened(folder: Path) -> Iterator[History]:
    history = History.open(folder, NOW_MS + 10**7, 168, 1 << 28)
    try:
        yield history
    finally:
        history.close()


def curve(history: History, group: str) -> list[tuple[int, int | None]]:
    found = history.lag(group, NOW_MS, NOW_MS + 10**8, 1000)
    return [((each.wall_ms - NOW_MS) // 1000, each.lag) for each in found]


def rows_in(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / FILE)) as db:
        return [
            *db.execute("SELECT * FROM groups"),
            *db.execute("SELECT * FROM lag"),
            *db.execute("SELECT 1, row FROM rebalances"),
        ]


BILLING = [(grain, 1, at_s, at_s) for grain, step in ((0, 5), (1, 60), (2, 600)) for at_s in range(0, 1200, step)]
"""A curve that one group has written alone."""


def shared(number: int, until_s: int, end_s: int) -> list[Row]:
    """Two groups write one id: the first gets the coarse grains, the last the fine one. Then there is one alone."""
    fine = [(0, number, at_s, 7 if at_s < until_s else at_s) for at_s in range(0, end_s, 5)]
    coarse = [(1, number, at_s, 1000 if at_s < until_s else at_s) for at_s in range(0, end_s, 60)]
    return [*fine, *coarse, (2, number, 0, 1000)]


def test_a_history_that_is_well_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = [(1, rebalance("billing", 10)), (2, rebalance('a "name"\n\u00e9', 20))]
    left_by_an_older_version(tmp_path, {"billing": 1, 'a "name"\n\u00e9': 2}, BILLING, told)
    before = rows_in(tmp_path)
    with caplog.at_level(logging.WARNING), opened(tmp_path) as history:
        assert curve(history, "billing") == [(at_s, at_s) for at_s in range(0, 1200, 5)]
    assert rows_in(tmp_path) == before
    assert not caplog.text


def test_points_that_two_groups_wrote_under_one_id_are_dropped_and_later_ones_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_by_an_older_version(tmp_path, {"billing": 1, "late": 2}, [*BILLING, *shared(2, until_s=300, end_s=900)])
    with caplog.at_level(logging.WARNING), opened(tmp_path) as history:
        assert curve(history, "late") == [(at_s, at_s) for at_s in range(300, 900, 5)]
        assert curve(history, "billing") == [(at_s, at_s) for at_s in range(0, 1200, 5)], "another's is not touched"
    assert "is mended" in caplog.text
    assert "'late'" in caplog.text
    assert "66 of their points" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING), opened(tmp_path):
        assert not caplog.text, "it is mended once"


def test_where_no_moment_shows_that_the_other_group_has_gone_ten_minutes_are_dropped(tmp_path: Path) -> None:
    rows = [*shared(2, until_s=300, end_s=300), *((2, 2, at_s, at_s) for at_s in range(600, 3000, 600))]
    left_by_an_older_version(tmp_path, {"late": 2}, rows)
    with opened(tmp_path) as history:
        assert curve(history, "late") == [(at_s, at_s) for at_s in (1200, 1800, 2400)]


def test_a_rebalance_goes_to_the_group_that_it_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = [(1, rebalance("billing", 10)), (1, rebalance("hostile", 20)), (1, rebalance("never seen", 30))]
    lost = [(9, rebalance("billing", 40)), (9, rebalance("never seen", 50))]
    left_by_an_older_version(tmp_path, {"billing": 1, "hostile": 2}, BILLING, [*told, *lost])
    with caplog.at_level(logging.WARNING), opened(tmp_path) as history:
        for group, at_s in {"billing": (10, 40), "hostile": (20,), "never seen": (30, 50)}.items():
            assert history.rebalances(group, 0, 2 * NOW_MS) == tuple(rebalance(group, each) for each in at_s)
        assert curve(history, "billing") == [(at_s, at_s) for at_s in range(60, 1200, 5)], "then it was shared"
        assert curve(history, "never seen") == []
        history.write(NOW_MS, [("new", LagPoint(NOW_MS, 1, 1.0, 1))])
        assert history.rebalances("new", 0, 2 * NOW_MS) == ()
    assert "4 rebalances are put to the groups that they name" in caplog.text


def test_points_of_no_group_are_dropped_and_no_new_group_gets_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_by_an_older_version(tmp_path, {"billing": 1}, [*BILLING, (0, 2, 0, 5), (1, 2, 0, 5), (2, 3, 0, 5)])
    with caplog.at_level(logging.WARNING), opened(tmp_path) as history:
        at_ms = NOW_MS + 2_000_000
        history.write(at_ms, [(each, LagPoint(at_ms, 1, 1.0, 1)) for each in ("late", "later")])
        assert curve(history, "late") == curve(history, "later") == [(2000, 1)]
    assert "3 points of no group are dropped" in caplog.text


def test_an_error_at_any_step_while_it_is_mended_leaves_it_as_it_was(tmp_path: Path) -> None:
    left_by_an_older_version(tmp_path, {"late": 2}, [*shared(2, 60, 65), (0, 3, 0, 1)], [(2, rebalance("billing", 10))])
    before = rows_in(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        for step in range(1, 10_000):
            left = chain([0] * step, [1], repeat(0))
            db.set_progress_handler(lambda left=left: next(left), 1)
            try:
                said = mend(db)
            except sqlite3.OperationalError:  # interrupted
                db.set_progress_handler(None, 1)
                if rows_in(tmp_path) != before:
                    break  # SQLite may say so when all is safe already
            else:
                assert "1 rebalances" in said
                break
        db.set_progress_handler(None, 1)
        assert mend(db) == ""
    with opened(tmp_path) as history:
        assert history.rebalances("billing", 0, 2 * NOW_MS) == (rebalance("billing", 10),)
        assert curve(history, "late") == [(60, 60)]
