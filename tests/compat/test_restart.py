"""Acknowledged records and commits are back after SIGKILL: of `coterie` itself, of a broker, of a shard.

One replica and an unflushed page cache: a killed process loses nothing that it answered for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest

from actors.records.building import build_batch
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    HeartbeatRequest,
    InitProducerIdRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC
from tests.compat import peers
from tests.compat.drivers import DRIVERS, Confluent
from tests.compat.driving import Driver, Member, Records, all_closed
from tests.compat.peers import Coterie
from tests.compat.raw import (
    RETRIABLE_JOIN,
    Raw,
    RawMember,
    create_topics,
    form_group,
    leader_of,
    serving_coordinator,
)
from tests.compat.support import PATIENT, numbered_records, wait_until

PARTITIONS = 12
BACK_WITHIN_S = 3.0

available = [d for d in DRIVERS if d.name != "kcat" or shutil.which("kcat")]
clients = pytest.mark.parametrize("driver", available, ids=lambda d: d.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coterie]:
    # Leadership stays where it is, however long this takes.
    config = PATIENT | {"auto.leader.rebalance.enable": "false"}
    with peers.coterie(tmp_path_factory.mktemp("restart"), config=config) as running:
        yield running


# ------------------------------------------------------------------ coterie itself


@dataclass(frozen=True, slots=True)
class Story:
    """The topic, the group and the written records of one client before the kill."""

    topic: str
    group: str
    written: Records


@pytest.fixture(scope="module")
def stories(cluster: Coterie) -> dict[str, Story]:
    """Each client writes, reads and commits; then `coterie` is killed and started again on its data."""
    told = {driver.name: _before(driver, cluster.bootstrap_servers) for driver in available}
    cluster.restart_after_kill()
    return told


def _before(driver: Driver, servers: str) -> Story:
    topic, group = f"before-{driver.name}", f"group-{driver.name}"
    driver.create_topic(servers, topic, PARTITIONS)
    written = numbered_records(300)
    driver.produce(servers, topic, written, compression="none", idempotent=True)
    members: list[Member] = [driver.join(servers, group, topic)]
    with all_closed(members):
        wait_until(lambda: len(members[0].seen()) >= len(written), what="all records")
        members[0].commit()
        members[0].close()
    return Story(topic, group, written)


@clients
def test_records_are_back_after_a_kill(cluster: Coterie, stories: dict[str, Story], driver: Driver) -> None:
    story = stories[driver.name]
    read = driver.consume(cluster.bootstrap_servers, story.topic, len(story.written))
    assert sorted(read) == story.written


@clients
def test_a_group_resumes_after_a_kill(cluster: Coterie, stories: dict[str, Story], driver: Driver) -> None:
    story, servers = stories[driver.name], cluster.bootstrap_servers
    more = numbered_records(120, start=300)
    driver.produce(servers, story.topic, more, compression="none", idempotent=False)
    members: list[Member] = [driver.join(servers, story.group, story.topic)]
    with all_closed(members):
        wait_until(lambda: len(members[0].seen()) >= len(more), what="the records after the commit")
        wait_until(lambda: members[0].owned() == frozenset(range(PARTITIONS)), what="all partitions")
        assert sorted(members[0].seen()) == more


# ------------------------------------------------------------------ one process of it


def _commit(member: RawMember, topic: str, offset: int) -> None:
    cls = OffsetCommitRequest
    places = [
        cls.OffsetCommitRequestPartition(partition_index=p, committed_offset=offset, committed_metadata="")
        for p in range(10)
    ]
    request = cls(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[cls.OffsetCommitRequestTopic(name=topic, partitions=places)],
    )
    answer = member.raw.call(request, 6)
    assert {p.error_code for p in answer.topics[0].partitions} == {0}


def _committed(servers: str, group: str, topic: str) -> set[int] | None:
    """Offsets; None where the coordinator has just gone."""
    asked = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=list(range(10)))
    with Raw(serving_coordinator(servers, group)) as raw:
        answer = raw.call(OffsetFetchRequest(group_id=group, topics=[asked]), 5)
    if answer.error_code in RETRIABLE_JOIN:
        return None
    assert answer.error_code == 0
    return {p.committed_offset for p in answer.topics[0].partitions}


def _owner(cluster: Coterie, wanted: Callable[[psutil.Process], bool]) -> int:
    return next(p.pid for p in cluster.family() if wanted(p))


def _listens_on(port: int) -> Callable[[psutil.Process], bool]:
    def listens(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            return any(c.laddr and c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections())
        return False

    return listens


def _broker_of(cluster: Coterie, group: str) -> list[int]:
    address = serving_coordinator(cluster.bootstrap_servers, group)
    return [_owner(cluster, _listens_on(int(address.rpartition(":")[2])))]


def _shard_of(cluster: Coterie, group: str) -> list[int]:
    home = partition_for_group(group, 50)
    shards = [shard for broker in cluster.status()["brokers"] for shard in broker["shards"]]
    return [shard["pid"] for shard in shards if shard["partition"] == home]


@pytest.mark.parametrize("victims", [_broker_of, _shard_of], ids=["broker", "shard"])
def test_acknowledged_commits_are_back_within_three_seconds(
    cluster: Coterie, name: str, victims: Callable[[Coterie, str], list[int]]
) -> None:
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: 10})
    (member,) = form_group(servers, name, 1)
    with member.raw:
        for offset in range(1, 200):
            _commit(member, name, offset)
        took: list[float] = []
        while not took or (took[-1] >= BACK_WITHIN_S and len(took) < 3):  # again where the machine stood still
            (pid,) = victims(cluster, name)
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            found = wait_until(lambda: _committed_or_none(servers, name), what="commits to be back")
            took.append(time.monotonic() - killed)
            assert found == {199}
            wait_until(lambda: _is_whole(servers, name), what="all brokers")
        assert took[-1] < BACK_WITHIN_S, took
        # A Stable group is loaded Stable: its member goes on without a rebalance.
        with Raw(serving_coordinator(servers, name)) as raw:
            beat = HeartbeatRequest(group_id=name, generation_id=member.generation, member_id=member.member_id)
            assert raw.call(beat, 3).error_code == 0


def _committed_or_none(servers: str, group: str) -> set[int] | None:
    try:
        return _committed(servers, group, group)
    except (OSError, EOFError, StopIteration):
        return None


def _is_whole(servers: str, group: str) -> bool:
    """True if every broker serves, and each sees three replicas of the group's offsets partition in sync."""
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)])
    home = partition_for_group(group, 50)
    try:
        for address in servers.split(","):
            with Raw(address) as raw:
                (topic,) = raw.call(asked, 5).topics
            if next(len(p.isr_nodes) for p in topic.partitions if p.partition_index == home) < 3:
                return False
    except (OSError, EOFError):
        return False
    return True


def test_a_killed_broker_has_lost_no_acknowledged_record(cluster: Coterie, name: str) -> None:
    servers, driver = cluster.bootstrap_servers, Confluent()
    create_topics(servers, {name: 1})
    address = leader_of(servers, name)
    written = numbered_records(2000)
    driver.produce(servers, name, written, compression="lz4", idempotent=True)
    os.kill(_owner(cluster, _listens_on(int(address.rpartition(":")[2]))), signal.SIGKILL)
    more = numbered_records(500, start=2000)
    driver.produce(servers, name, more, compression="lz4", idempotent=True)
    assert driver.consume(servers, name, 2500) == written + more


# ------------------------------------------------------------------ idempotence


def _produce(servers: str, topic: str, producer_id: int, epoch: int, sequence: int) -> tuple[int, int]:
    """(error code, base offset) of a batch of three records."""
    batch = build_batch(
        [(None, b"%d" % n, [], 1_700_000_000_000) for n in range(3)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
    with Raw(leader_of(servers, topic)) as raw:
        answer = raw.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 7)
    (result,) = answer.responses[0].partition_responses
    return result.error_code, result.base_offset


def test_a_batch_sent_again_after_a_kill_is_not_written_twice(cluster: Coterie, name: str) -> None:
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: 1})
    with Raw(servers.split(",")[0]) as raw:
        got = raw.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1)
    producer = got.producer_id, got.producer_epoch
    assert _produce(servers, name, *producer, 0) == (0, 0)
    assert _produce(servers, name, *producer, 3) == (0, 3)
    assert _produce(servers, name, *producer, 3) == (0, 3)
    cluster.restart_after_kill()
    servers = cluster.bootstrap_servers
    assert _produce(servers, name, *producer, 3) == (0, 3), "a duplicate is answered with where it is"
    out_of_order, _ = _produce(servers, name, *producer, 9)
    assert out_of_order == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _produce(servers, name, *producer, 6) == (0, 6)
    with Raw(servers.split(",")[0]) as raw:
        other = raw.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1)
    assert other.error_code == 0
    assert other.producer_id != got.producer_id, "producer ids are handed out once, across restarts too"
