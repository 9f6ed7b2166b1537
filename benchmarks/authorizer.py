"""What an authorizer costs a principal that may do everything: a broker with one and a broker without, in turns.

A hundred members of ten groups in one shard, as in `requests`; records as in `records`. Without an authorizer a request
costs one look at an attribute, which a test counts. The rows in per cent are what is left of the rate without it.
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
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, loaded
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
]


def run(figures: Figures, pace: Pace) -> None:
    """Both brokers live; one is used at a time, and which comes first changes from turn to turn."""
    with _both() as sides:
        formed = {name: groups.form(side.bootstrap_servers, 1) for name, side in sides.items()}
        for each in formed.values():
            run_load(each.commits(), 16, pace.seconds)
        for turn in range(pace.turns):
            order = list(sides) if turn % 2 else list(reversed(sides))
            for load in LOADS:
                with figures.attempt(OURS, load.what):
                    rates = {
                        name: loaded(sides[name], load.entries(formed[name]), load.depth, pace.seconds)
                        for name in order
                    }
                    _add(figures, load.what, *(rates[name][0].requests_per_s for name in sides))
            with figures.attempt(OURS, PRODUCE):
                count = RECORDS // pace.fewer(1, 5)
                made = {name: _produced(sides[name], f"records-{turn}", count) for name in order}
                _add(figures, PRODUCE, *(made[name] for name in sides))
        _close(formed)


def _add(figures: Figures, what: str, without: float, with_it: float) -> None:
    note(f"{what}: {without:,.0f}/s without")
    figures.only_ours(f"{what}, {UNRESTRICTED}", with_it)
    figures.only_ours(f"{what}, {UNRESTRICTED}: left of the rate", with_it / without * 100)


def _produced(side: Cluster, topic: str, count: int) -> float:
    create_topics(side.bootstrap_servers, {topic: records.PARTITIONS})
    return records.apart("produce", side.bootstrap_servers, topic, "all", count, SIZE_BYTES)


def _close(formed: dict[str, Formed]) -> None:
    for each in formed.values():
        each.close()


@contextlib.contextmanager
def _both() -> Iterator[dict[str, Cluster]]:
    with Plan(brokers=1, config=ONE_REPLICA).side(OURS) as without:
        with Plan(brokers=1, config=AUTHORIZED).side(OURS) as with_it:
            yield {"without": without, "with": with_it}
