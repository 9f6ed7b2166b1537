"""The process of an offsets partition, over a real Unix socket; the test plays the broker and keeps its log."""

from __future__ import annotations

import asyncio
import gc
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator.config import CoordinatorConfig
from actors.coordinator.metrics import Metrics
from actors.coordinator.records import OffsetAndMetadata, OffsetsPut, encode
from actors.links.group_status import GroupStatus
from actors.links.relay import PAYLOADS, Assignment, Figures, Greeting, Kind, KnownTopics, RelayProtocol, TopicRow
from actors.log.batch import build_batch, iter_key_values, read_header, split_batches
from actors.offsets_partition import process as module
from actors.offsets_partition.process import ShardProcess, _compressed
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from tests.support.runtime_helpers import run, until

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
            lambda: RelayProtocol(loop, self._on_message, lambda _: None, self._on_lost), self.path
        )
        return self

    @property
    def link(self) -> RelayProtocol:
        return self.links[-1]

    def _on_lost(self, protocol: RelayProtocol) -> None:
        if protocol in self.links:
            self.links.remove(protocol)

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
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
    """A shard process and the broker it has said hello to."""
    broker = await FakeBroker(str(path / "s")).listen()
    task = asyncio.ensure_future(ShardProcess(broker.path, "tests").run())
    try:
        await broker.hear(Kind.HELLO)
        yield broker
    finally:
        task.cancel()
        broker.server.close()
        for link in list(broker.links):
            link.close()
        await asyncio.sleep(0)
        gc.enable()


def test_a_process_says_who_it_is_and_waits(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            hello = PAYLOADS.read(Greeting, broker.of(Kind.HELLO)[0][2])
            assert hello.pid > 0
            assert hello.code_version == "tests"
            broker.link.send(Kind.PING)
            figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
            assert figures.requests == 0

    run(test())


def test_a_commit_is_answered_once_it_is_below_the_high_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            broker.appends = False
            slot = broker.ask(commit(7), 8)
            _, number, batch = await broker.hear(Kind.APPEND)
            payload = (0).to_bytes(8, "big") + (1).to_bytes(8, "big")
            broker.link.send(Kind.APPENDED, 3, number, payload)
            broker.link.send(Kind.PING)
            await broker.hear(Kind.PONG)
            assert not broker.answered(slot), "appended, but not yet safe"
            broker.link.send(Kind.HIGH_WATERMARK, 0, 1)
            answer = await broker.answer(slot)
            assert answer.topics[0].partitions[0].error_code == 0
            assert len(list(iter_key_values(batch))) == 1

    run(test())


def test_commits_of_one_turn_share_one_append(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            slots = [broker.ask(commit(i, group=f"g{i}"), 8, connection=i + 1) for i in range(20)]
            for slot in slots:
                assert (await broker.answer(slot)).topics[0].partitions[0].error_code == 0
            assert len(broker.of(Kind.APPEND)) < 5
            assert broker.keys() == 20

    run(test())


def test_what_was_acknowledged_is_there_after_a_load(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            for offset in (3, 5, 9):
                await broker.commit(offset)
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            await broker.serving()
            assert await broker.committed() == {0: 9}
            assert len(broker.of(Kind.LOAD_MORE)) == len(broker.log), "one piece asked for as each is taken in"

    run(test())


def offset_batch(offset: int, producer_id: int = -1) -> bytes:
    """An offset of group g as Kafka logs it: of an OffsetCommit, or of that producer's TxnOffsetCommit."""
    records = encode([OffsetsPut("g", [(("t", 0), OffsetAndMetadata(offset, -1, "", 1))])])
    return build_batch(
        [(key, value, (), 1) for key, value in records],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def marker(producer_id: int, *, committed: bool) -> bytes:
    """The end of a producer's transaction, as Kafka's WriteTxnMarkers logs it."""
    key, value = struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0)
    return build_batch(
        [(key, value, (), 1)], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )


@pytest.mark.conformance("C-14", "C-15")
@pytest.mark.parametrize("in_one_piece", [True, False])
@pytest.mark.parametrize(
    ("batches", "offset", "unstable"),
    [
        ([offset_batch(2, 7)], 1, True),
        ([offset_batch(2, 7), marker(7, committed=True)], 2, False),
        ([offset_batch(2, 7), marker(7, committed=False)], 1, False),
        ([offset_batch(2, 7), marker(8, committed=True)], 1, True),
        ([offset_batch(2, 7), marker(7, committed=False), offset_batch(3)], 3, False),
        ([offset_batch(2, 7), offset_batch(3), marker(7, committed=True)], 3, False),
        ([offset_batch(2, 7), offset_batch(3, 8), marker(8, committed=True), marker(7, committed=True)], 3, False),
    ],
)
def test_transactions_in_a_log_of_kafkas_are_loaded_as_such(
    tmp_path: Path, batches: list[bytes], offset: int, unstable: bool, in_one_piece: bool
) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            log = [offset_batch(1), *batches]
            broker.end = len(log)
            broker.log = [(b"".join(log), len(log))] if in_one_piece else [(batch, 1) for batch in log]
            await broker.serving()
            assert await broker.committed() == {0: offset}
            assert (ErrorCode.UNSTABLE_OFFSET_COMMIT in await broker.unstable()) == unstable

    run(test())


def test_a_broker_is_sent_all_that_a_shard_counts(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(3)
            await broker.commit(5)
            broker.link.send(Kind.PING)
            figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
            assert set(figures.counters) == {each.name for each in fields(Metrics)}
            assert (figures.requests, figures.counters["offset_commits"], figures.offsets) == (2, 2, 1)
            assert (figures.state, figures.groups, figures.counters["appends_committed"]) == ("Active", {"Empty": 1}, 2)

    run(test())


def test_a_broker_may_ask_what_a_group_waits_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            answer = await broker.answer(broker.ask(join(), 3))
            for number, group in enumerate((b"g", b"no such group"), 1):
                broker.link.send(Kind.DESCRIBE, 0, 70 + number, group)
                await broker.hear(Kind.DESCRIBED, number)
            (_, first, payload), (_, second, nothing) = broker.of(Kind.DESCRIBED)
            assert (first, second, nothing) == (71, 72, b"")
            status = GroupStatus.decode(payload)
            assert (status.generation_id, status.awaited_members) == (1, (answer.member_id,))
            assert [(each.generation_id, each.member_id) for each in status.rebalances] == [(0, answer.member_id)]

    run(test())


@pytest.mark.parametrize("codec", range(5))
def test_appends_are_compressed_as_the_setting_says_and_loaded_again(tmp_path: Path, codec: int) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving(offsets_topic_compression_codec=codec)
            await broker.answer(broker.ask(commit(5, metadata="m" * 1000), 8))
            assert [read_header(batch).codec for batch, _ in broker.log] == [codec]
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            await broker.serving()
            assert await broker.committed() == {0: 5}

    run(test())


def test_only_what_is_shorter_for_it_is_compressed() -> None:
    noise = build_batch([(b"k", random.Random(1).randbytes(5_000), (), 1)])
    plain = build_batch([(b"k", b"m" * 5_000, (), 1)])
    for codec in range(1, 5):
        assert _compressed(noise, codec) == noise
        assert len(_compressed(plain, codec)) < len(plain)
        assert list(iter_key_values(_compressed(plain, codec))) == [(b"k", b"m" * 5_000)]


@pytest.mark.conformance("C-09")
def test_a_topic_nobody_has_is_refused_within_a_commit(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            known, unknown = commit(1), commit(2, "nowhere")
            assert isinstance(known, Commit)
            assert isinstance(unknown, Commit)
            both = Commit(group_id="g", generation_id_or_member_epoch=-1, topics=[*known.topics, *unknown.topics])
            answer = await broker.answer(broker.ask(both, 8))
            codes = {t.name: t.partitions[0].error_code for t in answer.topics}
            assert codes == {"t": 0, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    run(test())


@pytest.mark.parametrize("version", [7, 8])  # 8 goes the shorter way where it can
@pytest.mark.parametrize("then", [[], [("t", b"i" * 16, 9)]], ids=["deleted", "grown"])
def test_a_commit_is_answered_by_the_topics_it_was_checked_against(
    tmp_path: Path, version: int, then: list[tuple[str, bytes, int]]
) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            broker.appends = False
            row = Commit.OffsetCommitRequestPartition
            beyond = [row(partition_index=i, committed_offset=4) for i in (0, TOPICS[0][2])]
            topic = Commit.OffsetCommitRequestTopic(name="t", partitions=beyond)
            slot = broker.ask(Commit(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]), version)
            _, number, batch = await broker.hear(Kind.APPEND)
            broker.tell(then)
            broker.append(number, batch)
            (answered,) = (await broker.answer(slot)).topics
            assert [p.error_code for p in answered.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run(test())


@pytest.mark.conformance("D-08")
def test_requests_that_reach_a_loading_shard_are_answered_by_the_table(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            broker.become()
            heartbeat = messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            sync = messages.SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
            leave = messages.LeaveGroupRequest(group_id="g", member_id="m")
            slots = [
                broker.ask(join(), 5),
                broker.ask(sync, 3),
                broker.ask(heartbeat, 3),
                broker.ask(leave, 1),
                broker.ask(Fetch(group_id="g", topics=None), 7),
            ]
            codes = [(await broker.answer(slot)).error_code for slot in slots]
            assert codes == [14, 27, 0, 14, 14]
            answer = await broker.commit(1)
            assert answer.topics[0].partitions[0].error_code == 14
            assert broker.of(Kind.ACTIVE) == []
            broker.loaded()
            assert (await broker.hear(Kind.ACTIVE))[0] == 3

    run(test())


def test_a_group_of_one_joins_and_syncs_through_the_relay(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            broker.link.send(Kind.OPEN, 9, 0, b"10.1.2.3")
            first = await broker.answer(broker.ask(join(), 5, 9))
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert first.member_id.startswith("a-client-")
            joined = await broker.answer(broker.ask(join(first.member_id), 5, 9))
            assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
            assignment = messages.SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=first.member_id, assignment=b"mine"
            )
            sync = messages.SyncGroupRequest(
                group_id="g", generation_id=1, member_id=first.member_id, assignments=[assignment]
            )
            assert (await broker.answer(broker.ask(sync, 3, 9))).assignment == b"mine"
            described = await broker.answer(broker.ask(messages.DescribeGroupsRequest(groups=["g"]), 5, 9))
            (member,) = described.groups[0].members
            assert member.client_host == "/10.1.2.3"
            assert described.groups[0].group_state == "Stable"

    run(test())


def test_a_parked_request_is_answered_by_a_timer_without_further_input(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving(group_initial_rebalance_delay_ms=300)
            first = await broker.answer(broker.ask(join(), 5))
            loop = asyncio.get_running_loop()
            begun = loop.time()
            joined = await broker.answer(broker.ask(join(first.member_id), 5))
            assert joined.generation_id == 1
            assert 0.28 <= loop.time() - begun < 10, "long before its rebalance timeout"

    run(test())


def test_a_client_that_hung_up_is_not_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving(group_initial_rebalance_delay_ms=200)
            first = await broker.answer(broker.ask(join(), 5, 4))
            parked = broker.ask(join(first.member_id), 5, 4)
            broker.link.send(Kind.CLOSE, 4)
            other = broker.ask(join(), 5, 5)
            await broker.answer(other)
            described = None
            while described is None or described.groups[0].group_state == "PreparingRebalance":
                described = await broker.answer(broker.ask(messages.DescribeGroupsRequest(groups=["g"]), 5, 5))
                await asyncio.sleep(0.02)
            assert described.groups[0].group_state == "CompletingRebalance", "what it asked for still happened"
            assert not broker.answered(parked)

    run(test())


@pytest.mark.parametrize(
    "frame", [b"", b"\x00\x0c", b"\x00\x0c\x00\x04" + b"\xff" * 30, b"\x00\x0c\x00\x63" + bytes(8)]
)
def test_a_malformed_request_gets_an_empty_answer_and_harms_nobody(tmp_path: Path, frame: bytes) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            broker.link.send(Kind.REQUEST, 1, 999, frame)
            await until(lambda: broker.answered(999))
            assert [p for _, b, p in broker.of(Kind.RESPONSE) if b == 999] == [b""]
            assert (await broker.commit(4)).topics[0].partitions[0].error_code == 0

    run(test())


def test_a_request_that_trips_the_shard_up_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The partition is loaded again, again and again if the client repeats it: somebody has to find out what it was."""

    def trip(*_: Any) -> None:
        raise KeyError("a bug")

    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            with monkeypatch.context() as patch:
                patch.setattr("actors.coordinator.shard.Shard.handle", trip)
                broker.ask(Fetch(group_id="the culprit", topics=None), 7)
                await until(lambda: "failed" in caplog.text)
            assert b"the culprit".hex() in caplog.text
            await until(lambda: broker.hellos == 2, what="it offers itself again")

    run(test())


@pytest.mark.conformance("C-11")
def test_a_refused_append_changes_nothing_and_is_answered_with_its_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(5)
            broker.appends = False
            slot = broker.ask(commit(6), 8)
            _, number, _ = await broker.hear(Kind.APPEND, 2)
            broker.link.send(Kind.REFUSED, ErrorCode.NOT_LEADER_OR_FOLLOWER, number)
            answer = await broker.answer(slot)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            assert await broker.committed() == {0: 5}

    run(test())


def test_an_unexpected_log_end_is_forgotten_and_loaded_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(5)
            broker.appends = False
            broker.ask(commit(6), 8)
            _, number, batch = await broker.hear(Kind.APPEND, 2)
            stranger = broker.log[0]
            broker.log.append(stranger)  # somebody else has written in between
            broker.end += stranger[1]
            broker.append(number, batch)
            await broker.hear(Kind.HELLO, 2)
            await until(lambda: len(broker.links) == 1, what="it hung up and came back as a spare")
            broker.appends = True
            await broker.serving()
            assert await broker.committed() == {0: 6}
            assert (await broker.commit(7)).topics[0].partitions[0].error_code == 0

    run(test())


def test_a_resigned_process_says_hello_after_all_it_had_said_and_serves_the_next_partition(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            broker.ask(commit(5), 8)
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            said = len(broker.heard)
            broker.link.send(Kind.PING)
            await broker.hear(Kind.PONG)
            assert [kind for kind, *_ in broker.heard[said:]] == [Kind.PONG], "nothing of its former life"
            broker.log.clear()
            broker.end = 0
            await broker.serving()
            assert await broker.committed() == {}

    run(test())


def test_an_orphan_is_adopted_by_the_next_broker_at_the_same_socket(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(5)
            broker.server.close()
            broker.link.close()
            await until(lambda: not broker.links)
            (tmp_path / "s").unlink(missing_ok=True)
            successor = await FakeBroker(broker.path).listen()
            await successor.hear(Kind.HELLO)
            successor.log, successor.end = broker.log, broker.end
            await successor.serving()
            assert await successor.committed() == {0: 5}
            successor.server.close()
            successor.link.close()

    run(test())


def test_a_process_no_broker_wants_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(module, "_ORPHAN_SECONDS", 0.2)
        await asyncio.wait_for(ShardProcess(str(tmp_path / "nobody"), "tests").run(), 10)

    run(test())


def is_group(record: tuple[bytes, bytes | None]) -> bool:
    """Whether a record of __consumer_offsets is a group's own (key version 2), and no tombstone."""
    key, value = record
    return key[:2] == b"\x00\x02" and value is not None


@pytest.mark.conformance("C-23")
def test_offsets_of_a_topic_that_is_deleted_are_dropped(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(5)
            broker.tell([])
            await broker.hear(Kind.APPEND, 2)
            group, *tombstones = iter_key_values(broker.log[1][0])
            assert is_group(group)  # it lives on without offsets
            assert [value for _, value in tombstones] == [None]
            assert tombstones[0][0] == next(iter_key_values(broker.log[0][0]))[0]
            assert await broker.committed() == {}

    run(test())


@pytest.mark.conformance("C-23")
@pytest.mark.parametrize("when", ["before it loads", "while it loads", "made anew while it loads"])
def test_offsets_of_a_topic_that_was_deleted_without_the_shard_are_dropped(tmp_path: Path, when: str) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            others = [["u", b"u" * 16, 1]]
            broker.topics = TOPICS + others
            await broker.serving()
            await broker.commit(5)
            await broker.commit(7, "u", "other")
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            if when == "before it loads":
                broker.topics = others
            broker.become()
            if when == "while it loads":
                broker.tell(others)
            elif when == "made anew while it loads":
                broker.tell([*others, ["t", b"n" * 16, 8]])
            broker.loaded()
            await broker.hear(Kind.ACTIVE, 2)
            assert await broker.committed() == {}
            assert await broker.committed("other") == {0: 7}
            group, *tombstones = iter_key_values(broker.log[2][0])
            assert is_group(group)
            assert tombstones == [(next(iter_key_values(broker.log[0][0]))[0], None)]

    run(test())


@pytest.mark.conformance("D-12")
def test_a_log_with_a_corrupt_record_answers_not_coordinator_rather_than_loading_for_ever(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            await broker.serving()
            await broker.commit(5)
            (key, _), *_ = iter_key_values(broker.log[0][0])
            broken = module.build_batch([(key, b"\x00\x03\x01", (), 0)])
            broker.log.append((bytes(broken), 1))
            broker.end += 1
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            await broker.serving()
            answer = await broker.answer(broker.ask(Fetch(group_id="g", topics=None), 7))
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            broker.link.send(Kind.PING)
            figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2])
            assert figures.state == "Failed"

    run(test())


def test_the_garbage_collector_is_on_again_after_a_load_that_was_broken_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with process(tmp_path) as broker:
            broker.become()
            broker.link.send(Kind.RESIGN)
            await broker.hear(Kind.HELLO, 2)
            assert gc.isenabled()

    run(test())
