"""A new version of a deployed pool of three, over twelve partitions: how long each partition is without an owner.

That is from when the member before has given it up, with what it had in hand committed, to when its successor has been
given it. By the group protocol: the classic one, the consumer protocol (KIP-848), and from the one to the other. Each
turn is a pool and a group of its own, on three brokers. There is no peer: a program without pools stops one process and
starts another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.cluster import Cluster
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolDescription, PoolState
from actors.members.pool import ConsumerPool
from benchmarks.common import fill, temporary_folder
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget

PARTITIONS, SIZE, RECORDS = 12, 3, 1_200
LIMIT_S = 120.0
WAYS = {
    "classic": ("classic", "classic"),
    "consumer": ("consumer", "consumer"),
    "from classic to consumer": ("classic", "consumer"),
}


def _median(way: str) -> str:
    return f"rolling a pool, {way}: a partition without an owner"


def _longest(way: str) -> str:
    return f"rolling a pool, {way}: the longest of them"


SPECS = [
    spec
    for way in WAYS
    for spec in (
        Spec(_median(way), "s", Better.LESS),
        Spec(_longest(way), "s", Better.LESS, Budget(limit=1.0) if way != "classic" else None),
    )
]


class Owner:
    """A handler that writes down when its member is given a partition and when it gives it up."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._events = 0

    def __call__(self, record: object) -> None:
        """Handle a record."""

    def on_assigned(self, partitions: Any) -> None:
        """The member has been given these."""
        self._note("+", partitions)

    def on_revoked(self, partitions: Any) -> None:
        """The member gives these up."""
        self._note("-", partitions)

    def _note(self, sign: str, partitions: Any) -> None:
        self._events += 1
        lines = "".join(f"{time.monotonic()} {sign} {each.partition}\n" for each in partitions)
        (self._folder / f"{id(self)}-{time.monotonic()}-{self._events}").write_text(lines)


def gaps(folder: Path) -> Iterator[float]:
    """The times for which each partition was without an owner."""
    events = sorted(line.split() for each in folder.iterdir() for line in each.read_text().splitlines())
    given_up: dict[str, float] = {}
    for at, sign, partition in sorted(events, key=lambda event: float(event[0])):
        if sign == "-":
            given_up[partition] = float(at)
        elif partition in given_up:
            yield float(at) - given_up.pop(partition)


def run(figures: Figures, pace: Pace) -> None:
    """One cluster; a pool for each way and turn."""
    with temporary_folder() as folder, Cluster.start(3, name="bench-rolling", data_dir=folder / "data") as cluster:
        fill(cluster.bootstrap_servers, "rolling", PARTITIONS, RECORDS, 100)
        for turn in range(pace.turns):
            for number, (way, protocols) in enumerate(WAYS.items()):
                name = f"rolling-{turn}-{number}"
                found = sorted(_turn(cluster.bootstrap_servers, name, folder / name, *protocols))
                figures.only_ours(_median(way), found[len(found) // 2])
                figures.only_ours(_longest(way), found[-1])


def _turn(servers: str, name: str, folder: Path, before: str, after: str) -> list[float]:
    folder.mkdir()
    pool = _deployed(servers, name, folder, before)
    try:
        if not pool.wait(lambda found: _settled(found, 1), LIMIT_S):
            raise RuntimeError(f"{pool.describe()} is not at work after {LIMIT_S:.0f} s")
        for each in folder.iterdir():  # of the start
            each.unlink()
        _deployed(servers, name, folder, after)
        if not pool.wait(lambda found: _settled(found, 2), LIMIT_S):
            raise RuntimeError(f"{pool.describe()} is not at its second version after {LIMIT_S:.0f} s")
        return list(gaps(folder))
    finally:
        pool.stop()


def _deployed(servers: str, name: str, folder: Path, protocol: str) -> DeployedPool:
    settings: dict[str, Any] = {"bootstrap_servers": servers, "handler_args": (str(folder),)}
    return ConsumerPool.deploy(name, "rolling", name, Owner, SIZE, group_protocol=protocol, **settings)


def _settled(found: PoolDescription, version: int) -> bool:
    owned = sorted(partition for member in found.members for partition in member.assignment)
    over = found.rollout is None or found.rollout.over
    at_work = found.state is PoolState.RUNNING and all(member.assignment for member in found.members)
    return found.running_version == version and over and at_work and len(owned) == PARTITIONS
