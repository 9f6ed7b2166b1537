"""The broker's end of a shard process's socket: the test plays the broker and keeps its log."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from actors.coordinator.groups.config import CoordinatorConfig
from actors.links.known_topics import KnownTopics, TopicRow
from actors.links.relay import PAYLOADS, Assignment, Kind, RelayProtocol
from actors.offsets_partition.process import ShardProcess
from actors.records.batch import split_batches
from actors.records.reading import iter_key_values
from actors.runtime.environment import REAL, Environment
from actors.runtime.log_levels import THIS_PROCESS, LogLevels
from actors.runtime.private import is_ours
from actors.wire import messages
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from tests.support.runtime_helpers import until

TOPICS = [["t", b"t" * 16, 8]]
Commit = messages.OffsetCommitRequest
Fetch = messages.OffsetFetchRequest
Join = messages.JoinGroupRequest


def rows(topics: list[Any]) -> tuple[TopicRow, ...]:
    return tuple((name, topic_id, count) for name, topic_id, count in topics)


class FakeBroker:
    """The broker's end: keeps one partition's log in memory, appends to it unless the test says otherwise."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.links: list[RelayProtocol] = []
        self.hellos = 0
        self.heard: list[tuple[int, int, int, bytes]] = []
        self.log: list[tuple[bytes, int]] = []  # batches with their record counts
        self.end = 0
        self.appends = True
        self.topics = TOPICS
        self.server: asyncio.AbstractServer
        self._slot = 0
        self._sent: dict[int, tuple[type[ApiMessage], int]] = {}

    async def listen(self) -> FakeBroker:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_unix_server(
            lambda: RelayProtocol(loop, lambda *told: self.hear_one(*told), lambda _: None, self._on_lost, is_ours),
            self.path,
        )
        return self

    @property
    def link(self) -> RelayProtocol:
        return self.links[-1]

    def _on_lost(self, protocol: RelayProtocol) -> None:
        if protocol in self.links:
            self.links.remove(protocol)

    def hear_one(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        """A process has said this."""
        self.heard.append((kind, a, b, payload))
        if kind == Kind.HELLO:
            self.hellos += 1
            if protocol not in self.links:
                self.links.append(protocol)
        elif kind == Kind.APPEND and self.appends:
            self.append(b, payload)

    def append(self, number: int, batch: bytes, base: int | None = None) -> None:
        count = sum(header.last_offset_delta + 1 for _, _, header in split_batches(batch))
        self.log.append((batch, count))
        base = self.end if base is None else base
        self.end = base + count
        payload = base.to_bytes(8, "big") + self.end.to_bytes(8, "big")
        self.link.send(Kind.APPENDED, 3, number, payload)
        self.link.send(Kind.HIGH_WATERMARK, 0, self.end)

    def of(self, kind: Kind) -> list[tuple[int, int, bytes]]:
        return [(a, b, payload) for k, a, b, payload in self.heard if k == kind]

    async def hear(self, kind: Kind, count: int = 1) -> tuple[int, int, bytes]:
        await until(lambda: len(self.of(kind)) >= count, what=kind.name)
        return self.of(kind)[count - 1]

    def become(self, epoch: int = 1, **settings: int) -> None:
        config = asdict(CoordinatorConfig())
        config |= {"group_initial_rebalance_delay_ms": 0, "offsets_commit_timeout_ms": 60_000, **settings}
        assert set(config) == {f.name for f in fields(CoordinatorConfig)}
        told = Assignment(CoordinatorConfig(**config), rows(self.topics))
        self.link.send(Kind.BECOME, 3, epoch, PAYLOADS.encode(told))
        for batch, _ in self.log:
            self.link.send(Kind.LOAD, 3, 0, batch)

    def tell(self, topics: list[Any]) -> None:
        self.link.send(Kind.TOPICS, 0, 0, PAYLOADS.encode(KnownTopics(rows(topics))))

    def loaded(self) -> None:
        self.link.send(Kind.LOADED, 3, self.end)
        self.link.send(Kind.HIGH_WATERMARK, 0, self.end)

    async def serving(self, **settings: int) -> None:
        """Have the process serve partition 3 with our log."""
        before = len(self.of(Kind.ACTIVE))
        await until(lambda: self.links)
        self.become(**settings)
        self.loaded()
        await self.hear(Kind.ACTIVE, before + 1)

    def ask(self, message: ApiMessage, version: int, connection: int = 1) -> int:
        """Send a client's request; its slot."""
        self._slot += 1
        self._sent[self._slot] = (response_class(message.api_key), version)
        frame = encode_request(message, version, 1000 + self._slot, "a-client")[4:]
        self.link.send(Kind.REQUEST, connection, self._slot, frame)
        return self._slot

    def answered(self, slot: int) -> bool:
        return any(b == slot for _, b, _ in self.of(Kind.RESPONSE))

    async def answer(self, slot: int) -> Any:
        await until(lambda: self.answered(slot), what=f"slot {slot}")
        payload = next(p for _, b, p in self.of(Kind.RESPONSE) if b == slot)
        cls, version = self._sent[slot]
        correlation_id, message = decode_response(cls, version, payload[4:])
        assert correlation_id == 1000 + slot
        return message

    async def commit(self, offset: int, topic: str = "t", group: str = "g") -> Any:
        return await self.answer(self.ask(commit(offset, topic, group), 8))

    async def unstable(self) -> list[int]:
        """The error codes of what a client finds that waits for open transactions."""
        answer = await self.answer(self.ask(Fetch(group_id="g", topics=None, require_stable=True), 7))
        return [p.error_code for t in answer.topics for p in t.partitions]

    async def committed(self, group: str = "g") -> dict[int, int]:
        answer = await self.answer(self.ask(Fetch(group_id=group, topics=None), 7))
        assert answer.error_code == 0, answer
        return {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}

    def keys(self) -> int:
        return sum(1 for batch, _ in self.log for _ in iter_key_values(batch))


def commit(offset: int, topic: str = "t", group: str = "g", metadata: str = "") -> ApiMessage:
    partition = Commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    wanted = Commit.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    return Commit(group_id=group, generation_id_or_member_epoch=-1, topics=[wanted])


def join(member_id: str = "", version_protocol: str = "range") -> ApiMessage:
    protocol = Join.JoinGroupRequestProtocol(name=version_protocol, metadata=b"meta")
    return Join(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


@asynccontextmanager
async def process(path: Path) -> AsyncIterator[FakeBroker]:
    """The broker that a shard process has said hello to."""
    async with shard(path) as (_, broker):
        yield broker


@asynccontextmanager
async def shard(
    path: Path, environment: Environment = REAL, log_levels: LogLevels = THIS_PROCESS
) -> AsyncIterator[tuple[ShardProcess, FakeBroker]]:
    """A shard process and the broker it has said hello to."""
    broker = await FakeBroker(str(path / "s")).listen()
    made = ShardProcess(broker.path, "", "tests", environment, log_levels)
    task = asyncio.ensure_future(made.run())
    try:
        await broker.hear(Kind.HELLO)
        yield made, broker
    finally:
        task.cancel()
        broker.server.close()
        for link in list(broker.links):
            link.close()
        await asyncio.sleep(0)
        gc.enable()
