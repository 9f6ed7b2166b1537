"""Which topics the clients keep the metadata of: those they need, as long as they need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import Admin, Consumer, TopicPartition
from actors.client import ranges as ranges_module
from actors.client.errors import KafkaTimeoutError
from actors.client.ranges import OffsetRange, RangeReader
from actors.wire import messages as m
from tests.unit.client_broker import ScriptedBroker, broker

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
    settings = {"default_api_timeout_ms": 3_000, "retry_backoff_ms": 10}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as reader:
        first = look(reader)
        before = len(kafka.requests(m.MetadataRequest))

        def until_asked_again(request: Any) -> Any:
            return moved(request) if len(kafka.requests(m.MetadataRequest)) == before else None

        kafka.script(m.ListOffsetsRequest, *[until_asked_again] * 1000)
        assert look(reader) == first
        assert [topic.name for topic in kafka.requests(m.MetadataRequest)[before].topics] == ["t"]
        reader._network.run(reader._network.refreshed()).result(10)
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
    settings = {"default_api_timeout_ms": 3_000, "retry_backoff_ms": 5, "retry_backoff_max_ms": 5}
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


def test_two_reads_of_one_range_reader_keep_each_others_topics(
    kafka: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_module, "_SETTLE_MS", 200)
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

    with RangeReader(kafka.bootstrap_servers, retry_backoff_ms=10, max_partition_fetch_bytes=1) as reader:
        first, second = (reader.read([OffsetRange(topic, 0, 0, 5)]) for topic in ("t", "u"))
        assert next(first).num_rows == next(second).num_rows == 1
        kafka.script(m.FetchRequest, *[moved_once] * 20)
        assert sum(batch.num_rows for batch in first) == 4
        assert sum(batch.num_rows for batch in second) == 4
    assert refused
