"""The consumer protocol (KIP-848) with a real client: librdkafka with `group.protocol=consumer`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import confluent_kafka

from tests.compat.driving import OPERATION_TIMEOUT_S, Polling, answer
from tests.compat.peers import Peer
from tests.compat.raw import create_topics
from tests.compat.support import ONE_PROCESS, numbered_records, wait_until

pytestmark = ONE_PROCESS

PARTITIONS = 6
ALL = frozenset(range(PARTITIONS))


class Member(Polling):
    """A member of a consumer group, which reads one topic and commits when it is told to."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        super().__init__()

    def _loop(self) -> None:
        with contextlib.closing(confluent_kafka.Consumer(self._settings)) as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        self._records.append((message.key(), message.value()))
                    elif message.error().fatal():
                        raise confluent_kafka.KafkaException(message.error())
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    answer(self._commits.pop(), lambda: consumer.commit(asynchronous=False))
            self._owned = frozenset()


@contextlib.contextmanager
def member(servers: str, name: str, **settings: Any) -> Iterator[Member]:
    made = Member(servers, name, name, **settings)
    try:
        yield made
    finally:
        made.close()


def committed(servers: str, name: str) -> Mapping[int, int]:
    reader = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": name})
    try:
        asked = [confluent_kafka.TopicPartition(name, each) for each in range(PARTITIONS)]
        return {each.partition: each.offset for each in reader.committed(asked, OPERATION_TIMEOUT_S)}
    finally:
        reader.close()


def produce(servers: str, name: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for index, (key, value) in enumerate(numbered_records(count)):
        producer.produce(name, value, key, partition=index % PARTITIONS)
    assert producer.flush(OPERATION_TIMEOUT_S) == 0


def test_a_group_of_the_consumer_protocol_grows_commits_and_shrinks(kafka: Peer, name: str) -> None:
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    produce(servers, name, 60)
    with member(servers, name) as first:
        wait_until(lambda: first.owned() == ALL and len(first.seen()) == 60, what="all partitions, and all records")
        first.commit()
        assert committed(servers, name) == dict.fromkeys(range(PARTITIONS), 10)
        with member(servers, name) as second:
            wait_until(lambda: len(first.owned()) == len(second.owned()) == PARTITIONS // 2, what="a share for each")
            assert first.owned() | second.owned() == ALL
        wait_until(lambda: first.owned() == ALL, what="everything back")
        assert len(first.seen()) == 60, "what it has read it has not read again"
