"""The metrics' text and its server: bounds, order, and that every metric of the table can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actors.monitor.exposition import Row, Series
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


def test_labels_are_escaped() -> None:
    rows: list[Row] = [(('a"b\\c\nd',), 1.0)]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Series(lambda: [("kafka_consumergroup_members", rows)], lambda: 10))
    assert b'consumergroup="a\\"b\\\\c\\nd"' in generate_latest(registry)
