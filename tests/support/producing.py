"""Producers of a scripted broker, made in a hurry."""

from __future__ import annotations

from typing import Any

from actors.client import Producer, TopicPartition
from tests.support.client_broker import ScriptedBroker

T0 = TopicPartition("t", 0)


def producer(kafka: ScriptedBroker, **settings: Any) -> Producer:
    settings.setdefault("retry_backoff_ms", 20)
    return Producer(bootstrap_servers=kafka.bootstrap_servers, **settings)
