"""A broker behind its router, for walks over all requests: nothing runs, and every touched part is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext
from actors.broker.entrance.routing import Router
from actors.coordinator.groups.messages import ListedGroup
from actors.coordinator_kinds import groups
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.security.acl import Acl
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request, encode_response
from actors.wire.messages import (
    ApiMessage,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    response_class,
)
from placement.metadata import OFFSETS_TOPIC
from placement.records import METADATA_LEVELS, METADATA_VERSION, FeatureLevelRecord
from tests.support.handler_helpers import AUTHORIZER, Broker, led_by

GROUPS = ("g", "other")
RELAYED = "relayed"
"""Stands for the answer of a request that went to a shard as it came."""


class Shards:
    """Notes the questions to shards, and answers them at once: every offset is 5, every group is stable."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.relayed: list[tuple[Slot, bytes]] = []
        self.asked: list[ApiMessage] = []
        self.versions: list[int] = []
        self.frames: list[bytes] = []
        """The answers that were wanted as bytes."""
        self.holds = False
        """True if questions are not answered before `release`."""
        self.held: list[Callable[[], None]] = []
        self.awake: dict[int, list[str]] = {}
        """The groups of each shard that is awake. Without any, all shards sleep."""

    def __getitem__(self, kind: CoordinatorKind) -> Any:
        assert kind is groups.GROUPS
        return self

    def __iter__(self) -> Iterator[CoordinatorKind]:
        return iter((groups.GROUPS,))

    def partition_of(self, group: bytes) -> int:
        return 0

    def relay(self, connection: Connection, partition: int, frame: bytes, version: int, api: int, corr: int) -> None:
        self.touched.append("relay")
        self.relayed.append((connection.slots.open(1, api, version, corr), frame))

    def ask(self, partition: int, message: Any, version: int, done: Callable[[Any], None]) -> None:
        self.touched.append("ask")
        self.asked.append(message)
        self.versions.append(version)
        found = self._listed(partition) if isinstance(message, ListGroupsRequest) else answer(message, version)
        self.held.append(lambda: done(found))
        if not self.holds:
            self.release()

    def release(self) -> None:
        """Answer the questions that were held."""
        held, self.held = self.held, []
        for tell in held:
            tell()

    def ask_encoded(
        self, partition: int, message: Any, version: int, correlation_id: int, done: Callable[[bytes], None]
    ) -> None:
        def encoded(found: ApiMessage) -> None:
            self.frames.append(encode_response(found, version, correlation_id))
            done(self.frames[-1])

        self.ask(partition, message, version, encoded)

    def ask_for(self, slot: Slot, partition: int, message: Any, version: int, done: Callable[[bytes], None]) -> None:
        self.ask_encoded(partition, message, version, slot.correlation_id, done)

    def _listed(self, partition: int) -> ListGroupsResponse:
        return ListGroupsResponse(
            groups=[ListGroupsResponse.ListedGroup(group_id=group) for group in self.awake[partition]]
        )

    def await_serving(self, partition: int, done: Callable[[ErrorCode], None]) -> None:
        self.touched.append("await_serving")
        done(ErrorCode.NONE)

    def led(self) -> list[int]:
        return list(self.awake)

    def asleep(self) -> list[ListedGroup]:
        return [] if self.awake else [ListedGroup(group, "consumer", "Empty") for group in GROUPS]

    def disconnected(self, connection: Connection, unanswered: list[Slot]) -> None: ...


def answer(m: Any, version: int) -> ApiMessage:
    """The answer of a shard in which all is well."""
    match m:
        case OffsetCommitRequest():
            commit = OffsetCommitResponse
            return commit(
                topics=[
                    commit.OffsetCommitResponseTopic(
                        name=t.name,
                        topic_id=t.topic_id,
                        partitions=[
                            commit.OffsetCommitResponsePartition(partition_index=p.partition_index)
                            for p in t.partitions
                        ],
                    )
                    for t in m.topics
                ]
            )
        case OffsetDeleteRequest():
            delete = OffsetDeleteResponse
            return delete(
                topics=[
                    delete.OffsetDeleteResponseTopic(
                        name=t.name,
                        partitions=[
                            delete.OffsetDeleteResponsePartition(partition_index=p.partition_index)
                            for p in t.partitions
                        ],
                    )
                    for t in m.topics
                ]
            )
        case OffsetFetchRequest():
            return _fetched(m, version)
        case DescribeGroupsRequest():
            made = DescribeGroupsResponse.DescribedGroup
            may_do = 3400 if m.include_authorized_operations else -(2**31)
            return DescribeGroupsResponse(
                groups=[
                    made(
                        group_id=g,
                        group_state="Stable",
                        protocol_data="x" * (1 << 16) if g == "with-long" else "",
                        authorized_operations=may_do,
                    )
                    for g in m.groups
                ]
            )
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(groups=[_consumer_group(g, m) for g in m.group_ids])
        case DeleteGroupsRequest():
            gone = DeleteGroupsResponse.DeletableGroupResult
            return DeleteGroupsResponse(results=[gone(group_id=g) for g in m.groups_names])
    raise AssertionError(m)


CONSUMED = {
    "with-t": ["t"],
    "with-secret": ["secret"],
    "with-long": ["t" * (1 << 16)],
    "with-many": [f"t-{n}" for n in range(6_000)],
}
"""Consumer groups whose members have a topic each. A broker decodes answers that are shorter than the last ones."""


def _consumer_group(group_id: str, m: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse.DescribedGroup:
    r = ConsumerGroupDescribeResponse
    targets = [
        r.Assignment(topic_partitions=[r.TopicPartitions(topic_id=name_id(name), topic_name=name, partitions=[0])])
        for name in CONSUMED.get(group_id, ())
    ]
    return r.DescribedGroup(
        group_id=group_id,
        group_state="Stable",
        members=[
            r.Member(member_id="m", assignment=r.Assignment(), target_assignment=each)
            for each in targets or [r.Assignment()]
        ],
        authorized_operations=3400 if m.include_authorized_operations else -(2**31),
    )


ALL_OFFSETS = ("t", "other")


def _fetched(m: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    r = OffsetFetchResponse
    if version >= 8:
        (group,) = m.groups
        names = ALL_OFFSETS if group.topics is None else [t.name for t in group.topics]
        ids = [name_id(name) for name in names] if group.topics is None else [t.topic_id for t in group.topics]
        topics = [
            r.OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=[r.OffsetFetchResponsePartitions(committed_offset=5, metadata="")],
            )
            for name, topic_id in zip(names, ids, strict=True)
        ]
        return r(groups=[r.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)])
    names = ALL_OFFSETS if m.topics is None else [t.name for t in m.topics]
    return r(
        topics=[
            r.OffsetFetchResponseTopic(
                name=name, partitions=[r.OffsetFetchResponsePartition(committed_offset=5, metadata="")]
            )
            for name in names
        ]
    )


def name_id(name: str) -> bytes:
    """The id of a topic of this name in these worlds."""
    return name.encode().ljust(16, b"#")


_numbers = count()


class World:
    """A broker with these topics and ACLs; its clients are User:ANONYMOUS unless they say something else.

    `seen_as` makes what its router, and the handlers of that, have for the broker's context.
    """

    def __init__(
        self,
        tmp_path: Path,
        acls: Iterable[Acl] = (),
        topics: Iterable[str] = ("t",),
        seen_as: Callable[[BrokerContext], Any] = lambda context: context,
        **settings: str,
    ) -> None:
        path = tmp_path / f"world-{next(_numbers)}"
        self.broker = Broker(path, **({"authorizer_class_name": AUTHORIZER} | settings))
        self.broker.metadata.apply(FeatureLevelRecord(METADATA_VERSION, METADATA_LEVELS[-1]))
        self.broker.topic(OFFSETS_TOPIC, *[led_by(0)] * 50)
        for name in topics:
            self.broker.topic(name, topic_id=int.from_bytes(name_id(name), "big"))
        if self.broker.context.authorizer.checks:
            self.broker.allow(*acls)
        self.shards: Any = Shards()
        self.handlers = replace(self.broker.handlers, coordinators=self.shards)
        self.router = Router(replace(self.handlers, broker=seen_as(self.broker.context)), self.shards)
        self.connection = self.broker.connection

    @property
    def touched(self) -> list[str]:
        """The parts that requests have reached: shards, the controller, logs."""
        logs = [f"log of {topic}" for topic, _ in self.broker.data_dir.logs]
        return self.shards.touched + self.broker.controller.operations + logs

    def bytes_for(self, message: ApiMessage, version: int) -> bytes | str | None:
        """The answer's frame; RELAYED if a shard has to answer, None if there is none."""
        frame = encode_request(message, version, 7, "tests")[4:]
        transport: Any = self.connection.transport
        before, relayed = len(transport.written), len(self.shards.relayed)
        self.router.on_frame(self.connection, frame, 0, len(frame))
        if len(self.shards.relayed) > relayed:
            slot, sent = self.shards.relayed[-1]
            assert sent == frame
            slot.finish(b"")
            self.connection.flush()
            return RELAYED
        self.connection.flush()
        return b"".join(transport.written[before:]) or None

    def ask(self, message: ApiMessage, version: int) -> Any:
        """The answer; RELAYED if a shard has to answer, None if there is none."""
        frame = self.bytes_for(message, version)
        if not isinstance(frame, bytes):
            return frame
        return decode_response(response_class(message.api_key), version, frame[4:])[1]
