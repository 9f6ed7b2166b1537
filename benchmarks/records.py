"""Records of 100 bytes over twelve partitions, in one run against every broker.

librdkafka (confluent-kafka) produces and consumes, and our own consumer reads, record by record and as Arrow.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import Row, note, print_rows, temporary_folder, thousands
from tests.compat import peers
from tests.compat.peers import ROOT, UnavailableError
from tests.compat.raw import create_topics

RECORDS = 1_500_000
PARTITIONS = 12
SIZE_BYTES = 100


def produce(servers: str, topic: str, acks: str, count: int = RECORDS) -> float:
    """Records/s until the last is acknowledged."""
    import confluent_kafka

    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "acks": acks,
            "linger.ms": 10,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "compression.type": "none",
            "delivery.report.only.error": True,
            "error_cb": failures.append,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    value = bytes(SIZE_BYTES)
    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(120)
    took = time.perf_counter() - started
    if left or failures:
        raise RuntimeError(f"{left} records left, failures: {failures[:3]}")
    return count / took


def consume(servers: str, topic: str, count: int = RECORDS) -> float:
    """Records/s from the first record to the last."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "records",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 1 << 18,
            "queued.min.messages": 500_000,
        }
    )
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, p, beginning) for p in range(PARTITIONS)])
    try:
        return _rate(lambda: len(consumer.consume(10_000, 1.0)), count)
    finally:
        consumer.close()


def poll(servers: str, topic: str, count: int = RECORDS) -> float:
    """Records/s of our own Consumer.poll."""
    with _own_consumer(servers, topic) as consumer:
        return _rate(lambda: sum(map(len, consumer.poll(1000, max_records=10_000).values())), count)


def poll_arrow(servers: str, topic: str, count: int = RECORDS) -> float:
    """Records/s of our own Consumer.poll_arrow."""
    with _own_consumer(servers, topic) as consumer:
        return _rate(lambda: consumer.poll_arrow(1000).num_rows, count)


@contextlib.contextmanager
def _own_consumer(servers: str, topic: str):  # type: ignore[no-untyped-def]
    from actors.client import Consumer, TopicPartition

    with Consumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        yield consumer


def _rate(receive: Callable[[], int], count: int) -> float:
    started, seen = None, 0
    deadline = time.perf_counter() + 120
    while seen < count:
        got = receive()
        if got and started is None:
            started = time.perf_counter()
        seen += got
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{seen} of {count} records came in 120 s")
    assert started is not None
    if seen != count:
        raise RuntimeError(f"{seen} records came, {count} were written")
    return seen / (time.perf_counter() - started)


def _apart(function: str, *arguments: str) -> float:
    """Run one measurement in a process of its own: no interpreter is warm or full from the one before."""
    call = f"from benchmarks import records; print(records.{function}(*{arguments!r}))"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    return float(done.stdout.splitlines()[-1])


def measure(servers: str, kind: str) -> dict[str, float]:
    """All rates of one broker."""
    rates = {}
    for acks in ("1", "all"):
        topic = f"records-{acks}"
        create_topics(servers, {topic: PARTITIONS})
        note(f"{kind}: produce, acks={acks}")
        rates[f"produce, acks={acks}"] = _apart("produce", servers, topic, acks)
        note(f"{kind}: {thousands(rates[f'produce, acks={acks}'])} records/s")
    rates["consume"] = _apart("consume", servers, "records-all")
    note(f"{kind}: consume {thousands(rates['consume'])} records/s")
    if kind == "coterie":
        rates["own poll"] = _apart("poll", servers, "records-all")
        rates["own poll_arrow"] = _apart("poll_arrow", servers, "records-all")
    return rates


def _peer(folder: Path, kind: str) -> dict[str, float]:
    with contextlib.suppress(UnavailableError), peers.start(kind, folder) as peer:
        return measure(peer.bootstrap_servers, kind)
    return {}


BUDGETS = {
    "produce, acks=1": (300_000, 0.5),
    "produce, acks=all": (300_000, 0.5),
    "consume": (500_000, 0.5),
    "own poll": (300_000, 0.0),
    "own poll_arrow": (2_000_000, 0.0),
}


def run() -> list[Row]:
    with temporary_folder() as folder:
        with peers.coterie(folder) as cluster:
            ours = measure(cluster.bootstrap_servers, "coterie")
        others = {kind: _peer(folder, kind) for kind in ("kafka", "kfake")}
    rows = []
    for what, rate in ours.items():
        floor, share = BUDGETS[what]
        ratios = {kind: rate / rates[what] for kind, rates in others.items() if what in rates}
        best = max(ratios.values(), default=None)
        budget = f"{thousands(floor)}/s" + (f" and {share} of kfake's or Kafka's" if share else "")
        met = rate >= floor and (not share or best is None or best >= share)
        peer = ", ".join(f"{kind} {thousands(rates[what])}/s" for kind, rates in others.items() if what in rates)
        rows.append(Row(f"{what}, 100-byte records", f"{thousands(rate)}/s", peer, best, budget, met))
    return rows


if __name__ == "__main__":
    print_rows(run())
