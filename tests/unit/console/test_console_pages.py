"""Pages of the console: what they say of a cluster, and that nothing of a cluster becomes markup."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import cast
from urllib.parse import quote

import pytest

from actors.console import figures
from actors.console.app import Options, make_app
from actors.console.axis import Window
from actors.console.entrance import Open
from actors.console.html import Html, el, join
from actors.console.live import events
from actors.console.pages.page import Asked, Page, Region, Series
from actors.console.sessions import Visitor
from actors.console.source import Shared, SourceError
from actors.links.operations import Operation
from actors.links.views import GetOverview, Overview
from actors.runtime.environment import Clock
from tests.support.asgi import Browser
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import R, SyntheticSource

NOW = 1_795_000_000_000
WINDOW = Window(0, 60_000)
CLOCK = Clock(wall_ms=lambda: NOW)
EVIL = '<script>alert("x")</script>\'"&'
PAGES = ("/", "/groups", "/group?id=billing", "/topics", "/topic?name=orders", "/records?name=orders")


def browser(source: SyntheticSource | None = None, desk: SyntheticDesk | None = None, **options: bool) -> Browser:
    seen = source or SyntheticSource(CLOCK, began_ms=NOW)
    return Browser(make_app(Open(Visitor(None, seen, desk or SyntheticDesk())), Options(**options)))


@pytest.mark.parametrize("page", PAGES)
async def test_each_page_is_there_and_loads_nothing_from_elsewhere(page: str) -> None:
    answer = await browser().get(page)
    assert answer.status == 200
    assert answer.text.startswith("<!doctype html>")
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
    assert "https://" not in answer.text
    assert " style=" not in answer.text, "the policy forbids it"


async def test_a_cluster_is_shown_with_what_runs_where() -> None:
    text = (await browser().get("/")).text
    for said in (
        "Broker 2",
        "Ray node 3f2a9c41",
        "10.0.0.12 · rack-b",
        "Controller",
        "leads 52",
        "1 spare",
        "ended by signal 9",
    ):
        assert said in text, said
    assert "__consumer_offsets-31 · loading" in text


async def test_a_broker_that_is_about_to_go_says_so() -> None:
    class Leaving(SyntheticSource):
        async def view(self, operation: Operation[R]) -> R:
            found = await super().view(operation)
            assert isinstance(found, Overview)
            note = "being removed: 12 of 40 partitions left, 4 under way"
            return cast(R, replace(found, brokers=(replace(found.brokers[0], notes=(note,)), *found.brokers[1:])))

    text = (await browser(Leaving(CLOCK)).get("/")).text
    assert text.count('<p class="warn">being removed: 12 of 40 partitions left, 4 under way</p>') == 1


async def test_a_groups_page_says_who_came_who_was_expelled_and_who_was_waited_for() -> None:
    text = (await browser().get("/group?id=billing")).text
    for said in ("a session ended: no heartbeat for 45 s", "\u22121 expelled", "+3 came", "took 9.02\u202fs"):
        assert said in text, said
    assert re.search(
        "waited <b>8.35\u202fs</b> for <span [^>]*><b>billing-api</b> <small>\\w+</small></span> on 10.0.0.12", text
    )
    assert "join 8.4\u202fs" in text
    assert "sync 620\u202fms" in text


async def test_a_running_rebalance_says_whom_it_waits_for_and_how_long() -> None:
    text = (await browser().get("/group?id=shipping")).text
    assert "The group waits for 2 members to rejoin." in text
    assert "It goes on without them in " in text
    assert re.search("shipping-3</b> <small>\\w+</small> on 10.0.0.11</span>, pid 41251 on node 3f2a9c", text)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("fraud-scores", "Each is an actor of a ConsumerPool."),
        ("archive", "Each is a member of a Spark job"),
        ("audit", "It only commits offsets"),
    ],
)
async def test_members_are_shown_as_what_they_are(group: str, said: str) -> None:
    assert said in (await browser().get(f"/group?id={group}")).text


async def test_groups_are_searched_chosen_and_sorted() -> None:
    many = browser()
    assert rows((await many.get("/groups?q=CLICKS")).text) == ["archive", "experiments", "recommendations"]
    assert rows((await many.get("/groups?show=rebalancing")).text) == ["shipping", "warehouse-sync"]
    by_lag = rows((await many.get("/groups?sort=lag")).text)
    assert by_lag[0] == "experiments"
    assert rows((await many.get("/groups?sort=lag&order=up")).text) == by_lag[::-1]


def rows(text: str) -> list[str]:
    parts = text.split('data-row><span class="two"><b>')[1:]
    return [part.partition("</b>")[0] for part in parts]


async def test_a_list_of_many_is_shown_in_pages() -> None:
    many = browser(SyntheticSource(CLOCK, began_ms=NOW, many=1000))
    first, second = (await many.get("/groups")).text, (await many.get("/groups?from=100")).text
    assert "1 to 100 of 1\u202f012" in first
    assert "101 to 200 of" in second
    assert len(rows(first)) == len(rows(second)) == 100
    assert not set(rows(first)) & set(rows(second))


@pytest.mark.parametrize("page", ["/group?id=none", "/topic?name=none", "/records?name=none"])
async def test_what_is_not_there_is_said(page: str) -> None:
    answer = await browser().get(page)
    assert answer.status == 404
    assert "There is no" in answer.text


@pytest.mark.parametrize(
    "page",
    [
        "/",
        "/groups",
        "/groups?q={}",
        "/group?id={}",
        "/topics",
        "/topic?name={}",
        "/records?name={}",
        "/group?id=x{}",
        "/group/reset?id=audit&to=time&value={}",
        "/nothing{}",
    ],
)
async def test_nothing_of_a_cluster_becomes_markup(page: str) -> None:
    evil = browser(SyntheticSource(CLOCK, began_ms=NOW, hostile=EVIL), SyntheticDesk(value=EVIL.encode()), writes=True)
    text = (await evil.get(page.format(quote(EVIL)))).text
    assert "<script>alert" not in text
    assert 'alert("x")' not in text


async def test_records_are_shown_as_what_they_are() -> None:
    text = (await browser().get("/records?name=orders&offset=46866&count=20")).text
    assert "&quot;order&quot;: 46867" in text, "JSON, indented"
    assert "0000  00 ff 11 22" in text, "bytes that are no text"
    assert "no value: a tombstone" in text
    assert "Earlier" not in text
    assert 'href="/records?name=orders&amp;offset=46886&amp;count=20"' in text


async def test_a_large_value_is_cut_and_says_so() -> None:
    shown = (await browser(desk=SyntheticDesk(value=b"x" * 100_000)).get("/records?name=orders&count=1")).text
    assert "97.7\u202fKiB, of which 4\u202fKiB are shown" in shown
    assert len(shown) < 12_000


async def test_regions_alone_are_given_to_a_script() -> None:
    answer = await browser().get("/groups?q=billing", x_regions="1")
    found = json.loads(answer.text)
    assert set(found["regions"]) == {"head", "tools", "list"}
    assert rows(found["regions"]["list"]) == ["billing"]


# --- parts ----------------------------------------------------------------------------------------------------------


def test_texts_and_attributes_are_escaped_and_elements_are_not() -> None:
    made = el("a", "<b>", el("i", "&"), [1, None], title='"', class_="x", hidden=True, id=None)
    assert made == '<a title="&quot;" class="x" hidden>&lt;b&gt;<i>&amp;</i>1</a>'
    assert join("<", Html("<br>")) == "&lt;<br>"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (59.94, "59.9 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90_061, "1 d 1 h"),
        (None, "\u2013"),
    ],
)
def test_seconds(value: float | None, said: str) -> None:
    assert figures.seconds(value).replace("\u202f", " ") == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.5, "0.5"), (9_999, "9 999"), (18_420, "18.4 k"), (4_020_113, "4.02 M"), (3e9, "3 G")],
)
def test_short_numbers(value: float, said: str) -> None:
    assert figures.short(value).replace("\u202f", " ") == said


def test_runs_of_partitions() -> None:
    assert figures.ranges([5, 0, 1, 2, 9, 8]) == "0\u20132, 5, 8\u20139"


def test_only_points_after_the_last_that_was_sent_are_sent() -> None:
    series = Series((1, 2, 3), {"lag": (7, None, 9)}, WINDOW, ((2, "x"),))
    assert series.after(2) == Series((3,), {"lag": (9,)}, WINDOW, ((2, "x"),))
    assert series.after(3).times_ms == ()


def test_a_number_of_a_query_is_bounded() -> None:
    asked = Asked(SyntheticSource(CLOCK), SyntheticDesk(), "/", {"a": "7", "b": "-1", "c": "9" * 30, "d": "\u0663"})
    assert [asked.number(key, 5) for key in "abcd"] == [7, 5, 5, 5]
    assert replace(asked, query={"q": "a b"}).with_(q=None, sort="x") == "/?sort=x"


def a_page(text: str, look: int, times: tuple[int, ...]) -> Page:
    regions = (Region("a", Html(text)), Region("b", Html("x")))
    return Page("t", "groups", regions, look, Series(times, {"lag": tuple(range(1, len(times) + 1))}, WINDOW))


async def test_a_stream_sends_what_differs_and_only_new_points() -> None:
    looks = iter(
        (
            Page(
                "t",
                "groups",
                (Region("a", Html("1")), Region("b", Html("x"))),
                10,
                Series((5, 10), {"lag": (1, 2)}, WINDOW),
            ),
            Page(
                "t",
                "groups",
                (Region("a", Html("2")), Region("b", Html("x"))),
                20,
                Series((5, 10, 20), {"lag": (1, 2, 3)}, WINDOW),
            ),
            Page(
                "t",
                "groups",
                (Region("a", Html("2")), Region("b", Html("x"))),
                20,
                Series((5, 10, 20), {"lag": (1, 2, 3)}, WINDOW),
            ),
            None,
        )
    )

    async def make() -> Page | None:
        return next(looks)

    sent = [text async for text in events(make, 0.0, 7, asyncio.Event())]
    assert [text.partition("\n")[0] for text in sent] == ["retry: 2000", "event: look", "event: look", "event: over"]
    first, second = (json.loads(text.partition("data: ")[2]) for text in sent[1:3])
    assert first["regions"] == {"a": "1", "b": "x"}
    assert first["series"]["times"] == [10]
    series = {"times": [20], "values": {"lag": [3]}, "marks": [], "window": [0, 60_000], "axis": [[60_000, "00:01"]]}
    assert second == {"look": 20, "regions": {"a": "2"}, "series": series}


async def test_a_stream_says_that_the_cluster_cannot_be_asked_and_ends_with_the_console() -> None:
    closing = asyncio.Event()

    async def make() -> Page | None:
        closing.set()
        raise SourceError("the controller does not answer")

    sent = [text async for text in events(make, 0.0, 0, closing)]
    assert sent[1:] == ['event: problem\ndata: {"text": "the controller does not answer"}\n\n']


async def test_many_who_look_ask_once() -> None:
    now = [0.0]
    source = SyntheticSource(CLOCK)
    shared = Shared(source, Clock(monotonic=lambda: now[0]), 1.0)
    await asyncio.gather(*(shared.view(GetOverview()) for _ in range(5)))
    assert len(source.asked) == 1
    now[0] = 1.5
    await shared.view(GetOverview())
    assert len(source.asked) == 2


async def test_a_cluster_that_cannot_be_asked_now_is_asked_again() -> None:
    class Silent(SyntheticSource):
        async def view(self, operation: Operation[R]) -> R:
            raise SourceError("the controller does not <answer>")

    answer = await browser(Silent(CLOCK)).get("/")
    assert (answer.status, answer.headers["refresh"]) == (503, "3")
    assert "the controller does not &lt;answer&gt;" in answer.text
