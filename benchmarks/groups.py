"""Stable groups of raw members on any cluster: formed, their requests as frames, their commits read back.

Ten groups of ten members, a hundred connections, unless asked for others. Each member commits ten partitions of its
own, with offsets that grow with every request.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from actors.wire.framing import encode_request
from actors.wire.messages import HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest
from benchmarks.common import Entry, Load, note
from placement.hashing import partition_for_group
from tests.compat.raw import Raw, create_topics, find_coordinator, form_group, highest

GROUPS = 10
MEMBERS_PER_GROUP = 10
PARTITIONS_PER_TOPIC = 4
COMMITTED_PARTITIONS = 10
OFFSETS_PARTITIONS = 50
SENTINEL = 0x5A5B5C5D5E5F6061


@dataclass(frozen=True, slots=True)
class Seat:
    """A member's place in a generation, and the port of its coordinator."""

    port: int
    group: str
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Formed:
    """Stable groups of so many members on one cluster, and the versions to speak."""

    seats: list[Seat]
    heartbeat_version: int
    commit_version: int
    connections: list[Raw] = field(default_factory=list)

    def heartbeats(self) -> list[Entry]:
        """A heartbeat of each member."""
        return [
            _entry(
                seat.port,
                HeartbeatRequest(group_id=seat.group, generation_id=seat.generation, member_id=seat.member_id),
                self.heartbeat_version,
            )
            for seat in self.seats
        ]

    def commits(self) -> list[Entry]:
        """A commit of ten partitions of each member."""
        return [
            _entry(seat.port, _commit(seat, index % MEMBERS_PER_GROUP), self.commit_version)
            for index, seat in enumerate(self.seats)
        ]

    def close(self) -> None:
        """Leave the members to their sessions' end."""
        for connection in self.connections:
            connection.close()


def seated(servers: str, seats: list[Seat], connections: Sequence[Raw] = ()) -> Formed:
    """Members that have formed groups on this cluster."""
    heartbeat, commit = highest(servers.split(",")[0], HeartbeatRequest, OffsetCommitRequest, at_most=8)
    return Formed(seats, min(heartbeat, 4), commit, list(connections))


def _entry(port: int, request: HeartbeatRequest | OffsetCommitRequest, version: int) -> Entry:
    frame = encode_request(request, version, 0, "load")
    sentinel = SENTINEL.to_bytes(8, "big")
    starts = itertools.takewhile(lambda at: at >= 0, _find_all(frame, sentinel))
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


def _commit(seat: Seat, index: int) -> OffsetCommitRequest:
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
        group_id=seat.group,
        generation_id_or_member_epoch=seat.generation,
        member_id=seat.member_id,
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
    make_topics(servers)
    names = group_names(shards, groups, f"s{shards}x{groups}x{size}{tag}")
    with ThreadPoolExecutor(groups) as pool:  # each waits for its initial delay
        formed = pool.map(lambda name: form_group(servers, name, size, timeout_s=60), names)
        members = [member for group in formed for member in group]
    seats = [Seat(m.raw.socket.getpeername()[1], m.group, m.generation, m.member_id) for m in members]
    return seated(servers, seats, [member.raw for member in members])


def make_topics(servers: str) -> None:
    """The topics that members commit to."""
    create_topics(servers, {f"load-{n}": PARTITIONS_PER_TOPIC for n in range(3 * MEMBERS_PER_GROUP)})


def committed(servers: str, group: str, index: int) -> set[int]:
    """The distinct offsets committed for a member's partitions, through a connection and codec path of its own."""
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name=t, partition_indexes=[p for _, p in pairs])
        for t, pairs in itertools.groupby(_partitions_of(index), key=lambda pair: pair[0])
    ]
    with Raw(find_coordinator(servers, group)) as raw:
        answer = raw.call(OffsetFetchRequest(group_id=group, topics=topics), 5)
    assert answer.error_code == 0, answer.error_code
    return {p.committed_offset for t in answer.topics for p in t.partitions}


def committed_by_another_client(servers: str, group: str, index: int) -> set[int]:
    """The same through confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        wanted = [confluent_kafka.TopicPartition(t, p) for t, p in _partitions_of(index)]
        return {p.offset for p in consumer.committed(wanted, 20)}
    finally:
        consumer.close()


def check_commits(servers: str, formed: Formed, load: Load, when: str) -> None:
    """Each member's last acknowledged commit, and nothing older, is what the cluster has."""
    for number, (seat, last) in enumerate(zip(formed.seats, load.last, strict=True)):
        index = number % MEMBERS_PER_GROUP
        read = committed_by_another_client if index == 0 else committed
        found = read(servers, seat.group, index)
        assert found == {last}, f"{when}: {seat.group} member {index} has {found}, acknowledged {last}"
    note(f"last commits of {len(formed.seats)} members read back {when}")
