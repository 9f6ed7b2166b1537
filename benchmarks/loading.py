"""The memory of a live shard, before and after a million commits, and the time until it is back after kill -9.

The partition actors of one cluster; its peer would be a part of a process, so there is none.
"""

from __future__ import annotations

import os
import re
import signal
import time

import psutil

from benchmarks import groups
from benchmarks.common import note, run_load
from benchmarks.figures import OURS, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Plan
from placement.hashing import partition_for_group
from tests.compat.peers import Coterie
from tests.compat.raw import serving_coordinator

COMMITS = 1_000_000
CONFIG = {**ONE_REPLICA, "log.cleaner.enable": "false"}  # all of the million stays to be read
LIVE = "a live shard, largest of its kind (PSS)"
GROWN = "the same shard after a million commits"
LOAD = "a shard with a million commits loads"
SERVED = "from its SIGKILL to an answer"
SPECS = [
    Spec(LIVE, "MiB", Better.LESS, Budget(limit=70)),
    Spec(GROWN, "MiB", Better.LESS),
    Spec(LOAD, "s", Better.LESS, Budget(limit=1.0)),
    Spec(SERVED, "s", Better.LESS),
]
_LOADED = re.compile(r"offsets partition (\d+): loaded in (\d+) ms")


def run(figures: Figures, pace: Pace) -> None:
    """One shard; it is killed once a turn."""
    with Plan(config=CONFIG).side(OURS) as cluster:
        assert isinstance(cluster, Coterie)
        formed = groups.form(cluster.bootstrap_servers, 1)
        run_load(formed.commits(), 1, 2)
        figures.only_ours(LIVE, _largest_mib(cluster))
        group = _fill(formed, pace.fewer(COMMITS, 10_000))
        figures.only_ours(GROWN, _largest_mib(cluster))
        for _ in range(pace.turns):
            loaded, served = _load_s(cluster, group)
            figures.only_ours(LOAD, loaded)
            figures.only_ours(SERVED, served)


def _largest_mib(cluster: Coterie) -> float:
    return max(psutil.Process(pid).memory_full_info().pss for pid in cluster.peer().shard_pids()) / 2**20


def _fill(formed: Formed, count: int) -> str:
    """Write at least so many commits into one shard's log; a group of it."""
    note(f"writing {count:,} commits into one shard")
    written = 0
    while written < count:
        written += run_load(formed.commits(), 16, 2, 0.0).answers * groups.COMMITTED_PARTITIONS
    formed.close()
    return formed.seats[0].group


def _load_s(cluster: Coterie, group: str) -> tuple[float, float]:
    """Kill the shards; (seconds the shard says it loaded, seconds until its group is served again)."""
    home = partition_for_group(group, groups.OFFSETS_PARTITIONS)
    before = len([p for p, _ in _loads(cluster) if p == home])
    for pid in cluster.peer().shard_pids():
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    serving_coordinator(cluster.bootstrap_servers, group)
    took = time.monotonic() - killed
    deadline = time.monotonic() + 10
    while len(found := [s for p, s in _loads(cluster) if p == home]) <= before:
        assert time.monotonic() < deadline, "the shard's log does not tell of a load"
        time.sleep(0.05)
    return found[-1], took


def _loads(cluster: Coterie) -> list[tuple[int, float]]:
    """(offsets partition, seconds) of every load that the logs tell of, oldest first."""
    logs = [log.read_text(errors="replace") for log in cluster.data_dir.glob("logs/*")]
    lines = [
        (line[:23], int(match[1]), int(match[2]) / 1000)
        for log in logs
        for line in log.splitlines()
        if (match := _LOADED.search(line))
    ]
    return [(partition, seconds) for _, partition, seconds in sorted(lines)]
