"""A `coterie up --secure` cluster as it is seen: its metrics, the console that asks for a login, and the terminal."""

from __future__ import annotations

import html
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from actors.client import Admin, Consumer, Producer
from actors.client.admin.types import NewTopic, ScramUpsertion
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.console.beside import LEFT_FOR_CLIENTS, reached_by
from actors.security.acl import AclOperation
from actors.settings.secret import Secret
from tests.compat.prometheus import console_url, metrics_url
from tests.ray.support import coterie, up, wait_until
from tests.ray.terminal import on_a_terminal
from tests.support.acls import GROUP, TOPIC, allowed

ORDERS, PAYROLL = "orders", "payroll"
BILLING, SALARIES = "billing-of-orders", "salaries"
PASSWORD = "ann's own"
COMMITTED, RECORDS = 2, 5


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster: its data directory, and how its administrator logs in."""

    data: Path
    admin: dict[str, Any]

    def committed(self) -> int:
        """The offset that the group of orders has committed."""
        with Admin(**self.admin) as admin:
            return admin.list_consumer_group_offsets(BILLING)[TopicPartition(ORDERS, 0)].offset

    def allow(self, operation: AclOperation, kind: Any, name: str) -> None:
        """Let ann do something."""
        with Admin(**self.admin) as admin:
            admin.create_acls([allowed(operation, kind, name, by="User:ann")])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Two topics, each with a group that has read a part of it; the user ann may look at one of either."""
    data = tmp_path_factory.mktemp("seen") / "data"
    config = ("--config", "coterie.metrics.port=0", "--config", "coterie.monitor.interval.ms=500")
    with up(data, "--secure", "--console-port", "0", "--console-write", *config) as cluster:
        admin = {**reached_by(data / LEFT_FOR_CLIENTS), "bootstrap_servers": cluster.servers}
        seen = Seen(data, admin)
        _fill(admin)
        for operation, kind, name in (
            (AclOperation.READ, TOPIC, ORDERS),
            (AclOperation.DESCRIBE, GROUP, BILLING),
        ):
            seen.allow(operation, kind, name)
        yield seen


def _fill(login: dict[str, Any]) -> None:
    with Admin(**login) as admin:
        admin.create_topics([NewTopic(ORDERS, 1), NewTopic(PAYROLL, 1)])
        admin.alter_user_scram_credentials([ScramUpsertion("ann", Secret(PASSWORD), iterations=4096)])
    with Producer(**login) as producer:
        for topic in (ORDERS, PAYROLL):
            for number in range(RECORDS):
                producer.send(topic, b"%s %d" % (topic.encode(), number))
        producer.flush()
    for topic, group in ((ORDERS, BILLING), (PAYROLL, SALARIES)):
        with Consumer(topic, group_id=group, enable_auto_commit=False, **login) as member:
            wait_until(lambda member=member: member.poll(timeout_ms=200) is not None and member.assignment())
            member.commit({TopicPartition(topic, 0): OffsetAndMetadata(COMMITTED)})


class Visitor:
    """Somebody with a browser, which keeps cookies."""

    def __init__(self, seen: Seen) -> None:
        self._address = console_url(seen.data).rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def get(self, path: str) -> tuple[int, str]:
        """The status of a page, and the page."""
        return self._ask(path, None)

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """The same, of a form that is sent."""
        return self._ask(path, urlencode(fields).encode())

    def _ask(self, path: str, form: bytes | None) -> tuple[int, str]:
        try:
            with self._opener.open(self._address + path, form, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def log_in(self, user: str, password: str) -> tuple[int, str]:
        """Fill in the form."""
        _, page = self.get("/login")
        return self.post("/login", token=field(page, "token"), user=user, password=password)

    def reset(self, group: str) -> tuple[int, str]:
        """Have a group begin anew: look at the preview, and send it."""
        status, page = self.get(f"/group/reset?id={quote(group)}&to=earliest")
        assert (status, "Move 1 offset" in page) == (200, True), page
        return self.post("/group/reset", token=field(page, "token"), plan=field(page, "plan"), id=group)


def field(page: str, name: str) -> str:
    """The value of a hidden field in a form."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return html.unescape(found[1])


def scraped(seen: Seen) -> str:
    with urllib.request.urlopen(metrics_url(seen.data), timeout=30) as answer:
        text: str = answer.read().decode()
        return text


@contextmanager
def visiting(seen: Seen, user: str, password: str) -> Iterator[Visitor]:
    """Somebody who has logged in, until he logs out."""
    visitor = Visitor(seen)
    status, page = visitor.log_in(user, password)
    assert (status, user in page) == (200, True), page
    yield visitor
    assert visitor.post("/logout", token=field(visitor.get("/")[1], "token"))[0] == 200
    assert "password" in visitor.get("/groups")[1]


def test_the_monitor_needs_no_login_and_shows_lag_and_logins(running: Seen) -> None:
    lag = f'kafka_consumergroup_lag{{consumergroup="{BILLING}",partition="0",topic="{ORDERS}"}} 3.0'
    age = f'kafka_consumergroup_lag_seconds{{consumergroup="{BILLING}",partition="0",topic="{ORDERS}"}} '
    text = wait_until(lambda: (found := scraped(running)) and lag in found and age in found and found, what=lag)
    logins = re.search(r"^coterie_logins_total.*succeeded.* (\S+)$", text, re.MULTILINE)
    assert logins is not None
    assert float(logins[1]) > 0
    assert float(text.partition(age)[2].split()[0]) > 0


def test_a_stranger_is_shown_a_form_and_nothing_else(running: Seen) -> None:
    stranger = Visitor(running)
    for path in ("/", "/groups", f"/group?id={BILLING}", f"/records?name={ORDERS}", f"/group/reset?id={BILLING}"):
        status, page = stranger.get(path)
        assert (status, 'name="password"' in page) == (200, True)
        assert "<table" not in page
    for user, password in (("ann", "wrong"), ("nobody", PASSWORD), ("admin", "")):
        status, page = stranger.log_in(user, password)
        assert (status, "The name or the password is wrong." in page) == (403, True)


def test_who_may_describe_one_group_sees_one(running: Seen) -> None:
    with visiting(running, "ann", PASSWORD) as ann:
        page = wait_until(lambda: BILLING in (found := ann.get("/groups")[1]) and found, what="her group")
        assert SALARIES not in page
        assert PAYROLL not in ann.get("/topics")[1]
        assert ann.get(f"/group?id={BILLING}")[0] == 200
        assert (ann.get(f"/group?id={SALARIES}")[0], ann.get(f"/topic?name={PAYROLL}")[0]) == (404, 404)
        assert "orders 4" in ann.get(f"/records?name={ORDERS}&partition=0")[1]
        assert ann.get(f"/records?name={PAYROLL}&partition=0")[0] == 404
    with visiting(running, "admin", running.admin["sasl_plain_password"].reveal()) as admin:
        assert {BILLING, SALARIES} <= set(re.findall(r"[\w-]+", admin.get("/groups")[1]))


def test_a_reset_needs_the_right_to_it(running: Seen) -> None:
    with visiting(running, "ann", PASSWORD) as ann:
        wait_until(lambda: ann.get(f"/group?id={BILLING}")[0] == 200, what="her group")
        status, page = ann.reset(BILLING)
        assert (status, "Not done." in page, "GROUP_AUTHORIZATION_FAILED" in page) == (409, True, True), page
        assert running.committed() == COMMITTED
        assert ann.get(f"/group/reset?id={SALARIES}&to=earliest")[0] == 404
        running.allow(AclOperation.READ, GROUP, BILLING)
        wait_until(lambda: "1 offset of" in ann.reset(BILLING)[1], what="a reset that is allowed")
        assert running.committed() == 0


def test_groups_history_says_who_came_and_how_far_behind_the_group_was(running: Seen) -> None:
    where = ("--data-dir", str(running.data))

    def told() -> Any:
        done = coterie("groups", "history", BILLING, "--format", "json", *where)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        return found.get("points") and len(found["rebalances"]) >= 2 and found

    found = wait_until(told, what="rebalances and lag")
    first, *_, last = found["rebalances"]
    assert (first["reason"], len(first["came"]), first["members"]) == ("member joined", 1, 1)
    assert last["left"] == first["came"]
    assert RECORDS - COMMITTED in [each["lag"] for each in found["points"]]
    shown = coterie("groups", "history", BILLING, *where).stdout
    assert re.search(r"^BEGAN +GENERATION +REASON", shown)
    assert re.search(r"^[\d-]+ [\d:]+.* member joined ", shown, re.MULTILINE), shown


def test_top_shows_the_cluster_live_until_q_is_pressed(running: Seen) -> None:
    arguments = ("-m", "actors.cli.main", "top", "--data-dir", str(running.data), "--interval", "0.2")
    with on_a_terminal(*arguments, keys=True) as top:
        wait_until(lambda: "q quit   s sort by lag" in top.shown, what="its first picture")
        assert re.search(rf"{BILLING} +Empty", top.shown), top.shown
        top.type("s")
        wait_until(lambda: "s sort by behind" in top.shown, what="another order")
        pictures = top.shown.count("sort by behind")
        wait_until(lambda: top.shown.count("sort by behind") > pictures + 1, what="pictures that follow by themselves")
        top.type("q")
        assert top.ended() == 0
    assert "Traceback" not in top.shown
