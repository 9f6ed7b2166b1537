"""The cost of an authorizer for a principal that may do everything: a broker with one and a broker without, in turns.

A hundred members of ten groups in one shard, as in `requests`; records as in `records`. Without an authorizer a request
costs one look at an attribute, which a test counts. The rows in per cent are what is left of the rate without it, and
the CPU of the servers for a request beside that without it: rates are also those of the clients, on the same cores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks import groups, records
from benchmarks.common import note, run_load
from benchmarks.figures import OURS, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.requests import LOADS
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, loaded, processes
from tests.compat.processes import command_of
from tests.compat.raw import create_topics

RECORDS = 300_000
SIZE_BYTES = 1024
AUTHORIZED = {
    **ONE_REPLICA,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
UNRESTRICTED = "authorizer with unrestricted principal"
PRODUCE = "produce, acks=all, 1 KiB"
RATES = (*(load.what for load in LOADS), PRODUCE)
SPECS = [
    *(Spec(f"{what}, {UNRESTRICTED}", "/s", Better.MORE) for what in RATES),
    *(Spec(f"{what}, {UNRESTRICTED}: left of the rate", "%", Better.MORE, Budget(limit=97)) for what in RATES),
    *(Spec(f"{what}, {UNRESTRICTED}: CPU of that without", "%", Better.LESS, Budget(limit=103)) for what in RATES),
]


def run(figures: Figures, pace: Pace) -> None:
    """Both brokers live; one is used at a time, and which comes first changes from turn to turn."""
    with _both() as sides:
        formed = {name: groups.form(side.bootstrap_servers, 1) for name, side in sides.items()}
        for each in formed.values():
            run_load(each.commits(), 16, pace.seconds)
        for turn in range(pace.turns * pace.fewer(3, 1)):
            order = list(sides) if turn % 2 else list(reversed(sides))
            for load in LOADS:
                with figures.attempt(OURS, load.what):
                    found = {}
                    for name in order:
                        entries = load.entries(formed[name])
                        result, cpu_us = loaded(sides[name], entries, load.depth, pace.seconds)
                        found[name] = result.requests_per_s, cpu_us
                    _add(figures, load.what, *(found[name] for name in sides))
            with figures.attempt(OURS, PRODUCE):
                count = RECORDS // pace.fewer(1, 5)
                made = {name: _produced(sides[name], f"records-{turn}", count) for name in order}
                _add(figures, PRODUCE, *(made[name] for name in sides))
        _close(formed)


def _add(figures: Figures, what: str, without: tuple[float, float], with_it: tuple[float, float]) -> None:
    """Each a rate a second, and µs of CPU for one."""
    (rate, cpu_us), (rate_with, cpu_us_with) = without, with_it
    note(f"{what}: {rate:,.0f}/s and {cpu_us:.2f} µs without, {rate_with:,.0f}/s and {cpu_us_with:.2f} µs with it")
    figures.only_ours(f"{what}, {UNRESTRICTED}", rate_with)
    figures.only_ours(f"{what}, {UNRESTRICTED}: left of the rate", rate_with / rate * 100)
    figures.only_ours(f"{what}, {UNRESTRICTED}: CPU of that without", cpu_us_with / cpu_us * 100)


def _produced(side: Cluster, topic: str, count: int) -> tuple[float, float]:
    create_topics(side.bootstrap_servers, {topic: records.PARTITIONS})
    (broker,) = (each for each in processes(side) if "ray::Broker" in command_of(each))  # no shard has a part in it
    before = broker.cpu_times()
    rate = records.apart("produce", side.bootstrap_servers, topic, "all", count, SIZE_BYTES)
    after = broker.cpu_times()
    return rate, (after.user + after.system - before.user - before.system) / count * 1e6


def _close(formed: dict[str, Formed]) -> None:
    for each in formed.values():
        each.close()


@contextlib.contextmanager
def _both() -> Iterator[dict[str, Cluster]]:
    with Plan(brokers=1, config=ONE_REPLICA).side(OURS) as without:
        with Plan(brokers=1, config=AUTHORIZED).side(OURS) as with_it:
            yield {"without": without, "with": with_it}
