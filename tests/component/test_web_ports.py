"""The ports that we serve by HTTP, the console's and the metrics', as somebody attacks them who reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.console import server as console_server
from actors.console.app import Options
from actors.console.entrance import Open
from actors.console.server import Place
from actors.console.sessions import Visitor
from actors.monitor import exposition
from actors.monitor.exposition import MetricsServer, Series
from actors.monitor.metric_table import Row
from actors.web.callers import Bounds
from actors.web.serving import Certificate, Served, listen, serve
from tests.support.authority import Authority
from tests.support.runtime_helpers import until
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import SyntheticSource

SILENT = 300
"""Connections of an attacker: more than a port had places for."""
ASKED = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def families() -> Iterator[tuple[str, Iterable[Row]]]:
    yield "kafka_brokers", [((), 3.0)]


@asynccontextmanager
async def running(run: Callable[[], Any]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def console(**options: Any) -> AsyncIterator[int]:
    door = Open(Visitor(None, SyntheticSource(), SyntheticDesk()))
    made = console_server.served(door, Options(**options), Place(port=0))
    async with running(made.run):
        yield int(made.address.rstrip("/").rpartition(":")[2])


async def break_off(port: int, path: bytes) -> None:
    """Send half a form, and hang up at once."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    kind = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 60000"
    writer.write(b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\na" % (path, kind))
    await writer.drain()
    await asyncio.sleep(0)
    writer.transport.abort()


@asynccontextmanager
async def metrics(**given: Any) -> AsyncIterator[int]:
    made = MetricsServer(Series(families, lambda: 1000), "127.0.0.1", 0, **given)
    async with running(made.run):
        yield made.port


PORTS = pytest.mark.parametrize(("port_of", "path"), [(console, b"/groups"), (metrics, b"/metrics")])


async def ask(port: int, path: bytes, host: bytes = b"localhost", from_: str = "127.0.0.1") -> bytes:
    """A whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(from_, 0))
    try:
        writer.write(ASKED % (path, host))
        return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def opened(port: int, count: int, said: bytes = b"", from_: str = "127.0.0.2") -> AsyncIterator[list[Any]]:
    """Connections on which nothing is asked."""
    made = [await asyncio.open_connection("127.0.0.1", port, local_addr=(from_, 0)) for _ in range(count)]
    for _, writer in made:
        writer.write(said)
    ends = [asyncio.ensure_future(reader.read()) for reader, _ in made]
    try:
        yield ends
    finally:
        for _, writer in made:
            writer.close()
        await asyncio.wait(ends)


def ended(connections: list[Any]) -> int:
    """The number of connections that the other end has closed by now."""
    return sum(each.done() for each in connections)


# --- silence --------------------------------------------------------------------------------------------------------


@PORTS
@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"]
)
@pytest.mark.parametrize("from_", ["127.0.0.2", "127.0.0.1"])
async def test_silent_connections_shut_a_port_for_nobody(port_of: Any, path: bytes, said: bytes, from_: str) -> None:
    """256 of them shut the console for all; each cost the metrics a thread."""
    async with port_of() as port:
        threads = threading.active_count()
        async with opened(port, SILENT, said, from_) as connections:
            answer = await ask(port, path)
            assert answer.startswith(b"HTTP/1.1 200"), answer[:100]
            assert threading.active_count() <= threads + 1, "a scrape is made in one"
            await until(lambda: ended(connections) >= SILENT - 64)


def quick(app: Any, certificate: Certificate | None = None, **bounds: Any) -> tuple[Served, int]:
    """A port whose deadlines come soon."""
    given = replace(Bounds(of_address=8, at_all=16, silent=8, request_s=0.2, unread_s=0.2), **bounds)
    loop = asyncio.get_running_loop()
    made = serve(app, listen("127.0.0.1", 0), "a port", given, loop.time, certificate=certificate)
    return made, made.port


async def large(scope: Any, receive: Any, send: Any) -> None:
    """More than sockets hold."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_a_request_that_is_never_whole_ends_at_its_deadline(said: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.Event().wait()

    made, port = quick(app)
    async with running(made.run), opened(port, 3, said) as connections:
        await until(lambda: ended(connections) == 3)


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    over = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await large(scope, receive, send)
        over.set()

    made, port = quick(app)
    async with running(made.run):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(ASKED % (b"/", b"localhost"))
            await until(over.is_set)


async def test_what_is_no_http_is_a_line_a_second_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with console() as port, opened(port, 50, b"\x16\x03\x01 no HTTP\r\n\r\n") as connections:
        await until(lambda: ended(connections) == 50)
    assert 1 <= sum("no HTTP" in each.getMessage() for each in caplog.records) <= len(caplog.records) < 10


@pytest.mark.parametrize("path", [b"/login", b"/logout", b"/group/reset"])
async def test_a_form_that_is_broken_off_is_no_line_in_the_log(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Each one was a traceback of 3 KB: one client wrote more than a megabyte a second."""
    async with console() as port:
        for _ in range(20):
            await break_off(port, path)
        assert b"200 OK" in (await ask(port, b"/groups"))[:20]
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []


async def test_what_goes_wrong_in_each_answer_is_said_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a mistake of ours")

    now = [0.0]
    socket_ = listen("127.0.0.1", 0)
    made = serve(broken, socket_, "tests", Bounds(100, 100, 100), lambda: now[0])
    async with running(made.run):
        for _ in range(5):
            assert b"500" in (await ask(made.port, b"/"))[:20]
        now[0] = 2.0
        await ask(made.port, b"/")
    said = [each.getMessage().strip() for each in caplog.records if each.name == "actors.web.protocol"]
    assert said == ["Exception in ASGI application", "4 more that were not logged", "Exception in ASGI application"]


async def test_a_handshake_that_is_never_done_ends_at_its_deadline(tmp_path: Path) -> None:
    """Before, a connection with TLS counted only after its handshake, and had a minute for it."""
    authority = Authority(tmp_path)
    made, port = quick(large, Certificate(Path(authority.sign("localhost").both)))
    async with running(made.run), opened(port, 3) as connections:
        await until(lambda: ended(connections) == 3)


async def test_https_is_answered(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})

    authority = Authority(tmp_path)
    certificate = Certificate(Path(authority.sign("localhost").both))
    made, port = quick(app, certificate, request_s=60.0, unread_s=60.0)
    trusting = ssl.create_default_context(cafile=authority.cafile)
    async with running(made.run):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname="localhost")
        writer.write(ASKED % (b"/", b"localhost"))
        assert (await reader.read()).endswith(b"https\r\n0\r\n\r\n")
        writer.close()


# --- names ----------------------------------------------------------------------------------------------------------


@PORTS
@pytest.mark.parametrize("host", [b"evil.example", b"localhost.evil.example:9464", b"127.0.0.1.evil.example", b""])
async def test_a_name_that_others_made_lead_here_is_refused(port_of: Any, path: bytes, host: bytes) -> None:
    async with port_of() as port:
        assert (await ask(port, path, host)).startswith(b"HTTP/1.1 421")


@PORTS
@pytest.mark.parametrize("host", [b"localhost:1", b"127.0.0.1", b"[::1]:9464", b"ours.example:9464"])
async def test_a_name_of_ours_is_answered(port_of: Any, path: bytes, host: bytes) -> None:
    async with port_of(names=("ours.example",)) as port:
        assert (await ask(port, path, host)).startswith(b"HTTP/1.1 200")


# --- what metrics say -----------------------------------------------------------------------------------------------


async def test_metrics_are_text_at_one_path() -> None:
    async with metrics() as port:
        answer = await ask(port, b"/metrics")
        assert b"content-type: text/plain; version=0.0.4" in answer.lower()
        assert b"kafka_brokers 3.0" in answer
        assert (await ask(port, b"/")).startswith(b"HTTP/1.1 404")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 405")
        writer.close()


async def test_a_group_with_a_nul_in_its_name_costs_no_other_series() -> None:
    """For Prometheus the text ended there, and the whole scrape was an error."""
    rows: list[Row] = [(("a\0b",), 1.0), (("billing",), 2.0)]
    made = MetricsServer(Series(lambda: [("kafka_consumergroup_members", rows)], lambda: 10), "127.0.0.1", 0)
    async with running(made.run):
        text = await ask(made.port, b"/metrics")
    assert b"\0" not in text
    assert 'consumergroup="a\ufffdb"} 1.0'.encode() in text
    assert b'consumergroup="billing"} 2.0' in text


async def test_a_port_that_is_taken_is_an_error_and_one_that_was_closed_is_free() -> None:
    async with metrics() as port:
        with pytest.raises(OSError, match="in use"):
            MetricsServer(Series(families, lambda: 1000), "127.0.0.1", port)
        await ask(port, b"/metrics")

    def is_free() -> bool:
        with contextlib.suppress(OSError), contextlib.closing(listen("127.0.0.1", port)):
            return True
        return False

    await until(is_free)


def test_a_page_and_a_scrape_have_room_beside_all_silent_ones() -> None:
    for bounds in (console_server.BOUNDS, exposition.BOUNDS):
        assert bounds.silent < bounds.at_all
        assert bounds.of_address < bounds.at_all
