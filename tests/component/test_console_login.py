"""The console at a real broker: a password proved by logging in there, and what is then shown and read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from actors.client import Admin, Producer
from actors.client.admin.types import NewTopic, ScramDeletion, ScramUpsertion
from actors.client.records import TopicPartition
from actors.console.app import Options, make_app
from actors.console.brokers import BrokerDesk
from actors.console.desk import DeskError, LoggedOutError, Wish
from actors.console.entrance import EntranceError, entrance, leave
from actors.console.kafka import KafkaSource
from actors.console.server import Place, served
from actors.links.operations import Operation
from actors.links.views import GetOverview, GetTopic, ListTopicRows, TopicRow, TopicView
from actors.runtime.environment import REAL, Clock
from actors.security.acl import AclOperation
from actors.settings.secret import Secret
from tests.support.acls import TOPIC, allowed
from tests.support.asgi import Browser
from tests.support.handler_helpers import AUTHORIZER
from tests.support.one_broker import World, world
from tests.support.runtime_helpers import until
from tests.support.synthetic_source import R

DOORS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-256",
}
CHECKED = {"authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS"}


def servers(broker: World, listener: str) -> str:
    return f"127.0.0.1:{broker.server.socket_server.ports[listener]}"


def login(broker: World) -> dict[str, str]:
    return {
        "bootstrap_servers": servers(broker, "LOGIN"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "the console's own",
        "sasl_plain_password": "which no visitor is given",
    }


@asynccontextmanager
async def filled(path: Path, **settings: str) -> AsyncIterator[World]:
    """A broker with two topics, a record in each, and the user ann, who may read one of them."""
    async with world(path, **settings) as broker:
        await asyncio.to_thread(_fill, servers(broker, "PLAINTEXT"), "authorizer_class_name" in settings)
        yield broker


def _fill(bootstrap: str, checked: bool) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("open", 2), NewTopic("closed", 1)])
        admin.alter_user_scram_credentials([ScramUpsertion("ann", Secret("secret"), iterations=4096)])
        if checked:
            admin.create_acls([allowed(AclOperation.READ, TOPIC, "open", by="User:ann")])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for topic in ("open", "closed"):
            producer.send(topic, b"<b>bold</b>", partition=0).get(10)


async def test_a_password_is_proved_at_the_broker_and_rights_are_the_users(tmp_path: Path) -> None:
    async with filled(tmp_path, **DOORS, **CHECKED) as broker:
        door = await entrance(login(broker), lambda desk: KafkaSource(desk.admin, REAL.clock), REAL.clock)
        assert door.anybody is None
        for user, password in (("ann", "wrong"), ("nobody", "secret"), ("the console's own", ""), ("", "")):
            with pytest.raises(EntranceError, match=r"^The name or the password is wrong.$"):
                await door.log_in(user, Secret(password))
        browser = Browser(make_app(door))
        form = await browser.get("/login")
        token = re.search(r'name="token" value="([^"]*)"', form.text)
        assert token is not None
        filled_in = {"token": token[1], "user": "ann", "password": "secret"}
        assert (await browser.post("/login", filled_in)).status == 303
        topics = (await browser.get("/topics")).text
        assert "open" in topics
        assert "closed" not in topics
        assert "&lt;b&gt;bold&lt;/b&gt;" in (await browser.get("/records?name=open")).text
        assert (await browser.get("/records?name=closed")).status == 404
        visitor = await door.log_in("ann", Secret("secret"))
        try:
            assert not (await visitor.desk.rights()).cluster
            with pytest.raises(DeskError, match="no partition"):
                await visitor.desk.records(TopicPartition("closed", 0), None, 10)
        finally:
            await leave(visitor)
        page = (await browser.get("/")).text
        out = re.search(r'name="token" value="([^"]*)"', page)
        assert out is not None
        assert (await browser.post("/logout", {"token": out[1]})).status == 303


class Hands:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.clock = Clock(monotonic=lambda: self.now)


def _delete_ann(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_user_scram_credentials(deletions=[ScramDeletion("ann")])


async def test_a_user_who_was_deleted_sees_and_does_nothing_after_ten_seconds(tmp_path: Path) -> None:
    """A broker does not log out a deleted user: for 80 seconds the visit went on, and all that it could do."""
    hands = Hands()
    async with filled(tmp_path, **DOORS, **CHECKED) as broker:
        door = await entrance(login(broker), lambda desk: KafkaSource(desk.admin, hands.clock), hands.clock)
        browser = Browser(make_app(door, Options(writes=True)))
        token = re.search(r'name="token" value="([^"]*)"', (await browser.get("/login")).text)
        assert token is not None
        assert (await browser.post("/login", {"token": token[1], "user": "ann", "password": "secret"})).status == 303
        visitor = await door.log_in("ann", Secret("secret"))
        assert "open" in (await browser.get("/topics")).text
        await asyncio.to_thread(_delete_ann, servers(broker, "PLAINTEXT"))
        await until(lambda: not broker.server.context.metadata.scram)
        try:
            for done in (
                visitor.desk.records(TopicPartition("open", 0), None, 10),
                visitor.desk.preview(Wish("g", (), "earliest")),
                visitor.desk.reset("g", {TopicPartition("open", 0): 0}),
                visitor.desk.rights(),
            ):
                with pytest.raises(LoggedOutError):
                    await done
        finally:
            await leave(visitor)
        hands.now += 11
        assert (await browser.get("/topics")).status == 303
        assert "open" not in (await browser.get("/login")).text


async def _asked(port: int, from_: str, head: str, body: str = "", cookie: str = "") -> str:
    """A request from an address of this machine, and the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(from_, 0))
    lines = [head, "Host: localhost", "Connection: close", f"Content-Length: {len(body)}", f"Cookie: {cookie}"]
    lines += ["Content-Type: application/x-www-form-urlencoded"]
    writer.write("\r\n".join([*lines, "", body]).encode())
    answer = (await reader.read()).decode(errors="replace")
    writer.close()
    return answer


async def _tried(port: int, from_: str, password: str) -> str:
    """The first line of what a login as ann is answered."""
    form = await _asked(port, from_, "GET /login HTTP/1.1")
    token, cookie = re.search(r'name="token" value="([^"]*)"', form), re.search(r"(?i)set-cookie: ([^;]*)", form)
    assert token is not None
    assert cookie is not None
    filled_in = urlencode({"token": token[1], "user": "ann", "password": password})
    return (await _asked(port, from_, "POST /login HTTP/1.1", filled_in, cookie[1])).partition("\r\n")[0]


async def test_fifty_wrong_logins_and_silent_connections_keep_nobody_else_out(tmp_path: Path) -> None:
    """Fifty wrong logins locked the administrator out, and 256 silent connections shut the console for all."""
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async with filled(tmp_path, **DOORS, **CHECKED, connection_failed_authentication_delay_ms="0") as broker:
        door = await entrance(login(broker), lambda desk: KafkaSource(desk.admin, REAL.clock), REAL.clock)
        console = served(door, Options(pause=pause), Place(port=0))
        port = int(console.address.rstrip("/").rpartition(":")[2])
        running = asyncio.ensure_future(console.run())
        silent = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0)) for _ in range(300)]
        try:
            for _ in range(5):
                answers = await asyncio.gather(*(_tried(port, "127.0.0.2", "guessed") for _ in range(10)))
                assert set(answers) == {"HTTP/1.1 403 Forbidden"}
            assert max(waits) == 60.0
            assert await _tried(port, "127.0.0.1", "secret") == "HTTP/1.1 303 See Other"
            assert waits[-1] == 10.0
        finally:
            for _, writer in silent:
                writer.close()
            running.cancel()
            await asyncio.wait([running])


async def test_a_visitor_with_describe_on_one_topic_sees_no_settings_of_it(tmp_path: Path) -> None:
    async with filled(tmp_path, **DOORS, **CHECKED) as broker:
        door = await entrance(login(broker), lambda desk: Telling(), REAL.clock)
        visitor = await door.log_in("ann", Secret("secret"))
        try:
            assert (await visitor.source.view(GetTopic("open"))).configs is None
            await asyncio.to_thread(_allow_settings, servers(broker, "PLAINTEXT"))
            assert await visitor.desk.sees_settings("open")
            assert not await visitor.desk.sees_settings("closed")
        finally:
            await leave(visitor)


def _allow_settings(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_acls([allowed(AclOperation.DESCRIBE_CONFIGS, TOPIC, "open", by="User:ann")])


class Telling:
    """A Monitor, which knows all settings."""

    async def view(self, operation: Operation[R]) -> R:
        row = TopicRow("open", 1, 1, None, None, 0, None, ())
        return TopicView(1, row, (), {"retention.ms": "1000"})  # type: ignore[return-value]


@pytest.mark.parametrize(("settings", "limited"), [({}, False), (CHECKED, True)])
async def test_without_logins_everybody_is_what_the_broker_makes_of_him(
    tmp_path: Path, settings: dict[str, str], limited: bool
) -> None:
    async with filled(tmp_path, **DOORS, **settings) as broker:
        given = {"bootstrap_servers": servers(broker, "PLAINTEXT")}
        door = await entrance(given, lambda desk: KafkaSource(desk.admin, REAL.clock), REAL.clock)
        visitor = door.anybody
        assert visitor is not None
        try:
            assert (type(visitor.source) is not KafkaSource) == limited
            topics = (await visitor.source.view(ListTopicRows())).topics
            assert [row.name for row in topics] == ["closed", "open"]
        finally:
            await leave(visitor)


async def test_any_kafka_says_what_it_knows_itself(tmp_path: Path) -> None:
    async with filled(tmp_path, **DOORS) as broker:
        desk = await asyncio.to_thread(BrokerDesk, {"bootstrap_servers": servers(broker, "PLAINTEXT")}, REAL.clock)
        try:
            source = KafkaSource(desk.admin, REAL.clock)
            overview = await source.view(GetOverview())
            assert (overview.topics, overview.partitions, [each.leads for each in overview.brokers]) == (2, 3, [3])
            topic = await source.view(GetTopic("open"))
            assert [(each.log_start, each.log_end) for each in topic.partitions] == [(0, 1), (0, 0)]
            assert (await source.view(GetTopic("none"))).row is None
            found = await desk.records(TopicPartition("open", 0), None, 5)
            assert [(each.offset, each.value) for each in found.records] == [(0, b"<b>bold</b>")]
            assert not (await desk.records(TopicPartition("open", 1), None, 5)).records
        finally:
            await desk.close()


async def test_brokers_that_want_a_login_are_not_shown_without(tmp_path: Path) -> None:
    async with filled(tmp_path, **DOORS) as broker:
        given = {"bootstrap_servers": servers(broker, "LOGIN"), "default_api_timeout_ms": 1500}
        with pytest.raises(EntranceError, match="do they want TLS or a login"):
            await entrance(given, lambda desk: KafkaSource(desk.admin, REAL.clock), REAL.clock)
        token = {**login(broker), "sasl_mechanism": "OAUTHBEARER"}
        with pytest.raises(EntranceError, match="OAUTHBEARER has none"):
            await entrance(token, lambda desk: KafkaSource(desk.admin, REAL.clock), REAL.clock)
