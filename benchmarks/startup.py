"""How long `coterie up` takes, what a live shard weighs, and how fast a shard with a million commits loads."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import psutil

from benchmarks import groups
from benchmarks.common import Row, note, print_rows, run_load, temporary_folder
from tests.compat import peers
from tests.compat.peers import Coterie
from tests.compat.raw import serving_coordinator

ROUNDS = 3
COMMITS = 1_000_000
READY_WITHIN_S = 8.0
SHARD_MIB = 70
LOAD_WITHIN_S = 1.0
_LOADED = re.compile(r"offsets partition (\d+): loaded in ([0-9.]+) s")


def ready_s(folder: Path) -> list[float]:
    """Seconds from the command to its ready line, sorted; the last start is on the data of the first."""
    took = []
    for number in range(ROUNDS):
        place = folder / str(min(number, 1))
        place.mkdir(exist_ok=True)
        started = time.monotonic()
        with peers.coterie(place):
            took.append(time.monotonic() - started)
    return sorted(took)


def shard_memory_mib(cluster: Coterie) -> tuple[float, float, float]:
    """Of the largest live shard: resident memory, its proportional part, what it has for itself alone."""
    infos = [psutil.Process(pid).memory_full_info() for pid in cluster.peer().shard_pids()]
    largest = max(infos, key=lambda info: info.pss)
    return largest.rss / 2**20, largest.pss / 2**20, largest.uss / 2**20


def _loads(cluster: Coterie) -> list[tuple[int, float]]:
    """(offsets partition, seconds) of every load that the logs tell of, oldest first."""
    logs = [log.read_text(errors="replace") for log in cluster.data_dir.glob("logs/*")]
    lines = [
        (line[:23], int(match[1]), float(match[2]))
        for log in logs
        for line in log.splitlines()
        if (match := _LOADED.search(line))
    ]
    return [(partition, seconds) for _, partition, seconds in sorted(lines)]


def live_shard(cluster: Coterie) -> tuple[groups.Formed, Row]:
    """A shard with ten groups of ten members, after three seconds of heartbeats and commits."""
    formed = groups.form(cluster.bootstrap_servers, 1)
    run_load(formed.heartbeats(), 1, 1)
    run_load(formed.commits(), 1, 2)
    resident, proportional, own = shard_memory_mib(cluster)
    weight = f"RSS {resident:.0f}, PSS {proportional:.0f}, USS {own:.0f} MiB"
    met = proportional <= SHARD_MIB
    return formed, Row("a live shard, largest of its kind", weight, "", None, f"{SHARD_MIB} MiB (PSS)", met)


def fill(cluster: Coterie, formed: groups.Formed) -> tuple[str, int]:
    """Write at least a million commits into one shard's log; returns a group of it and how many."""
    note(f"writing {COMMITS:,} commits into one shard")
    written = 0
    while written < COMMITS:
        written += run_load(formed.commits(), 16, 5, 0.0).answers * groups.COMMITTED_PARTITIONS
    for member in formed.members:
        member.raw.close()
    return formed.members[0].group, written


def load_s(cluster: Coterie, group: str) -> tuple[float, float]:
    """Kill the shards; (seconds the shard says it loaded, seconds until its group is served again)."""
    home = groups.partition_for_group(group, groups.OFFSETS_PARTITIONS)
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


def run() -> list[Row]:
    with temporary_folder() as folder:
        note("starting")
        ready = ready_s(folder)
        config = {"log.cleaner.enable": "false"}  # all of the million stays to be read
        big = folder / "big"
        big.mkdir()
        with peers.coterie(big, config=config) as cluster:
            formed, weight = live_shard(cluster)
            group, written = fill(cluster, formed)
            after = shard_memory_mib(cluster)
            loaded, served = load_s(cluster, group)
    start = f"{ready[-1]:.1f} s"
    loading = f"{loaded:.2f} s ({served:.2f} s from SIGKILL to an answer)"
    grown = "RSS {:.0f}, PSS {:.0f}, USS {:.0f} MiB".format(*after)
    return [
        Row("`coterie up` with 3 brokers, slowest of 3", start, "", None, "8 s", ready[-1] <= READY_WITHIN_S),
        weight,
        Row(f"the same shard after {written:,} commits", grown),
        Row(f"a shard with {written:,} commits loads", loading, "", None, "< 1 s", loaded < LOAD_WITHIN_S),
    ]


if __name__ == "__main__":
    print_rows(run())
