"""The time until fifty groups commit again after a kill -9: from the kill to the first commit of each group.

Three brokers, beside three nodes of Apache Kafka, with three replicas and `min.insync.replicas=2`. Each group has one
member, which beats and commits ten times a second; its time counts whether the kill has touched it or not. Each
kill gives a sample: the median of the groups, and the slowest. Apache Kafka's nodes are started again by hand.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks import groups
from benchmarks.figures import OURS, SIDES, Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import THREE_REPLICAS, Cluster, Plan
from tests.chaos.light import Members
from tests.chaos.run import free_base_port
from tests.compat.apache_kafka import ApacheKafka
from tests.compat.peers import Coterie
from tests.compat.raw import create_topics

GROUPS = 50
PAUSE_S = 0.1
FORM_LIMIT_S, BACK_LIMIT_S = 120.0, 60.0
CALM_S = 5.0
BROKER = "kill -9 of a broker: a group's next commit, {}"
SHARD = "kill -9 of a shard: a group's next commit, {}"
MEDIAN, SLOWEST = "median", "slowest"
PEER_NAME = "three nodes"
SPECS = [
    Spec(BROKER.format(MEDIAN), "s", Better.LESS, Budget(limit=1.0), PEER_NAME),
    Spec(BROKER.format(SLOWEST), "s", Better.LESS, Budget(limit=3.0), PEER_NAME),
    Spec(SHARD.format(MEDIAN), "s", Better.LESS, Budget(limit=1.0)),
    Spec(SHARD.format(SLOWEST), "s", Better.LESS, Budget(limit=3.0)),
]


def run(figures: Figures, pace: Pace) -> None:
    """Each cluster lives alone, in turns."""
    for turn in range(pace.fewer(2, 1)):
        for side in SIDES:
            plan = Plan(nodes=3, config=THREE_REPLICAS, port=free_base_port())
            with figures.attempt(side, f"turn {turn + 1}"), plan.side(side) as cluster, _members(cluster) as members:
                for number in range(pace.fewer(3, 1)):
                    _measure(figures, side, members, BROKER, _broker(cluster, number))
                    if side == OURS:
                        _measure(figures, side, members, SHARD, _shard(cluster, number))


@contextlib.contextmanager
def _members(cluster: Cluster) -> Iterator[Members]:
    """A member in each of fifty groups, in fifty partitions, once all have committed."""
    create_topics(cluster.bootstrap_servers, {"failover": 1})
    names = groups.group_names(GROUPS, GROUPS, "failover")
    members = Members(cluster.bootstrap_servers, names, 1, PAUSE_S, "failover")
    try:
        _await_commits(members, 0.0, FORM_LIMIT_S)
        yield members
    finally:
        members.stop()


def _await_commits(members: Members, since: float, limit_s: float) -> list[float]:
    """The time at which each group was answered its first commit since then; ends when all have been."""
    deadline = time.monotonic() + limit_s
    while True:
        first: dict[str, float] = {}
        for answer in list(members.told.answers):
            if answer.kind == "commit" and not answer.code and answer.asked >= since:
                first.setdefault(answer.group, answer.answered)
        if len(first) == GROUPS:
            return list(first.values())
        assert time.monotonic() < deadline, f"{GROUPS - len(first)} groups do not commit"
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class _Blow:
    """A kill, and what brings back what does not come back by itself."""

    strike: Callable[[], None]
    restore: Callable[[], None] = lambda: None


def _measure(figures: Figures, side: str, members: Members, what: str, blow: _Blow) -> None:
    """Let everything be calm, strike, wait for each group, and restore."""
    time.sleep(CALM_S)
    _await_commits(members, time.monotonic(), BACK_LIMIT_S)
    struck = time.monotonic()
    blow.strike()
    took = [answered - struck for answered in _await_commits(members, struck, BACK_LIMIT_S)]
    figures.add(side, what.format(MEDIAN), statistics.median(took))
    figures.add(side, what.format(SLOWEST), max(took))
    blow.restore()


def _broker(cluster: Cluster, number: int) -> _Blow:
    if isinstance(cluster, ApacheKafka):
        return _Blow(partial(cluster.kill_node, number % 3), cluster.start)
    assert isinstance(cluster, Coterie)
    brokers = sorted(cluster.peer().broker_pids())
    return _Blow(partial(os.kill, brokers[number % len(brokers)], signal.SIGKILL))


def _shard(cluster: Cluster, number: int) -> _Blow:
    """One that has a partition, and with it a group."""
    assert isinstance(cluster, Coterie)
    shards = [shard for broker in cluster.status()["brokers"] for shard in broker["shards"]]
    pids = sorted(shard["pid"] for shard in shards if shard["partition"] >= 0)
    return _Blow(partial(os.kill, pids[number * 17 % len(pids)], signal.SIGKILL))
