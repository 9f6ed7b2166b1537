"""Answers leave a connection in the order of its requests, whoever makes them and however long they take."""

from __future__ import annotations

import itertools
import time

from actors.records.building import build_batch
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    ApiVersionsRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from placement.hashing import partition_for_group
from tests.compat.peers import Peer
from tests.compat.raw import Raw, create_topics, form_group, join_request, leader_of, serving_coordinator
from tests.compat.support import against, wait_until

in_order = against("kafka", "coterie")


def _join(group: str) -> JoinGroupRequest:
    """In version 3, which has no first half to answer at once: a parked join."""
    return join_request(group, "", session_timeout_ms=60_000, rebalance_timeout_ms=60_000)


def _commit(group: str, topic: str, offset: int, generation: int = -1, member: str = "") -> OffsetCommitRequest:
    cls = OffsetCommitRequest
    partition = cls.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    place = cls.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    return cls(group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=[place])


def _fetch(topic: str, max_wait_ms: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )


def _produce(topic: str, acks: int) -> ProduceRequest:
    batch = bytes(build_batch([(None, b"x", [], 1_700_000_000_000)]))
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )


def _neighbour(group: str) -> str:
    """Another group that the same coordinator shard serves."""
    home = partition_for_group(group, 50)
    return next(f"{group}-{n}" for n in itertools.count() if partition_for_group(f"{group}-{n}", 50) == home)


@in_order
def test_join_metadata_commit_and_heartbeat_pipelined_on_one_socket(kafka: Peer, name: str) -> None:
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: 1})
    with Raw(serving_coordinator(servers, name)) as raw:
        joining = raw.frame(_join(name), 3)
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        rest = [
            raw.frame(MetadataRequest(topics=[topic]), 5),
            raw.frame(_commit(_neighbour(name), name, 7), 6),
            raw.frame(HeartbeatRequest(group_id=name, generation_id=9, member_id="nobody"), 3),
        ]
        raw.socket.sendall(b"".join([joining, *rest]))
        joined, metadata, committed, heartbeat = [raw.receive() for _ in range(4)]
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [t.name for t in metadata.topics] == [name]
    assert committed.topics[0].partitions[0].error_code == 0
    assert heartbeat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_order
def test_a_waiting_fetch_holds_back_what_was_asked_after_it(kafka: Peer, name: str) -> None:
    create_topics(kafka.bootstrap_servers, {name: 1})
    with Raw(leader_of(kafka.bootstrap_servers, name)) as raw:
        started = time.monotonic()
        frames = [raw.frame(_fetch(name, 400), 4), raw.frame(ApiVersionsRequest(), 0)]
        raw.socket.sendall(b"".join(frames))
        fetched = raw.receive()
        waited = time.monotonic() - started
        assert fetched.responses[0].partitions[0].error_code == 0
        assert not fetched.responses[0].partitions[0].records
        assert waited > 0.35
        assert raw.receive().error_code == 0


@in_order
def test_a_produce_without_acknowledgement_takes_no_place(kafka: Peer, name: str) -> None:
    create_topics(kafka.bootstrap_servers, {name: 1})
    with Raw(leader_of(kafka.bootstrap_servers, name)) as raw:
        raw.send(_produce(name, 1), 3)
        unanswered = raw.frame(_produce(name, 0), 3)
        raw.waiting.pop()
        raw.socket.sendall(unanswered)
        raw.send(_produce(name, 1), 3)
        first, third = raw.receive(), raw.receive()
    offsets = [a.responses[0].partition_responses[0].base_offset for a in (first, third)]
    assert offsets == [0, 2]


@in_order
def test_a_whole_membership_pipelined_behind_its_predecessors(kafka: Peer, name: str) -> None:
    """Sync, heartbeat, commit, fetch of offsets and leave in one write: the commit is seen by what follows."""
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: 1})
    with Raw(serving_coordinator(servers, name)) as raw:
        joined = raw.call(_join(name), 3)
        assert joined.error_code == 0
        member, generation = joined.member_id, joined.generation_id
        share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all of it")
        asked = OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
        pipeline: list[tuple[ApiMessage, int]] = [
            (SyncGroupRequest(group_id=name, generation_id=generation, member_id=member, assignments=[share]), 2),
            (HeartbeatRequest(group_id=name, generation_id=generation, member_id=member), 2),
            (_commit(name, name, 41, generation, member), 6),
            (OffsetFetchRequest(group_id=name, topics=[asked]), 5),
            (LeaveGroupRequest(group_id=name, member_id=member), 2),
            (HeartbeatRequest(group_id=name, generation_id=generation, member_id=member), 2),
        ]
        synced = raw.call(*pipeline.pop(0))
        assert (synced.error_code, synced.assignment) == (0, b"all of it")
        raw.socket.sendall(b"".join(raw.frame(message, version) for message, version in pipeline))
        beat, committed, fetched, left, late = [raw.receive() for _ in pipeline]
    assert beat.error_code == 0
    assert committed.topics[0].partitions[0].error_code == 0
    assert fetched.topics[0].partitions[0].committed_offset == 41
    assert left.error_code == 0
    assert late.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@in_order
def test_a_thousand_requests_in_one_write(kafka: Peer, name: str) -> None:
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: 1})
    (member,) = form_group(servers, name, 1)
    with member.raw as raw:
        kinds: list[tuple[ApiMessage, int]] = [
            (HeartbeatRequest(group_id=name, generation_id=member.generation, member_id=member.member_id), 3),
            (MetadataRequest(topics=[]), 4),
            (ApiVersionsRequest(), 2),
            (_commit(name, name, 5, member.generation, member.member_id), 6),
        ]
        frames = [raw.frame(*kinds[i % len(kinds)]) for i in range(1000)]
        raw.socket.sendall(b"".join(frames))
        answers = [raw.receive() for _ in frames]  # each checks its correlation id
        assert all(a.error_code == 0 for a in answers[0::4])
        assert all(a.topics[0].partitions[0].error_code == 0 for a in answers[3::4])


@in_order
def test_a_parked_join_delays_no_other_connection(kafka: Peer, name: str) -> None:
    """A second member's join is parked until the first rejoins, which it does not; the first's beats are answered."""
    (first,) = form_group(kafka.bootstrap_servers, name, 1)
    host, port = first.raw.socket.getpeername()
    with first.raw, Raw(f"{host}:{port}") as second:
        second.send(_join(name), 3)
        beat = HeartbeatRequest(group_id=name, generation_id=first.generation, member_id=first.member_id)
        codes = {wait_until(lambda: first.raw.call(beat, 3).error_code, what="the join to be parked")}
        started = time.monotonic()
        while time.monotonic() < started + 0.5:
            codes.add(first.raw.call(beat, 3).error_code)
        assert codes == {ErrorCode.REBALANCE_IN_PROGRESS}
        leave = LeaveGroupRequest(group_id=name, member_id=first.member_id)
        assert first.raw.call(leave, 2).error_code == 0
        joined = second.receive()
        assert (joined.error_code, joined.generation_id) == (0, first.generation + 1)
