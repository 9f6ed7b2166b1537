"""The log of connections that fail, and the choice of unauthenticated connections that give way to others."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.entrance.clients import ADMINISTRATORS_PLACES
from actors.links.unauthenticated import FailureLog, UnauthenticatedConnections
from tests.support.handler_helpers import Broker, Server, Transport


class Peer:
    """A connection that notes that it was closed."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.closed = False

    def close(self, reason: str = "") -> None:
        self.closed = True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def connection(server: Any, peer: str = "10.0.0.7") -> Connection:
    transport: Any = Transport()
    made = Connection(server, 1, 0.0)
    made.connection_made(transport)
    made.peer = peer
    return made


@pytest.mark.conformance("XA-34")
def test_who_sends_nonsense_again_and_again_fills_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    """Any client of a listener without logins could fill it: a broker keeps its log for ever."""
    clock, server = Clock(), Server()
    server.failures = FailureLog(clock)
    for _ in range(500):
        connection(server).data_received(bytes(8))
    connection(server, "10.0.0.8").data_received(bytes(8))
    clock.now += 1
    connection(server).data_received(bytes(8))
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" ")[0] for line in lines] == ["10.0.0.7", "10.0.0.8", "10.0.0.7"]
    assert "closing connection 1: a request of 0 bytes" in lines[0]
    assert lines[2].endswith("(and 499 more that were not logged)")


@pytest.mark.conformance("XA-34")
def test_who_is_refused_again_and_again_fills_no_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path, max_connections="1")
    caplog.set_level(logging.INFO)
    admitted = [broker.clients.admit(connection(Server(), "10.0.0.7")) for _ in range(50)]
    assert sum(admitted) == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "10.0.0.7 at PLAINTEXT: refusing a connection: max.connections=1"
    assert sum(broker.clients.admit(connection(Server(), "127.0.0.1")) for _ in range(50)) == ADMINISTRATORS_PLACES


@pytest.mark.conformance("XA-34")
def test_who_has_a_network_of_ipv6_had_a_line_for_each_of_its_addresses(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    failures = FailureLog(clock)
    for number in range(500):
        failures.note(f"2001:db8:0:1::{number:x}%eth0", "SECURE", "closed")
    for other in ("2001:db8:0:2::1", "10.0.0.7", "::ffff:10.0.0.8"):
        failures.note(other, "SECURE", "closed")
    clock.now += 1
    failures.note("2001:db8:0:1::ffff", "SECURE", "closed")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 5
    assert lines[-1] == "2001:db8:0:1::ffff at SECURE: closed (and 499 more that were not logged)"


@pytest.mark.conformance("XA-33")
def test_the_addresses_of_one_network_of_ipv6_count_as_one() -> None:
    """The owner of a network has more addresses than there are places."""
    clock = Clock()
    unauthenticated = UnauthenticatedConnections("SECURE", 4, 30.0, clock, FailureLog(clock))
    honest = [Peer("10.0.0.7"), Peer("2001:db8:0:2::1")]
    many = [Peer(f"2001:db8:0:1::{number}") for number in range(1, 9)]
    for peer in [*honest, *many]:
        unauthenticated.add(peer)
    assert [peer.closed for peer in many] == [True] * 6 + [False] * 2
    assert not any(peer.closed for peer in honest)
    for peer in [*honest, *many]:
        unauthenticated.remove(peer)
    assert len(unauthenticated) == 0
