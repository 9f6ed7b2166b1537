"""A bare client: one socket, one request after another or pipelined, through our own codec; and raw group members.

It sends what no client library does: odd orders, old versions, broken frames, a hundred members in one thread.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import (
    ApiMessage,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    SyncGroupRequest,
    response_class,
)

TIMEOUT_S = 60.0
EXISTS_ALREADY = ErrorCode.TOPIC_ALREADY_EXISTS
RETRIABLE_LOOKUP = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
RETRIABLE_JOIN = RETRIABLE_LOOKUP | {ErrorCode.NOT_COORDINATOR}


class Raw:
    """One connection to one broker, `address` being "host:port"."""

    def __init__(self, address: str, client_id: str = "raw", timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")
        self._client_id = client_id
        self._next_id = 1
        self.waiting: list[tuple[int, type[ApiMessage], int]] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def frame(self, message: ApiMessage, version: int) -> bytes:
        """A request frame, and its place in the queue of answers to come."""
        correlation_id = self._next_id
        self._next_id += 1
        self.waiting.append((correlation_id, response_class(message.api_key), version))
        return encode_request(message, version, correlation_id, self._client_id)

    def send(self, message: ApiMessage, version: int) -> None:
        self.socket.sendall(self.frame(message, version))

    def read_frame(self) -> bytes:
        """The next frame without its length. Raises EOFError when the broker has closed."""
        head = self._file.read(4)
        if len(head) < 4:
            raise EOFError("the broker closed the connection")
        (size,) = struct.unpack(">i", head)
        body = self._file.read(size)
        if len(body) < size:
            raise EOFError("the broker closed the connection within a frame")
        return body

    def receive(self) -> Any:
        """The answer to the oldest unanswered request; it must carry that request's correlation id."""
        expected, cls, version = self.waiting.pop(0)
        correlation_id, message = decode_response(cls, version, self.read_frame())
        assert correlation_id == expected, f"answer to {correlation_id}, expected to {expected}"
        return message

    def call(self, message: ApiMessage, version: int) -> Any:
        self.send(message, version)
        return self.receive()


def api_versions(address: str) -> dict[int, tuple[int, int]]:
    """(lowest, highest) version of each API a broker advertises."""
    with Raw(address) as raw:
        answer = raw.call(ApiVersionsRequest(), 0)
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}


def highest(address: str, *requests: type[ApiMessage], at_most: int = 99) -> list[int]:
    """The highest version of each request that the broker and our codec have, up to `at_most`."""
    offered = api_versions(address)
    return [min(offered[r.api_key][1], r.max_version, at_most) for r in requests]


def find_coordinator(servers: str, group: str, timeout_s: float = TIMEOUT_S) -> str:
    """ "host:port" of a group's coordinator, asked for again while the broker says that it is not there yet."""
    deadline = time.monotonic() + timeout_s
    with _first_there(servers) as raw:
        while True:
            answer = raw.call(FindCoordinatorRequest(key=group, key_type=0), 2)
            if answer.error_code == 0:
                return f"{answer.host}:{answer.port}"
            if answer.error_code not in RETRIABLE_LOOKUP or time.monotonic() > deadline:
                raise AssertionError(f"no coordinator for {group!r}: error {answer.error_code}")
            time.sleep(0.05)


def _first_there(servers: str) -> Raw:
    """A connection to the first of these brokers that takes one."""
    *others, last = servers.split(",")
    for address in others:
        with contextlib.suppress(ConnectionError):
            return Raw(address)
    return Raw(last)


def create_topics(servers: str, topics: dict[str, int], timeout_s: float = TIMEOUT_S) -> None:
    """Make sure that these topics exist and have leaders, as every broker knows: created with so many partitions, or
    by auto-creation where the broker cannot create (librdkafka's mock cluster)."""
    address = servers.split(",")[0]
    offered = api_versions(address)
    if CreateTopicsRequest.api_key in offered:
        _create(controller(address), topics)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=t) for t in topics], allow_auto_topic_creation=True
    )
    deadline = time.monotonic() + timeout_s
    for address in servers.split(","):
        with Raw(address) as raw:
            while missing := _without_leaders(raw.call(request, min(8, offered[MetadataRequest.api_key][1]))):
                assert time.monotonic() < deadline, f"no leaders for {missing} at {address}"
                time.sleep(0.05)


def await_topics(servers: str, topics: dict[str, int], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until every broker knows leaders of at least so many partitions of these topics; 0 means no such topic.

    Brokers hear of a change one by one, and a client may ask any of them.
    """
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    deadline = time.monotonic() + timeout_s
    for address in servers.split(","):
        with Raw(address) as raw:
            while True:
                answer = raw.call(request, 8)
                led = {t.name: sum(p.leader_id >= 0 for p in t.partitions) for t in answer.topics}
                if all(led[name] >= count if count else led[name] == 0 for name, count in topics.items()):
                    break
                assert time.monotonic() < deadline, f"{address} knows {led} instead of {topics}"
                time.sleep(0.05)


def controller(address: str) -> str:
    """ "host:port" of the broker that creates topics."""
    deadline = time.monotonic() + TIMEOUT_S
    with Raw(address) as raw:
        while True:
            answer = raw.call(MetadataRequest(topics=[]), 2)
            for b in answer.brokers:
                if b.node_id == answer.controller_id:
                    return f"{b.host}:{b.port}"
            assert time.monotonic() < deadline, f"{address} knows no controller"
            time.sleep(0.05)


def serving_coordinator(servers: str, group: str, timeout_s: float = TIMEOUT_S) -> str:
    """ "host:port" of a group's coordinator, once it answers for the group and not that it is loading."""
    deadline = time.monotonic() + timeout_s
    while True:
        address = find_coordinator(servers, group, timeout_s)  # each time: it may have moved
        with Raw(address) as raw:
            code = raw.call(DescribeGroupsRequest(groups=[group]), 0).groups[0].error_code
        if code == 0:
            return address
        assert code in RETRIABLE_JOIN, f"describe answered {code}"
        assert time.monotonic() < deadline, f"the coordinator of {group!r} still answers {code}"
        time.sleep(0.02)


def leader_of(servers: str, topic: str, partition: int = 0, timeout_s: float = TIMEOUT_S) -> str:
    """ "host:port" of the broker that leads a partition, once it knows that it does."""
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    deadline = time.monotonic() + timeout_s
    with Raw(servers.split(",")[0]) as raw:
        while True:
            answer = raw.call(asked, 5)
            leader = next((p.leader_id for p in answer.topics[0].partitions if p.partition_index == partition), -1)
            if leader >= 0:
                break
            assert time.monotonic() < deadline, f"no leader for {topic}-{partition}"
            time.sleep(0.05)
    address = next(f"{b.host}:{b.port}" for b in answer.brokers if b.node_id == leader)
    latest = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[latest])]
    )
    with Raw(address) as raw:
        while code := raw.call(request, 1).topics[0].partitions[0].error_code:
            assert time.monotonic() < deadline, f"{address} still answers {code} for {topic}-{partition}"
            time.sleep(0.02)
    return address


def _create(address: str, topics: dict[str, int]) -> None:
    specs = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    with Raw(address) as raw:
        answer = raw.call(CreateTopicsRequest(topics=specs, timeout_ms=20_000), 2)
    failed = {t.name: t.error_code for t in answer.topics if t.error_code not in (0, EXISTS_ALREADY)}
    assert not failed, f"not created: {failed}"


def _without_leaders(answer: MetadataResponse) -> list[str | None]:
    return [
        t.name for t in answer.topics if t.error_code or not t.partitions or any(p.leader_id < 0 for p in t.partitions)
    ]


@dataclass(slots=True)
class RawMember:
    """A member of a group and its connection to the coordinator."""

    raw: Raw
    group: str
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    assignment: bytes = b""


def join_request(group: str, member_id: str, session_timeout_ms: int, rebalance_timeout_ms: int) -> JoinGroupRequest:
    """The join of a consumer that subscribes to no topic."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")],
    )


def form_group(
    servers: str,
    group: str,
    size: int,
    session_timeout_ms: int = 60_000,
    rebalance_timeout_ms: int = 60_000,
    timeout_s: float = TIMEOUT_S,
) -> list[RawMember]:
    """`size` members of one Stable generation, each on a connection of its own and with an assignment.

    Works against any broker; a join that another member's arrival made stale is simply done again.
    """
    address = find_coordinator(servers, group)
    (join_version,) = highest(address, JoinGroupRequest, at_most=5)
    (sync_version,) = highest(address, SyncGroupRequest, at_most=3)  # the mock cluster cannot read its own v4
    deadline = time.monotonic() + timeout_s
    members = [RawMember(Raw(address, f"{group}-{i}"), group) for i in range(size)]
    while True:
        _join_all(members, (session_timeout_ms, rebalance_timeout_ms), join_version, deadline)
        if _sync(members, sync_version):
            return members
        assert time.monotonic() < deadline, f"group {group} did not form"


def _join_all(members: Sequence[RawMember], timeouts: tuple[int, int], version: int, deadline: float) -> None:
    """Until all have joined one generation. A member answered while others wait joins again: they may be
    waiting for it, where the broker has no initial delay."""
    by_socket = {m.raw.socket: m for m in members}
    waiting: set[socket.socket] = set()
    behind = set(by_socket)
    while behind or waiting:
        for s in behind:
            member = by_socket[s]
            member.raw.send(join_request(member.group, member.member_id, *timeouts), version)
        waiting |= behind
        readable = wait(list(waiting), 0.2)
        for s in readable:
            _take_join_answer(by_socket[s])
        waiting -= set(readable)
        newest = max(m.generation for m in members)
        idle = set(by_socket) - waiting
        stale = {s for s in idle if by_socket[s].generation < max(newest, 1)}
        behind = stale if readable else idle
        assert time.monotonic() < deadline, f"{len(waiting)} of {len(members)} joins unanswered"


def _take_join_answer(member: RawMember) -> None:
    answer = member.raw.receive()
    if answer.error_code not in (0, ErrorCode.MEMBER_ID_REQUIRED, *RETRIABLE_JOIN):
        raise AssertionError(f"join answered {answer.error_code}")
    member.member_id = answer.member_id or member.member_id
    member.generation = answer.generation_id
    member.leader = answer.leader


def _sync(members: Sequence[RawMember], version: int) -> bool:
    plan = [
        SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=m.member_id, assignment=b"share of " + m.member_id.encode()
        )
        for m in members
    ]
    followers_first = sorted(members, key=lambda m: m.member_id == m.leader)
    for member in followers_first:
        leads = member.member_id == member.leader
        if leads:
            time.sleep(0.02)  # the mock cluster gives nothing to members that sync after the leader
        request = SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=plan if leads else [],
        )
        member.raw.send(request, version)
    answers = [member.raw.receive() for member in members]
    for member, answer in zip(members, answers, strict=True):
        member.assignment = answer.assignment
    return all(a.error_code == 0 and a.assignment for a in answers)
