"""What group members feel while a cluster is busy, and what consumers that never read cost.

Heartbeats of a hundred members, one each 100 ms, while produce and consume run as fast as they can, commits flow
and `__consumer_offsets` is compacted: p99 of the heartbeats, and the longest turn of a broker's loop as the broker
itself counts it. Then a hundred consumers that ask for everything and read nothing: resident memory of the brokers.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil

from actors.wire.framing import encode_request
from actors.wire.messages import FetchRequest
from benchmarks import groups, records
from benchmarks.common import Row, note, print_rows, run_load, temporary_folder
from tests.compat import peers
from tests.compat.peers import ROOT, Coterie
from tests.compat.raw import create_topics, leader_of

SECONDS = 12.0
HEARTBEAT_INTERVAL_MS = 100
STUCK_CONSUMERS = 100
STUCK_SECONDS = 8.0
MEMORY_LIMIT_MIB = 400
CONFIG = {
    # Small segments and an eager cleaner, so that a compaction certainly falls into the run.
    "offsets.topic.segment.bytes": str(4 << 20),
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.1",
}

_BUSY = """
import sys, time
from benchmarks import records
verb, servers, seconds = sys.argv[1:]
ends = time.time() + float(seconds)
while time.time() < ends:
    if verb == "produce":
        records.produce(servers, "busy", "1", 200_000)
    else:
        records.consume(servers, "busy", 200_000)
"""


@contextlib.contextmanager
def busy(servers: str, seconds: float) -> Iterator[None]:
    """A producer and a consumer of librdkafka's, each as fast as it can."""
    create_topics(servers, {"busy": records.PARTITIONS})
    records.produce(servers, "busy", "1", 200_000)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _BUSY, verb, servers, str(seconds)], cwd=ROOT, stderr=subprocess.DEVNULL
        )
        for verb in ("produce", "consume")
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def offsets_bytes(cluster: Coterie) -> int:
    """Bytes of all `__consumer_offsets` segments on disk."""
    total = 0
    for file in cluster.data_dir.glob("**/__consumer_offsets-*/*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


class Shrinking:
    """Watches the offsets topic on disk: a compaction is seen by its files getting smaller."""

    def __init__(self, cluster: Coterie) -> None:
        self.times = 0
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        last = offsets_bytes(self._cluster)
        while not self._stop.wait(0.1):
            now = offsets_bytes(self._cluster)
            self.times += now < last
            last = now

    def stop(self) -> int:
        self._stop.set()
        self._thread.join(5)
        return self.times


def heartbeats_under_load(cluster: Coterie) -> list[Row]:
    servers = cluster.bootstrap_servers
    formed = groups.form(servers, 8)
    beats, commits = formed.heartbeats(), formed.commits()
    calm = run_load(beats, 1, 3, interval_ms=HEARTBEAT_INTERVAL_MS)
    run_load(commits, 4, 3)  # something to compact
    shrinking = Shrinking(cluster)
    before = longest_turns_ms(cluster)
    note(f"heartbeats while produce, consume, commits and compaction run for {SECONDS:.0f} s")
    with busy(servers, SECONDS + 10):
        flowing = threading.Thread(target=run_load, args=(commits, 1, SECONDS, 0.5, 50))
        flowing.start()
        loaded = run_load(beats, 1, SECONDS, interval_ms=HEARTBEAT_INTERVAL_MS)
        flowing.join()
    compactions = shrinking.stop()
    after = longest_turns_ms(cluster)
    for member in formed.members:
        member.raw.close()
    note(f"longest turns before the load {before} ms, after it {after} ms; {compactions} compactions seen")
    turn = max(after.values(), default=0.0)
    return [
        Row(
            f"heartbeat p99 while produce and consume are saturated and {compactions} compactions run",
            f"{loaded.p99_us / 1000:.1f} ms (p50 {loaded.p50_us / 1000:.1f}, max {loaded.max_us / 1000:.1f})",
            f"calm: p99 {calm.p99_us / 1000:.1f} ms",
            None,
            "p99 < 20 ms",
            loaded.p99_us < 20_000 and compactions > 0,
        ),
        Row("longest turn of a broker's loop, same run", f"{turn:.0f} ms", "", None, "50 ms", turn <= 50),
    ]


def longest_turns_ms(cluster: Coterie) -> dict[int, float]:
    """By broker id, as the brokers report it since they started."""
    return {b["id"]: b["load"].get("longest_turn_ms", 0.0) for b in cluster.status()["brokers"]}


def _fetch_all(topic: str, partition: int) -> bytes:
    place = FetchRequest.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=50 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[place])],
    )
    return encode_request(request, 4, 1, "stuck")


def stuck_consumers(cluster: Coterie) -> list[Row]:
    """A hundred connections that ask for 50 MiB twenty times over and never read."""
    servers = cluster.bootstrap_servers
    create_topics(servers, {"stuck": 1})
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "queue.buffering.max.kbytes": 1 << 20})
    for _ in range(1000):
        producer.produce("stuck", bytes(100_000), partition=0)
    assert producer.flush(60) == 0
    host, _, port = leader_of(servers, "stuck").rpartition(":")
    note(f"{STUCK_CONSUMERS} consumers that never read")
    peak = 0
    with contextlib.ExitStack() as stack:
        for _ in range(STUCK_CONSUMERS):
            s = stack.enter_context(socket.create_connection((host, int(port)), 10))
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.send(_fetch_all("stuck", 0) * 20)
        deadline = time.monotonic() + STUCK_SECONDS
        while time.monotonic() < deadline:
            peak = max(peak, *broker_memory_mib(cluster))
            time.sleep(0.1)
    what = f"largest broker with {STUCK_CONSUMERS} consumers that fetch and never read"
    return [Row(what, f"{peak} MiB", "", None, f"< {MEMORY_LIMIT_MIB} MiB", peak < MEMORY_LIMIT_MIB)]


def broker_memory_mib(cluster: Coterie) -> list[int]:
    """Resident memory of each broker."""
    return [psutil.Process(pid).memory_info().rss >> 20 for pid in cluster.peer().broker_pids()]


def run() -> list[Row]:
    with temporary_folder() as folder, peers.coterie(folder, config=CONFIG) as cluster:
        return heartbeats_under_load(cluster) + stuck_consumers(cluster)


if __name__ == "__main__":
    print_rows(run())
