"""The metrics' text and its server: bounds, order, and that every metric of the table can be shown."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actors.monitor.exposition import MetricsServer, Row, Series
from actors.monitor.metric_table import METRICS, SECTIONS


def families() -> Iterator[tuple[str, Iterable[Row]]]:
    """A hundred rows of each kind, the least important first."""
    yield "kafka_topic_partition_leader", (((f"t{n}", "0"), float(n)) for n in range(100))
    yield "kafka_consumergroup_lag", (((f"g{n}", "t", "0"), float(n)) for n in range(100))
    yield "kafka_brokers", [((), 3.0)]


def shown(series: Series) -> dict[str, int]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(series)
    text = generate_latest(registry).decode()
    return {family.name: len(family.samples) for family in text_string_to_metric_families(text) if family.samples} | {
        "": int(text.rsplit(" ", 1)[1].split(".")[0])
    }


def test_series_beyond_the_bound_are_left_out_the_least_important_first_and_counted() -> None:
    assert shown(Series(families, lambda: 1000)) == {
        "kafka_brokers": 1,
        "kafka_consumergroup_lag": 100,
        "kafka_topic_partition_leader": 100,
        "coterie_metrics_series_left_out": 1,
        "": 0,
    }
    series = Series(families, lambda: 61)
    assert shown(series) == {
        "kafka_brokers": 1,
        "kafka_consumergroup_lag": 59,
        "coterie_metrics_series_left_out": 1,
        "": 141,
    }
    assert series.left_out == 141


def test_the_table_has_each_metric_once_and_names_as_prometheus_wants_them() -> None:
    names = [each.name for each in METRICS]
    assert len(names) == len(set(names))
    assert {each.section for each in METRICS} == set(SECTIONS)
    for each in METRICS:
        assert (each.kind == "counter") == each.name.endswith("_total"), each.name
        assert each.doc.endswith("."), each.name


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer(Series(families, lambda: 1000), "127.0.0.1", 0)
    yield made
    made.close()


def test_it_serves_text_at_one_path_on_loopback(server: MetricsServer) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b"kafka_brokers 3.0" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=30)
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", data=b"x", timeout=30)


def test_a_port_that_is_taken_is_an_error_that_says_so(server: MetricsServer) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer(Series(families, lambda: 1000), "127.0.0.1", server.port)


def test_labels_are_escaped() -> None:
    rows: list[Row] = [(('a"b\\c\nd',), 1.0)]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Series(lambda: [("kafka_consumergroup_members", rows)], lambda: 10))
    assert b'consumergroup="a\\"b\\\\c\\nd"' in generate_latest(registry)


def test_a_group_with_a_nul_in_its_name_costs_no_other_series() -> None:
    """For Prometheus the text ended there, and the whole scrape was an error."""
    rows: list[Row] = [(("a\0b",), 1.0), (("billing",), 2.0)]
    server = MetricsServer(Series(lambda: [("kafka_consumergroup_members", rows)], lambda: 10), "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
            text = answer.read()
    finally:
        server.close()
    assert b"\0" not in text
    assert 'consumergroup="a\ufffdb"} 1.0'.encode() in text
    assert b'consumergroup="billing"} 2.0' in text


def test_a_server_that_was_closed_lets_its_port_go() -> None:
    made = MetricsServer(Series(families, lambda: 1000), "127.0.0.1", 0)
    port = made.port
    made.close()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
