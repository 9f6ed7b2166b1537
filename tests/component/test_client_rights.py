"""Errors and behaviour of the clients when a right is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.client import Consumer, Producer, TopicPartition
from actors.client.error_codes import error_for
from actors.client.errors import (
    ClusterAuthorizationError,
    GroupAuthorizationError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
)
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as made:
        made.topic("open")
        made.topic("closed")
        yield made


def close(kafka: ScriptedBroker, *topics: str) -> None:
    """From now on metadata says that these topics may not be described."""
    usual = kafka.on_metadata

    def answer(request: Any) -> Any:
        found = usual(request)
        for topic in found.topics:
            if topic.name in topics:
                topic.error_code, topic.partitions = TOPIC, []
        return found

    kafka.on_metadata = answer  # type: ignore[method-assign]


def consumer(kafka: ScriptedBroker, *topics: str, **settings: Any) -> Consumer:
    given = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5, "heartbeat_interval_ms": 50, "group_id": "g"}
    return Consumer(*topics, bootstrap_servers=kafka.bootstrap_servers, **(given | settings))


def read(reader: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [record.value for some in reader.poll(timeout_ms=200).values() for record in some]
    return found


@pytest.mark.conformance("XF-06")
def test_a_closed_topic_of_a_subscription_is_raised_and_the_rest_goes_on_when_subscribed_anew(
    kafka: ScriptedBroker,
) -> None:
    close(kafka, "closed")
    kafka.append("open", 0, b"a", b"b")
    with consumer(kafka, "open", "closed") as reader:
        with pytest.raises(TopicAuthorizationError) as raised:
            reader.poll(timeout_ms=30_000)
        assert raised.value.topics == ["closed"]
        reader.subscribe(["open"])
        assert read(reader, 2) == [b"a", b"b"]


@pytest.mark.conformance("XF-06")
def test_a_pattern_matches_what_may_be_seen_and_raises_nothing(kafka: ScriptedBroker) -> None:
    close(kafka, "closed")
    kafka.append("open", 0, b"a")
    with consumer(kafka) as reader:
        reader.subscribe(pattern="open|closed")
        assert read(reader, 1) == [b"a"]


@pytest.mark.conformance("XF-06")
def test_a_fetch_that_is_not_allowed_names_the_topic(kafka: ScriptedBroker) -> None:
    part = m.FetchResponse
    refused = part.PartitionData(partition_index=0, error_code=TOPIC, high_watermark=-1, records=b"")
    kafka.script(
        m.FetchRequest,
        part(responses=[part.FetchableTopicResponse(topic="closed", partitions=[refused])]),
    )
    with consumer(kafka, group_id=None) as reader:
        reader.assign([TopicPartition("closed", 0)])
        with pytest.raises(TopicAuthorizationError) as raised:
            reader.poll(timeout_ms=30_000)
    assert raised.value.topics == ["closed"]


@pytest.mark.conformance("XF-06")
def test_a_group_that_is_not_allowed_is_raised_each_time(kafka: ScriptedBroker) -> None:
    kafka.script(m.JoinGroupRequest, *[m.JoinGroupResponse(error_code=GROUP)] * 2)
    with consumer(kafka, "open") as reader:
        for _ in range(2):
            with pytest.raises(GroupAuthorizationError):
                reader.poll(timeout_ms=30_000)
        while not reader.assignment():
            reader.poll(timeout_ms=100)


@pytest.mark.conformance("XF-06")
def test_a_right_that_is_taken_away_is_raised_by_a_poll(kafka: ScriptedBroker) -> None:
    with consumer(kafka, "open") as reader:
        while not reader.assignment():
            reader.poll(timeout_ms=100)
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=GROUP))
        with pytest.raises(GroupAuthorizationError):
            reader.poll(timeout_ms=30_000)


@pytest.mark.conformance("XF-06")
def test_a_producer_names_the_topic_that_it_may_not_write_to(kafka: ScriptedBroker) -> None:
    close(kafka, "closed")
    part = m.ProduceResponse
    refused = part.PartitionProduceResponse(index=0, error_code=TOPIC, base_offset=-1, log_append_time_ms=-1)
    kafka.script(
        m.ProduceRequest, part(responses=[part.TopicProduceResponse(name="open", partition_responses=[refused])])
    )
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        with pytest.raises(TopicAuthorizationError) as raised:
            producer.send("closed", b"x")
        assert raised.value.topics == ["closed"]
        sent = producer.send("open", b"x")
        with pytest.raises(TopicAuthorizationError) as raised:
            sent.get(30)
        assert raised.value.topics == ["open"]
        producer.send("open", b"y").get(30)


@pytest.mark.conformance("XF-06")
def test_who_may_not_get_a_producer_id_is_told_how_to_do_without(kafka: ScriptedBroker) -> None:
    kafka.script(m.InitProducerIdRequest, m.InitProducerIdResponse(error_code=CLUSTER, producer_id=-1))
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        sent = producer.send("open", b"x")
        with pytest.raises(ClusterAuthorizationError, match=r"IDEMPOTENT_WRITE.*enable_idempotence=False"):
            sent.get(30)


@pytest.mark.conformance("XF-06")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (TOPIC, TopicAuthorizationError),
        (GROUP, GroupAuthorizationError),
        (CLUSTER, ClusterAuthorizationError),
        (TRANSACTIONAL_ID, TransactionalIdAuthorizationError),
    ],
)
def test_each_code_has_its_class_and_none_is_tried_again(code: int, kind: type) -> None:
    error = error_for(code, "doing it", topics=["t"])
    assert type(error) is kind
    assert not error.retriable
    assert str(code) in str(error)
