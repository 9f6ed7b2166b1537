"""The delays of group members while a cluster is busy, and the cost of consumers that never read.

Heartbeats of a hundred members, one each 100 ms, and commits of ten partitions, one each 50 ms, while a producer and a
consumer run as fast as they can and `__consumer_offsets` is compacted: p99 of their answers, and the longest turn of a
broker's loop as the broker itself counts it. Once all are in one session, once producer and consumer are in another,
because Linux shares the CPU between sessions first. Then a hundred consumers that ask for everything and read nothing:
the resident memory of the largest process that serves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka

from actors.wire.framing import encode_request
from actors.wire.messages import FetchRequest
from benchmarks import groups, records
from benchmarks.common import run_load
from benchmarks.figures import OURS, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, processes
from tests.compat.peers import ROOT, Coterie
from tests.compat.raw import create_topics, leader_of

SECONDS = 8
HEARTBEAT_INTERVAL_MS = 100
COMMIT_INTERVAL_MS = 50
STUCK_CONSUMERS = 100
STUCK_SECONDS = 8.0
CALM = "heartbeats, calm, p99"
BEATS = "heartbeats, brokers saturated, p99"
COMMITS = "commits of ten partitions, brokers saturated, p99"
APART = ", by another session"
TURN = "longest turn of a broker's loop"
STUCK = "largest process, a hundred consumers that never read"
SPECS = [
    Spec(CALM, "ms", Better.LESS),
    Spec(BEATS, "ms", Better.LESS, Budget(1.0)),
    Spec(COMMITS, "ms", Better.LESS, Budget(1.0)),
    Spec(BEATS + APART, "ms", Better.LESS, Budget(1.0)),
    Spec(COMMITS + APART, "ms", Better.LESS, Budget(1.0)),
    Spec(TURN, "ms", Better.LESS, Budget(limit=50)),
    Spec(STUCK, "MiB", Better.LESS, Budget(limit=400)),
]
CONFIG = {
    **ONE_REPLICA,
    # Small segments and an eager cleaner, so that a compaction certainly falls into the run.
    "offsets.topic.segment.bytes": str(4 << 20),
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.1",
}

_BUSY = """
import os, sys, time
from benchmarks import records
servers, seconds = sys.argv[1:]
verb = "produce" if os.fork() else "consume"
ends = time.time() + float(seconds)
while time.time() < ends:
    if verb == "produce":
        records.produce(servers, "busy", "1", 200_000, 100)
    else:
        records.consume(servers, "busy", 200_000)
"""


@contextlib.contextmanager
def busy(servers: str, seconds: float, *, apart: bool) -> Iterator[None]:
    """A producer and a consumer of librdkafka's, each as fast as it can; `apart`: in a session of their own."""
    create_topics(servers, {"busy": records.PARTITIONS})
    records.produce(servers, "busy", "1", 200_000, 100)
    command = [sys.executable, "-c", _BUSY, servers, str(seconds)]
    group = None if apart else 0
    both = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=apart, process_group=group)
    try:
        yield
    finally:
        os.killpg(both.pid, signal.SIGKILL)
        both.wait()


def under_load(figures: Figures, side: str, cluster: Cluster, formed: Formed, pace: Pace) -> None:
    """Heartbeats and commits side by side, calm and then beside a producer and a consumer."""
    beats, commits = formed.heartbeats(), formed.commits()
    calm = run_load(beats, 1, pace.seconds, interval_ms=HEARTBEAT_INTERVAL_MS)
    figures.add(side, CALM, calm.p99_us / 1000)
    seconds = pace.fewer(SECONDS, 2)
    for apart, layout in ((False, ""), (True, APART)):
        with busy(cluster.bootstrap_servers, seconds + 10, apart=apart), ThreadPoolExecutor(1) as pool:
            flowing = pool.submit(run_load, commits, 1, seconds, 0.5, COMMIT_INTERVAL_MS)
            loaded = run_load(beats, 1, seconds, interval_ms=HEARTBEAT_INTERVAL_MS)
            figures.add(side, BEATS + layout, loaded.p99_us / 1000)
            figures.add(side, COMMITS + layout, flowing.result().p99_us / 1000)


def longest_turn_ms(cluster: Coterie) -> float:
    """The longest of all brokers since they started, as they report it."""
    return max(float(broker["load"]["longest_turn_ms"]) for broker in cluster.status()["brokers"])


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


def stuck_consumers(cluster: Cluster, count: int) -> float:
    """MiB of the largest process while so many connections ask for 50 MiB twenty times over and never read."""
    servers = cluster.bootstrap_servers
    create_topics(servers, {"stuck": 1})
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "queue.buffering.max.kbytes": 1 << 20})
    for _ in range(1000):
        producer.produce("stuck", bytes(100_000), partition=0)
    assert producer.flush(60) == 0
    host, _, port = leader_of(servers, "stuck").rpartition(":")
    peak = 0.0
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            s = stack.enter_context(socket.create_connection((host, int(port)), 10))
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.send(_fetch_all("stuck", 0) * 20)
        deadline = time.monotonic() + STUCK_SECONDS
        while time.monotonic() < deadline:
            peak = max(peak, *(process.memory_info().rss / 2**20 for process in processes(cluster)))
            time.sleep(0.2)
    return peak


def run(figures: Figures, pace: Pace) -> None:
    """Both clusters live; one is used at a time."""
    with Plan(config=CONFIG).both() as sides:
        formed = {side: groups.form(cluster.bootstrap_servers, 8) for side, cluster in sides.items()}
        for side in sides:
            run_load(formed[side].commits(), 4, pace.seconds)  # something to compact, and warm programs
        for _ in range(pace.turns):
            for side, cluster in sides.items():
                with figures.attempt(side, "latency under load"):
                    under_load(figures, side, cluster, formed[side], pace)
        with figures.attempt(OURS, TURN):
            ours = sides[OURS]
            assert isinstance(ours, Coterie)
            figures.only_ours(TURN, longest_turn_ms(ours))
        for side, cluster in sides.items():
            with figures.attempt(side, STUCK):
                figures.add(side, STUCK, stuck_consumers(cluster, STUCK_CONSUMERS))
