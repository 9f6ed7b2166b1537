"""Other people's programs that watch consumer groups: the start of each, and its figures, in one form.

They are Go programs, and must be on PATH: kafka_exporter, kminion, Burrow. Each listens on
loopback. `Shown` holds their figures in one form, so that a test can compare them with the cluster's own.
"""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Partition = tuple[str, int]
Samples = Mapping[str, list[tuple[dict[str, str], float]]]


@dataclass(frozen=True, slots=True)
class Shown:
    """The figures of a program. A table is None where the program has no such figures."""

    lag: dict[tuple[str, str, int], int]
    """By group, topic and partition, where something is committed."""
    ends: dict[Partition, int] | None = None
    starts: dict[Partition, int] | None = None
    members: dict[str, int] | None = None
    states: dict[str, str] | None = None
    sizes: dict[str, int] | None = None
    """Of topics, in bytes."""
    brokers: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its names, how it is started at a port, and how it is looked at."""

    name: str
    names: tuple[str, ...]
    command: Callable[[str, str, int, Path], list[str]]
    """Of its path, the bootstrap servers, its port, and a folder for its files."""
    look: Callable[[str], Shown]
    """At its address. Raises OSError while it does not answer."""
    too_old: str = ""
    """Debian's path of a version that is too old for these tests."""

    def path(self) -> str | None:
        """The path of its executable; None if this machine does not have it."""
        found = filter(None, map(shutil.which, self.names))
        return next((each for each in found if each != self.too_old), None)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _samples(address: str) -> Samples:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(_get(f"{address}/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def _by_partition(samples: Samples, name: str, topic: str, partition: str) -> dict[Partition, int]:
    return {(labels[topic], int(labels[partition])): int(value) for labels, value in samples.get(name, ())}


def _by(samples: Samples, name: str, label: str) -> dict[str, int]:
    return {labels[label]: int(value) for labels, value in samples.get(name, ())}


# ------------------------------------------------------------------ kafka_exporter


def _kafka_exporter(path: str, servers: str, port: int, folder: Path) -> list[str]:
    return [path, f"--web.listen-address=127.0.0.1:{port}", *(f"--kafka.server={each}" for each in servers.split(","))]


def _look_at_kafka_exporter(address: str) -> Shown:
    samples = _samples(address)
    return Shown(
        lag={
            (labels["consumergroup"], labels["topic"], int(labels["partition"])): int(value)
            for labels, value in samples.get("kafka_consumergroup_lag", ())
            if value >= 0  # it shows -1 for a partition without a commit, for Kafka, too
        },
        ends=_by_partition(samples, "kafka_topic_partition_current_offset", "topic", "partition"),
        starts=_by_partition(samples, "kafka_topic_partition_oldest_offset", "topic", "partition"),
        members=_by(samples, "kafka_consumergroup_members", "consumergroup"),
        brokers=int(samples.get("kafka_brokers", [({}, 0.0)])[0][1]),
    )


# ------------------------------------------------------------------ kminion


def _kminion(mode: str) -> Callable[[str, str, int, Path], list[str]]:
    def command(path: str, servers: str, port: int, folder: Path) -> list[str]:
        listen = ["EXPORTER_HOST=127.0.0.1", f"EXPORTER_PORT={port}"]
        return ["env", f"KAFKA_BROKERS={servers}", *listen, f"MINION_CONSUMERGROUPS_SCRAPEMODE={mode}", path]

    return command


def _look_at_kminion(address: str) -> Shown:
    samples = _samples(address)
    name = "kminion_kafka_"
    return Shown(
        lag={
            (labels["group_id"], labels["topic_name"], int(labels["partition_id"])): int(value)
            for labels, value in samples.get(f"{name}consumer_group_topic_partition_lag", ())
        },
        ends=_by_partition(samples, f"{name}topic_partition_high_water_mark", "topic_name", "partition_id"),
        starts=_by_partition(samples, f"{name}topic_partition_low_water_mark", "topic_name", "partition_id"),
        members=_by(samples, f"{name}consumer_group_members", "group_id"),
        states={labels["group_id"]: labels["state"] for labels, _ in samples.get(f"{name}consumer_group_info", ())},
        sizes=_by(samples, f"{name}topic_log_dir_size_total_bytes", "topic_name"),
        brokers=len(samples.get(f"{name}broker_info", ())),
    )


# ------------------------------------------------------------------ Burrow

_BURROW = """
[logging]
level="info"
[client-profile.here]
kafka-version="2.0.0"
client-id="burrow"
[cluster.local]
class-name="kafka"
client-profile="here"
servers=[{servers}]
topic-refresh=2
offset-refresh=1
[consumer.local]
class-name="kafka"
cluster="local"
client-profile="here"
servers=[{servers}]
start-latest=false
[httpserver.default]
address="127.0.0.1:{port}"
"""


def _burrow(path: str, servers: str, port: int, folder: Path) -> list[str]:
    quoted = ", ".join(f'"{each}"' for each in servers.split(","))
    (folder / "burrow.toml").write_text(_BURROW.format(servers=quoted, port=port))
    return [path, f"--config-dir={folder}"]


def _look_at_burrow(address: str) -> Shown:
    api = f"{address}/v3/kafka/local"
    ask: Callable[[str], Any] = lambda path: json.loads(_get(f"{api}/{path}"))  # noqa: E731
    lag = {}
    for group in ask("consumer")["consumers"]:
        for each in ask(f"consumer/{group}/lag")["status"]["partitions"]:
            if each["end"] is not None:  # nothing is committed there
                lag[group, each["topic"], each["partition"]] = each["current_lag"]
    ends = {
        (topic, number): end
        for topic in ask("topic")["topics"]
        for number, end in enumerate(ask(f"topic/{topic}")["offsets"])
    }
    return Shown(lag=lag, ends=ends)


PROGRAMS = (
    Program("kafka_exporter", ("kafka_exporter",), _kafka_exporter, _look_at_kafka_exporter),
    Program("kminion, which asks brokers", ("kminion",), _kminion("adminApi"), _look_at_kminion),
    Program("kminion, which reads the offsets topic", ("kminion",), _kminion("offsetsTopic"), _look_at_kminion),
    Program("burrow", ("Burrow",), _burrow, _look_at_burrow, too_old="/usr/bin/Burrow"),  # 1.2.1 wants a ZooKeeper
)
