"""`coterie top` over made-up views: the table, JSON, the picture of a terminal, and its keys."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from actors.cli import views
from actors.cli.main import cli
from actors.cli.screen import Keys, Screen
from actors.cli.top import Shown, picture, watch
from actors.cluster import Cluster, ClusterError
from actors.links.operations import Operation
from actors.links.views import GetOverview, ListGroupRows
from actors.runtime.environment import REAL, Clock
from tests.support.fake_views import FakeViews, broker_view, group_row

GROUPS = (
    group_row("fast", lag=0, lag_seconds=0.0, commits_per_s=20.0),
    group_row("late", lag=5, lag_seconds=4000.0),
    group_row("new", lag=None, lag_seconds=None, commits_per_s=None, broker_id=-1, state="PreparingRebalance"),
    group_row("slow", lag=1_234_567, lag_seconds=90.0, rebalances=9),
)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> FakeViews:
    found = FakeViews(groups=GROUPS)
    monkeypatch.setattr(views, "connect", found.connect)
    return found


def test_without_a_terminal_it_is_a_table_once(source: FakeViews) -> None:
    done = CliRunner().invoke(cli, ["top"])
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            "default at 2025-11-24 16:00:00.000+00:00  brokers 1/2  3 topics, 20 partitions",
            "groups 4 Stable  lag 1,234,572  messages/s 8.2  commits/s -",
            "shards 1 Active, 1 Asleep",
            "",
            "BROKER  ADDRESS         STATE  PID   CONNECTIONS  LEADS  REQUESTS/S  IN/S    OUT/S    LONGEST  WAITING",
            "0       127.0.0.1:9092  Alive  4000  7            20     1,234       1.5 MB  0 bytes  12ms     3",
            "1       127.0.0.1:9093  Dead   -     7            20     -           1.5 MB  0 bytes  12ms     3",
            "",
            "GROUP  STATE               KIND  #MEMBERS  LAG        BEHIND  COMMITS/S  REBALANCES/H  COORDINATOR",
            "slow   Stable              pool  2         1,234,567  1m30s   0.5        9             0",
            "late   Stable              pool  2         5          1h06m   0.5        1             0",
            "fast   Stable              pool  2         0          0s      20         1             0",
            "new    PreparingRebalance  pool  2         -          -       -          1             -",
            "2025-11-24 16:00:00.000+00:00  broker 1: broker 1 (pid 40) is gone",
        ],
    )
    assert [type(each) for each in source.asked] == [GetOverview, ListGroupRows]


def test_a_broker_that_is_about_to_go_has_a_line(source: FakeViews) -> None:
    source.brokers = (broker_view(0), broker_view(1, notes=("being removed: 12 of 40 partitions left, 4 under way",)))
    lines = CliRunner().invoke(cli, ["top"]).stdout.splitlines()
    assert lines[3:5] == ["broker 1: being removed: 12 of 40 partitions left, 4 under way", ""]


def test_json_has_all_figures_as_they_are(source: FakeViews) -> None:
    found = json.loads(CliRunner().invoke(cli, ["top", "--format", "json", "--sort", "behind"]).stdout)
    assert (found["brokers"][0]["requests_per_s"], found["commits_per_s"]) == (1234.4, None)
    assert [row["group_id"] for row in found["group_rows"]] == ["late", "slow", "fast", "new"]


def test_without_a_monitor_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> Cluster:
        raise ClusterError("cluster 'default' has no Monitor")

    monkeypatch.setattr(Cluster, "connect", connect)
    done = CliRunner().invoke(cli, ["top"])
    assert done.exit_code == 1
    assert done.stderr.startswith("coterie: cluster 'default' has no Monitor: only a cluster of Coterie has a Monitor,")


def shown_at(shown: Shown, height: int = 40) -> list[str]:
    source = FakeViews(groups=tuple(group_row(f"g{number:02}", lag=number) for number in range(30)))
    console = Console(file=io.StringIO(), width=120, height=height)
    found, groups = source.view(GetOverview()), source.view(ListGroupRows()).groups
    console.print(picture(console, found, groups, shown))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def groups_of(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if line.startswith("g") and line[1].isdigit()]


def test_the_picture_fits_the_terminal_and_says_what_it_leaves_out() -> None:
    lines = shown_at(Shown("lag"), height=24)
    assert len(lines) <= 24
    assert groups_of(lines)[:2] == ["g29", "g28"]
    assert f"{30 - len(groups_of(lines))} more groups" in lines
    assert lines[-1].startswith("q quit   s sort by lag")


def test_keys_sort_reverse_and_scroll_as_far_as_there_are_groups() -> None:
    shown = Shown("lag")
    shown.press("s")
    assert shown.order == "behind"
    for key in ("r", "j", "down", "k", "?"):
        shown.press(key)
    assert groups_of(shown_at(shown, height=24))[0] == "g28", "behind are all the same, so by name, backwards"
    for _ in range(100):
        shown.press("j")
    assert groups_of(shown_at(shown, height=24))[-1] == "g00"
    shown.press("k")
    assert groups_of(shown_at(shown, height=24))[-1] == "g01"


class Scripted(Keys):
    """Keys that are pressed one after the other; None: the interval is over."""

    def __init__(self, *pressed: str | None) -> None:
        super().__init__(REAL.clock)
        self._pressed = list(pressed)

    def wait(self, seconds: float) -> str | None:
        return self._pressed.pop(0)


def test_a_monitor_that_does_not_answer_for_a_while_does_not_end_it() -> None:
    class Away(FakeViews):
        def view(self, operation: Operation[Any]) -> Any:
            if 2 <= len(self.asked) < 4:
                self.asked.append(operation)
                raise ClusterError("the cluster's Monitor does not answer")
            return super().view(operation)

    source, console = Away(groups=GROUPS), Console(file=io.StringIO(), width=120, height=40)
    watch(source, 1.0, Shown("lag"), console, Scripted(None, None, " ", "s", "q"))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert (shown.count("default at"), shown.count("does not answer"), shown.count("sort by behind")) == (5, 2, 1)
    assert len(source.asked) == 6


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where to write what is typed on standard input, a terminal."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield ours
    os.close(ours)


def test_keys_are_heard_without_enter(typed: int) -> None:
    keys = Keys(REAL.clock)
    with keys.listening():
        for written in (b"q", b"\x1b[B"):
            os.write(typed, written)
            assert keys.wait(10) == {b"q": "q"}.get(written, "down")
        assert keys.wait(0) is None


def test_without_a_terminal_there_are_no_keys_and_pictures_stand_one_below_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    console = Console(file=io.StringIO())
    with Keys(Clock(sleep=slept.append)).listening() as keys, Screen(console) as shown:
        shown.show("one")
        assert keys.wait(2.0) is None
        shown.show("two")
    assert isinstance(console.file, io.StringIO)
    assert (shown.is_live, slept, console.file.getvalue()) == (False, [2.0], "one\ntwo\n")
