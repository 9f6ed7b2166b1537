"""The console in real Chromium: each page, how it lives, a reset, the dark, a phone, keys; and its screenshots.

COTERIE_SCREENSHOTS=1 writes the screenshots of docs/console.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from actors.console.app import Options
from actors.console.entrance import Open
from actors.console.sessions import Visitor
from actors.console.source import Shared
from actors.runtime.environment import REAL, Clock
from tests.browser.conftest import Window, Windows
from tests.support.console_users import Users
from tests.support.served_console import served_console
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import SyntheticSource

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "console"
NOON = 1_795_003_200_000
PAGES = ("", "groups", "group?id=billing", "topics", "topic?name=orders", "records?name=orders", "group/reset?id=audit")


@pytest.fixture(scope="module")
def source() -> SyntheticSource:
    """Time goes on from noon, so that pictures look alike whenever they are made."""
    began = REAL.clock.wall_ms()
    return SyntheticSource(Clock(wall_ms=lambda: NOON + REAL.clock.wall_ms() - began), began_ms=NOON)


@pytest.fixture(scope="module")
def desk() -> SyntheticDesk:
    return SyntheticDesk(now_ms=REAL.clock.wall_ms())


@pytest.fixture(scope="module")
def address(source: SyntheticSource, desk: SyntheticDesk) -> Iterator[str]:
    visitor = Visitor(None, Shared(source, REAL.clock, 0.1), desk)
    with served_console(Open(visitor), Options(writes=True, interval_s=0.2)) as found:
        yield found


def picture(window: Window, name: str, high: int = 0) -> None:
    """Keep a screenshot, if they are asked for."""
    if not os.environ.get("COTERIE_SCREENSHOTS"):
        return
    PICTURES.mkdir(exist_ok=True)
    if high:
        wide = (window.page.viewport_size or {"width": 1280})["width"]
        window.page.set_viewport_size({"width": wide, "height": high})
    window.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_opens_at_any_width_and_nothing_sticks_out(windows: Windows, address: str, path: str) -> None:
    for wide, scheme in ((1280, "light"), (390, "dark")):
        window = windows.open(address, wide, scheme)
        window.go(path)
        assert window.page.locator("h1").count() == 1
        assert window.page.evaluate("document.documentElement.scrollWidth") <= wide


def test_pictures_are_made_of_what_the_pages_show(windows: Windows, address: str) -> None:
    for name, path, wide, scheme, high in (
        ("cluster", "", 1280, "light", 900),
        ("groups", "groups", 1280, "light", 900),
        ("group", "group?id=billing", 1280, "light", 1500),
        ("group-dark", "group?id=shipping", 1280, "dark", 1100),
        ("records", "records?name=orders", 1280, "light", 800),
        ("reset", "group/reset?id=audit&to=earliest", 1280, "light", 860),
        ("phone", "group?id=billing", 390, "dark", 844),
        ("phone-groups", "groups", 390, "light", 844),
    ):
        window = windows.open(address, wide, scheme)
        window.go(path)
        if "group?" in path:
            assert window.page.locator(".chart canvas").count() == 2
        picture(window, name, high)


def test_a_page_lives_and_a_rebalance_appears_by_itself(
    windows: Windows, address: str, source: SyntheticSource
) -> None:
    window = windows.open(address)
    window.go("group?id=billing")
    assert not window.page.get_by_text("killed-77e1").count()
    before = window.page.locator(".figure .value").nth(1).inner_text()
    source.killed_ms = source.now
    try:
        window.page.wait_for_selector('.change.expelled[title="killed-77e1"]')
        expect(window.page.locator(".figure .value").nth(1)).not_to_have_text(before)
    finally:
        source.killed_ms = None


def test_the_focus_stays_where_it_was_when_a_region_is_replaced(windows: Windows, address: str) -> None:
    window = windows.open(address)
    window.go("groups")
    window.page.keyboard.press("j")
    window.page.keyboard.press("j")
    window.page.evaluate("document.body.dataset.looks = 0")
    expect(window.page.locator("body")).to_have_attribute("data-looks", re.compile(r"^([3-9]|\d\d+)$"))
    assert window.page.evaluate("document.activeElement.getAttribute('href')") == "/group?id=audit"


def test_the_way_through_by_keys(windows: Windows, address: str) -> None:
    page = windows.open(address).page
    page.goto(address)
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_url("**/groups")
    page.keyboard.press("/")
    page.keyboard.type("bill")
    page.wait_for_url("**/groups?q=bill")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/group?id=billing")
    page.keyboard.press("?")
    assert page.locator("dialog[open]").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog[open]").count()


def test_on_a_phone_it_is_said_who_went_and_how(windows: Windows, address: str) -> None:
    page = windows.open(address, 390).page
    page.goto(f"{address}group?id=billing")
    expelled = page.locator(".lanes li", has=page.locator(".how.expelled")).first
    assert expelled.locator(".how").is_visible()
    whole = "each => each.scrollWidth <= each.clientWidth + 1"
    assert all(page.locator(".lanes .member").evaluate_all(f"all => all.map({whole})")), "no name is cut"
    names = [" ".join(text.split()) for text in page.locator(".lanes .member").all_inner_texts()]
    assert len(set(names)) == len(names)
    assert page.locator(".change.expelled + small").first.inner_text() in names


def test_curves_and_lanes_have_the_same_times_under_them(windows: Windows, address: str) -> None:
    for span, wide in (("15m", 1280), ("1h", 390), ("24h", 1280)):
        page = windows.open(address, wide).page
        page.goto(f"{address}group?id=billing&span={span}")
        under = page.locator(".ticks text").all_text_contents()
        told = page.evaluate("JSON.parse(document.getElementById('series').textContent).axis.map(([, text]) => text)")
        assert under == told
        assert len(set(under)) == len(under) >= 3


def test_the_dark_is_the_systems_and_can_be_switched(windows: Windows, address: str) -> None:
    window = windows.open(address, scheme="dark")
    window.go("")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    dark = window.page.evaluate(colour)
    window.page.keyboard.press("t")
    light = window.page.evaluate(colour)
    assert light != dark
    window.go("groups")
    assert window.page.evaluate(colour) == light, "it is kept"


def test_a_search_finds_while_one_types_and_goes_on_living(windows: Windows, address: str) -> None:
    window = windows.open(address)
    window.go("groups")
    window.page.locator("input[type=search]").fill("clicks")
    window.page.wait_for_url("**/groups?q=clicks")
    window.page.wait_for_selector("#list tbody tr:nth-child(3):last-child")
    window.page.get_by_role("link", name="Lag", exact=True).click()
    window.page.wait_for_url("**sort=lag**")
    assert window.page.locator("#list tbody tr b").first.inner_text() == "experiments"


def test_a_reset_is_shown_before_it_is_done(windows: Windows, address: str, desk: SyntheticDesk) -> None:
    desk.moved.clear()
    window = windows.open(address)
    window.go("group?id=audit")
    window.page.get_by_role("link", name="Reset offsets").click()
    window.page.get_by_role("button", name="Preview").click()
    assert window.page.locator("#preview tbody tr").count() == 3
    assert not desk.moved
    window.page.get_by_role("button", name="Move 3 offsets").click()
    window.page.wait_for_selector(".alert.good")
    assert len(desk.moved["audit"]) == 3


def test_a_login_by_a_form_and_the_way_out(windows: Windows, source: SyntheticSource) -> None:
    with served_console(Users(source), Options()) as closed:
        window = windows.open(closed, 640)
        page = window.page
        page.goto(f"{closed}groups?q=bill")
        picture(window, "login", 560)
        page.get_by_label("User").fill("ann")
        page.get_by_label("Password").fill("good")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/groups?q=bill")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")


def test_without_scripts_all_but_the_curves_is_there(windows: Windows, address: str) -> None:
    page = windows.open(address, scripts=False).page
    page.goto(f"{address}group?id=billing")
    assert page.locator(".lanes li").count() > 3
    page.goto(f"{address}groups")
    page.locator("input[type=search]").fill("clicks")
    page.locator("input[type=search]").press("Enter")
    assert page.locator("#list tbody tr").count() == 3
