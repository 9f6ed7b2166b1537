"""All records of topics with one partition, as four clients read them: all fields, bytes as bytes.

Some clients cannot give a record as it is. `expected_of` a reader returns its form of the record, with no other change:

- librdkafka has names of headers as strings of C, which end at the first zero byte, and confluent-kafka makes text of
  them, if they are UTF-8.
- Kafka's Java client has names as text, with a replacement character for bytes that are not UTF-8.
- kafka-python reads no batch with a name that is not UTF-8.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as Confluent
from confluent_kafka import TopicPartition as ConfluentPartition

from actors.client import Consumer, TopicPartition
from tests.compat.drivers import kafka_python
from tests.compat.remote import Remote
from tests.support.raw_batches import Raw

_MOST_S = 60.0
_REPLACED = re.compile("\N{REPLACEMENT CHARACTER}+")
Headers = tuple[tuple[bytes, bytes | None], ...]
Ends = Mapping[str, int]
"""The offset behind the last record of each topic."""


class Read(NamedTuple):
    """One record."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Found = dict[str, list[Read]]


class Reader(NamedTuple):
    """A client: its function that reads, the records that it can read, and its form of a header's name."""

    read: Callable[[Remote | None, str, Ends], Found]
    can: Callable[[Raw], bool] = lambda record: True
    name: Callable[[bytes], bytes] = bytes

    def expected_of(self, record: Raw) -> Read:
        """The record as this client gives it."""
        headers = tuple((self.name(name), content) for name, content in record.headers)
        return Read(record.offset, record.time, record.key, record.value, headers)


def _is_text(record: Raw) -> bool:
    for name, _ in record.headers:
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
    return True


def replaced(name: bytes) -> bytes:
    """A name in which one character stands for any bytes that are no UTF-8."""
    return _REPLACED.sub("\N{REPLACEMENT CHARACTER}", name.decode(errors="replace")).encode()


def _until(ends: Ends, left: Callable[[], Mapping[str, int]], turn: Callable[[], None]) -> None:
    """Turns, until every topic is read up to its end."""
    deadline = time.monotonic() + _MOST_S
    while missing := {topic: at for topic, at in left().items() if at < ends[topic]}:
        assert time.monotonic() < deadline, f"read up to {missing} of {dict(ends)}"
        turn()


def _librdkafka(_: Remote | None, servers: str, ends: Ends) -> Found:
    found: Found = {topic: [] for topic in ends}
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
    consumer = Confluent(settings)

    def turn() -> None:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            headers = tuple((name.encode(), content) for name, content in message.headers() or ())
            made = Read(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
            found[message.topic()].append(made)

    with contextlib.closing(consumer):
        consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING) for topic in ends])
        _until(ends, lambda: {topic: _next(records) for topic, records in found.items()}, turn)
    return found


def _next(records: list[Read]) -> int:
    return records[-1].offset + 1 if records else 0


def _kafka_python(_: Remote | None, servers: str, ends: Ends) -> Found:
    found: Found = {topic: [] for topic in ends}
    partitions = [kafka_python.TopicPartition(topic, 0) for topic in ends]
    with contextlib.closing(kafka_python.KafkaConsumer(bootstrap_servers=servers, group_id=None)) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def turn() -> None:
            for partition, records in consumer.poll(200, 1000).items():
                for record in records:
                    headers = tuple((name.encode(), content) for name, content in record.headers)
                    made = Read(record.offset, record.timestamp, record.key, record.value, headers)
                    found[partition.topic].append(made)

        _until(ends, lambda: {topic: _next(records) for topic, records in found.items()}, turn)
    return found


def _ours(_: Remote | None, servers: str, ends: Ends) -> Found:
    found: Found = {topic: [] for topic in ends}
    partitions = [TopicPartition(topic, 0) for topic in ends]
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def turn() -> None:
            for partition, records in consumer.poll(200, 1000).items():
                found[partition.topic] += [_of_ours(record) for record in records]

        _until(ends, lambda: {topic: _next(records) for topic, records in found.items()}, turn)
    return found


def _of_ours(record: Any) -> Read:
    headers = tuple((name.encode() if isinstance(name, str) else name, content) for name, content in record.headers)
    return Read(record.offset, record.timestamp, record.key, record.value, headers)


def _java(java: Remote | None, servers: str, ends: Ends) -> Found:
    assert java is not None
    settings = {"bootstrap.servers": servers, "check.crcs": "true", "enable.auto.commit": "false"}
    answer = java.ask("read", login=settings, topics=dict(ends))
    return {topic: [_of_java(*row) for row in rows] for topic, rows in answer["topics"].items()}


def _of_java(offset: int, timestamp: int, key: str | None, value: str | None, headers: list[list[Any]]) -> Read:
    named = tuple((replaced(name.encode("utf-8", "surrogatepass")), _bytes(content)) for name, content in headers)
    return Read(offset, timestamp, _bytes(key), _bytes(value), named)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


READERS = {
    "librdkafka": Reader(_librdkafka, _is_text, lambda name: name.partition(b"\0")[0]),
    "kafka-python": Reader(_kafka_python, _is_text),
    "java": Reader(_java, name=replaced),
    "ours": Reader(_ours),
}
