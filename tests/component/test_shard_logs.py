"""The process of an offsets partition loads its log, and has records appended to it."""

from __future__ import annotations

import gc
import random
import struct
from pathlib import Path

import pytest

from actors.coordinator.groups.offset_records import OffsetAndMetadata
from actors.coordinator.records import encode
from actors.coordinator_kinds.groups.record_codec import compressed
from actors.links.relay import PAYLOADS, Figures, Kind
from actors.records.batch import read_header
from actors.records.building import build_batch
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from tests.support.offset_rows import offsets_put
from tests.support.runtime_helpers import until
from tests.support.shard_broker import TOPICS, Fetch, commit, process


def offset_batch(offset: int, producer_id: int = -1) -> bytes:
    """An offset of group g as Kafka logs it: of an OffsetCommit, or of that producer's TxnOffsetCommit."""
    records = encode([offsets_put("g", (("t", 0), OffsetAndMetadata(offset, -1, "", 1)))])
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


def control(producer_id: int, key: bytes) -> bytes:
    """A control batch with a record of this key."""
    return build_batch([(key, b"", (), 1)], producer_id=producer_id, producer_epoch=0, is_control=True)


@pytest.mark.conformance("C-14", "C-15")
@pytest.mark.parametrize("in_one_piece", [True, False])
@pytest.mark.parametrize(
    ("batches", "offset", "unstable"),
    [
        ([offset_batch(2, 7)], 1, True),
        ([offset_batch(2, 7), marker(7, committed=True)], 2, False),
        ([offset_batch(2, 7), marker(7, committed=False)], 1, False),
        ([offset_batch(2, 7), marker(8, committed=True)], 1, True),
        ([offset_batch(2, 7), control(7, b"\0\0\0")], 1, True),  # too short for a marker: it was the end of the load
        ([offset_batch(2, 7), marker(7, committed=False), offset_batch(3)], 3, False),
        ([offset_batch(2, 7), offset_batch(3), marker(7, committed=True)], 3, False),
        ([offset_batch(2, 7), offset_batch(3, 8), marker(8, committed=True), marker(7, committed=True)], 3, False),
    ],
)
async def test_transactions_in_a_log_of_kafkas_are_loaded_as_such(
    tmp_path: Path, batches: list[bytes], offset: int, unstable: bool, in_one_piece: bool
) -> None:
    async with process(tmp_path) as broker:
        log = [offset_batch(1), *batches]
        broker.end = len(log)
        broker.log = [(b"".join(log), len(log))] if in_one_piece else [(batch, 1) for batch in log]
        await broker.serving()
        assert await broker.committed() == {0: offset}
        assert (ErrorCode.UNSTABLE_OFFSET_COMMIT in await broker.unstable()) == unstable


@pytest.mark.parametrize("codec", range(5))
async def test_appends_are_compressed_as_the_setting_says_and_loaded_again(tmp_path: Path, codec: int) -> None:
    async with process(tmp_path) as broker:
        await broker.serving(offsets_topic_compression_codec=codec)
        await broker.answer(broker.ask(commit(5, metadata="m" * 1000), 8))
        assert [read_header(batch).codec for batch, _ in broker.log] == [codec]
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        await broker.serving()
        assert await broker.committed() == {0: 5}


def test_only_what_is_shorter_for_it_is_compressed() -> None:
    noise = build_batch([(b"k", random.Random(1).randbytes(5_000), (), 1)])
    plain = build_batch([(b"k", b"m" * 5_000, (), 1)])
    for codec in range(1, 5):
        assert compressed(noise, codec) == noise
        assert len(compressed(plain, codec)) < len(plain)
        assert list(iter_key_values(compressed(plain, codec))) == [(b"k", b"m" * 5_000)]


@pytest.mark.conformance("C-11")
async def test_a_refused_append_changes_nothing_and_is_answered_with_its_error(tmp_path: Path) -> None:
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


async def test_an_unexpected_log_end_is_forgotten_and_loaded_again(tmp_path: Path) -> None:
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


def is_group(record: tuple[bytes, bytes | None]) -> bool:
    """True if a record of __consumer_offsets is a group's own (key version 2), and no tombstone."""
    key, value = record
    return key[:2] == b"\x00\x02" and value is not None


@pytest.mark.conformance("C-23")
async def test_offsets_of_a_topic_that_is_deleted_are_dropped(tmp_path: Path) -> None:
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


@pytest.mark.conformance("C-23")
@pytest.mark.parametrize("when", ["before it loads", "while it loads", "made anew while it loads"])
async def test_offsets_of_a_topic_that_was_deleted_without_the_shard_are_dropped(tmp_path: Path, when: str) -> None:
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


@pytest.mark.conformance("D-12")
async def test_a_log_with_a_corrupt_record_answers_not_coordinator_rather_than_loading_for_ever(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await broker.serving()
        await broker.commit(5)
        (key, _), *_ = iter_key_values(broker.log[0][0])
        broken = build_batch([(key, b"\x00\x03\x01", (), 0)])
        broker.log.append((bytes(broken), 1))
        broker.end += 1
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        await broker.serving()
        answer = await broker.answer(broker.ask(Fetch(group_id="g", topics=None), 7))
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        broker.link.send(Kind.PING)
        figures = PAYLOADS.read(Figures, (await broker.hear(Kind.PONG, 2))[2])  # the first was its last word before
        assert figures.state == "Failed"


async def test_the_garbage_collector_is_on_again_after_a_load_that_was_broken_off(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        broker.become()
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        assert gc.isenabled()
