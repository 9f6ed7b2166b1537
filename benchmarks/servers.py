"""The two sides of a comparison, Coterie and Apache Kafka: started, killed, and what they weigh and use."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from actors.wire.messages import MetadataRequest
from benchmarks.common import Entry, Load, run_load, temporary_folder
from benchmarks.figures import OURS, PEER
from tests.compat import apache_kafka, peers
from tests.compat.peers import UnavailableError
from tests.compat.processes import end_family
from tests.compat.raw import Raw

ONE_REPLICA = {"offsets.topic.replication.factor": "1"}
"""As a single node of Apache Kafka has it."""
THREE_REPLICAS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
READY_LIMIT_S = 60.0


class Cluster(Protocol):
    """The work that both sides are asked to do."""

    data_dir: Path
    bootstrap_servers: str

    @property
    def pid(self) -> int:
        """Of its first process."""

    def start(self) -> None:
        """Start what does not run; returns when clients can connect."""

    def stop(self) -> None:
        """Stop in good order, if it runs."""

    def family(self) -> list[psutil.Process]:
        """Its processes, the first perhaps left out."""

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the first process or to all; what is left behind."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The start of a side: brokers of ours, nodes of Kafka's, and the settings of both."""

    brokers: int = 3
    nodes: int = 1
    config: Mapping[str, str] | None = None
    our_config: Mapping[str, str] | None = None
    """Settings that only Coterie has."""
    port: int = 0
    """The first port of our brokers; 0 lets them choose, at each start anew."""

    @contextlib.contextmanager
    def made(self, name: str) -> Iterator[Cluster]:
        """One side in a folder of its own, not started yet. Raises UnavailableError if it cannot be had here."""
        with temporary_folder() as folder:
            cluster = self._ours(folder) if name == OURS else self._kafka(folder)
            try:
                yield cluster
            finally:
                cluster.stop()

    @contextlib.contextmanager
    def side(self, name: str) -> Iterator[Cluster]:
        """The same, started."""
        with self.made(name) as cluster:
            cluster.start()
            yield cluster

    def _ours(self, folder: Path) -> Cluster:
        config = {**(self.config or {}), **(self.our_config or {})}
        return peers.Coterie(folder / "coterie-data", self.brokers, self.port, config)

    def _kafka(self, folder: Path) -> Cluster:
        kafka = apache_kafka.ApacheKafka(folder, self.nodes, self.config)
        kafka.format()
        return kafka

    @contextlib.contextmanager
    def both(self) -> Iterator[dict[str, Cluster]]:
        """Run both at once, ours first; without Kafka where it cannot be had."""
        with contextlib.ExitStack() as stack:
            sides = {OURS: stack.enter_context(self.side(OURS))}
            with contextlib.suppress(UnavailableError):
                sides[PEER] = stack.enter_context(self.side(PEER))
            yield sides


def processes(cluster: Cluster) -> list[psutil.Process]:
    """All processes of a cluster that live."""
    return list({each.pid: each for each in [psutil.Process(cluster.pid), *cluster.family()]}.values())


def kill_everything(cluster: Cluster) -> None:
    """SIGKILL to every process."""
    family = processes(cluster)
    cluster.kill()
    end_family(family)


def memory_mib(cluster: Cluster) -> float:
    """The memory of all processes, what they share counted once (PSS)."""
    total = 0
    for process in processes(cluster):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def cpu_s(cluster: Cluster) -> float:
    """The CPU time that the living processes have used since they started."""
    total = 0.0
    for process in processes(cluster):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def idle_cpu(cluster: Cluster, seconds: float) -> float:
    """Per cent of a core that a cluster uses, over the next `seconds`."""
    before, began = cpu_s(cluster), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(cluster) - before) / (time.monotonic() - began) * 100


def await_brokers(servers: str, count: int) -> None:
    """Until the first broker's metadata has so many brokers."""
    deadline = time.monotonic() + READY_LIMIT_S
    while True:
        with contextlib.suppress(OSError, EOFError), Raw(servers.split(",")[0]) as raw:
            if len(raw.call(MetadataRequest(topics=[]), 2).brokers) >= count:
                return
        assert time.monotonic() < deadline, f"{servers} has not {count} brokers"
        time.sleep(0.02)


def loaded(
    cluster: Cluster,
    entries: Sequence[Entry],
    depth: int,
    seconds: float,
    tls: bool = False,
    interval_ms: float | None = None,
) -> tuple[Load, float]:
    """A load, and the microseconds of CPU that all servers took for one of its requests."""
    before = cpu_s(cluster)
    load = run_load(entries, depth, seconds, interval_ms=interval_ms, tls=tls)
    return load, (cpu_s(cluster) - before) / load.answers * 1e6
