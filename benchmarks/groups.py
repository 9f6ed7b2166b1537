"""Heartbeats and ten-partition commits of real members of Stable groups, against librdkafka's mock cluster.

Ten groups of ten members, a hundred connections, in one shard (all groups in one offsets partition) and in eight.
Each member commits ten partitions of its own, with offsets that grow with every request; at the end each member's
last acknowledged offset is read back by another client, and again after kill -9 and a restart.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from actors.wire.framing import encode_request
from actors.wire.messages import HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest
from benchmarks.common import Entry, Load, Row, note, print_rows, run_load, temporary_folder, thousands
from placement.hashing import partition_for_group
from tests.compat import peers
from tests.compat.raw import Raw, RawMember, create_topics, find_coordinator, form_group, highest

GROUPS = 10
MEMBERS_PER_GROUP = 10
PARTITIONS_PER_TOPIC = 4  # as many as librdkafka's mock cluster gives an auto-created topic
COMMITTED_PARTITIONS = 10
OFFSETS_PARTITIONS = 50
SENTINEL = 0x5A5B5C5D5E5F6061
SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Formed:
    """Stable groups on one cluster, with the versions to speak and each member's topics."""

    members: list[RawMember]
    heartbeat_version: int
    commit_version: int

    def heartbeats(self) -> list[Entry]:
        return [
            _entry(
                member,
                HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id),
                self.heartbeat_version,
            )
            for member in self.members
        ]

    def commits(self) -> list[Entry]:
        return [
            _entry(member, _commit(member, index % MEMBERS_PER_GROUP), self.commit_version)
            for index, member in enumerate(self.members)
        ]


def _entry(member: RawMember, request: HeartbeatRequest | OffsetCommitRequest, version: int) -> Entry:
    frame = encode_request(request, version, 0, "load")
    sentinel = SENTINEL.to_bytes(8, "big")
    starts = itertools.takewhile(lambda at: at >= 0, _find_all(frame, sentinel))
    port = member.raw.socket.getpeername()[1]
    return Entry(port, frame, tuple(starts))


def _find_all(data: bytes, what: bytes) -> Iterator[int]:
    at = -1
    while True:
        at = data.find(what, at + 1)
        yield at


def _partitions_of(index: int) -> list[tuple[str, int]]:
    """The ten partitions that the member with this number in its group commits: three topics, 4 + 4 + 2."""
    topics = [f"load-{3 * index + k}" for k in range(3)]
    return list(itertools.product(topics, range(PARTITIONS_PER_TOPIC)))[:COMMITTED_PARTITIONS]


def _commit(member: RawMember, index: int) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=p, committed_offset=SENTINEL, committed_metadata=""
                )
                for _, p in group
            ],
        )
        for topic, group in itertools.groupby(_partitions_of(index), key=lambda pair: pair[0])
    ]
    return OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=topics,
    )


def group_names(shards: int, count: int, prefix: str) -> list[str]:
    """Names of `count` groups that fall into `shards` offsets partitions, evenly."""
    by_partition: dict[int, list[str]] = {}
    for number in itertools.count():
        name = f"{prefix}-{number}"
        by_partition.setdefault(partition_for_group(name, OFFSETS_PARTITIONS), []).append(name)
        full = [names for names in by_partition.values() if len(names) * shards >= count]
        if len(full) >= shards:
            return list(itertools.chain(*itertools.zip_longest(*full[:shards])))[:count]
    raise AssertionError


def form(servers: str, shards: int, groups: int = GROUPS, size: int = MEMBERS_PER_GROUP, tag: str = "") -> Formed:
    """Form the groups and their topics on any cluster; another `tag` makes other groups."""
    create_topics(servers, {f"load-{n}": PARTITIONS_PER_TOPIC for n in range(3 * size)})
    names = group_names(shards, groups, f"s{shards}x{groups}x{size}{tag}")
    with ThreadPoolExecutor(groups) as pool:  # the mock cluster's initial delay is 3 s for each
        formed = pool.map(lambda name: form_group(servers, name, size, timeout_s=60), names)
        members = [member for group in formed for member in group]
    heartbeat, commit = highest(servers.split(",")[0], HeartbeatRequest, OffsetCommitRequest, at_most=8)
    return Formed(members, min(heartbeat, 4), commit)


def committed(servers: str, member: RawMember, index: int) -> set[int]:
    """The distinct offsets committed for a member's partitions, through a connection and codec path of its own."""
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name=t, partition_indexes=[p for _, p in pairs])
        for t, pairs in itertools.groupby(_partitions_of(index), key=lambda pair: pair[0])
    ]
    with Raw(find_coordinator(servers, member.group)) as raw:
        answer = raw.call(OffsetFetchRequest(group_id=member.group, topics=topics), 5)
    assert answer.error_code == 0, answer.error_code
    return {p.committed_offset for t in answer.topics for p in t.partitions}


def committed_by_another_client(servers: str, member: RawMember, index: int) -> set[int]:
    """The same through confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": member.group})
    try:
        wanted = [confluent_kafka.TopicPartition(t, p) for t, p in _partitions_of(index)]
        return {p.offset for p in consumer.committed(wanted, 20)}
    finally:
        consumer.close()


def check_commits(servers: str, formed: Formed, load: Load, when: str) -> None:
    """Each member's last acknowledged commit, and nothing older, is what the cluster has."""
    for number, (member, last) in enumerate(zip(formed.members, load.last, strict=True)):
        index = number % MEMBERS_PER_GROUP
        read = committed_by_another_client if index == 0 else committed
        found = read(servers, member, index)
        assert found == {last}, f"{when}: {member.group} member {index} has {found}, acknowledged {last}"
    note(f"last commits of {len(formed.members)} members read back {when}")


def _measure(entries: list[Entry], depth: int) -> Load:
    return run_load(entries, depth, SECONDS)


def _figures(load: Load) -> str:
    return f"{thousands(load.requests_per_s)}/s, p50 {load.p50_us} µs, p99 {load.p99_us} µs"


def _compare(what: str, ours: Load, peer: Load, at_least: float) -> Row:
    ratio = ours.requests_per_s / peer.requests_per_s
    return Row(what, _figures(ours), _figures(peer), ratio, f"at least {at_least}", ratio >= at_least)


def measure_shards(cluster: peers.Coterie, mock_servers: str, shards: int) -> Iterator[Row]:
    """Heartbeats and commits at depth 1 on a hundred connections and on one, a kill, and then at depth 16."""
    note(f"forming {GROUPS} groups in {shards} shard(s)")
    ours, peer = form(cluster.bootstrap_servers, shards), form(mock_servers, shards)
    label = "one shard" if shards == 1 else f"{shards} shards"
    yield _heartbeats(ours, peer, 1, label)
    row, last = _commits(cluster, ours, peer, 1, label)
    yield row
    one, one_peer = _measure(ours.commits()[:1], 1), _measure(peer.commits()[:1], 1)
    what = f"commits of ten partitions, one connection, {label}"
    yield Row(what, _figures(one), _figures(one_peer), None, "p50 < 300 µs", one.p50_us < 300)
    last.last[0] = one.last[0]
    yield _heartbeats(ours, peer, 16, label)
    cluster.restart_after_kill()
    check_commits(cluster.bootstrap_servers, ours, last, "after kill -9 and a restart")
    for member in ours.members + peer.members:
        member.raw.close()
    again = "again"  # the members of before hold their groups until their sessions end
    ours, peer = form(cluster.bootstrap_servers, shards, tag=again), form(mock_servers, shards, tag=again)
    yield _commits(cluster, ours, peer, 16, label)[0]


def _heartbeats(ours: Formed, peer: Formed, depth: int, label: str) -> Row:
    what = f"heartbeats, 100 connections, depth {depth}, {label}"
    note(what)
    pair = _measure(ours.heartbeats(), depth), _measure(peer.heartbeats(), depth)
    return _compare(what, *pair, 1.0) if depth == 1 else _without_budget(what, *pair)


def _commits(cluster: peers.Coterie, ours: Formed, peer: Formed, depth: int, label: str) -> tuple[Row, Load]:
    what = f"commits of ten partitions, 100 connections, depth {depth}, {label}"
    note(what)
    pair = _measure(ours.commits(), depth), _measure(peer.commits(), depth)
    check_commits(cluster.bootstrap_servers, ours, pair[0], "after the run")
    row = _compare(what, *pair, 0.5) if depth == 1 else _without_budget(what, *pair)
    return row, pair[0]


def _without_budget(what: str, ours: Load, peer: Load) -> Row:
    return Row(what, _figures(ours), _figures(peer), ours.requests_per_s / peer.requests_per_s)


ONE_REPLICA = {"offsets.topic.replication.factor": "1"}
"""The peer keeps one copy, too; what three cost is a row of failover.py."""


def run() -> list[Row]:
    """A measurement that fails is a row of its own, and does not take the others with it."""
    rows: list[Row] = []
    for shards in (1, 8):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(temporary_folder())
            cluster = stack.enter_context(peers.coterie(folder, config=ONE_REPLICA))
            mock = stack.enter_context(peers.mock_cluster(folder))
            try:
                for row in measure_shards(cluster, mock.bootstrap_servers, shards):
                    rows.append(row)  # noqa: PERF402 - what was measured before a failure is kept
            except (RuntimeError, AssertionError, OSError) as error:
                note(f"stopped: {error}")
                rows.append(Row(f"what follows, {shards} shard(s), failed", str(error)[:100], met=False))
    return rows


if __name__ == "__main__":
    print_rows(run())
