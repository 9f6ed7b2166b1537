"""Records of 100 bytes and of 1 KiB over twelve partitions, produced and consumed by librdkafka (confluent-kafka).

Compressed ones are lines of a log, which get to about a third of their size.

Each measurement has a client process of its own, and each turn topics of its own. Our own consumer reads the records
of 100 bytes too, one by one and as Arrow.
"""

from __future__ import annotations

import contextlib
import random
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from actors.client import Consumer, TopicPartition
from actors.wire.messages import DeleteTopicsRequest
from benchmarks.figures import OURS, Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, cpu_s
from tests.compat.peers import ROOT
from tests.compat.raw import Raw, controller, create_topics

PARTITIONS = 12
RECORDS = {100: 1_500_000, 1024: 300_000}
"""The number of records of each size in bytes."""
SIZES = {100: "100 B", 1024: "1 KiB"}
CODECS = ("lz4", "zstd")
AS_OF_ONE = "consume, 1 KiB, three brokers asked for 3 MiB a partition, the peer for 1 MiB"
"""Four partitions of a broker give 4 MiB at librdkafka's default of 1 MiB, and twelve of one node 12 MiB."""
OWN = {"poll": Budget(limit=300_000), "poll_arrow": Budget(limit=2_000_000)}


def _specs(size: str) -> list[Spec]:
    whats = [f"produce, acks=1, {size}", f"produce, acks=all, {size}", f"consume, {size}"]
    whats += [f"produce, acks={acks}, {size}, {codec}" for codec in CODECS for acks in ("1", "all")]
    return [Spec(what, "/s", Better.MORE, Budget(1.0)) for what in whats]


SPECS = [
    *(spec for size in SIZES.values() for spec in _specs(size)),
    Spec(AS_OF_ONE, "/s", Better.MORE, Budget(1.0)),
    *(Spec(f"consume, {size}, one broker", "/s", Better.MORE) for size in SIZES.values()),
    *(Spec(f"our own {name}, 100 B", "/s", Better.MORE, budget) for name, budget in OWN.items()),
]


def produce(
    servers: str, topic: str, acks: str, count: int, size_bytes: int, cafile: str = "", codec: str = "none"
) -> float:
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
            "compression.type": codec,
            "delivery.report.only.error": True,
            "error_cb": failures.append,
            "on_delivery": lambda error, _: failures.append(error),
            **_tls(cafile),
        }
    )
    values = [bytes(size_bytes)] if codec == "none" else _lines(size_bytes)
    many = len(values)
    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, values[number % many], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(120)
    took = time.perf_counter() - started
    if left or failures:
        raise RuntimeError(f"{left} records left, failures: {failures[:3]}")
    return count / took


def _lines(size_bytes: int) -> list[bytes]:
    """Lines of a log, of words and numbers."""
    chance = random.Random(1)
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 10))) for _ in range(500)]
    return [
        " ".join(
            chance.choice((str(chance.randrange(10**6)), *chance.choices(words, k=4))) for _ in range(size_bytes)
        ).encode()[:size_bytes]
        for _ in range(997)
    ]


def consume(servers: str, topic: str, count: int, cafile: str = "", partition_mib: int = 1) -> float:
    """Records/s."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "records",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 1 << 18,
            "queued.min.messages": 500_000,
            "max.partition.fetch.bytes": partition_mib << 20,
            **_tls(cafile),
        }
    )
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, p, beginning) for p in range(PARTITIONS)])
    try:
        return _rate(lambda: len(consumer.consume(10_000, 1.0)), count)
    finally:
        consumer.close()


def _tls(cafile: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": cafile} if cafile else {}


def poll(servers: str, topic: str, count: int) -> float:
    """Records/s of our own Consumer.poll."""
    with _own_consumer(servers, topic) as consumer:
        return _rate(lambda: sum(map(len, consumer.poll(1000, max_records=10_000).values())), count)


def poll_arrow(servers: str, topic: str, count: int) -> float:
    """Records/s of our own Consumer.poll_arrow."""
    with _own_consumer(servers, topic) as consumer:
        return _rate(lambda: consumer.poll_arrow(1000).num_rows, count)


@contextlib.contextmanager
def _own_consumer(servers: str, topic: str) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        yield consumer


def _rate(receive: Callable[[], int], count: int) -> float:
    """Records/s behind the first ones, which came with what a start costs."""
    first, seen = 0, 0
    started = time.perf_counter()
    deadline = started + 120
    while seen < count:
        seen += receive()
        if seen and not first:
            first, started = seen, time.perf_counter()
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{seen} of {count} records came in 120 s")
    if seen != count or seen == first:
        raise RuntimeError(f"{seen} records came, {first} of them at once; {count} were written")
    return (seen - first) / (time.perf_counter() - started)


def apart(function: str, *arguments: str | int) -> float:
    """Run one measurement in a process of its own: no interpreter is warm or full from the one before."""
    call = f"from benchmarks import records; print(records.{function}(*{arguments!r}))"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    return float(done.stdout.splitlines()[-1])


def run(figures: Figures, pace: Pace) -> None:
    """Both clusters live; one is used at a time. Then one broker alone, as many servers as the peer has."""
    with Plan(config=ONE_REPLICA).both() as sides:
        for turn in range(pace.turns):
            for size in RECORDS:
                count = RECORDS[size] // pace.fewer(1, 5)
                _turn(figures, sides, f"records-{size}-{turn}", size, count)
    with Plan(brokers=1, config=ONE_REPLICA).both() as sides:
        for size in RECORDS:
            _from_one_broker(figures, sides, size, RECORDS[size] // pace.fewer(1, 5), pace.turns)


def _turn(figures: Figures, sides: dict[str, Cluster], topic: str, size: int, count: int) -> None:
    for acks in ("1", "all"):
        for side, cluster in sides.items():
            create_topics(cluster.bootstrap_servers, {f"{topic}-{acks}": PARTITIONS})
            what = f"produce, acks={acks}, {SIZES[size]}"
            _measure(figures, side, cluster, what, "produce", f"{topic}-{acks}", acks, count, size)
    for codec in CODECS:
        _produce_packed(figures, sides, f"{topic}-{codec}", size, count, codec)
    read = f"{topic}-all"
    for side, cluster in sides.items():
        _measure(figures, side, cluster, f"consume, {SIZES[size]}", "consume", read, count)
    for side, cluster in sides.items() if size == 1024 else ():
        _measure(figures, side, cluster, AS_OF_ONE, "consume", read, count, "", 3 if side == OURS else 1)
    for name in OWN if size == 100 else ():
        _measure(figures, OURS, sides[OURS], f"our own {name}, 100 B", name, read, count)
    for cluster in sides.values():
        _delete(cluster.bootstrap_servers, [f"{topic}-1", read])


def _produce_packed(figures: Figures, sides: dict[str, Cluster], topic: str, size: int, count: int, codec: str) -> None:
    for acks in ("1", "all"):
        for side, cluster in sides.items():
            create_topics(cluster.bootstrap_servers, {f"{topic}-{acks}": PARTITIONS})
            what = f"produce, acks={acks}, {SIZES[size]}, {codec}"
            _measure(figures, side, cluster, what, "produce", f"{topic}-{acks}", acks, count, size, "", codec)
    for cluster in sides.values():
        _delete(cluster.bootstrap_servers, [f"{topic}-1", f"{topic}-all"])


def _from_one_broker(figures: Figures, sides: dict[str, Cluster], size: int, count: int, turns: int) -> None:
    topic, what = f"records-{size}", f"consume, {SIZES[size]}, one broker"
    for cluster in sides.values():
        create_topics(cluster.bootstrap_servers, {topic: PARTITIONS})
        apart("produce", cluster.bootstrap_servers, topic, "all", count, size)
    for _ in range(turns):
        for side, cluster in sides.items():
            _measure(figures, side, cluster, what, "consume", topic, count)


def _measure(
    figures: Figures, side: str, cluster: Cluster, what: str, function: str, topic: str, *arguments: str | int
) -> None:
    """A rate, and the CPU time of the servers for a record; the count is the first number of the arguments."""
    with figures.attempt(side, what):
        before = cpu_s(cluster)
        rate = apart(function, cluster.bootstrap_servers, topic, *arguments)
        count = next(each for each in arguments if isinstance(each, int))
        figures.add(side, what, rate, (cpu_s(cluster) - before) / count * 1e6)


def _delete(servers: str, topics: list[str]) -> None:
    """Give the disk back."""
    with Raw(controller(servers.split(",")[0])) as raw:
        raw.call(DeleteTopicsRequest(topic_names=topics, timeout_ms=20_000), 1)
