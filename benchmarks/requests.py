"""Heartbeats and ten-partition commits of a hundred members of ten groups, all in one shard and spread over eight.

One replica each, as a single node of Apache Kafka has it. Each member's last acknowledged commit is read back by
another client at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import groups
from benchmarks.common import Entry, note, run_load
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, loaded

ALONE = "commits of ten partitions, one connection, p50"


@dataclass(frozen=True, slots=True)
class _Load:
    what: str
    entries: Callable[[Formed], list[Entry]]
    depth: int
    budget: float


LOADS = (
    _Load("heartbeats, 100 connections, depth 1", Formed.heartbeats, 1, 0.8),
    _Load("heartbeats, 100 connections, depth 16", Formed.heartbeats, 16, 2.0),
    _Load("commits of ten partitions, 100 connections, depth 1", Formed.commits, 1, 1.3),
    _Load("commits of ten partitions, 100 connections, depth 16", Formed.commits, 16, 2.0),
)
SHARDS = {1: "one shard", 8: "eight shards"}


def _specs(label: str) -> list[Spec]:
    rates = [Spec(f"{each.what}, {label}", "/s", Better.MORE, Budget(each.budget)) for each in LOADS]
    return [*rates, Spec(f"{ALONE}, {label}", "µs", Better.LESS, Budget(0.1))]


SPECS = [spec for label in SHARDS.values() for spec in _specs(label)]


def run(figures: Figures, pace: Pace) -> None:
    """One pair of clusters for each number of shards."""
    for shards, label in SHARDS.items():
        with Plan(config=ONE_REPLICA).both() as sides:
            note(f"forming {groups.GROUPS} groups in {label}")
            formed = {side: groups.form(cluster.bootstrap_servers, shards) for side, cluster in sides.items()}
            for each in formed.values():  # a Java program is slow until it is warm
                run_load(each.commits(), 16, pace.seconds)
            for _ in range(pace.turns):
                _turn(figures, pace, sides, formed, label)
            for side, cluster in sides.items():
                with figures.attempt(side, f"the last commits, {label}"):
                    _read_back(cluster, formed[side])
                formed[side].close()


def _turn(figures: Figures, pace: Pace, sides: dict[str, Cluster], formed: dict[str, Formed], label: str) -> None:
    for each in LOADS:
        for side, cluster in sides.items():
            with figures.attempt(side, f"{each.what}, {label}"):
                load, cpu_us = loaded(cluster, each.entries(formed[side]), each.depth, pace.seconds)
                figures.add(side, f"{each.what}, {label}", load.requests_per_s, cpu_us)
    for side, cluster in sides.items():
        with figures.attempt(side, f"{ALONE}, {label}"):
            load, cpu_us = loaded(cluster, formed[side].commits()[:1], 1, pace.seconds)
            figures.add(side, f"{ALONE}, {label}", load.p50_us, cpu_us)


def _read_back(cluster: Cluster, formed: Formed) -> None:
    """A last round of commits is what another client finds."""
    load = run_load(formed.commits(), 1, 0.5)
    groups.check_commits(cluster.bootstrap_servers, formed, load, "after the run")
