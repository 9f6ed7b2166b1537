"""At a port where nobody listens every door says so: with the address, the cause and the setting, in one paragraph."""

from __future__ import annotations

import contextlib
import socket
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import pytest

from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.errors import KafkaError
from actors.members.ranges.ray_data import read_group
from actors.runtime.environment import REAL
from spark_bridge.options import source_options
from spark_bridge.read import planned
from spark_bridge.stream import GroupStream
from tests.support.client_broker import broker

SHORT_MS: Final = 700
T0: Final = TopicPartition("t", 0)


@pytest.fixture
def nobody() -> Iterator[str]:
    """Two addresses at which nobody listens, and nobody will."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        yield ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other))


def raised(call: Callable[[], Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value


def told(call: Callable[[], Any], servers: str, *more: str) -> None:
    """Check that a call raises an error that says all; on a slow machine perhaps only the second time."""
    deadline = REAL.clock.monotonic() + 60
    while not all(part in str(error := raised(call)) for part in ("refused", *servers.split(","))):
        assert REAL.clock.monotonic() < deadline, str(error)
    says_all(error, servers, *more)


def says_all(error: KafkaError, servers: str, *more: str) -> None:
    for part in ("bootstrap_servers", "Connection refused", *servers.split(","), *more):
        assert part in str(error)
    assert "direct cause" not in "".join(traceback.format_exception(error)), "one paragraph"


ADMIN: Final[dict[str, Callable[[Admin], Any]]] = {
    "list_topics": lambda admin: admin.list_topics(),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "list_consumer_groups": lambda admin: admin.list_consumer_groups(),
    "describe_consumer_groups": lambda admin: admin.describe_consumer_groups(["g"]),
    "list_consumer_group_offsets": lambda admin: admin.list_consumer_group_offsets("g"),
    "list_offsets": lambda admin: admin.list_offsets({T0: "latest"}),
    "delete_topics": lambda admin: admin.delete_topics(["t"]),
}


@pytest.mark.parametrize("call", ADMIN.values(), ids=ADMIN)
def test_an_admin_named_neither_the_setting_nor_all_addresses(nobody: str, call: Callable[[Admin], Any]) -> None:
    with Admin(bootstrap_servers=nobody, default_api_timeout_ms=2 * SHORT_MS) as admin:
        told(lambda: call(admin), nobody)


@pytest.mark.parametrize("call", [lambda p: p.send("t", b"v"), lambda p: p.partitions_for("t")])
def test_a_producer_left_open_whether_brokers_or_the_topic_were_missing(
    nobody: str, call: Callable[[Producer], Any]
) -> None:
    with Producer(bootstrap_servers=nobody, max_block_ms=SHORT_MS) as producer:
        told(lambda: call(producer), nobody, f"max_block_ms={SHORT_MS}")


def test_a_record_under_way_when_its_broker_goes_is_late_with_the_cause() -> None:
    """`get(5)` takes five seconds, and says why."""
    with broker() as kafka:
        kafka.topic("t")
        producer = Producer(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=10)
        producer.partitions_for("t")
        servers = kafka.bootstrap_servers
    try:
        future = producer.send("t", b"v", partition=0)
        told(lambda: future.get(SHORT_MS / 1000), servers, "delivery_timeout_ms", f"{SHORT_MS / 1000} s")
        told(lambda: producer.flush(SHORT_MS / 1000), servers)
    finally:
        with contextlib.suppress(KafkaError):
            producer.close(0)


def test_a_commit_and_an_end_that_nobody_answers_say_why() -> None:
    with broker() as kafka:
        kafka.topic("t")
        servers = kafka.bootstrap_servers
        consumer = Consumer(bootstrap_servers=servers, group_id="g", default_api_timeout_ms=SHORT_MS)
        consumer.assign([T0])
        consumer.partitions_for_topic("t")
    with closing(consumer):
        for call in (lambda: consumer.commit({T0: 1}), lambda: consumer.committed(T0)):
            told(call, servers)


CONSUMER: Final[dict[str, Callable[[Consumer], Any]]] = {
    "topic_ids": lambda consumer: consumer.topic_ids(["t"]),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("t"),
    "topics": lambda consumer: consumer.topics(),
    "end_offsets": lambda consumer: consumer.end_offsets([T0]),
}


@pytest.mark.parametrize("call", CONSUMER.values(), ids=CONSUMER)
def test_a_consumer_said_no_metadata_and_nothing_of_why(nobody: str, call: Callable[[Consumer], Any]) -> None:
    with closing(Consumer(bootstrap_servers=nobody, default_api_timeout_ms=SHORT_MS)) as consumer:
        told(lambda: call(consumer), nobody, f"{SHORT_MS} ms")


def test_streams_and_reads_waited_a_minute_for_a_wrong_port(nobody: str) -> None:
    options = source_options({"kafka.bootstrap.servers": nobody, "subscribe": "t"}, streaming=False)
    stream = GroupStream(None, "t", "g", nobody).foreach_batch(lambda df, batch: None)  # type: ignore[arg-type]
    doors: list[tuple[Callable[[], Any], str]] = [
        (stream.start, "the stream of group 'g' cannot begin"),
        (read_group("t", "g", bootstrap_servers=nobody).__enter__, "the read of group 'g' cannot begin"),
        (read_group("t", "g", bootstrap_servers=nobody, follow=True).__enter__, "the read of group 'g' cannot begin"),
        (lambda: planned(options), "the read cannot begin"),
    ]
    with ThreadPoolExecutor() as side_by_side:
        errors = list(side_by_side.map(lambda door: raised(door[0]), doors))
    for error, (_, text) in zip(errors, doors, strict=True):
        says_all(error, nobody, text)
