"""Requests about very many partitions: they are served, in pieces, and other clients are served between these.

A list that is longer than any client has is refused before it is read.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers import fetch as handler
from actors.broker.quotas import NoQuotas
from actors.broker.turns import PLACES_A_TURN, Turns
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from actors.wire.framing import encode_request
from placement.metadata import OFFSETS_TOPIC
from placement.records import PartitionRecord
from tests.support.acl_world import World as DoorWorld
from tests.support.handler_helpers import NOW_MS, Broker, Loop, Pending, led_by
from tests.support.log_helpers import values
from tests.support.one_broker import create, world
from tests.support.read_records import read_records
from tests.support.runtime_helpers import until

MANY = 2 * PLACES_A_TURN + 500


def fetch(broker: Broker, *topics: tuple[str, list[int]], wait_ms: int = 0, **more: Any) -> m.FetchRequest:
    asked = []
    for name, indexes in topics:
        known = broker.metadata.topics.get(name)
        partitions = [m.FetchRequest.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in indexes]
        topic_id = known.id if known else b"?" * 16
        asked.append(m.FetchRequest.FetchTopic(topic=name, topic_id=topic_id, partitions=partitions))
    return m.FetchRequest(**({"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 24, "topics": asked} | more))


def missing(count: int) -> list[int]:
    """So many partitions that no topic here has."""
    return list(range(1000, 1000 + count))


def append(broker: Broker, name: str, value: bytes, index: int = 0) -> None:
    log = broker.context.log(name, index)
    log.append_as_leader(values(value), 0, NOW_MS)
    broker.led.appended(name, index, log, broker.metadata.topics[name].partitions[index])


def settle(broker: Broker, pending: Pending) -> int:
    """Run the loop until there is the answer. Returns the number of turns."""
    turns = 0
    while not pending.answered:
        turns += 1
        assert turns < 100
        broker.loop.turn()
    broker.loop.turn()  # in this turn its client is read again
    return turns


def rows(response: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(t.topic, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.responses]


def waiting(broker: Broker, count: int = MANY) -> None:
    """A topic of so many partitions, all led here, with nothing in them."""
    broker.topic("t", *[led_by(0)] * count)


@pytest.fixture
def door(tmp_path: Path) -> DoorWorld:
    return DoorWorld(tmp_path, authorizer_class_name="")


# --- fetches ---


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_large_fetch_is_answered_as_many_small_ones(tmp_path: Path, version: int) -> None:
    """Topics are cut at any place, and come as they were asked for, with and without partitions."""
    broker = Broker(tmp_path)
    for name, count in (("a", 3), ("b", 900), ("c", 1500), ("d", 1)):
        broker.topic(name, *[led_by(0)] * count)
    for name, index in (("a", 1), ("b", 899), ("c", 0), ("c", 1499), ("d", 0)):
        append(broker, name, f"{name}{index}".encode(), index)
    asked = [("a", [2, 1]), ("b", list(range(901))), ("none", []), ("c", list(range(1500))), ("d", [0]), ("c", [3])]
    pending = broker.send(fetch(broker, *asked), version)
    assert settle(broker, pending) >= 2
    small = [broker.ask(fetch(broker, (name, indexes[:900])), version) for name, indexes in asked]
    rest = [broker.ask(fetch(broker, (name, indexes[900:])), version) for name, indexes in asked]
    expected = [
        (one, first + second)
        for answer, more in zip(small, rest, strict=True)
        for (one, first), (_, second) in zip(rows(answer), rows(more), strict=True)
    ]
    assert rows(pending.response) == expected
    found = [
        record.value
        for topic in pending.response.responses
        for part in topic.partitions
        for record in read_records(part.records or b"")
    ]
    assert found == [b"a1", b"b899", b"c0", b"c1499", b"d0"]


def test_others_are_served_while_a_large_fetch_is_under_way(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = broker.send(fetch(broker, ("t", missing(MANY))), 12)
    for _ in range(2):
        assert not pending.answered
        other = broker.send(fetch(broker, ("t", [0])), 12, broker.connect())
        assert other.answered
        broker.loop.turn()
    settle(broker, pending)


def test_two_large_ones_take_turns(tmp_path: Path) -> None:
    """A piece of one in each turn, and not of both."""
    broker = Broker(tmp_path)
    broker.topic("t")
    first, second = [broker.send(fetch(broker, ("t", missing(MANY))), 12, broker.connect()) for _ in range(2)]
    turns = 0
    while not second.answered:
        turns += 1
        assert broker.loop.turn() == 1 + (turns == 8), "and at the end, that the first one's client is read again"
    assert first.answered
    assert turns == 8, "three pieces each, and the end of each"


def test_nothing_is_read_from_a_client_with_a_large_fetch_until_it_is_answered(tmp_path: Path) -> None:
    """Its requests are handled one after the other, as ever, and no more than one large one is in memory."""
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = broker.send(fetch(broker, ("t", missing(MANY))), 12)
    transport: Any = broker.connection.transport
    assert not transport.reading
    settle(broker, pending)
    assert transport.reading


def test_a_large_fetch_waits_for_records(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    waiting(broker)
    pending = broker.send(fetch(broker, ("t", list(range(MANY))), wait_ms=500), 12)
    for _ in range(5):
        broker.loop.turn()
    assert (pending.answered, len(broker.context.turns), len(broker.context.fetches)) == (False, 0, 1)
    append(broker, "t", b"new", 7)
    settle(broker, pending)
    assert [p.partition_index for p in pending.response.responses[0].partitions if p.records] == [7]
    assert len(broker.context.fetches) == 0


@pytest.mark.parametrize("min_bytes", [1, 10])
def test_a_record_that_comes_during_the_attempt_is_not_missed(tmp_path: Path, min_bytes: int) -> None:
    """In a partition that has been looked at already."""
    broker = Broker(tmp_path)
    waiting(broker)
    pending = broker.send(fetch(broker, ("t", list(range(MANY))), wait_ms=500, min_bytes=min_bytes), 12)
    broker.loop.turn()
    append(broker, "t", b"new", 0)
    settle(broker, pending)
    assert [p.partition_index for p in pending.response.responses[0].partitions if p.records] == [0]


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_large_fetch_is_answered_empty_when_its_time_is_over(tmp_path: Path, turns: int) -> None:
    """The time is over before, during or after the first attempt."""
    broker = Broker(tmp_path)
    waiting(broker)
    pending = broker.send(fetch(broker, ("t", list(range(MANY))), wait_ms=500), 12)
    for _ in range(turns):
        broker.loop.turn()
    assert not pending.answered
    broker.loop.advance(0.5)
    settle(broker, pending)
    assert rows(pending.response) == [("t", [(index, 0) for index in range(MANY)])]
    assert (len(broker.context.turns), len(broker.context.fetches)) == (0, 0)


def test_a_client_that_goes_during_the_attempt_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    waiting(broker)
    broker.send(fetch(broker, ("t", list(range(MANY))), wait_ms=500), 12)
    broker.loop.turn()
    connection = broker.connection
    connection.connection_lost(None)
    broker.context.fetches.forget(connection)
    broker.loop.turn()
    assert (len(broker.context.turns), len(broker.context.fetches)) == (0, 0)


def test_a_partition_that_changes_hands_during_the_attempt_is_told(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    waiting(broker)
    pending = broker.send(fetch(broker, ("t", list(range(MANY))), wait_ms=500), 12)
    broker.loop.turn()
    broker.metadata.apply(PartitionRecord("t", 5, led_by(1)))
    broker.context.fetches.wake("t", 5)
    settle(broker, pending)
    told = [(i, code) for i, code in rows(pending.response)[0][1] if code]
    assert told == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_bug_in_a_later_piece_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = broker.send(fetch(broker, ("t", missing(MANY))), 12)
    broker.loop.turn()
    monkeypatch.setattr(handler, "Partition", None)
    settle(broker, pending)
    assert pending.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    transport: Any = broker.connection.transport
    assert transport.reading


# --- other requests ---


def test_offsets_of_very_many_partitions_are_listed_in_pieces(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    append(broker, "t", b"v")
    ask = m.ListOffsetsRequest
    asked = [ask.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in [*missing(MANY), 0]]
    pending = broker.send(ask(replica_id=-1, topics=[ask.ListOffsetsTopic(name="t", partitions=asked)]), 5)
    transport: Any = broker.connection.transport
    assert not transport.reading
    assert settle(broker, pending) == 2
    (topic,) = pending.response.topics
    assert [p.partition_index for p in topic.partitions] == [*missing(MANY), 0]
    assert (topic.partitions[-1].error_code, topic.partitions[-1].offset) == (0, 1)
    assert {p.error_code for p in topic.partitions[:-1]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert transport.reading


@pytest.mark.parametrize("starting", [False, True])
def test_very_many_groups_are_looked_up_in_pieces(tmp_path: Path, starting: bool) -> None:
    """The answer may then have to wait for a shard; meanwhile the client is read again."""
    broker = Broker(tmp_path)
    broker.topic(OFFSETS_TOPIC, *[led_by(0)] * 3)
    shards: Any = broker.shards
    if starting:
        shards.starting = {0, 1, 2}
    keys = [f"g{number}" for number in range(1200)]
    pending = broker.send(m.FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4)
    assert not pending.answered
    transport: Any = broker.connection.transport
    assert not transport.reading
    if starting:
        for _ in range(4):
            broker.loop.turn()
        assert not pending.answered
        assert transport.reading
        for partition in range(3):
            shards.settle(partition)
    settle(broker, pending)
    assert [(c.key, c.node_id, c.error_code) for c in pending.response.coordinators] == [(key, 0, 0) for key in keys]
    assert transport.reading


def test_settings_of_many_topics_are_described_in_pieces(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    names = [f"t{number}" for number in range(50)]
    for name in names:
        broker.topic(name)
    describe = m.DescribeConfigsRequest
    resources = [describe.DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
    pending = broker.send(describe(resources=resources), 4)
    assert settle(broker, pending) == 2
    assert [result.resource_name for result in pending.response.results] == names
    assert {len(result.configs) > 10 for result in pending.response.results} == {True}


def test_a_bug_in_a_later_piece_of_another_request_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path)
    ask = m.ListOffsetsRequest
    asked = [ask.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in missing(MANY)]
    pending = broker.send(ask(replica_id=-1, topics=[ask.ListOffsetsTopic(name="t", partitions=asked)]), 5)
    led: Any = broker.led
    led.leader_of = None
    settle(broker, pending)
    codes = {p.error_code for p in pending.response.topics[0].partitions}
    assert codes == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert any(record.exc_info for record in caplog.records)


def test_what_is_named_ten_thousand_times_is_described_once(tmp_path: Path) -> None:
    """Else a request of some kilobytes would be answered with gigabytes."""
    broker = Broker(tmp_path)
    broker.topic("t", *[led_by(0)] * 50)
    known = broker.metadata.topics["t"].id
    by_name = [m.MetadataRequest.MetadataRequestTopic(name="t")] * 5000
    by_id = [m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=known)] * 5000
    unknown = [m.MetadataRequest.MetadataRequestTopic(name="none")] * 5000
    answer = broker.ask(m.MetadataRequest(topics=[*by_name, *by_id, *unknown], allow_auto_topic_creation=False), 12)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 50), ("none", 0)]
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    twice = [resource(resource_type=2, resource_name=name) for name in ("t", "none")] * 5000
    described = broker.ask(m.DescribeConfigsRequest(resources=twice), 4)
    assert [result.resource_name for result in described.results] == ["t", "none"]


def test_a_group_and_its_offsets_are_looked_for_once_however_often_it_is_named(door: DoorWorld) -> None:
    described = door.ask(m.DescribeGroupsRequest(groups=["g", "other"] * 2000), 5)
    assert [group.group_id for group in described.groups] == ["g", "other"]
    of_group = m.OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [of_group(group_id=name, topics=None) for name in ("g", "other")]
    fetched = door.ask(m.OffsetFetchRequest(groups=groups * 2000), 9)
    assert [group.group_id for group in fetched.groups] == ["g", "other"]
    assert len(door.shards.asked) == 4, "one description of each, and the offsets of each"


def test_producers_are_described_once(door: DoorWorld) -> None:
    topic = m.DescribeProducersRequest.TopicRequest
    topics = [topic(name="t", partition_indexes=[0, 1] * 1000), topic(name="t", partition_indexes=[1, 2])]
    (answered,) = door.ask(m.DescribeProducersRequest(topics=topics), 0).topics
    assert [(p.partition_index, p.error_code) for p in answered.partitions] == [
        (0, 0),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_work_that_fails_stops_no_other() -> None:
    loop, nobody = Loop(), Broker.connect
    turns = Turns(loop, NoQuotas, loop.time)  # type: ignore[arg-type]
    done: list[str] = []

    def work(name: str) -> Any:
        for number in range(2):
            done.append(f"{name}{number}")
            yield
            if name == "bad":
                raise RuntimeError

    for name in ("a", "bad", "b"):
        turns.begin(work(name), nobody, None)  # type: ignore[arg-type]
    while len(turns):
        assert loop.turn() == 1, "one piece in a turn"
    assert done == ["a0", "bad0", "b0", "a1", "b1"]


# --- long requests ---


def long_request(count: int = 6000) -> bytes:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=f"a-topic-{number}") for number in range(count)]
    return encode_request(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9, 7, "tests")[4:]


def test_of_many_long_requests_one_is_read_in_a_turn(door: DoorWorld) -> None:
    """This holds across clients: in one turn they would hold up the loop for as long as all of them take."""
    frame = long_request()
    connections = [door.broker.connect() for _ in range(3)]
    transports: list[Any] = [connection.transport for connection in connections]
    for connection in connections:
        door.router.on_frame(connection, frame, 0, len(frame))
    assert not any(transport.written or transport.reading for transport in transports)
    for turn in range(3):
        door.broker.loop.turn()
        assert [bool(transport.written) for transport in transports] == [n <= turn for n in range(3)]
    door.broker.loop.turn()
    assert all(transport.reading for transport in transports)


def test_a_long_request_that_makes_no_sense_closes_its_connection(door: DoorWorld) -> None:
    frame = long_request()[:-5000]
    door.router.on_frame(door.connection, frame, 0, len(frame))
    transport: Any = door.connection.transport
    assert not transport.aborted
    door.broker.loop.turn()
    assert transport.aborted


def test_a_client_that_goes_before_its_long_request_is_read_leaves_nothing_behind(door: DoorWorld) -> None:
    frame = long_request()
    door.router.on_frame(door.connection, frame, 0, len(frame))
    door.connection.connection_lost(None)
    for _ in range(2):
        door.broker.loop.turn()
    assert len(door.broker.context.turns) == 0
    transport: Any = door.connection.transport
    assert transport is None


# --- through sockets ---


async def test_other_clients_are_answered_before_a_large_fetch(tmp_path: Path) -> None:
    """The fetch names 60,000 partitions, as a client of a very large cluster sends it."""
    async with world(tmp_path, coterie_request_entries_max="100000") as w:
        large, other = await w.client(), await w.client()
        large.send(create("t"))
        await large.answer()
        order: list[str] = []
        partitions = [m.FetchRequest.FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in range(60_000)]
        topics = [m.FetchRequest.FetchTopic(topic="t", partitions=partitions)]
        versions = (m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)

        async def fetched() -> None:
            large.send((m.FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=topics), 12), versions)
            answer = await large.answer()
            order.append("large")
            parts = answer.responses[0].partitions
            assert [p.partition_index for p in parts] == list(range(60_000))
            assert (parts[0].error_code, parts[-1].error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert (await large.answer()).error_code == 0, "what it has sent after that"

        async def asked() -> None:
            await until(lambda: len(w.server.context.turns))
            for _ in range(3):
                await other.ask(*versions)
                order.append("other")

        await asyncio.gather(fetched(), asked())
        assert order == ["other"] * 3 + ["large"]


async def test_a_request_with_too_many_entries_ends_its_connection_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All its lists count together. The log says which setting it is."""
    with caplog.at_level(logging.WARNING, "actors.broker"):
        async with world(tmp_path, coterie_request_entries_max="1000") as w:
            good, bad = await w.client(), await w.client()
            partition = m.FetchRequest.FetchPartition()

            def of(*counts: int) -> tuple[m.FetchRequest, int]:
                topics = [m.FetchRequest.FetchTopic(topic="t", partitions=[partition] * count) for count in counts]
                return m.FetchRequest(topics=topics), 12

            answer = await good.ask(*of(499, 499))
            assert [len(topic.partitions) for topic in answer.responses] == [499, 499]
            bad.send(of(499, 500))
            assert await bad.closed()
            assert (await good.ask(*of(1))).error_code == 0
    said = [record.getMessage() for record in caplog.records]
    assert any("Fetch has more entries than coterie.request.entries.max=1000" in text for text in said)
