"""The console that a Monitor serves: by its settings, over its views, once brokers can be asked."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from pathlib import Path

import pytest

from actors.console.beside import reached_by, serve_beside
from actors.console.brokers import CLIENT_ID
from actors.console.source import SourceError
from actors.links.operations import Operation
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from tests.support.one_broker import world
from tests.support.own_log import logged
from tests.support.runtime_helpers import until
from tests.support.synthetic_source import R, SyntheticSource


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


class Early(SyntheticSource):
    """A Monitor that has not looked yet when it is asked first."""

    async def view(self, operation: Operation[R]) -> R:
        found = await super().view(operation)
        if len(self.asked) == 1:
            raise SourceError("the Monitor has not looked yet")
        return found


async def test_it_is_served_once_the_monitor_has_looked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as broker:
        file = tmp_path / "reach.properties"
        file.write_text(f"bootstrap.servers=127.0.0.1:{broker.server.port}\n")
        settings = {"coterie.console.port": "0", "coterie.console.client.config": str(file)}
        caplog.set_level("INFO", logger="actors.console.beside")
        task = asyncio.ensure_future(serve_beside(Early(), BrokerConfig.from_mapping(settings), tmp_path, REAL))
        try:
            await until(lambda: "console is at" in caplog.text)
            port = int(logged(caplog)[-1].rstrip("/").rpartition(":")[2])
            status, text = await asyncio.to_thread(_get, port, "/groups")
            assert status == 200
            assert "billing" in text
            assert (await asyncio.to_thread(_get, port, "/group/reset?id=audit"))[0] == 404, (
                "no writes unless asked for"
            )
        finally:
            task.cancel()
            await asyncio.wait([task])


def _threads_of_consoles() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == f"kafka-{CLIENT_ID}"}


async def test_a_console_that_was_ended_left_its_connections_to_brokers_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was cancelled while it served, was refused its place, and was cancelled while it asked a silent broker."""
    before = _threads_of_consoles()
    silent = socket.create_server(("127.0.0.1", 0))
    file = tmp_path / "reach.properties"
    settings = {"coterie.console.port": "0", "coterie.console.client.config": str(file)}
    caplog.set_level("INFO", logger="actors.console.beside")

    def console(port: int, host: str = "127.0.0.1") -> asyncio.Task[None]:
        file.write_text(f"bootstrap.servers=127.0.0.1:{port}\n")
        config = BrokerConfig.from_mapping({**settings, "coterie.console.host": host})
        return asyncio.ensure_future(serve_beside(SyntheticSource(), config, tmp_path, REAL))

    async with world(tmp_path) as broker:
        serves = console(broker.server.port)
        await until(lambda: "console is at" in caplog.text)
        assert _threads_of_consoles() > before
        serves.cancel()
        await asyncio.wait([serves])
        assert _threads_of_consoles() <= before
        await console(broker.server.port, "0.0.0.0")
        assert "there is no console" in caplog.text
        assert _threads_of_consoles() <= before
    with silent:
        asks = console(silent.getsockname()[1])
        await until(lambda: _threads_of_consoles() > before)
        asks.cancel()
        await asyncio.wait([asks])
        assert _threads_of_consoles() <= before


async def test_without_a_port_there_is_none(tmp_path: Path) -> None:
    source = SyntheticSource()
    await serve_beside(source, BrokerConfig.from_mapping({}), tmp_path, REAL)
    assert not source.asked


async def test_what_cannot_be_served_is_said_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as broker:
        file = tmp_path / "reach.properties"
        file.write_text(f"bootstrap.servers=127.0.0.1:{broker.server.port}\n")
        settings = {
            "coterie.console.port": "0",
            "coterie.console.host": "0.0.0.0",
            "coterie.console.client.config": str(file),
        }
        await serve_beside(SyntheticSource(), BrokerConfig.from_mapping(settings), tmp_path, REAL)
        assert "nobody is asked who he is" in caplog.text


def test_a_file_for_clients_says_how_brokers_are_reached(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "ssl.truststore.location=/ca.pem\nssl.truststore.type=PEM\nunknown.key=1\n"
    )
    assert reached_by(file) == {
        "bootstrap_servers": "b:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "ssl_cafile": "/ca.pem",
    }
