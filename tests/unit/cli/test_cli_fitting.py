"""A narrow terminal shows fewer columns and shorter names, and every figure whole."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from actors.cli import top_tables
from actors.cli.fitting import fitted, shortened, wrapped
from actors.cli.top import Shown, picture
from actors.links.views import Event, GetOverview, ListGroupRows
from tests.support.fake_views import WALL_MS, FakeViews, broker_view, group_row

LARGE = {"lag": 1_234_567_890, "lag_seconds": 900_000.0, "members": 1234, "rebalances": 120, "commits_per_s": 123_456.0}
GROUPS = (
    group_row("a-very-long-name-of-a-team-and-of-its-job-1", state="CompletingRebalance", **LARGE),
    group_row("a-very-long-name-of-a-team-and-of-its-job-2", lag=None, lag_seconds=None, commits_per_s=None),
)
BROKERS = tuple(
    broker_view(
        number,
        host="ip-10-0-0-12.eu-central-1.compute.internal",
        pid=1_234_567,
        requests_per_s=123_456.0,
        bytes_in_per_s=123_456_789.0,
        bytes_out_per_s=999_999_999.0,
        longest_turn_ms=12_345.0,
    )
    for number in (0, 1)
)
EVENTS = tuple(
    Event(
        number, WALL_MS - 100_000 * (9 - number), "election", f"orders-{number}", "Broker 1 leads it, at epoch 123456."
    )
    for number in range(9)
)


def shown_at(width: int, height: int = 30, order: str = "lag") -> list[str]:
    source = FakeViews(brokers=BROKERS, groups=GROUPS, events=EVENTS)
    console = Console(file=io.StringIO(), width=width, height=height)
    shown = Shown(order)
    console.print(picture(console, source.view(GetOverview()), source.view(ListGroupRows()).groups, shown))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("order", list(top_tables.ORDERS))
@pytest.mark.parametrize("width", [200, 132, 100, 80, 60, 40])
def test_no_figure_is_cut_at_any_width(width: int, order: str) -> None:
    lines = shown_at(width, order=order)
    assert max(map(len, lines)) <= width
    cut = [line for line in lines if "\N{HORIZONTAL ELLIPSIS}" in line]
    assert all(re.match(r"(\d+ +)?(ip|a)[^ ]*\N{HORIZONTAL ELLIPSIS}", line) for line in cut), "names alone are cut"
    assert all(line.count("\N{HORIZONTAL ELLIPSIS}") == 1 for line in cut)
    assert "1,234,567,890" in " ".join(lines)


def test_eighty_columns_show_who_is_behind_and_what_brokers_do() -> None:
    headings = " ".join(line for line in shown_at(80) if line.startswith(("BROKER", "GROUP")))
    for column in ("BROKER", "ADDRESS", "STATE", "REQUESTS/S", "IN/S", "OUT/S", "GROUP", "LAG", "BEHIND", "COMMITS/S"):
        assert column in headings.split()
    assert "no room for 8 columns" in shown_at(80)
    assert not any("no room" in line for line in shown_at(200))


@pytest.mark.parametrize(("order", "column"), top_tables.SORTED.items())
def test_what_groups_are_sorted_by_is_shown(order: str, column: str) -> None:
    assert column.upper() in next(line for line in shown_at(70, order=order) if line.startswith("GROUP")).split()


@pytest.mark.parametrize("width", [120, 80, 60])
def test_the_newest_events_are_whole_and_all_of_it_fits(width: int) -> None:
    lines = shown_at(width, height=24)
    assert len(lines) <= 24
    said = " ".join(" ".join(lines).split())
    assert "15:58:20 orders-8: Broker 1 leads it, at epoch 123456." in said
    assert lines[-1].endswith("space now")


def test_names_keep_their_ends_and_different_ones_stay_different() -> None:
    assert shortened("a-very-long-name-1", 10) == "a-very\N{HORIZONTAL ELLIPSIS}e-1"
    assert shortened("short", 10) == "short"
    assert [shortened("abc", width) for width in (1, 2, 3)] == [
        "\N{HORIZONTAL ELLIPSIS}",
        "a\N{HORIZONTAL ELLIPSIS}",
        "abc",
    ]


def test_a_table_that_has_room_is_as_it_was() -> None:
    rows = [{"group": "g", "lag": 7}]
    fit = fitted(("group", "lag"), rows, 10, ("group",), ("lag",))
    assert (fit.columns, fit.left_out, fit.widths) == (("group", "lag"), (), {"group": 5})
    assert fitted(("group", "lag"), rows, 9, ("group",), ("lag",)).left_out == ("lag",)


def test_parts_break_between_one_another_and_after_commas() -> None:
    assert wrapped(("groups 12 Empty, 3 Stable", "lag 5"), 80) == ["groups 12 Empty, 3 Stable  lag 5"]
    assert wrapped(("groups 12 Empty, 3 Stable", "lag 5"), 20) == ["groups 12 Empty,", "    3 Stable  lag 5"]
