"""Access to the console: its logins, and the views and changes that each user is allowed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from actors.console.app import Options, make_app
from actors.console.desk import Rights
from actors.console.entrance import Open
from actors.console.server import ConsoleError, Place, served
from actors.console.sessions import Visitor
from actors.console.tries import Tries
from actors.runtime.environment import Clock, Environment
from tests.support.asgi import Answer, Browser
from tests.support.console_users import Users
from tests.support.runtime_helpers import until
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import SyntheticSource

CHANGE = "/group/reset?id=audit&to=earliest"


class Hands:
    """A clock that tests move, and the waits that were asked of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waited: list[float] = []
        self.held: asyncio.Event | None = None
        self.environment = Environment(Clock(monotonic=lambda: self.now, wall_ms=lambda: 1_795_000_000_000))

    async def pause(self, seconds: float) -> None:
        self.waited.append(seconds)
        if self.held is not None:
            await self.held.wait()


def opened(*, writes: bool = True, names: tuple[str, ...] = ()) -> tuple[Browser, SyntheticDesk]:
    desk = SyntheticDesk()
    options = Options(writes=writes, names=names, port=9080)
    return Browser(make_app(Open(Visitor(None, SyntheticSource(), desk)), options)), desk


def closed(
    rights: Rights | None = None, hands: Hands | None = None, proxies: tuple[str, ...] = ()
) -> tuple[Browser, Users, Hands]:
    hands = hands or Hands()
    users = Users(SyntheticSource(hands.environment.clock), SyntheticDesk(rights or Rights()), hands.environment.clock)
    options = Options(writes=True, port=9080, proxies=proxies, pause=hands.pause)
    return Browser(make_app(users, options, hands.environment)), users, hands


def field(answer: Answer, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.text)
    assert found is not None, answer.text
    return found[1]


async def log_in(
    browser: Browser, password: str = "good", user: str = "ann", wanted: str = "", forwarded: str = ""
) -> Answer:
    form = await browser.get("/login")
    filled = {"token": field(form, "token"), "user": user, "password": password, "next": wanted}
    return await browser.post("/login", filled, x_forwarded_for=forwarded)


# --- any request ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9080", "127.0.0.1:9080", "[::1]:9080", "10.1.2.3", "ops.example"]
)
async def test_a_name_of_ours_is_answered(host: str) -> None:
    browser, _ = opened(names=("ops.example",))
    assert (await Browser(browser.app, host).get("/")).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9080", "localhost.evil.example", "", "127.0.0.1.evil.example"]
)
async def test_a_name_that_others_made_lead_here_is_refused(host: str) -> None:
    browser, _ = opened()
    assert (await Browser(browser.app, host).get("/")).status == 421


async def test_every_answer_forbids_what_pages_of_ours_do_not_need() -> None:
    browser, _ = opened()
    for address in ("/", "/none", "/login", "/static/x/y"):
        headers = (await browser.get(address)).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
async def test_other_methods_are_refused(method: str) -> None:
    browser, _ = opened()
    assert (await browser.ask(method, "/")).status == 405


async def test_our_files_are_kept_for_good_and_packed() -> None:
    browser, _ = opened()
    address = re.search(r'"(/static/[^"]*console.css)"', (await browser.get("/")).text)
    assert address is not None
    answer = await browser.get(address[1], accept_encoding="gzip")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    assert ":root" in answer.text
    assert (await browser.get("/static/x/../app.py")).status == 404
    assert (await browser.get(address[1].replace("console.css", "%2e%2e/app.py"))).status == 404


async def test_pages_are_packed_and_streams_are_not() -> None:
    browser, _ = opened()
    assert (await browser.get("/", accept_encoding="gzip")).headers["content-encoding"] == "gzip"


# --- changes --------------------------------------------------------------------------------------------------------


async def test_a_reset_is_carried_out_as_it_was_shown_and_once() -> None:
    browser, desk = opened()
    await browser.get("/")
    preview = await browser.get(CHANGE)
    filled = {"token": field(preview, "token"), "plan": field(preview, "plan"), "id": "audit"}
    assert "Move 3 offsets" in preview.text
    assert not desk.moved, "a preview changes nothing"
    done = await browser.post("/group/reset", filled)
    assert done.status == 200
    assert "3 offsets of audit moved" in done.text
    assert sorted(desk.moved["audit"].values()) == [0, 100, 200]
    assert (await browser.post("/group/reset", filled)).status == 409


async def test_without_writes_there_is_no_reset() -> None:
    browser, desk = opened(writes=False)
    assert "Reset offsets" not in (await browser.get("/group?id=audit")).text
    assert (await browser.get(CHANGE)).status == 404
    assert (await browser.post("/group/reset", {"token": "x"})).status in (404, 405)
    assert not desk.moved


@pytest.mark.parametrize("case", ["no token", "another's token", "another origin", "another site", "null origin"])
async def test_a_change_that_a_page_of_others_sends_is_refused(case: str) -> None:
    browser, desk = opened()
    await browser.get("/")
    preview = await browser.get(CHANGE)
    filled = {"token": field(preview, "token"), "plan": field(preview, "plan"), "id": "audit"}
    headers: dict[str, str] = {}
    if case == "no token":
        filled["token"] = ""
    if case == "another's token":
        browser.cookies = {"coterie-console-9080": "somebody-else"}
    if case == "another origin":
        headers["origin"] = "http://evil.example"
    if case == "null origin":
        headers["origin"] = "null"
    if case == "another site":
        headers |= {"origin": "", "sec_fetch_site": "cross-site"}
    assert (await browser.post("/group/reset", filled, **headers)).status == 403
    assert not desk.moved


async def test_a_group_with_members_is_not_reset() -> None:
    browser, _ = opened()
    await browser.get("/")
    answer = await browser.get("/group/reset?id=billing&to=latest")
    assert "Stop them first" in answer.text
    assert 'name="plan"' not in answer.text


async def test_what_is_no_time_is_said() -> None:
    browser, _ = opened()
    assert "is not a time" in (await browser.get("/group/reset?id=audit&to=time&value=soon")).text


async def test_a_form_that_is_too_large_has_no_fields() -> None:
    browser, desk = opened()
    await browser.get("/")
    assert (await browser.post("/group/reset", {"token": "x" * 100_000})).status == 403
    assert not desk.moved


# --- logins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["/", "/groups", "/group?id=a", "/topics", "/topic?name=a", "/records?name=a", CHANGE])
async def test_nothing_is_shown_before_a_login(page: str) -> None:
    browser, users, _ = closed()
    answer = await browser.get(page)
    assert answer.status == 303
    assert answer.headers["location"].startswith("/login")
    assert (await browser.get("/live/groups")).status == 204
    assert not users.source.asked


async def test_a_login_leads_where_one_wanted_to_go_and_has_another_cookie() -> None:
    browser, _, _ = closed()
    await browser.get("/login")
    before = dict(browser.cookies)
    answer = await log_in(browser, wanted="/group?id=billing")
    assert (answer.status, answer.headers["location"]) == (303, "/group?id=billing")
    assert browser.cookies != before, "a cookie that somebody put there is worth nothing"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = await browser.get("/")
    assert page.status == 200
    assert "ann" in page.text


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/logout"]
)
async def test_a_login_leads_nowhere_else(wanted: str) -> None:
    browser, _, _ = closed()
    assert (await log_in(browser, wanted=wanted)).headers["location"] == "/"


async def test_a_login_without_its_form_is_refused() -> None:
    browser, users, _ = closed()
    answer = await browser.post("/login", {"user": "ann", "password": "good", "token": "made.up"})
    assert answer.status == 403
    assert not users.tried


def at(browser: Browser, address: str) -> Browser:
    """Another browser."""
    return Browser(browser.app, address=address)


async def test_each_failed_login_has_the_next_one_wait_longer() -> None:
    browser, users, hands = closed()
    for _ in range(14):
        assert (await log_in(browser, "bad")).status == 403
    assert hands.waited == [0.0] * 5 + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert (await log_in(browser)).status == 303, "the right password is looked at all the same"
    assert len(users.tried) == 15
    hands.now += 601
    await log_in(at(browser, "127.0.0.1"), "bad")
    assert hands.waited[-1] == 0.0


async def test_wrong_logins_from_elsewhere_lock_nobody_out() -> None:
    """Fifty of them locked the administrator out, and then everybody."""
    browser, _, hands = closed()
    for number in range(200):
        assert (await log_in(at(browser, f"10.9.0.{number}"), "bad", user="admin")).status == 403
    hands.waited.clear()
    assert (await log_in(at(browser, "10.1.1.1"), user="admin")).status == 303
    assert (await log_in(at(browser, "10.1.1.2"), user="bob")).status == 303
    assert hands.waited == [10.0, 0.0]


async def test_an_address_has_few_logins_waiting_and_others_are_not_held_up() -> None:
    browser, _, hands = closed()
    hands.held = asyncio.Event()
    waiting = [asyncio.ensure_future(log_in(at(browser, "10.9.0.1"), "bad", f"u{number}")) for number in range(16)]
    await until(lambda: len(hands.waited) == 16)
    assert (await log_in(at(browser, "10.9.0.1"))).status == 429
    other = asyncio.ensure_future(log_in(at(browser, "10.1.1.1")))
    await until(lambda: len(hands.waited) == 17)
    hands.held.set()
    assert (await other).status == 303
    assert {(await each).status for each in waiting} == {403}
    assert (await log_in(at(browser, "10.9.0.1"))).status == 303, "their places are free again"


@pytest.mark.parametrize("address", ["2001:db8::1", "10.9.0.1"])
async def test_another_address_of_the_same_network_is_the_same_one(address: str) -> None:
    browser, _, hands = closed()
    for number in range(10):
        await log_in(at(browser, f"2001:db8::{number + 2:x}"), "bad", user=f"u{number}")
    await log_in(at(browser, address), "bad", user="else")
    assert hands.waited[-1] == (32.0 if ":" in address else 0.0)


@pytest.mark.parametrize(
    ("forwarded", "waits"),
    [
        ("203.0.113.9", 1.0),
        ("203.0.113.9, 10.0.0.8", 1.0),  # by way of two proxies
        ("198.51.100.1, 203.0.113.9", 1.0),  # the first is the client's own claim
        ("203.0.113.10", 0.0),
        ("nonsense", 0.0),
        ("", 0.0),
    ],
)
async def test_behind_a_proxy_that_is_named_the_address_is_the_one_it_says(forwarded: str, waits: float) -> None:
    browser, _, hands = closed(proxies=("10.0.0.0/24",))
    for number in range(5):
        await log_in(at(browser, "10.0.0.7"), "bad", user=f"u{number}", forwarded="203.0.113.9")
    await log_in(at(browser, "10.0.0.7"), "bad", user="else", forwarded=forwarded)
    assert hands.waited[-1] == waits


async def test_a_forwarded_address_of_anybody_else_is_not_believed() -> None:
    browser, _, hands = closed(proxies=("10.0.0.0/24",))
    for number in range(6):
        await log_in(at(browser, "10.9.0.1"), "bad", user=f"u{number}", forwarded=f"203.0.113.{number}")
    assert hands.waited[-1] == 1.0, "it made each login another address's"


async def test_names_that_are_tried_are_kept_in_bounds() -> None:
    hands = Hands()
    tries = Tries(hands.environment)
    for number in range(25_000):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        assert tries.begins(address, "x" * 1000 + str(number)) is not None
        tries.ended(address, "x" * 1000 + str(number), succeeded=False)
    assert tries.kept == 20_000


async def test_who_logs_in_again_and_again_ends_nobody_elses_visit() -> None:
    browser, _, hands = closed()
    ann, bob = at(browser, "10.1.1.1"), at(browser, "10.1.1.2")
    await log_in(ann)
    for _ in range(120):
        hands.now += 0.1
        assert (await log_in(bob, user="bob")).status == 303
    assert (await ann.get("/")).status == 200
    assert (await bob.get("/")).status == 200


async def test_after_a_logout_the_cookie_is_worth_nothing() -> None:
    browser, users, _ = closed()
    await log_in(browser)
    kept = dict(browser.cookies)
    page = await browser.get("/")
    assert (await browser.post("/logout", {"token": field(page, "token")})).status == 303
    assert users.desk.closed
    browser.cookies = kept
    assert (await browser.get("/")).status == 303


@pytest.mark.parametrize("hours", [0.51, 13])
async def test_a_visit_ends_by_itself(hours: float) -> None:
    browser, _, hands = closed()
    await log_in(browser)
    hands.now += hours * 3600
    assert (await browser.get("/")).status == 303


async def test_a_reset_belongs_to_the_visit_in_which_it_was_shown() -> None:
    hands = Hands()
    browser, users, _ = closed(hands=hands)
    other = Browser(browser.app)
    await log_in(browser)
    await log_in(other, user="bob")
    preview, mine = await browser.get(CHANGE), await other.get(CHANGE)
    stolen = {"token": field(mine, "token"), "plan": field(preview, "plan"), "id": "audit"}
    assert (await other.post("/group/reset", stolen)).status == 409
    hands.now += 601
    late = {"token": field(preview, "token"), "plan": field(preview, "plan"), "id": "audit"}
    assert (await browser.post("/group/reset", late)).status == 409
    assert not users.desk.moved


# --- rights ---------------------------------------------------------------------------------------------------------

SOME = Rights(frozenset({"billing", "audit"}), frozenset({"orders"}), cluster=False)


async def test_what_one_may_not_describe_is_not_shown() -> None:
    browser, _, _ = closed(SOME)
    await log_in(browser)
    groups, topics = (await browser.get("/groups")).text, (await browser.get("/topics")).text
    assert "billing" in groups
    assert "shipping" not in groups
    assert "payments" not in groups, "a topic of a group that one sees"
    assert "orders" in topics
    assert "clicks" not in topics
    assert "recommendations" not in topics, "a group of a topic that one sees"
    assert (await browser.get("/group?id=shipping")).status == 404
    assert (await browser.get("/topic?name=payments")).status == 404
    assert (await browser.get("/records?name=payments")).status == 404
    page = (await browser.get("/group?id=billing")).text
    assert "payments" not in page
    assert "orders" in page


async def test_the_processes_of_a_cluster_are_for_those_who_may_describe_it() -> None:
    browser, _, _ = closed(SOME)
    await log_in(browser)
    text = (await browser.get("/")).text
    assert "__consumer_offsets-" not in text
    assert "ended by signal 9" not in text
    assert '<dt>Groups</dt><dd class="value">2</dd>' in text


async def test_rights_that_are_taken_away_are_gone_after_ten_seconds() -> None:
    browser, users, hands = closed(Rights())
    await log_in(browser)
    assert "shipping" in (await browser.get("/groups")).text
    users.desk.may = SOME
    hands.now += 11
    assert "shipping" not in (await browser.get("/groups")).text


@pytest.mark.parametrize("page", ["/", "/groups", "/group?id=billing", "/topics", "/topic?name=orders"])
async def test_the_visit_of_a_user_who_was_deleted_is_over_after_ten_seconds(page: str) -> None:
    """It went on for 80 seconds."""
    browser, users, hands = closed(Rights())
    await log_in(browser)
    assert (await browser.get(page)).status == 200
    users.desk.logged_out = True
    hands.now += 11
    answer = await browser.get(page)
    assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/login")
    assert users.desk.closed
    users.desk.logged_out = False
    assert (await browser.get(page)).status == 303, "what is over stays over"


async def test_the_stream_of_a_user_who_was_deleted_ends() -> None:
    browser, users, hands = closed(Rights())
    await log_in(browser)
    users.desk.logged_out = True
    hands.now += 11
    browser.stays = True
    stream = await browser.get("/live/groups")
    assert "event: over" in stream.text
    assert "billing" not in stream.text
    assert (await browser.get("/groups")).status == 303


# --- where it listens -----------------------------------------------------------------------------------------------


def test_other_machines_do_not_look_at_what_nobody_guards() -> None:
    everybody = Open(Visitor(None, SyntheticSource(), SyntheticDesk()))
    with pytest.raises(ConsoleError, match="start it with security"):
        served(everybody, Options(), Place("0.0.0.0", 0))
    with pytest.raises(ConsoleError, match="passwords would travel in the clear"):
        served(Users(SyntheticSource()), Options(), Place("0.0.0.0", 0))
    with pytest.raises(ConsoleError, match=r"the certificate /none.pem cannot be used"):
        served(Users(SyntheticSource()), Options(), Place("0.0.0.0", 0, Path("/none.pem")))
