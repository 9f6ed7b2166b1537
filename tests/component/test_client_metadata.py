"""The clients keep the metadata of the topics that they need, as long as they need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.config import network_settings, producer_config
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import KafkaTimeoutError
from actors.client.net.network import Network
from actors.client.producer.sender import Sender
from actors.client.producer.topics import Topics
from actors.client.records import OffsetRange
from actors.runtime.environment import REAL, Clock, Environment
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.consuming import wait_for

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
NOT_LEADER = 6


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t")
        running.topic("u")
        yield running


def asked(kafka: ScriptedBroker) -> list[str]:
    """The topics of the last metadata request."""
    return [topic.name for topic in kafka.requests(m.MetadataRequest)[-1].topics]


def refreshed(kafka: ScriptedBroker) -> None:
    """Wait until a client that asks often has taken over what is true now: it asks again only after an answer."""
    before = len(kafka.requests(m.MetadataRequest))
    wait_for(lambda: len(kafka.requests(m.MetadataRequest)) >= before + 3)


def moved(request: Any) -> Any:
    """A ListOffsets answer of a broker that leads none of these partitions any more."""
    part = m.ListOffsetsResponse
    topics = [
        part.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                part.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=NOT_LEADER)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return part(topics=topics)


@pytest.mark.parametrize(
    "look",
    [
        lambda reader: reader.end_offsets([T0]),
        lambda reader: reader.beginning_offsets([T0]),
        lambda reader: reader.offsets_for_times({T0: 1}),
    ],
    ids=["end", "beginning", "times"],
)
def test_a_leader_that_moved_between_two_lookups_is_found(kafka: ScriptedBroker, look: Callable[[Any], Any]) -> None:
    settings = {"default_api_timeout_ms": 60_000, "retry_backoff_ms": 10}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as reader:
        first = look(reader)
        before = len(kafka.requests(m.MetadataRequest))

        def until_asked_again(request: Any) -> Any:
            return moved(request) if len(kafka.requests(m.MetadataRequest)) == before else None

        kafka.script(m.ListOffsetsRequest, *[until_asked_again] * 1000)
        assert look(reader) == first
        assert [topic.name for topic in kafka.requests(m.MetadataRequest)[before].topics] == ["t"]
        before = len(kafka.requests(m.MetadataRequest))
        kafka.drop_connections()
        wait_for(lambda: len(kafka.requests(m.MetadataRequest)) > before)
        assert asked(kafka) == [], "held only while somebody waits"


def test_overlapping_lookups_of_an_admin_keep_each_others_topics(kafka: ScriptedBroker) -> None:
    other_done, since = threading.Event(), []

    def until_twice_after_the_other(request: Any) -> Any:
        if request.topics[0].name == "u" or len(since) == 2:
            return None
        if other_done.is_set():
            since.append(request)
        return moved(request)

    kafka.script(m.ListOffsetsRequest, *[until_twice_after_the_other] * 1000)
    found: dict[TopicPartition, Any] = {}
    settings = {"default_api_timeout_ms": 60_000, "retry_backoff_ms": 5, "retry_backoff_max_ms": 5}
    with Admin(bootstrap_servers=kafka.bootstrap_servers, **settings) as admin:
        slow = threading.Thread(target=lambda: found.update(admin.list_offsets({T0: "latest"})))
        slow.start()
        assert U0 in admin.list_offsets({U0: "latest"})
        other_done.set()
        slow.join()
    assert T0 in found


def test_asking_an_admin_for_offsets_makes_no_topic(kafka: ScriptedBroker) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=10) as admin:
        with pytest.raises(KafkaTimeoutError):
            admin.list_offsets({TopicPartition("typo", 0): "latest"}, timeout_ms=300)
    assert not any(request.allow_auto_topic_creation for request in kafka.requests(m.MetadataRequest))


def test_two_reads_of_one_range_reader_keep_each_others_topics(kafka: ScriptedBroker) -> None:
    for n in range(5):
        kafka.append("t", 0, b"%d" % n)
        kafka.append("u", 0, b"%d" % n)
    refused: list[Any] = []

    def moved_once(request: Any) -> Any:
        if request.topics[0].topic == "u" or refused:
            return None
        refused.append(request)
        data = m.FetchResponse.PartitionData(partition_index=0, error_code=NOT_LEADER)
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])])

    settings = {"retry_backoff_ms": 10, "settle_ms": 200, "max_partition_fetch_bytes": 1}
    with RangeReader(kafka.bootstrap_servers, **settings) as reader:
        first, second = (reader.read([OffsetRange(topic, 0, 0, 5)]) for topic in ("t", "u"))
        assert next(first).num_rows == next(second).num_rows == 1
        kafka.script(m.FetchRequest, *[moved_once] * 20)
        assert sum(batch.num_rows for batch in first) == 4
        assert sum(batch.num_rows for batch in second) == 4
    assert refused


# --- the producer -------------------------------------------------------------------------------------------------


def producer(kafka: ScriptedBroker, **settings: Any) -> Producer:
    """A producer that asks for metadata all the time."""
    return Producer(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=10, metadata_max_age_ms=20, **settings)


def test_a_deleted_topic_is_made_again_only_for_a_send(kafka: ScriptedBroker) -> None:
    def creating(request: Any) -> None:
        for topic in request.topics if request.allow_auto_topic_creation else ():
            kafka.topic(topic.name)

    kafka.script(m.MetadataRequest, *[creating] * 10_000)
    new = TopicPartition("new", 0)
    with producer(kafka) as writer:
        writer.send("new", b"v").get(60)
        del kafka.logs[new]
        refreshed(kafka)
        assert asked(kafka) == ["new"]
        assert new not in kafka.logs
        kafka.sequences.clear()
        writer.send("new", b"v").get(60)
        assert new in kafka.logs


def test_a_topic_that_was_not_found_in_time_is_not_asked_for_any_more(kafka: ScriptedBroker) -> None:
    with producer(kafka, max_block_ms=200) as writer:
        with pytest.raises(KafkaTimeoutError, match="typo"):
            writer.send("typo", b"v")
        refreshed(kafka)
        assert asked(kafka) == []


def test_who_gives_up_takes_a_topic_from_nobody_else(kafka: ScriptedBroker) -> None:
    config = producer_config({"bootstrap_servers": kafka.bootstrap_servers, "retry_backoff_ms": 10})
    network = Network(network_settings(config))
    topics = Topics(network, Sender(network, config), max_idle_ms=60_000, max_block_ms=60_000)
    network.start(topics)
    try:
        found: list[Any] = []
        patient = threading.Thread(target=lambda: found.append(topics.find("late", network.now_ms() + 60_000)))
        patient.start()
        with pytest.raises(KafkaTimeoutError):
            topics.find("late", network.now_ms() + 100)
        kafka.topic("late")
        patient.join(60)
        assert [set(topic.partitions) for topic in found] == [{0}]
    finally:
        network.close()


def test_a_topic_without_a_send_for_long_is_let_go_unless_something_is_queued(
    kafka: ScriptedBroker,
) -> None:
    ahead_ms = 0
    environment = Environment(Clock(monotonic_ms=lambda: REAL.clock.monotonic_ms() + ahead_ms))
    settings = {"metadata_max_idle_ms": 5_000, "linger_ms": 60_000}
    with producer(kafka, environment=environment, **settings) as writer:
        writer.send("t", b"v")
        writer.flush(60)
        queued = writer.send("u", b"v")
        ahead_ms = 5_000
        refreshed(kafka)
        assert asked(kafka) == ["u"]
        writer.flush(60)
        queued.get(60)
        refreshed(kafka)
        assert asked(kafka) == []
        writer.send("t", b"v")
        refreshed(kafka)
        assert asked(kafka) == ["t"]
