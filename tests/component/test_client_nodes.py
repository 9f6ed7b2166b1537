"""Choosing a node, the backoff, versions and settings of the clients."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter

import pytest

from actors.client.config import consumer_config, producer_config
from actors.client.error_codes import error_for
from actors.client.errors import (
    ConfigurationError,
    IllegalStateError,
    KafkaConnectionError,
    RebalanceInProgressError,
    UnsupportedVersionError,
)
from actors.client.group.classic.config import make_assignors
from actors.client.net.access import OPEN_ACCESS
from actors.client.net.backoff import Backoff
from actors.client.net.connection import Broker, Connection
from actors.client.net.exchange import Exchange, Lost
from actors.client.net.network import Network
from actors.client.net.nodes import NodeLoad, least_loaded
from actors.client.net.settings import NetworkSettings, parse_bootstrap
from actors.client.net.versions import choose_version
from actors.client.records import Node
from actors.wire.messages import FetchRequest, JoinGroupRequest


def ready(number: int, in_flight: int) -> NodeLoad:
    return NodeLoad(number, ready=True, in_flight=in_flight)


@pytest.mark.conformance("E-01")
@pytest.mark.parametrize("start", [0, 1, 2])
def test_the_ready_node_with_nothing_in_flight_wins(start):
    assert least_loaded([ready(1, 2), ready(2, 0), ready(3, 1)], start) == 2


@pytest.mark.conformance("E-01")
@pytest.mark.parametrize(
    ("nodes", "chosen"),
    [
        ([ready(1, 2), ready(2, 3)], 1),
        ([NodeLoad(1, connectable=True), NodeLoad(2, connecting=True)], 2),
        ([NodeLoad(1, connectable=True), ready(2, 9), NodeLoad(3, connecting=True)], 2),
        ([NodeLoad(1), NodeLoad(2)], None),
        ([NodeLoad(1, connectable=True, last_attempt_ms=9), NodeLoad(2, connectable=True, last_attempt_ms=3)], 2),
    ],
    ids=["fewest in flight", "connecting", "ready first", "none", "tried longest ago"],
)
def test_order_of_preference(nodes, chosen):
    assert [least_loaded(nodes, start) for start in range(len(nodes))] == [chosen] * len(nodes)


def test_no_known_nodes_at_all_is_an_illegal_state():
    with pytest.raises(IllegalStateError, match="bootstrap_servers"):
        least_loaded([], 0)


def test_a_random_start_spreads_the_choice():
    random.seed(7)
    nodes = [ready(n, 0) for n in range(3)]
    picks = Counter(least_loaded(nodes, random.randrange(3)) for _ in range(1000))
    assert min(picks.values()) >= 200


@pytest.mark.parametrize("known", [True, False], ids=["brokers", "bootstrap"])
def test_a_client_begins_its_walk_anywhere(known):
    random.seed(7)
    network = Network(NetworkSettings(bootstrap=tuple(("h", n) for n in range(3))))
    network.loop.close()
    if known:
        network.cluster.brokers = {n: Node(n, "b", n) for n in range(3)}
    picks = Counter(network.least_loaded() for _ in range(1000))
    assert {node.host for node in picks} == {"b" if known else "h"}
    assert len(picks) == 3
    assert min(picks.values()) >= 200


def test_backoff_doubles_up_to_its_limit_and_is_spread():
    plain = Backoff(100, 1000)
    assert [plain.delay_ms(n) for n in range(7)] == [0, 100, 200, 400, 800, 1000, 1000]
    assert Backoff(100, 1000, lambda: 0.8).delay_ms(2) == 160
    assert Backoff(100, 1000, lambda: 1.2).delay_ms(9) == 1000


def test_the_highest_version_both_sides_know():
    assert choose_version(JoinGroupRequest, {11: (0, 7)}) == 7
    assert choose_version(FetchRequest, {1: (4, 18)}) == 12
    with pytest.raises(UnsupportedVersionError, match="versions 0 to 4"):
        choose_version(JoinGroupRequest, {11: (0, 4)}, at_least=5)
    with pytest.raises(UnsupportedVersionError, match="no JoinGroup"):
        choose_version(JoinGroupRequest, {})


def test_bootstrap_servers():
    assert parse_bootstrap("a:1, b:2") == (("a", 1), ("b", 2))
    assert parse_bootstrap(["[::1]:9092"]) == (("::1", 9092),)
    for wrong in ("a", "a:x", "a:0", "", ":1"):
        with pytest.raises(ValueError, match="bootstrap_servers"):
            parse_bootstrap(wrong)


@pytest.mark.conformance("G-01")
def test_the_consumers_defaults_are_kafkas():
    config = consumer_config({"group_id": "g"})
    expected = {
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
        "max_poll_records": 500,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5_000,
        "auto_offset_reset": "latest",
        "retry_backoff_ms": 100,
        "retry_backoff_max_ms": 1_000,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "request_timeout_ms": 30_000,
        "default_api_timeout_ms": 60_000,
        "metadata_max_age_ms": 300_000,
        "client_rack": "",
        "exclude_internal_topics": True,
        "isolation_level": "read_uncommitted",
        "group_instance_id": None,
        "group_protocol": "classic",
    }
    assert {name: getattr(config, name) for name in expected} == expected
    assert [a.name for a in make_assignors(config.partition_assignment_strategy)] == ["range", "cooperative-sticky"]
    assert consumer_config({}).group_id is None


@pytest.mark.conformance("G-01")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_poll_records", 0),
        ("max_poll_interval_ms", 0),
        ("auto_commit_interval_ms", -1),
        ("retry_backoff_ms", -1),
        ("metadata_max_age_ms", -1),
        ("auto_offset_reset", "newest"),
        ("isolation_level", "none"),
        ("group_instance_id", ""),
        ("group_instance_id", ".."),
        ("group_instance_id", "a b"),
        ("group_instance_id", "x" * 250),
        ("partition_assignment_strategy", None),
        ("partition_assignment_strategy", ["unheard-of"]),
        ("session_timeout_ms", "45"),
        ("heartbeat_interval_ms", 45_000),
        ("enable_auto_commit", 1),
        ("group_id", ""),
        ("bootstrap_servers", "nowhere"),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(ConfigurationError, match=name):
        consumer_config({"group_id": "g", name: value})


def test_an_unknown_setting_is_named_with_the_nearest_known_one():
    with pytest.raises(ConfigurationError, match=r"'session_timeout'.*did you mean session_timeout_ms\?"):
        consumer_config({"session_timeout": 1})
    with pytest.raises(ConfigurationError, match=r"'linger\.ms'.*mean linger_ms\?"):
        producer_config({"linger.ms": 1})


def test_a_session_of_less_than_three_heartbeats_is_warned_about():
    with pytest.warns(UserWarning, match="heartbeat_interval_ms=3000"):
        consumer_config({"group_id": "g", "session_timeout_ms": 8_999})


def test_settings_that_contradict_each_other():
    with pytest.raises(ConfigurationError, match="group_id"):
        consumer_config({"group_instance_id": "i"})
    with pytest.raises(ConfigurationError, match="enable_idempotence"):
        producer_config({"enable_idempotence": True, "acks": 1})
    assert producer_config({"acks": 1}).enable_idempotence is False
    assert producer_config({}).acks == -1
    with pytest.raises(ConfigurationError, match="delivery_timeout_ms"):
        producer_config({"delivery_timeout_ms": 10})


def test_errors_carry_kafkas_names_and_codes():
    error = error_for(27, "committing")
    assert isinstance(error, RebalanceInProgressError)
    assert "REBALANCE_IN_PROGRESS (27)" in str(error)
    assert error_for(56).retriable
    assert not error_for(36).retriable
    assert error_for(999).error_code == 999
    assert error_for(10, "producing", "the broker's own words").args[0].endswith("the broker's own words")


def test_importing_the_clients_does_not_import_ray():
    code = "import sys, actors.client, actors.client.group.classic.membership; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_connection_to_where_a_broker_was_is_closed_when_it_comes_about():
    """The broker came back on another port meanwhile; nobody would ever use the connection, or close it."""
    made: list[Exchange] = []

    async def dial(node: Node, on_lost: Lost) -> Connection:
        if node.port == 1002:
            raise KafkaConnectionError
        with pytest.raises(KafkaConnectionError):
            await network.connection(Node(1, "h", 1002))
        made.append(Exchange("c", on_lost))
        return Connection(Broker(made[0], {}, 0), OPEN_ACCESS, lambda: 0.0, math.inf)

    network = Network(NetworkSettings(bootstrap=(("h", 1),)), dial=dial)

    async def main() -> None:
        with pytest.raises(KafkaConnectionError, match="h:1001"):
            await network.connection(Node(1, "h", 1001))

    try:
        network.loop.run_until_complete(main())
    finally:
        network.loop.close()
    assert [exchange.is_lost for exchange in made] == [True]
