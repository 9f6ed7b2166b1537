"""Ten-partition commits with three replicas and `min.insync.replicas=2`, beside three nodes of Apache Kafka.

Ten groups of ten members in eight shards. Coterie with one replica is measured in the same turns.
"""

from __future__ import annotations

import contextlib

from benchmarks import groups
from benchmarks.common import run_load
from benchmarks.figures import OURS, PEER, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, THREE_REPLICAS, Cluster, Plan, loaded

ALONE = "commits, one connection, three replicas, p50"
MANY = "commits, 100 connections, depth 16, three replicas"
SHARE = "commits, 100 connections, depth 16: three replicas beside one"
SPECS = [
    Spec(ALONE, "µs", Better.LESS, Budget(0.2), "three nodes"),
    Spec(MANY, "/s", Better.MORE, None, "three nodes"),
    Spec(SHARE, "/s", Better.MORE, Budget(0.5), "Coterie, one replica"),
]


def run(figures: Figures, pace: Pace) -> None:
    """Three clusters at once; two of them do nothing while the third is measured."""
    with contextlib.ExitStack() as stack:
        sides = stack.enter_context(Plan(nodes=3, config=THREE_REPLICAS).both())
        single = stack.enter_context(Plan(config=ONE_REPLICA).side(OURS))
        formed = {side: groups.form(cluster.bootstrap_servers, 8) for side, cluster in sides.items()}
        formed_single = groups.form(single.bootstrap_servers, 8)
        for each in formed.values():  # a Java program is slow until it is warm
            run_load(each.commits(), 16, pace.seconds)
        for _ in range(pace.turns):
            for side, cluster in sides.items():
                with figures.attempt(side, ALONE):
                    load, cpu_us = loaded(cluster, formed[side].commits()[:1], 1, pace.seconds)
                    figures.add(side, ALONE, load.p50_us, cpu_us)
            for side, cluster in sides.items():
                with figures.attempt(side, MANY):
                    rate, cpu_us = _rate(cluster, formed[side], pace)
                    figures.add(side, MANY, rate, cpu_us)
                    if side == OURS:
                        figures.add(side, SHARE, rate, cpu_us)
            with figures.attempt(OURS, SHARE):
                figures.add(PEER, SHARE, *_rate(single, formed_single, pace))


def _rate(cluster: Cluster, formed: Formed, pace: Pace) -> tuple[float, float]:
    load, cpu_us = loaded(cluster, formed.commits(), 16, pace.seconds)
    return load.requests_per_s, cpu_us
