"""Real clients under quotas: they keep to the rate and are told that they are throttled. SECURITY.md, X-D.

One broker in this process. Its window is short, so that the burst that a window allows is small.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.compat.drivers import confluent_kafka
from tests.support.one_broker import create, world
from tests.support.quotas import alter

RATE = 200_000
VALUE = bytes(1000)
SIZE = 8 * RATE
COUNT = SIZE // len(VALUE)
WINDOW = {"quota_window_num": "2", "quota_window_size_seconds": "1"}
BURST = 2 * RATE
"""The bytes that the window allows at once, at the beginning."""


def _throttles(into: list[float]) -> dict[str, Any]:
    return {"throttle_cb": lambda event: into.append(event.throttle_time)}


def _produce(servers: str, told: list[float]) -> float:
    """Send all and return the seconds that it took."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "batch.size": 20_000, "linger.ms": 5, **_throttles(told)}
    )
    begun = time.monotonic()
    for _ in range(COUNT):
        producer.produce("t", VALUE, partition=0)
    assert producer.flush(60) == 0
    return time.monotonic() - begun


def _consume(servers: str, told: list[float]) -> float:
    """Read all and return the seconds that it took."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, **_throttles(told)}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    begun, count = time.monotonic(), 0
    while count < COUNT:
        count += sum(not message.error() for message in consumer.consume(1000, 1.0))
    took = time.monotonic() - begun
    consumer.close()
    return took


@pytest.mark.conformance("XD-06", "XD-07")
async def test_a_real_client_keeps_to_its_rates_and_is_told(tmp_path: Path) -> None:
    async with world(tmp_path, **WINDOW) as w:
        client = await w.client()
        client.send(create("t"))
        assert (await client.answer()).topics[0].error_code == 0
        await alter(client, ("client-id", "rdkafka"), producer_byte_rate=RATE, consumer_byte_rate=RATE)
        servers = f"127.0.0.1:{w.server.port}"
        for work in (_produce, _consume):
            told: list[float] = []
            took = await asyncio.to_thread(work, servers, told)
            assert RATE * took + BURST >= SIZE, work
            assert max(told, default=0) > 0, "it was told"
