"""A broker sends a shard its log, and answers clients meanwhile; the test plays the shard process."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.links.relay import Kind
from actors.log.compaction import compact
from actors.log.config import LogConfig
from actors.log.files import REAL_WRITER, remove_files
from actors.log.reading import Extent
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage
from placement.metadata import (
    OFFSETS_TOPIC,
)
from tests.support.runtime_helpers import until
from tests.support.shard_world import GROUP, Client, Join, Leave, Sync, batch, commit, fetch_offsets, heartbeat, world

# --- loading ---


async def test_the_log_is_loaded_in_pieces_of_which_few_are_on_their_way(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(1, 20)
        shard = await w.shard()
        w.ensure(1)
        await shard.hear(Kind.LOAD, 4)
        await asyncio.sleep(0.05)
        assert len(shard.of(Kind.LOAD)) == 4, "the next piece waits to be asked for"
        keys: list[bytes | None] = []
        done = 0
        while not shard.of(Kind.LOADED):
            await until(lambda done=done: len(shard.of(Kind.LOAD)) > done or shard.of(Kind.LOADED))
            for _, _, piece in shard.of(Kind.LOAD)[done:]:
                keys += [key for key, _ in iter_key_values(piece)]
                done += 1
                shard.protocol.send(Kind.LOAD_MORE, 1)
        assert keys == [b"k%d" % i for i in range(20)]
        assert shard.of(Kind.LOADED) == [(1, 20, b"")]
        assert (await shard.hear(Kind.HIGH_WATERMARK))[1] == 20


async def test_a_piece_of_log_is_read_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times 5 MiB from a cold disk held up every client of the broker."""
    threads: list[threading.Thread] = []
    read = Extent.read

    def noted(extent: Extent) -> bytes:
        threads.append(threading.current_thread())
        return read(extent)

    monkeypatch.setattr(Extent, "read", noted)

    async with world(tmp_path) as w:
        w.write(1, 3)
        shard = await w.serving(1)
        await shard.hear(Kind.LOAD)
        assert threading.main_thread() not in threads


async def test_a_piece_read_for_a_partition_given_up_meanwhile_reaches_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    read = Extent.read

    def slow(extent: Extent) -> bytes:
        assert go_on.wait(20)
        return read(extent)

    monkeypatch.setattr(Extent, "read", slow)

    async with world(tmp_path) as w:
        w.write(1, 1)
        shard = await w.shard()
        w.ensure(1)
        await shard.hear(Kind.BECOME)
        w.hub.reload(1)
        await shard.hear(Kind.RESIGN)
        w.lead(1, leader=1, epoch=6)
        shard.hello()
        w.ensure(2)
        assert (await shard.hear(Kind.BECOME, 2))[0] == 2
        go_on.set()
        await shard.hear(Kind.LOADED)
        assert shard.of(Kind.LOAD) == []


async def test_a_compaction_between_finding_a_piece_and_reading_it_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compacted file has the old one's name: what lies at the piece's position there is something else."""
    located, go_on = threading.Event(), threading.Event()
    read = Extent.read

    def slow(extent: Extent) -> bytes:
        if extent.next_offset > 1:
            located.set()
            assert go_on.wait(20)
        return read(extent)

    monkeypatch.setattr(Extent, "read", slow)

    async with world(tmp_path) as w:
        log = w.context.log(OFFSETS_TOPIC, 1)
        log.config = LogConfig(cleanup_policy=("compact",), max_message_bytes=100)
        for i in range(10):  # 0 and 1 go, so that 2 and 3, the second piece, come to lie where they were
            log.append_as_leader(batch(b"k%d" % i if 1 < i < 9 else b"again", b"%d" % i), 5, 0)
        log.advance_high_watermark(log.log_end_offset)
        shard = await w.shard()
        w.ensure(1)
        await until(located.is_set)
        plan = log.cleaning.plan(0, force=True)
        assert plan is not None
        remove_files(log.cleaning.swap(compact(plan, REAL_WRITER), 0))
        go_on.set()
        loaded: dict[bytes | None, Any] = {}
        done = 0
        while not shard.of(Kind.LOADED):
            await until(lambda done=done: len(shard.of(Kind.LOAD)) > done or shard.of(Kind.LOADED))
            for _, _, piece in shard.of(Kind.LOAD)[done:]:
                loaded.update(iter_key_values(piece))
                done += 1
                shard.protocol.send(Kind.LOAD_MORE, 1)
        assert loaded == {b"again": b"9"} | {b"k%d" % i: b"%d" % i for i in range(2, 9)}
        assert shard.of(Kind.RESIGN) == []


async def test_a_piece_that_cannot_be_read_as_a_whole_is_not_loaded(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(1, 3)
        shard = await w.spare()
        file = w.context.log(OFFSETS_TOPIC, 1).segments.active.path
        os.truncate(file, file.stat().st_size - 1)
        w.ensure(1)
        await shard.hear(Kind.RESIGN)
        assert len(shard.of(Kind.LOAD)) < 2
        assert shard.of(Kind.LOADED) == []


@pytest.mark.conformance("D-08")
async def test_what_clients_are_told_while_a_shard_loads(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_wait_ms="0") as w:
        shard = await w.shard()
        w.ensure(1)
        await shard.hear(Kind.BECOME)
        client = Client(w.coordinators)
        requests: list[tuple[ApiMessage, int]] = [
            (Join(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer"), 5),
            (Sync(group_id=GROUP, generation_id=1, member_id="m"), 3),
            (heartbeat(), 3),
            (Leave(group_id=GROUP, member_id="m"), 1),
            (commit(), 8),
            (fetch_offsets(), 7),
        ]
        for message, version in requests:
            client.send(message, version)
        join, sync, beat, leave, committed, fetched = client.answers(*((type(m), v) for m, v in requests))
        assert join.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert beat.error_code == ErrorCode.NONE
        assert leave.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert [p.error_code for t in committed.topics for p in t.partitions] == [14, 14]
        assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_log_that_cannot_be_read_is_tried_again_by_the_next_request_not_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        w.write(1, 3)
        shard = await w.spare()
        tries = w.break_log(monkeypatch, 1)
        client = Client(w.coordinators)
        client.send(heartbeat(), 3)
        await shard.hear(Kind.RESIGN)
        await w.spare_again(shard)
        assert len(tries) == 1
        monkeypatch.undo()
        assert not w.ensure(1)
        await shard.hear(Kind.LOADED)
        assert not client.aborted
