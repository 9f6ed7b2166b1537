"""Consumer groups (KIP-848): one member more, a hundred at once, and a thousand that beat.

Raw members of one group and one topic. They beat five times a second, on both sides by the brokers' settings, and say
at once what an answer changed. No partition may have two owners, or the turn fails.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

from actors.wire.framing import encode_request
from benchmarks.common import Entry, note
from benchmarks.consumer_members import VERSION, ConsumerMember, Owners, at_rest, settled, until
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, loaded
from tests.compat.raw import create_topics, serving_coordinator

PARTITIONS = 900
TOPIC = "consumer-protocol"
BEAT_MS = 200
CONFIG = ONE_REPLICA | {
    "group.consumer.heartbeat.interval.ms": str(BEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(BEAT_MS),
    "group.consumer.max.size": "10000",
}
JOINERS_A_TURN = 3
BEATERS = 1_000

SHARE = "one joins ten that hold 900 partitions: it has its share"
GAP = "longest that a partition had no owner meanwhile"
HUNDRED = "a hundred join at once: each has its nine of 900"
RATE = "heartbeats of a thousand members, depth 1"
RATE_P99 = "their p99"
CALM_P99 = "p99 of a thousand members that beat five times a second"

SPECS = [
    Spec(SHARE, "s", Better.LESS, Budget(1.0)),
    Spec(GAP, "s", Better.LESS, Budget(1.0)),
    Spec(HUNDRED, "s", Better.LESS, Budget(1.0)),
    Spec(RATE, "/s", Better.MORE, Budget(0.8)),
    Spec(RATE_P99, "µs", Better.LESS, Budget(1.0)),
    Spec(CALM_P99, "µs", Better.LESS, Budget(1.0)),
]


def run(figures: Figures, pace: Pace) -> None:
    """Each turn has groups of its own; the thousand beat in one group of each side."""
    with Plan(config=CONFIG).both() as sides:
        for cluster in sides.values():
            create_topics(cluster.bootstrap_servers, {TOPIC: PARTITIONS})
        for turn in range(pace.turns + 1):  # the first warms up
            for side, cluster in sides.items():
                with figures.attempt(side, SHARE):
                    for number in range(JOINERS_A_TURN):
                        took, gap = _one_more(cluster.bootstrap_servers, f"one-more-{turn}-{number}")
                        if turn:
                            figures.add(side, SHARE, took)
                            figures.add(side, GAP, gap)
            for side, cluster in sides.items():
                with figures.attempt(side, HUNDRED):
                    took = _hundred(cluster.bootstrap_servers, f"hundred-{turn}")
                    if turn:
                        figures.add(side, HUNDRED, took)
        _beat(figures, pace, sides)


def _one_more(servers: str, group: str) -> tuple[float, float]:
    """Seconds until the eleventh member has its share, and that a partition had no owner."""
    address = serving_coordinator(servers, group)

    async def measured() -> tuple[float, float]:
        owners = Owners()
        members = [ConsumerMember(group, TOPIC, owners) for _ in range(11)]
        try:
            return await _eleventh(members, owners, address)
        finally:
            await asyncio.gather(*(each.stop() for each in members))

    return asyncio.run(measured())


async def _eleventh(members: list[ConsumerMember], owners: Owners, address: str) -> tuple[float, float]:
    *first, last = members
    await asyncio.gather(*(each.join(address) for each in first))
    await at_rest(first, owners, PARTITIONS)
    owners.forget_gaps()
    joining = asyncio.create_task(last.join(address))
    took = await until(first, lambda: len(last.owned) >= PARTITIONS // len(members))
    await joining
    await settled(members, owners, PARTITIONS)
    return took, owners.longest_gap_s


def _hundred(servers: str, group: str) -> float:
    """Seconds from the first join until all partitions are evenly owned."""
    address = serving_coordinator(servers, group)

    async def measured() -> float:
        owners = Owners()
        members = [ConsumerMember(group, TOPIC, owners) for _ in range(100)]
        try:
            joining = [asyncio.create_task(each.join(address)) for each in members]
            took = await settled(members, owners, PARTITIONS)
            await asyncio.gather(*joining)
            return took
        finally:
            await asyncio.gather(*(each.stop() for each in members))

    return asyncio.run(measured())


def _beat(figures: Figures, pace: Pace, sides: dict[str, Cluster]) -> None:
    entries: dict[str, list[Entry]] = {}
    for side, cluster in sides.items():
        note(f"{side}: {BEATERS} members join")
        with figures.attempt(side, RATE):
            entries[side] = asyncio.run(_thousand(cluster.bootstrap_servers, "thousand"))
    for turn in range(pace.turns + 1):
        for side, found in entries.items():
            with figures.attempt(side, RATE):
                load, cpu_us = loaded(sides[side], found, 1, pace.seconds)
                if turn:
                    figures.add(side, RATE, load.requests_per_s, cpu_us)
                    figures.add(side, RATE_P99, load.p99_us)
        for side, found in entries.items():
            with figures.attempt(side, CALM_P99):
                load, _ = loaded(sides[side], found, 1, pace.seconds, interval_ms=BEAT_MS)
                if turn:
                    figures.add(side, CALM_P99, load.p99_us)


async def _thousand(servers: str, group: str) -> list[Entry]:
    """Heartbeats of members that have all they are to have, each over a connection of its own."""
    owners = Owners()
    members = [ConsumerMember(group, TOPIC, owners) for _ in range(BEATERS)]
    address = await asyncio.to_thread(serving_coordinator, servers, group)
    for some in pairwise([*range(0, BEATERS, 50), BEATERS]):
        await asyncio.gather(*(each.join(address) for each in members[slice(*some)]))
    await at_rest(members, owners, PARTITIONS)
    await asyncio.gather(*(each.stop() for each in members))
    return [Entry(each.port, encode_request(each.request(), VERSION, 0, "load")) for each in members]
