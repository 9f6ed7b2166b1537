"""Six thousand partitions, five hundred topics of twelve, with a record each, in one replica.

Memory (PSS) is what they add to the empty cluster's. Ready after kill -9 of everything is a cluster that tells the end
of every partition.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict

import confluent_kafka

from actors.wire.messages import ListOffsetsRequest, MetadataRequest
from benchmarks.common import note
from benchmarks.figures import SIDES, Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, idle_cpu, kill_everything, memory_mib
from tests.compat.raw import Raw, create_topics

TOPICS, PARTITIONS, AT_ONCE = 500, 12, 50
SETTLE_S, IDLE_S = 5.0, 10
READY_LIMIT_S = 90.0
MEMORY = "memory over the empty cluster's"
CPU = "idle CPU"
READY = "ready after kill -9"
SPECS = [
    Spec(MEMORY, "MiB", Better.LESS, Budget(1.2)),
    Spec(CPU, "% of a core", Better.LESS, Budget(1.0)),
    Spec(READY, "s", Better.LESS, Budget(limit=8.0)),
]


def run(figures: Figures, pace: Pace) -> None:
    """Each cluster lives alone, in turns."""
    names = [f"many-{number}" for number in range(pace.fewer(TOPICS, 20))]
    for turn in range(pace.fewer(2, 1)):
        for side in SIDES:
            with figures.attempt(side, f"turn {turn + 1}"), Plan(config=ONE_REPLICA).side(side) as cluster:
                _measure(figures, side, cluster, names)


def _measure(figures: Figures, side: str, cluster: Cluster, names: list[str]) -> None:
    time.sleep(SETTLE_S)
    empty = memory_mib(cluster)
    fill(cluster.bootstrap_servers, names, PARTITIONS)
    _await_ends(cluster.bootstrap_servers, names)
    time.sleep(SETTLE_S)
    figures.add(side, MEMORY, memory_mib(cluster) - empty)
    figures.add(side, CPU, idle_cpu(cluster, IDLE_S))
    began = time.monotonic()
    kill_everything(cluster)
    cluster.start()
    _await_ends(cluster.bootstrap_servers, names)
    figures.add(side, READY, time.monotonic() - began)


def fill(servers: str, names: list[str], partitions: int) -> None:
    """Make the topics, and write a record to each partition."""
    note(f"making {len(names)} topics of {partitions} partitions")
    for start in range(0, len(names), AT_ONCE):
        create_topics(servers, dict.fromkeys(names[start : start + AT_ONCE], partitions))
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for name in names:
        for partition in range(partitions):
            producer.produce(name, b"one", partition=partition)
        producer.poll(0)
    left = producer.flush(90)
    assert left == 0, f"{left} records were not acknowledged"


def _await_ends(servers: str, names: list[str]) -> None:
    """Until the leaders tell that each partition has one record."""
    deadline = time.monotonic() + READY_LIMIT_S
    while True:
        with contextlib.suppress(OSError, EOFError):
            if _all_have_one(servers, names):
                return
        assert time.monotonic() < deadline, "not every partition has a leader that serves"
        time.sleep(0.05)


def _all_have_one(servers: str, names: list[str]) -> bool:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    with Raw(servers.split(",")[0]) as raw:
        answer = raw.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 4)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    led: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic in answer.topics:
        for partition in topic.partitions:
            led[partition.leader_id][topic.name].append(partition.partition_index)
    if -1 in led or sum(len(each) for topics in led.values() for each in topics.values()) != len(names) * PARTITIONS:
        return False
    return all(_each_has_one(addresses[leader], topics) for leader, topics in led.items())


def _each_has_one(address: str, topics: dict[str, list[int]]) -> bool:
    latest = ListOffsetsRequest.ListOffsetsPartition
    asked = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=name, partitions=[latest(partition_index=number, timestamp=-1) for number in numbers]
        )
        for name, numbers in topics.items()
    ]
    with Raw(address) as raw:
        answer = raw.call(ListOffsetsRequest(replica_id=-1, topics=asked), 1)
    ends = [(each.error_code, each.offset) for topic in answer.topics for each in topic.partitions]
    return all(end == (0, 1) for end in ends)
