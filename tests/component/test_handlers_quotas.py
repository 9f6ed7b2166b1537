"""Quotas over the wire, and what they do to requests: SECURITY.md, XD-06, XD-07 and XD-09, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.quotas import Quotas, quotas_of
from actors.wire.messages import (
    AlterClientQuotasRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClientQuotasRequest,
    FetchRequest,
    ProduceRequest,
)
from tests.support.handler_helpers import Broker, led_by
from tests.support.log_helpers import values

Entity = AlterClientQuotasRequest.EntityData
Op = AlterClientQuotasRequest.OpData
EXCEEDED = 89
KILO = 1000


def alter(broker: Broker, *entity: tuple[str, str | None], version: int = 1, **rates: float | None) -> int:
    """Set or remove quotas, and have the broker go by them."""
    ops = [Op(key=key, value=rate or 0.0, remove=rate is None) for key, rate in rates.items()]
    parts = [Entity(entity_type=kind, entity_name=name) for kind, name in entity]
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=parts, ops=ops)])
    (entry,) = broker.ask(request, version).entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == list(entity)
    context = broker.context
    context.quotas = quotas_of(context.quotas, broker.metadata.quotas, context.config, context.loop)
    return int(entry.error_code)


def described(broker: Broker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    asked = [
        DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match, match=name)
        for kind, match, name in components
    ]
    answer = broker.ask(DescribeClientQuotasRequest(components=asked, strict=strict), version)
    if answer.error_code:
        return answer.error_code
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries
    ]


def produce(broker: Broker, size: int, acks: int = 1) -> Any:
    data = ProduceRequest.PartitionProduceData(index=0, records=values(b"x" * size))
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    pending = broker.send(ProduceRequest(acks=acks, topic_data=topics), 9)
    return pending.response if acks else None


def fetch(broker: Broker, offset: int = 0, max_wait_ms: int = 0) -> Any:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[part])]
    return broker.send(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 24, topics=topics), 12)


def reading(broker: Broker) -> bool:
    transport: Any = broker.connection.transport
    return bool(transport.reading)


def read(response: Any) -> int:
    return sum(len(part.records) for topic in response.responses for part in topic.partitions)


# --- the requests about quotas ---


@pytest.mark.conformance("XD-06")
@pytest.mark.parametrize("version", [0, 1])
def test_what_was_set_is_described(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    assert described(broker, version=version) == []
    assert alter(broker, ("user", "ann"), producer_byte_rate=5, version=version) == 0
    assert alter(broker, ("user", None), ("client-id", "app"), consumer_byte_rate=7, version=version) == 0
    ann = ({"user": "ann"}, {"producer_byte_rate": 5.0})
    other = ({"client-id": "app", "user": None}, {"consumer_byte_rate": 7.0})
    assert described(broker, version=version) == [ann, other]
    assert described(broker, ("user", 0, "ann"), strict=True, version=version) == [ann]
    assert described(broker, ("user", 1, None), version=version) == [other]
    assert described(broker, ("user", 2, None), strict=True, version=version) == [ann]


def test_mistakes_are_told(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert alter(broker, ("user", "ann"), producer_byte_rate=-5) == 42
    assert alter(broker, ("planet", "mars"), producer_byte_rate=5) == 42
    assert described(broker, ("planet", 2, None)) == 35
    assert described(broker, ("user", 0, None)) == 42


@pytest.mark.conformance("XD-06")
def test_without_a_quota_there_is_nothing_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert alter(broker, ("user", "ann"), producer_byte_rate=5) == 0
    assert broker.context.quotas.limits
    assert alter(broker, ("user", "ann"), producer_byte_rate=None) == 0
    assert not broker.context.quotas.limits
    for name in ("produced", "fetch_room", "fetched", "mutated", "connected"):
        monkeypatch.delattr(Quotas, name)
    assert produce(broker, 10).throttle_time_ms == 0
    assert read(fetch(broker).response) > 0


# --- bytes ---


@pytest.mark.conformance("XD-07")
@pytest.mark.parametrize("acks", [0, 1])
def test_who_produces_too_much_is_told_and_not_read_for_that_time(tmp_path: Path, acks: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    alter(broker, ("user", "ANONYMOUS"), producer_byte_rate=KILO)
    produce(broker, 9 * KILO, acks)
    assert reading(broker), "a window of ten seconds has room"
    answer = produce(broker, 3 * KILO, acks)
    assert not reading(broker)
    assert broker.data_dir.logs["t", 0].log_end_offset == 2, "the records are taken all the same"
    if answer is not None:
        assert 2000 < answer.throttle_time_ms < 2300
    broker.loop.advance(1.9)
    assert not reading(broker)
    broker.loop.advance(0.4)
    assert reading(broker)


@pytest.mark.conformance("XD-07")
def test_a_fetch_over_the_quota_is_answered_with_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    for _ in range(10):
        produce(broker, 3 * KILO)
    alter(broker, ("client-id", "tests"), consumer_byte_rate=KILO)
    first = fetch(broker).response
    assert 9 * KILO < read(first) <= 10 * KILO, "as much as there is room for"
    while (answer := fetch(broker, 9).response).responses:
        assert read(answer) > 3 * KILO, "one batch comes whatever its size"
    assert answer.throttle_time_ms >= 100
    assert not reading(broker)
    waiting = fetch(broker, 10, max_wait_ms=500)
    assert waiting.answered, "and does not wait for records"
    broker.loop.advance(60)
    assert reading(broker)
    assert read(fetch(broker).response) > 9 * KILO


@pytest.mark.conformance("XD-07")
def test_a_fetch_that_waited_is_counted_when_it_is_answered(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    alter(broker, ("client-id", None), consumer_byte_rate=100)
    waiting = fetch(broker, max_wait_ms=500)
    assert not waiting.answered
    assert reading(broker)
    produce(broker, 2 * KILO)
    broker.loop.turn()
    assert read(waiting.response) > 2 * KILO
    assert waiting.response.throttle_time_ms > 10_000
    assert not reading(broker)


def sent_by(broker: Broker, user: str) -> int:
    """Nine kilobytes from a new connection of this user, as the client `tests`. The throttle time."""
    connection = broker.connect()
    connection.principal = user
    data = ProduceRequest.PartitionProduceData(index=0, records=values(b"x" * 9 * KILO))
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    return int(broker.send(ProduceRequest(acks=1, topic_data=topics), 9, connection).response.throttle_time_ms)


@pytest.mark.conformance("XD-06")
def test_users_do_not_pay_for_each_other_and_clients_of_one_user_do(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    alter(broker, ("user", None), producer_byte_rate=KILO)
    users = ("User:ann", "User:ANONYMOUS", "User:ann", "User:ANONYMOUS")
    assert [sent_by(broker, user) > 0 for user in users] == [False, False, True, True]


def test_who_borrows_a_client_id_uses_its_share_unless_users_have_shares_of_their_own(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    alter(broker, ("client-id", "tests"), producer_byte_rate=KILO)
    assert [sent_by(broker, user) > 0 for user in ("User:eve", "User:ann")] == [False, True]
    alter(broker, ("user", None), producer_byte_rate=KILO)
    assert [sent_by(broker, user) > 0 for user in ("User:eve", "User:ann", "User:eve")] == [False, False, True]


@pytest.mark.conformance("XD-07")
def test_a_connection_that_ends_while_it_is_not_read_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    alter(broker, ("client-id", None), producer_byte_rate=10)
    assert produce(broker, 5 * KILO).throttle_time_ms > 0
    broker.connection.connection_lost(None)
    broker.loop.advance(3600)
    assert broker.loop.timers == []


# --- changes of topics ---


def create(broker: Broker, *sizes: int, version: int, validate_only: bool = False) -> Any:
    names = [f"n{len(broker.metadata.topics)}-{i}" for i in range(len(sizes))]
    topic = CreateTopicsRequest.CreatableTopic
    topics = [
        topic(name=name, num_partitions=size, replication_factor=1) for name, size in zip(names, sizes, strict=True)
    ]
    return broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only), version)


def codes(response: Any) -> list[int]:
    return [each.error_code for each in response.topics]


@pytest.mark.conformance("XD-07")
def test_topics_beyond_the_rate_are_refused_or_throttled_only_by_version(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    alter(broker, ("user", None), controller_mutation_rate=1)
    assert codes(create(broker, 5, 5, version=6, validate_only=True)) == [0, 0]
    answer = create(broker, 5, 8, 1, version=6)
    assert codes(answer) == [0, 0, EXCEEDED], "the one that exceeds is made, those after it are not"
    assert answer.throttle_time_ms == 2000
    assert not reading(broker)
    broker.loop.advance(1.9)
    assert codes(create(broker, 1, version=7)) == [EXCEEDED]
    broker.loop.advance(0.2)
    assert codes(create(broker, 3, version=7)) == [0]
    older = create(broker, 1, version=5)
    assert codes(older) == [0]
    assert older.throttle_time_ms > 2000


@pytest.mark.conformance("XD-07")
@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, EXCEEDED)])
def test_more_partitions_cost_as_many(tmp_path: Path, version: int, code: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    broker.topic("u", led_by(0))
    alter(broker, ("client-id", "tests"), controller_mutation_rate=1)
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    asked = [topic(name="t", count=21, assignments=None), topic(name="u", count=2, assignments=None)]
    answer = broker.ask(CreatePartitionsRequest(topics=asked, timeout_ms=1000, validate_only=False), version)
    assert [each.error_code for each in answer.results] == [0, code]
    assert answer.throttle_time_ms == (9000 if code else 10_000)


@pytest.mark.conformance("XD-07")
@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, EXCEEDED), (6, EXCEEDED)])
def test_deleted_partitions_cost_as_many(tmp_path: Path, version: int, code: int) -> None:
    broker = Broker(tmp_path)
    for name in ("t", "u"):
        broker.topic(name, *[led_by(0)] * 13)
    alter(broker, ("client-id", "tests"), controller_mutation_rate=1)
    named = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=bytes(16)) for name in ("t", "u")]
    request = DeleteTopicsRequest(timeout_ms=1000, topic_names=["t", "u"] if version < 6 else [], topics=named)
    answer = broker.ask(request, version)
    assert [each.error_code for each in answer.responses] == [0, code]
    assert answer.throttle_time_ms == (2000 if code else 15_000)
