"""Members that fix ranges for others to read, on live brokers: positions, the fence, a rebalance in mid-batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actors.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import ConfigurationError
from actors.members.ranges.group import Holding, RangeMemberSpec
from actors.members.ranges.member import RangeMember
from tests.compat.peers import Peer
from tests.compat.raw import await_topics
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

everywhere = against("kfake", "kafka", "coterie")
COUNT = 4


@pytest.fixture
def topic(kafka: Peer, name: str) -> str:
    """Four partitions with ten records each."""
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, COUNT, 1)])
    await_topics(kafka.bootstrap_servers, {name: COUNT})
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        sent = [producer.send(name, b"%d" % n, partition=n % COUNT) for n in range(10 * COUNT)]
        producer.flush(30)
        assert all(each.succeeded() for each in sent)
    return name


Start = Callable[..., RangeMember]


@pytest.fixture
def start(kafka: Peer, topic: str) -> Iterator[Start]:
    """Start a member of the topic's group; all are stopped at the end."""
    with contextlib.ExitStack() as stack:

        def start(starts: dict[tuple[str, int], int] | None = None, **more: Any) -> RangeMember:
            options = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 200}
            member = RangeMember(
                RangeMemberSpec(
                    f"g-{topic}", kafka.bootstrap_servers, (topic,), None, starts or {}, **more, options=options
                )
            )
            stack.callback(member.stop)
            return member

        yield start


def settled(*members: RangeMember) -> list[Holding]:
    """The holding of each member, once all partitions are divided evenly."""

    def divided() -> list[Holding] | None:
        found = [member.holding() for member in members]
        even = all(len(each.partitions) == COUNT // len(members) for each in found)
        return found if even and all(each.settled for each in found) else None

    return wait_until(divided, what="an even assignment") or []


def all_to(holding: Holding, offset: int) -> dict[tuple[str, int], tuple[int, str]]:
    return {(held.topic, held.partition): (offset, held.fencing_token) for held in holding.partitions}


def committed(kafka: Peer, topic: str) -> dict[int, int]:
    partitions = [TopicPartition(topic, n) for n in range(COUNT)]
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=f"g-{topic}", enable_auto_commit=False) as reader:
        return {tp.partition: at.offset for tp, at in reader.committed_offsets(partitions).items() if at is not None}


@everywhere
def test_a_batch_is_committed_and_the_next_one_goes_on_there(kafka: Peer, topic: str, start: Start) -> None:
    member = start()
    settled(member)
    batch = member.begin()
    assert [held.position for held in batch.partitions] == [0] * COUNT
    assert member.finish(all_to(batch, 7)) == [(topic, n) for n in range(COUNT)]
    assert committed(kafka, topic) == dict.fromkeys(range(COUNT), 7)
    assert [held.position for held in member.begin().partitions] == [7] * COUNT


@everywhere
def test_a_start_is_committed_before_anything_was_read(kafka: Peer, topic: str, start: Start) -> None:
    settled(start({(topic, 0): 10, (topic, 1): 4}))
    assert committed(kafka, topic) == {0: 10, 1: 4, 2: 0, 3: 0}  # new partitions begin at their oldest record


def test_a_committed_offset_wins_over_a_start(kafka: Peer, topic: str, start: Start) -> None:
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=f"g-{topic}", enable_auto_commit=False) as other:
        other.assign([TopicPartition(topic, 0)])
        other.commit({TopicPartition(topic, 0): OffsetAndMetadata(3)})
    (holding,) = settled(start({(topic, 0): 10}))
    assert holding.partitions[0].position == 3


def joined_in_mid_batch(start: Start) -> tuple[RangeMember, Holding, RangeMember]:
    """A member that had everything when it began its batch, and another one, which waits for a share."""
    first = start(revoke_wait_ms=60_000)
    settled(first)
    batch = first.begin()
    second = start()
    wait_until(lambda: second.holding().generation_id > 0, what="the second member's generation")
    return first, batch, second


@everywhere
def test_a_partition_taken_away_waits_for_its_batch(kafka: Peer, topic: str, start: Start) -> None:
    first, batch, second = joined_in_mid_batch(start)
    assert len(first.finish(all_to(batch, 10))) == COUNT
    one, other = settled(first, second)
    assert {held.position for held in (*one.partitions, *other.partitions)} == {10}


def test_a_batch_that_takes_too_long_keeps_only_what_was_not_taken_away(kafka: Peer, topic: str, start: Start) -> None:
    first = start(revoke_wait_ms=0)
    settled(first)
    batch = first.begin()
    _, other = settled(first, start())
    counted = first.finish(all_to(batch, 10))
    gone = {held.partition for held in other.partitions}
    assert {partition for _, partition in counted} == set(range(COUNT)) - gone
    assert committed(kafka, topic) == {n: 0 if n in gone else 10 for n in range(COUNT)}


def test_a_partition_that_went_and_came_back_is_not_committed(kafka: Peer, topic: str, start: Start) -> None:
    first = start(revoke_wait_ms=0)
    settled(first)
    batch = first.begin()
    second = start()
    _, other = settled(first, second)
    assert second.stop()
    settled(first)
    gone = {held.partition for held in other.partitions}
    assert {partition for _, partition in first.finish(all_to(batch, 10))} == set(range(COUNT)) - gone


def test_a_batch_beyond_its_timeout_loses_its_partitions(kafka: Peer, topic: str, start: Start) -> None:
    member = start(batch_timeout_ms=1)
    settled(member)
    batch = member.begin()
    wait_until(lambda: not member.holding().partitions, what="the partitions to be given up")
    assert member.finish(all_to(batch, 10)) == []
    member.begin()
    member.finish({})
    assert [held.position for held in settled(member)[0].partitions] == [0] * COUNT


def test_a_stop_ends_a_batch_that_others_wait_for(kafka: Peer, topic: str, start: Start) -> None:
    first, batch, second = joined_in_mid_batch(start)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(first.stop, 20.0).result(30)
    with pytest.raises(RuntimeError, match="has been stopped"):
        first.finish(all_to(batch, 10))
    assert {held.position for held in settled(second)[0].partitions} == {0}


def test_an_option_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigurationError, match="sesion_timeout_ms"):
        RangeMember(RangeMemberSpec("g", "127.0.0.1:1", ("t",), options={"sesion_timeout_ms": 1}))
