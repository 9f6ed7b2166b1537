"""Producers of a scripted broker, made in a hurry."""

from __future__ import annotations

import time
from typing import Any

from actors.client import Producer, TopicPartition
from actors.client.errors import KafkaTimeoutError
from tests.support.client_broker import ScriptedBroker

T0 = TopicPartition("t", 0)


def producer(kafka: ScriptedBroker, **settings: Any) -> Producer:
    settings.setdefault("retry_backoff_ms", 20)
    return Producer(bootstrap_servers=kafka.bootstrap_servers, **settings)


def known_partitions(writer: Producer, topic: str, timeout_s: float = 60) -> set[int]:
    """The partitions of a topic, even if its first metadata takes longer than max_block_ms."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return writer.partitions_for(topic)
        except KafkaTimeoutError:
            assert time.monotonic() < deadline, f"no metadata of {topic}"
