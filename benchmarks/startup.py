"""A start, from the command until a client sees all brokers, and what just started clusters weigh and use.

Memory is the proportional share of all processes (PSS), five seconds after the start; idle CPU is that of the seconds
after. The peer is one node of Apache Kafka.
"""

from __future__ import annotations

import time

from benchmarks.figures import OURS, PEER, Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import Plan, await_brokers, idle_cpu, memory_mib

SETTLE_S = 5.0
IDLE_S = 8.0
BUDGETS = {1: (None, 1.0), 3: (1.0, 1.5)}
"""Of the time and of the memory, by the number of brokers."""
LABELS = {1: "one broker", 3: "three brokers"}


def _specs(brokers: int) -> list[Spec]:
    label, (time_ratio, memory_ratio) = LABELS[brokers], BUDGETS[brokers]
    return [
        Spec(f"ready, {label}", "s", Better.LESS, None if time_ratio is None else Budget(time_ratio)),
        Spec(f"memory just started, {label}", "MiB", Better.LESS, Budget(memory_ratio)),
        Spec(f"idle CPU just started, {label}", "% of a core", Better.LESS),
    ]


SPECS = [spec for brokers in LABELS for spec in _specs(brokers)]


def run(figures: Figures, pace: Pace) -> None:
    """Each cluster is started alone, in turns."""
    for _ in range(pace.turns):
        for brokers, label in LABELS.items():
            with figures.attempt(OURS, label):
                _start(figures, OURS, Plan(brokers), (label,), pace)
        with figures.attempt(PEER, "a start"):
            _start(figures, PEER, Plan(), tuple(LABELS.values()), pace)


def _start(figures: Figures, side: str, plan: Plan, labels: tuple[str, ...], pace: Pace) -> None:
    with plan.made(side) as cluster:
        began = time.monotonic()
        cluster.start()
        await_brokers(cluster.bootstrap_servers, plan.brokers if side == OURS else plan.nodes)
        took = time.monotonic() - began
        time.sleep(SETTLE_S)
        memory = memory_mib(cluster)
        cpu = idle_cpu(cluster, pace.fewer(int(IDLE_S), 2))
    for label in labels:
        figures.add(side, f"ready, {label}", took)
        figures.add(side, f"memory just started, {label}", memory)
        figures.add(side, f"idle CPU just started, {label}", cpu)
