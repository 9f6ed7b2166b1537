"""Finding a group's coordinator, and what lies in `__consumer_offsets`: on a cluster fresh for each claim."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import psutil
import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from placement.hashing import partition_for_group
from tests.compat import peers
from tests.compat.peers import Coterie, Peer
from tests.compat.raw import Raw, create_topics, find_coordinator, form_group, serving_coordinator
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

OFFSETS_TOPIC = "__consumer_offsets"


def _lookup(address: str, group: str, version: int = 2, key_type: int = 0) -> tuple[int, int, str, int]:
    """(error code, node id, host, port) that one broker answers."""
    with Raw(address) as raw:
        if version < 4:
            answer = raw.call(FindCoordinatorRequest(key=group, key_type=key_type), version)
        else:
            request = FindCoordinatorRequest(coordinator_keys=[group], key_type=key_type)
            answer = raw.call(request, version).coordinators[0]
    return answer.error_code, answer.node_id, answer.host, answer.port


def _offsets_topic(address: str) -> tuple[bytes, list[tuple[int, int, int]]] | None:
    """Its id and, by partition, (index, leader, replicas); None while it does not exist."""
    with Raw(address) as raw:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        topics = raw.call(request, 10).topics
    for topic in topics:
        if topic.name == OFFSETS_TOPIC:
            rows = [(p.partition_index, p.leader_id, len(p.replica_nodes)) for p in topic.partitions]
            return topic.topic_id, sorted(rows)
    return None


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Coterie]:
    with peers.coterie(tmp_path) as cluster:
        yield cluster


@pytest.mark.conformance("A-06", "A-07", "A-08")
def test_the_first_lookup_creates_the_offsets_topic_once(fresh: Coterie) -> None:
    first, *others = fresh.bootstrap_servers.split(",")
    assert _offsets_topic(first) is None, "created before anybody asked"
    with contextlib.ExitStack() as stack:
        # Three in one piece on one connection, read in one turn, before anybody else can have had it created.
        raws = [stack.enter_context(Raw(address)) for address in [first, *others]]
        frames = [raws[0].frame(FindCoordinatorRequest(key=f"g{n}", key_type=0), 2) for n in range(3)]
        raws[0].socket.sendall(b"".join(frames))
        codes = [raws[0].receive().error_code]
        # And one on each of the others, which have not heard of it yet, or just have.
        for raw in raws[1:]:
            raw.send(FindCoordinatorRequest(key="g0", key_type=0), 2)
        codes += [raws[0].receive().error_code for _ in frames[1:]]
        later = {raw.receive().error_code for raw in raws[1:]}
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert later <= {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    _all_find([first, *others], "g0")
    created = _offsets_topic(first)
    assert created is not None
    topic_id, partitions = created
    for address in [first, *others]:
        for n in range(5):
            _all_find([address], f"later-{n}")
        assert _offsets_topic(address) == created, "a second creation, or brokers that disagree"
    assert topic_id != bytes(16)
    assert [index for index, _, _ in partitions] == list(range(50))
    assert {replicas for _, _, replicas in partitions} == {3}
    configs = _configs(first)
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "producer"
    assert configs["segment.bytes"] == "104857600"


def _configs(address: str) -> dict[str, str | None]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=OFFSETS_TOPIC, configuration_keys=None
    )
    with Raw(address) as raw:
        (result,) = raw.call(DescribeConfigsRequest(resources=[resource]), 2).results
    assert result.error_code == 0
    return {c.name: c.value for c in result.configs}


def _all_find(addresses: list[str], group: str) -> None:
    """Wait until every broker knows of the offsets topic."""
    for address in addresses:
        wait_until(lambda address=address: _lookup(address, group)[0] == 0, what=f"a lookup at {address} that succeeds")


@against("kafka", "coterie")  # kfake places groups in a way of its own
@pytest.mark.conformance("A-10", "A-05")
def test_every_broker_gives_the_leader_of_the_groups_partition(kafka: Peer, name: str) -> None:
    addresses = kafka.bootstrap_servers.split(",")
    _all_find(addresses, name)
    for group in (name, "Aa", "BB", "consume_group", "", "\U0001d54f"):
        _all_find(addresses, group)  # a first one may have to wait for longer than a lookup does
        for version in (0, 1, 2, 3, 4):
            answers = {_lookup(a, group, version) for a in addresses}
            assert len(answers) == 1, f"brokers disagree about {group!r}: {answers}"
            code, node, host, port = answers.pop()
            assert code == 0
            assert f"{host}:{port}" in addresses
            topic = _offsets_topic(addresses[0])
            assert topic is not None
            assert topic[1][partition_for_group(group, 50)][1] == node
    assert _lookup(addresses[0], "Aa") == _lookup(addresses[0], "BB")


@against("kfake", "kafka", "coterie")
@pytest.mark.conformance("A-12")
def test_a_key_type_that_does_not_exist_is_refused(kafka: Peer, name: str) -> None:
    address = kafka.bootstrap_servers.split(",")[0]
    for version in (1, 2, 3, 4):
        assert _lookup(address, name, version, key_type=9)[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.conformance("A-11")
def test_a_partition_without_a_leader_is_not_available(tmp_path: Path) -> None:
    config = {"offsets.topic.replication.factor": "1"}
    with peers.coterie(tmp_path, brokers=2, config=config) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        group = next(g for g in (f"g{n}" for n in range(100)) if _leads(cluster, g, addresses[1]))
        codes: set[int] = set()

        def found() -> bool:
            code, _, host, port = _lookup(addresses[0], group)
            codes.add(code)
            if code == 0 and ErrorCode.COORDINATOR_NOT_AVAILABLE not in codes:
                # Again and again: a first broker that stood still finds it back before it has missed it.
                _kill_who_listens_on(cluster, f"{host}:{port}")
                return False
            return code == 0

        wait_until(found, what="the leader to go and come back")
        assert codes == {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def _leads(cluster: Coterie, group: str, address: str) -> bool:
    return find_coordinator(cluster.bootstrap_servers, group) == address


def _kill_who_listens_on(cluster: Coterie, address: str) -> None:
    port = int(address.rpartition(":")[2])
    for process in cluster.family():
        with contextlib.suppress(psutil.Error):
            if any(c.laddr and c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections()):
                process.kill()


def _commit(servers: str, group: str, topics: list[str], offset: int = 5) -> dict[str, int]:
    """Commit partition 0 of each topic as a simple group; error codes by topic."""
    cls = OffsetCommitRequest
    places = [
        cls.OffsetCommitRequestTopic(
            name=topic,
            partitions=[cls.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
        )
        for topic in topics
    ]
    request = cls(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=places)
    with Raw(serving_coordinator(servers, group)) as raw:
        answer = raw.call(request, 6)
    return {t.name: t.partitions[0].error_code for t in answer.topics}


@against("kfake", "kafka", "coterie")
@pytest.mark.conformance("C-09")
def test_a_commit_for_an_unknown_topic_fails_alone(kafka: Peer, name: str) -> None:
    servers, known = kafka.bootstrap_servers, f"known-{name}"
    create_topics(servers, {known: 1})
    codes = wait_until(lambda: _settled(_commit(servers, name, [known, "no-such-topic"])), what="metadata to spread")
    assert codes == {known: 0, "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    with Raw(find_coordinator(servers, name)) as raw:
        asked = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=t, partition_indexes=[0]) for t in (known, "no-such-topic")
        ]
        answer = raw.call(OffsetFetchRequest(group_id=name, topics=asked), 5)
    assert {t.name: t.partitions[0].committed_offset for t in answer.topics} == {known: 5, "no-such-topic": -1}


def _settled(codes: dict[str, int]) -> dict[str, int] | None:
    """None while the new topic is not known everywhere."""
    return codes if sorted(codes.values())[0] == 0 and len(set(codes.values())) == 2 else None


@against("kafka", "coterie")
@pytest.mark.conformance("A-15")
def test_all_commits_of_a_group_land_in_its_one_partition(kafka: Peer, name: str) -> None:
    servers, topics = kafka.bootstrap_servers, [f"{name}-{n}" for n in range(6)]
    create_topics(servers, dict.fromkeys(topics, 1))
    wait_until(lambda: set(_commit(servers, name, topics).values()) == {0}, what="commits to succeed")
    found = _groups_by_offsets_partition(servers, name, len(topics))
    assert set(found) == {partition_for_group(name, 50)}
    assert found[partition_for_group(name, 50)] == set(topics)


def _groups_by_offsets_partition(servers: str, group: str, at_least: int) -> dict[int, set[str]]:
    """Topics committed by a group, by the offsets partition whose records say so: read as any consumer would."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False}
    )
    found: dict[int, set[str]] = {}
    try:
        beginning = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(OFFSETS_TOPIC, p, beginning) for p in range(50)])
        deadline = time.monotonic() + 60
        while sum(map(len, found.values())) < at_least and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                key = message.key()
                if message.error() is None and key and struct.unpack_from(">h", key)[0] in (0, 1):
                    owner, topic = _texts(key[2:])
                    if owner == group:
                        found.setdefault(message.partition(), set()).add(topic)
    finally:
        consumer.close()
    return found


def _texts(data: bytes) -> tuple[str, str]:
    """The first two strings of an offset commit's key: group and topic."""
    (size,) = struct.unpack_from(">h", data)
    first, rest = data[2 : 2 + size].decode(), data[2 + size :]
    (size,) = struct.unpack_from(">h", rest)
    return first, rest[2 : 2 + size].decode()


@against("kafka", "coterie")
def test_the_wrong_broker_says_so(kafka: Peer, name: str) -> None:
    """Requests of a group go to its coordinator; any other broker answers 16."""
    servers = kafka.bootstrap_servers
    (member,) = form_group(servers, name, 1)
    with member.raw:
        home = find_coordinator(servers, name)
        _all_find(servers.split(","), name)
        for address in set(servers.split(",")) - {home}:
            with Raw(address) as raw:
                answer = raw.call(OffsetFetchRequest(group_id=name, topics=[]), 5)
                assert answer.error_code == ErrorCode.NOT_COORDINATOR
