"""The limits of connections and of their rate: SECURITY.md, XD-01 to XD-05, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.entrance.connection_rates import ConnectionRates
from actors.broker.quotas import ADDRESSES_MAX, quotas_of
from actors.quotas.entities import CONNECTION_CREATION_RATE
from actors.settings import BrokerConfig, SettingError
from tests.support.handler_helpers import Broker, Server, Transport

LISTENERS = "PLAINTEXT://:9092,INTERNAL://:9192"
MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"


class Door:
    """The clients of a broker, whose addresses the test chooses."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.broker = Broker(path, listeners=LISTENERS, listener_security_protocol_map=MAP, **settings)
        self.rates = ConnectionRates(self.broker.context, self.broker.context.loop)

    def connection(self, peer: str, listener: str = "PLAINTEXT") -> Connection:
        server: Any = Server()
        transport: Any = Transport()
        made = Connection(server, 1, 0.0, listener)
        made.connection_made(transport)
        made.peer = peer
        return made

    def come(self, peer: str, listener: str = "PLAINTEXT") -> Connection | None:
        """A client that was let in, or None."""
        made = self.connection(peer, listener)
        return made if self.broker.clients.admit(made) else None

    def count(self, peer: str, times: int, listener: str = "PLAINTEXT") -> int:
        return sum(self.come(peer, listener) is not None for _ in range(times))

    def quotas(self, rates: dict[str | None, float]) -> None:
        context = self.broker.context
        rows = {(("ip", name),): {CONNECTION_CREATION_RATE: rate} for name, rate in rates.items()}
        context.quotas = quotas_of(context.quotas, rows, context.config, context.loop)

    def paced(self, peer: str, listener: str = "PLAINTEXT") -> Transport:
        connection = self.connection(peer, listener)
        transport: Any = connection.transport
        self.rates.pace(connection)
        self.broker.loop.turn()
        return transport


@pytest.mark.conformance("XD-01")
async def test_some_addresses_have_limits_of_their_own(tmp_path: Path) -> None:
    door = Door(
        tmp_path,
        max_connections_per_ip="2",
        max_connections_per_ip_overrides="10.0.0.7:4, [2001:db8::1]:0,2001:db8:0::2:1",
    )
    await door.broker.clients.address_limits.read()
    assert door.count("10.0.0.7", 6) == 4
    assert door.count("10.0.0.8", 6) == 2
    assert door.count("2001:db8::1", 6) == 0
    assert door.count("2001:db8::2", 6) == 1


@pytest.mark.conformance("XD-01")
@pytest.mark.parametrize("text", ["10.0.0.1", ":5", "host:", "host:-1", "host:x", "host:1;b:2"])
def test_overrides_that_cannot_be(text: str) -> None:
    with pytest.raises(SettingError, match="overrides"):
        BrokerConfig.from_mapping({"max.connections.per.ip.overrides": text})


@pytest.mark.conformance("XD-01")
def test_nobody_at_all_needs_overrides() -> None:
    with pytest.raises(SettingError, match="overrides"):
        BrokerConfig.from_mapping({"max.connections.per.ip": "0"})
    config = BrokerConfig.from_mapping({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "h:1"})
    assert config["max.connections.per.ip"] == 0
    with pytest.raises(SettingError, match="overrides"):
        BrokerConfig.from_mapping({}).with_dynamic({"max.connections.per.ip": "0"})


@pytest.mark.conformance("XD-02")
def test_a_listener_has_a_limit_of_its_own_below_the_brokers(tmp_path: Path) -> None:
    door = Door(tmp_path, max_connections="5", listener_name_internal_max_connections="2")
    assert door.count("10.0.0.1", 9, "INTERNAL") == 2
    gone = door.come("10.0.0.2")
    assert gone is not None
    assert door.count("10.0.0.2", 9) == 2
    door.broker.clients.remove(gone)
    assert door.count("10.0.0.3", 9, "INTERNAL") == 0
    assert door.count("10.0.0.3", 9) == 1


@pytest.mark.conformance("XD-02")
def test_a_listeners_limit_changes_while_it_runs(tmp_path: Path) -> None:
    door = Door(tmp_path, listener_name_internal_max_connections="1")
    assert door.count("10.0.0.1", 3, "INTERNAL") == 1
    context = door.broker.context
    context.config = context.config.with_dynamic({"listener.name.internal.max.connections": "3"})
    assert door.count("10.0.0.1", 9, "INTERNAL") == 2


@pytest.mark.conformance("XD-03")
@pytest.mark.parametrize("local", ["127.0.0.1", "::1"])
def test_somebody_on_the_machine_can_still_come(tmp_path: Path, local: str) -> None:
    door = Door(tmp_path, max_connections="3", listener_name_internal_max_connections="1")
    assert door.count("10.0.0.1", 9) == 3
    assert door.count(local, 5, "INTERNAL") == 5
    assert door.count(local, 40) == 11
    assert door.count("10.0.0.2", 1) == 0


# --- rates ---


@pytest.mark.conformance("XD-04")
@pytest.mark.parametrize("prefix", ["", "listener_name_internal_"])
def test_who_comes_too_early_waits_for_its_turn_and_is_not_refused(tmp_path: Path, prefix: str) -> None:
    door = Door(tmp_path, **{f"{prefix}max_connection_creation_rate": "2"})
    all_of_them = [door.paced("10.0.0.1", "INTERNAL") for _ in range(6)]

    def read() -> list[bool]:
        return [each.reading for each in all_of_them]

    assert read() == [True, True, False, False, False, False]
    for expected in (3, 4, 5, 6):
        door.broker.loop.advance(0.5)
        assert sum(read()) == expected
    assert not any(each.aborted for each in all_of_them)


@pytest.mark.conformance("XD-04")
def test_nobody_waits_longer_than_the_window(tmp_path: Path) -> None:
    door = Door(tmp_path, max_connection_creation_rate="1", quota_window_num="3")
    late = [door.paced("10.0.0.1") for _ in range(50)]
    door.broker.loop.advance(2.9)
    assert not late[-1].reading
    door.broker.loop.advance(0.1)
    assert all(each.reading for each in late)


@pytest.mark.conformance("XD-04")
def test_listeners_do_not_wait_for_each_other(tmp_path: Path) -> None:
    door = Door(tmp_path, listener_name_internal_max_connection_creation_rate="1")
    assert [door.paced("10.0.0.1", "INTERNAL").reading for _ in range(3)] == [True, False, False]
    assert all(door.paced("10.0.0.1").reading for _ in range(50))


def test_a_rate_of_nothing_makes_all_wait(tmp_path: Path) -> None:
    door = Door(tmp_path, max_connection_creation_rate="0")
    one = door.paced("10.0.0.1")
    assert not one.reading
    door.broker.loop.advance(11)
    assert one.reading


@pytest.mark.conformance("XD-04", "XD-05")
def test_an_address_beyond_its_rate_is_kept_unread_and_then_closed(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.quotas({None: 2.0, "10.0.0.9": 3.0})
    mine = [door.paced("10.0.0.1") for _ in range(4)]
    assert [each.reading for each in mine] == [True, True, False, False]
    assert [door.paced("10.0.0.9").reading for _ in range(4)] == [True, True, True, False]
    assert door.paced("10.0.0.2").reading
    door.broker.loop.advance(0.5)
    assert [each.aborted for each in mine] == [False, False, True, True]
    assert door.paced("10.0.0.1").reading, "who was sent away took no token"


@pytest.mark.conformance("XD-05")
def test_a_network_of_ipv6_is_one_address(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.quotas({None: 2.0})
    assert [door.paced(f"2001:db8::{n}").reading for n in range(1, 5)] == [True, True, False, False]
    assert door.paced("2001:db8:0:1::1").reading


@pytest.mark.conformance("XD-05")
def test_the_table_of_addresses_is_bounded(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.quotas({None: 1.0})
    quotas: Any = door.broker.context.quotas
    for n in range(ADDRESSES_MAX + 50):
        quotas.connected(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(quotas.addresses) == ADDRESSES_MAX
    door.broker.loop.advance(1.5)
    quotas.connected("10.0.0.1")
    assert len(quotas.addresses) == 1, "full buckets are forgotten"
