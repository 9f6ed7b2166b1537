"""Shards that die or fall silent, and the broker that succeeds them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from actors.links.relay import Figures, Kind
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, api_name
from tests.support.runtime_helpers import Clock, until
from tests.support.shard_world import (
    GROUP,
    Client,
    Commit,
    Fetch,
    Join,
    Leave,
    Sync,
    batch,
    commit,
    fetch_offsets,
    heartbeat,
    world,
)

# --- the death of a shard ---


@pytest.mark.conformance("D-05", "D-09")
async def test_a_shards_death_answers_everything_it_owed_with_16_in_each_requests_version(tmp_path: Path) -> None:
    requests: list[tuple[ApiMessage, int]] = [(Join(group_id=GROUP, member_id="m"), version) for version in (0, 5, 9)]
    requests += [(Sync(group_id=GROUP, member_id="m"), version) for version in (0, 3, 5)]
    requests += [(heartbeat(), version) for version in (0, 4)]
    requests += [(Leave(group_id=GROUP, member_id="m"), 1)]
    requests += [(commit(), version) for version in (2, 5, 8, 9)]
    requests += [(fetch_offsets(), version) for version in (1, 2, 7)]

    async with world(tmp_path) as w:
        shard = await w.serving(1)
        client = Client(w.coordinators)
        for message, version in requests:
            client.send(message, version)
        await shard.hear(Kind.REQUEST, len(requests))
        shard.protocol.close()
        await until(lambda: client.written)
        answers = client.answers(*((type(m), v) for m, v in requests))
        for (message, version), answer in zip(requests, answers, strict=True):
            name = f"{api_name(message.api_key)} v{version}"
            if isinstance(message, Commit) or (isinstance(message, Fetch) and version < 2):
                assert [p.error_code for t in answer.topics for p in t.partitions] == [16, 16], name
            else:
                assert answer.error_code == ErrorCode.NOT_COORDINATOR, name
        assert not client.aborted


async def test_a_dead_shard_is_succeeded_at_once_by_a_spare_that_loads_what_was_committed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.serving(1)
        spare = await w.spare()
        first.protocol.send(Kind.APPEND, 1, 0, batch(b"acknowledged"))
        await first.hear(Kind.APPENDED)
        first.protocol.close()
        partition, _, _ = await spare.hear(Kind.BECOME)
        assert partition == 1
        _, _, piece = await spare.hear(Kind.LOAD)
        assert [key for key, _ in iter_key_values(piece)] == [b"acknowledged"]
        assert w.asked[-1] >= 1, "and another spare is asked for"


async def test_a_silent_shard_is_killed_and_succeeded(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_silence_ms="200") as w:
        silent = await w.shard(pid=123_456)
        w.ensure(1)
        await silent.serve()
        await until(lambda: w.states("Active"))
        spare = await w.spare()
        spare.pid = 1
        silent.pongs = False
        deadline = asyncio.get_running_loop().time() + 60
        while not w.killed and asyncio.get_running_loop().time() < deadline:
            w.coordinators.tick()
            await asyncio.sleep(0.04)
        assert w.killed == [123_456]
        assert (await spare.hear(Kind.BECOME))[0] == 1


async def test_a_shard_that_falls_silent_while_it_loads_is_killed_as_well_but_later(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_silence_ms="100") as w:
        loading = await w.shard(pid=55)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        w.ensure(1)
        await loading.hear(Kind.BECOME)
        loading.pongs = False
        while not w.killed and loop.time() < begun + 60:
            w.coordinators.tick()
            await asyncio.sleep(0.03)
        assert w.killed == [55]
        assert loop.time() - begun >= 0.9


async def test_shards_that_are_silent_for_less_than_their_time_after_a_stall_of_the_broker_live(tmp_path: Path) -> None:
    """Their silence was counted from before the broker stood still, and all of them were killed at once."""
    async with world(tmp_path, coterie_shard_silence_ms="10000") as w:
        clock: Any = Clock(asyncio.get_running_loop())
        w.context.loop = clock
        shards = [await w.shard(pid=-1 - n) for n in range(3)]
        for partition in range(3):
            w.ensure(partition)
        for shard in shards:
            await shard.serve()
        await until(lambda: len(w.states("Active")) == 3)
        w.coordinators.tick()
        await until(lambda: all(row.figures for row in w.states("Active")))
        for shard in shards:
            shard.pongs = False
        clock.ahead += 18.0  # the broker is stopped
        for _ in range(3):
            w.coordinators.tick()
            clock.ahead += 2.0
        assert w.killed == []
        for _ in range(6):
            w.coordinators.tick()
            clock.ahead += 2.0
        assert len(w.killed) == 1, "one at a time"


async def test_a_stall_of_the_broker_kills_no_shard(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_silence_ms="200") as w:
        await w.serving(1)
        w.coordinators.tick()
        await asyncio.sleep(0.02)
        time.sleep(0.6)  # noqa: ASYNC251 - the loop stands still, as under SIGSTOP
        w.coordinators.tick()
        await asyncio.sleep(0.02)
        w.coordinators.tick()
        assert w.killed == []
        await until(lambda: w.states("Active")[0].figures == Figures(counters={"offset_commits": 3}))
