"""`coterie groups history` over made-up views, and the figures and lines in its tables."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from actors.cli import figures, views
from actors.cli.group_history import lag_rows
from actors.cli.main import cli
from actors.links.views import ClassicRebalanceView, GetGroupHistory, GroupHistory, LagPoint, PlainRebalanceView, Waited
from tests.support.fake_views import WALL_MS, FakeViews

LEFT = ClassicRebalanceView(
    *("orders", WALL_MS, 6, "session of m-2 expired", "m-2", "worker-2", "/10.0.0.2"),
    joined_ms=WALL_MS + 3000,
    ended_ms=WALL_MS + 3200,
    members=2,
    expelled=("m-2",),
    waited=(Waited("m-1", "join", 3000, "worker-1", "/10.0.0.1"),),
)
RUNS = ClassicRebalanceView("orders", WALL_MS + 9000, 7, "m-3 joined", "m-3")
POINTS = tuple(
    LagPoint(WALL_MS + 60_000 * number, 10 * number if number != 5 else None, float(number), 600 * number)
    for number in range(30)
)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> FakeViews:
    found = FakeViews(histories={"orders": GroupHistory("orders", POINTS, (LEFT, RUNS))})
    monkeypatch.setattr(views, "connect", found.connect)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["groups", "history", *arguments])


def test_it_says_when_why_who_how_long_and_whom_was_waited_for(source: FakeViews) -> None:
    head, left, runs = [line.split("  ") for line in run("orders").stdout.splitlines()[:3]]
    assert [cell.strip() for cell in head if cell.strip()] == [
        *("BEGAN", "GENERATION", "REASON", "BY", "JOIN", "SYNC", "#MEMBERS", "CAME", "LEFT"),
        *("REPLACED", "EXPELLED", "WAITED-FOR"),
    ]
    assert [cell.strip() for cell in left if cell.strip()] == [
        *("2025-11-24 16:00:00.000+00:00", "6", "session of m-2 expired", "worker-2 m-2/10.0.0.2", "3.0s", "0.2s", "2"),
        *("0", "0", "0", "worker-2 m-2", "worker-1 m-1/10.0.0.1 3.0s (join)"),
    ]
    assert [cell.strip() for cell in runs if cell.strip()][2:7] == ["m-3 joined", "m-3", "-", "-", "-"]


def test_a_group_of_another_type_has_the_columns_of_its_type(source: FakeViews) -> None:
    of_tiny = PlainRebalanceView(
        *("tiny", "s", WALL_MS, 4, "Open", "member entered", "b"), ended_ms=WALL_MS + 1000, members=2, came=("b",)
    )
    runs = replace(of_tiny, epoch=5, ended_ms=None)
    source.histories["s"] = GroupHistory("s", (), (of_tiny, runs))
    head, first, second = [line.split("  ") for line in run("s").stdout.splitlines()]
    assert [cell.strip() for cell in head if cell.strip()] == [
        *("BEGAN", "EPOCH", "REASON", "BY", "REBALANCE", "#MEMBERS", "CAME", "LEFT", "REPLACED", "EXPELLED"),
        "WAITED-FOR",
    ]
    assert [cell.strip() for cell in first if cell.strip()][1:7] == ["4", "member entered", "b", "1.0s", "2", "1"]
    assert [cell.strip() for cell in second if cell.strip()][1:6] == ["5", "member entered", "b", "-", "-"]
    found = json.loads(run("s", "--format", "json").stdout)["rebalances"]
    assert [(each["group_type"], each["epoch"], each["state"]) for each in found] == [
        *(("tiny", 4, "Open"), ("tiny", 5, "Open"))
    ]


def test_lag_is_lines_of_blocks_of_one_scale(source: FakeViews) -> None:
    head, first, second = run("orders", "--since", "288m").stdout.splitlines()[4:]
    assert head.split() == ["FROM", "LAG", "MAX-LAG", "BEHIND", "MAX-BEHIND", "COMMITTED/S"]
    assert "▁▂▂▂▂ ▃▃" in first
    assert second.split() == ["2025-11-24", "16:24:00.000+00:00", *("▆▇▇▇▇█", "290", "▆▇▇▇▇█", "29s", "10")]


def test_blocks_are_of_equal_time_however_unevenly_the_points_stand() -> None:
    minutes = (*(number / 12 for number in range(24)), 10, 20, 21)  # then nothing changes, and is written seldom
    lags = [*([0] * 11), 700, *([0] * 13), 0, 350]
    points = [LagPoint(WALL_MS + round(at * 60_000), lag, 0.0, 0) for at, lag in zip(minutes, lags, strict=True)]
    (row,) = lag_rows(points, 60_000)
    assert row["lag"] == "█" + "▁" * 20 + "▅", "a minute each, the peak of the first is there"
    assert (row["max_lag"], row["from"]) == ("700", "2025-11-24 16:00:00.000+00:00")
    few = list(lag_rows(points, 3_600_000))
    assert [each["lag"] for each in few] == ["█"]


def test_where_nobody_looked_blocks_are_blank() -> None:
    points = [LagPoint(WALL_MS + at * 60_000, 5, 0.0, 0) for at in (0, 1, 40, 41, 500)]
    assert [each["lag"] for each in lag_rows(points, 60_000)] == ["██", " " * 16 + "██", " " * 20 + "█"]
    assert list(lag_rows([], 60_000)) == []


def test_as_json_it_is_what_the_monitor_said(source: FakeViews) -> None:
    found = json.loads(run("orders", "--since", "90m", "--format", "json").stdout)
    assert (found["group_id"], found["rebalances"][0]["waited"][0]["ms"]) == ("orders", 3000)
    assert found["points"][5]["lag"] is None
    (asked,) = source.asked
    assert isinstance(asked, GetGroupHistory)
    assert asked.until_ms - asked.since_ms == 90 * 60_000


def test_nothing_known_is_said_and_is_no_error(source: FakeViews) -> None:
    done = run("ghost")
    assert (done.exit_code, done.stdout) == (0, "")
    assert [line.split(" of ")[0] for line in done.stderr.splitlines()] == ["No rebalance", "Nothing is known"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, None), (0.0, "0s"), (0.44, "0.4s"), (59.7, "1m00s"), (190, "3m10s"), (7500, "2h05m"), (352_800, "4d02h")],
)
def test_lengths_of_time(seconds: float | None, shown: str | None) -> None:
    assert figures.seconds(seconds) == shown


def test_a_line_of_blocks_has_blanks_where_nothing_is_known() -> None:
    assert figures.sparkline([0, None, 5, 10]) == "▁ ▅█"
    assert figures.sparkline([0, 0]) == "▁▁"
    assert figures.sparkline([None]) == " "
