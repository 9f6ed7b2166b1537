"""A group's page over time: one axis for all of it, and what it says of members and rebalances."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

import pytest

from actors.console.app import Options, make_app
from actors.console.axis import Window
from actors.console.entrance import Open
from actors.console.pages.episodes import Episode, counted, episodes, lives
from actors.console.pages.group import with_gaps
from actors.console.pages.parts import spark
from actors.console.sessions import Visitor
from actors.coordinator.groups.history import REPLACED
from actors.links.operations import Operation
from actors.links.views import (
    ClassicRebalanceView,
    GetGroup,
    GetGroupHistory,
    GroupHistory,
    GroupRow,
    GroupView,
    LagPoint,
    MemberView,
    Waited,
)
from actors.runtime.environment import Clock
from tests.support.asgi import Browser
from tests.support.fake_views import group_row
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import R, SyntheticSource

NOW = 1_795_003_200_000
MINUTE, HOUR = 60_000, 3_600_000
A, B, C, D = (f"app-{digit * 8}-4e5f-4a1b-8c2d-00000000000{digit}" for digit in "1234")


def member(member_id: str) -> MemberView:
    return MemberView(member_id, None, "app", "/10.0.0.1", {"orders": (0,)})


def rebalance(minutes_ago: float, generation: int, reason: str = "member joined") -> ClassicRebalanceView:
    began = NOW - round(minutes_ago * MINUTE)
    return ClassicRebalanceView("g", began, generation, reason, A, "app", "/h", began + 500, began + 700, 2)


def running(minutes_ago: float = 0.5) -> ClassicRebalanceView:
    made = rebalance(minutes_ago, 9)
    return replace(made, joined_ms=None, ended_ms=None, members=0, came=(C,), expelled=(B,), member_id=C)


def view(*rebalances: ClassicRebalanceView, state: str = "Stable", **more: object) -> GroupView:
    row: GroupRow = group_row("g", state=state, members=2, rebalances=counted_last_hour(rebalances), kind="consumer")
    made = GroupView(NOW, row, (member(A), member(B)), rebalances=rebalances)
    return replace(made, **more)  # type: ignore[arg-type]


def counted_last_hour(rebalances: tuple[ClassicRebalanceView, ...]) -> int:
    return sum(each.began_ms >= NOW - HOUR and each.reason != REPLACED for each in rebalances)


# --- one axis -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minutes", [1, 15, 60, 360, 1440, 10_000, 100_000])
@pytest.mark.parametrize("until", [NOW, NOW + 1, NOW + 86_399_999, NOW - NOW % HOUR])
def test_no_two_marks_of_an_axis_say_the_same(minutes: int, until: int) -> None:
    window = Window(until - minutes * MINUTE, until)
    marks = window.marks()
    assert len({text for _, text in marks}) == len(marks)
    assert len(marks) <= 6
    assert minutes < 2 or len(marks) >= 3
    assert all(window.since_ms < at <= until for at, _ in marks)


def test_marks_are_round_times_and_midnight_has_its_day() -> None:
    noon = NOW - NOW % (24 * HOUR) + 12 * HOUR
    assert [text for _, text in Window(noon - HOUR, noon).marks()] == [
        *("11:10", "11:20", "11:30", "11:40", "11:50", "12:00")
    ]
    day = [text for _, text in Window(noon - 24 * HOUR, noon).marks()]
    assert (day[0], day[2][-3:], day[-1]) == ("16:00", "Nov", "12:00")


def test_a_window_places_moments() -> None:
    window = Window(100, 200)
    assert [window.at(each) for each in (0, 100, 150, 300)] == [0, 0, 500, 1000]
    assert Window(100, 100).at(100) == 0


class Told(SyntheticSource):
    """A cluster with one group, of which this is told."""

    def __init__(self, found: GroupView, past: GroupHistory) -> None:
        super().__init__(Clock(wall_ms=lambda: NOW))
        self.found, self.past = found, past

    async def view(self, operation: Operation[R]) -> R:
        told = {GetGroup: self.found, GetGroupHistory: self.past}
        return cast(R, told[type(operation)])  # type: ignore[index]


async def page(
    found: GroupView, past: tuple[ClassicRebalanceView, ...] = (), points: tuple[LagPoint, ...] = (), query: str = ""
) -> str:
    source = Told(found, GroupHistory("g", points, past))
    browser = Browser(make_app(Open(Visitor(None, source, SyntheticDesk())), Options()))
    return (await browser.get(f"/group?id=g{query}")).text


def words(text: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", text).split())


async def test_the_curves_and_who_was_there_show_the_same_hour_however_few_points_there_are() -> None:
    points = tuple(LagPoint(NOW - n * 5_000, 3, 1.0, 1) for n in (2, 1, 0))
    text = await page(view(rebalance(50, 1)), past=(rebalance(50, 1),), points=points)
    window = Window(NOW - HOUR, NOW)
    assert f'"window":[{window.since_ms},{window.until_ms}]' in text
    for _, mark in window.marks():
        assert f'"{mark}"]' in text, "of the curves"
        assert f">{mark}</text>" in text, "of who was there"


@pytest.mark.parametrize(("minutes", "span"), [(3, "15m"), (14, "15m"), (16, "1h"), (50, "1h")])
async def test_of_a_short_past_less_than_an_hour_is_shown_and_that_stays_so_while_the_page_lives(
    minutes: int, span: str
) -> None:
    text = await page(view(), points=(LagPoint(NOW - minutes * MINUTE, 3, 1.0, 1),))
    assert f'data-live="/live/group?id=g&amp;span={span}"' in text
    window = Window(NOW - {"15m": 15, "1h": 60}[span] * MINUTE, NOW)
    assert f'"window":[{window.since_ms},{window.until_ms}]' in text


async def test_a_time_that_was_chosen_is_shown_however_short_the_past_is() -> None:
    text = await page(view(), points=(LagPoint(NOW - MINUTE, 3, 1.0, 1),), query="&span=24h")
    assert f'"window":[{NOW - 24 * HOUR},{NOW}]' in text


async def test_rebalances_are_counted_alike_wherever_the_page_says_how_many() -> None:
    kept = (rebalance(70, 1), rebalance(50, 2), rebalance(40, 3, REPLACED), rebalance(9, 4))
    said = words(await page(view(*kept), past=kept[1:]))
    assert "Rebalances 2 in the last hour" in said
    assert "2 rebalances in this time" in said


async def test_a_rebalance_that_is_under_way_is_there_beside_those_that_are_remembered() -> None:
    past = (rebalance(50, 2),)
    found = view(*past, running(), state="PreparingRebalance", awaited=(A,), awaited_count=1, phase_ends_in_ms=9_000)
    said = words(await page(found, past=past))
    assert "2 rebalances in this time" in said
    assert "30 s so far" in said
    assert "0 members" not in said
    assert "generation 9 ended, members join" in said


def test_where_nobody_looked_a_curve_has_a_hole() -> None:
    points = [LagPoint(at * MINUTE, 1, 0.0, 1) for at in (0, 10, 20, 50, 51)]
    assert [each.lag for each in with_gaps(points)] == [1, 1, 1, None, 1, 1]


def test_a_short_past_is_no_whole_hour() -> None:
    drawn = spark((1, 2, 4), "lag", 31)
    assert 'd="M933 17.0 L967 12.0 L1000 2.0"' in drawn
    assert "L933 24 Z" in drawn, "nor is it filled before it began"


# --- rebalances -----------------------------------------------------------------------------------------------------


def test_how_a_rebalance_went_on_is_never_taken_for_another_way() -> None:
    broken = replace(rebalance(10, 1), ended_ms=None, joined_ms=None, members=0)
    empty = replace(rebalance(8, 2), members=0)
    quiet = rebalance(6, 3, REPLACED)
    found = view(broken, empty, quiet, rebalance(4, 4), running(), state="PreparingRebalance")
    told = {each.view.generation_id: (each.how, each.length_ms, each.then) for each in episodes(found)}
    assert told == {
        1: ("broken off", 2 * MINUTE, "generation 1 ended, the next rebalance broke this one off"),
        2: ("ended", 700, "generation 2 ended, nobody is left"),
        3: ("quiet", 700, "generation 3 goes on with 2 members"),
        4: ("ended", 700, "generation 4 ended, 2 members after it"),
        9: ("running", MINUTE / 2, "generation 9 ended, members join"),
    }
    assert counted(episodes(found), Window(NOW - HOUR, NOW)) == 4


def test_an_old_rebalance_without_an_end_does_not_run_for_ever() -> None:
    stable = view(replace(rebalance(3, 1), ended_ms=None))
    assert [each.how for each in episodes(stable)] == ["broken off"]
    syncing = view(replace(rebalance(3, 1), ended_ms=None), state="CompletingRebalance")
    assert [(each.how, each.then) for each in episodes(syncing)] == [
        ("running", "generation 1 ended, 2 members joined")
    ]


@pytest.mark.parametrize("phase", ["join", "sync"])
async def test_whoever_is_awaited_has_a_bar(phase: str) -> None:
    began = running()
    if phase == "sync":
        began = replace(began, joined_ms=NOW - 10_000, members=2)
    state = "PreparingRebalance" if phase == "join" else "CompletingRebalance"
    came = Waited(C, phase, 700, "app", "/h")
    found = view(replace(began, waited=(came,)), state=state, awaited=(A,), awaited_count=1)
    (told,) = episodes(found)
    waits = 30_000 if phase == "join" else 10_000
    assert told.waited == (Waited(A, phase, waits, "app", "/10.0.0.1"), came)
    said = words(await page(found))
    assert f"waits {waits // 1000} s for app 111111 on 10.0.0.1 to {phase}" in said
    assert f"waited 700 ms for app 333333 on h to {phase}" in said
    assert "app 111111 awaited" in said, "and its lane says so"


async def test_of_many_that_are_awaited_all_are_counted() -> None:
    awaited = tuple(f"app-{number:08}" for number in range(10))
    found = view(running(), state="PreparingRebalance", awaited=awaited, awaited_count=250, phase_ends_in_ms=9_000)
    said = words(await page(found))
    assert "The group waits for 250 members to rejoin." in said
    assert "and 242 more" in said


# --- members --------------------------------------------------------------------------------------------------------


def went(
    found: GroupView, past: tuple[ClassicRebalanceView, ...] = ()
) -> list[tuple[str, float | None, float | None, str]]:
    def ago(at: int | None) -> float | None:
        return None if at is None else (NOW - at) / MINUTE

    known: tuple[Episode, ...] = episodes(found, past)
    return [(life.member_id, ago(life.came_ms), ago(life.gone_ms), life.how) for life in lives(found.members, known)]


def test_lives_of_members_follow_from_rebalances() -> None:
    first = replace(rebalance(9, 1), came=(A, B, C))
    then = replace(rebalance(5, 2), came=(D,), expelled=(C,), left=("x",), replaced=("y",))
    assert went(view(then), (first,)) == [
        (A, 9, None, "here"),
        (B, 9, None, "here"),
        ("x", None, 5, "left"),
        (C, 9, 5, "expelled"),
        ("y", None, 5, "replaced"),
    ]


def test_while_a_rebalance_runs_who_comes_has_a_lane_and_who_was_expelled_is_gone() -> None:
    assert went(view(running(), state="PreparingRebalance")) == [
        (A, None, None, "here"),
        (C, 0.5, None, "joining"),
        (B, None, 0.5, "expelled"),
    ]


def test_a_killed_member_that_came_back_did_not_leave() -> None:
    quiet = replace(rebalance(5, 1, REPLACED), came=(A,), replaced=("older",))
    of_older_versions = replace(rebalance(7, 1, REPLACED), came=("older",), left=("oldest",))
    assert went(view(of_older_versions, quiet))[2:] == [
        ("older", 7 - 700 / MINUTE, 5, "replaced"),
        ("oldest", None, 7, "replaced"),
    ]


def test_how_many_more_came_is_no_member() -> None:
    many = tuple(f"app-{number:08}" for number in range(50))
    found = view(replace(rebalance(5, 1), left=(*many, "and 7 more")))
    assert len(went(found)) == 2 + 50


async def test_members_with_one_client_id_are_told_apart_on_all_of_the_page() -> None:
    came = replace(rebalance(9, 1), came=(A, B), waited=(Waited(B, "join", 400, "app", "/10.0.0.1"),))
    gone = replace(rebalance(5, 2), expelled=(C,), left=(D,))
    said = words(await page(view(came, gone)))
    for one in ("app 111111", "app 222222", "app 333333 expelled", "app 444444 left"):
        assert one in said
    assert "+2 came app 111111, app 222222" in said
    assert "\u22121 expelled app 333333" in said
    assert "waited 400 ms for app 222222 on 10.0.0.1 to join" in said
    assert said.count("by app 111111") == 2
