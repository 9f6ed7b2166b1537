"""A counter beside a partition's log, over real sockets and files: it survives failovers and restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actors.wire import messages
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER
from tests.support.counter_guest import COUNTER, TOPIC, Fetched, Increment
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, world


async def asked(w: World, question: Any) -> tuple[int, Any]:
    """The answer of the counter beside t-0, at its leader."""
    leader = w.partition("t").leader
    if leader not in w.servers:
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None
    told: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
    guests = w.servers[leader].guests
    guests.ask(COUNTER.name, "t", 0, question, lambda code, answer: told.set_result((int(code), answer)))
    return await asyncio.wait_for(told, 30)


async def counted(w: World, question: Any) -> int:
    """The same, asked until there is an answer. An increment must not be counted twice, so each has another name."""
    for attempt in range(10_000):
        again = Increment(f"{question.id}.{attempt}") if isinstance(question, Increment) else question
        code, count = await asked(w, again)
        if code == 0:
            return int(count)
        await asyncio.sleep(0.005)
    raise AssertionError("nobody counts")


async def test_a_count_survives_its_leaders(tmp_path: Path) -> None:
    async with world(tmp_path, guests=(COUNTER,), min_insync_replicas="2") as w:
        await w.create("t")
        assert await counted(w, Increment("a")) == 1
        assert await counted(w, Increment("b")) == 2
        first = w.partition("t").leader
        await w.kill(first)
        assert await counted(w, Fetched()) == 2
        assert w.partition("t").leader == w.partition(TOPIC).leader != first
        assert await counted(w, Increment("c")) >= 3
        before = await counted(w, Fetched())
        await w.start_broker(first)
        await until(lambda: len(w.partition("t").isr) == len(w.partition(TOPIC).isr) == 3, what="in-sync sets")
        second = w.partition("t").leader
        await w.restart_broker(second)
        assert w.partition("t").leader == w.partition(TOPIC).leader != second
        assert await counted(w, Fetched()) == before


async def test_clients_do_not_write_to_the_state_and_see_that_it_is_internal(tmp_path: Path) -> None:
    async with world(tmp_path, guests=(COUNTER,)) as w:
        await w.create("t")
        await counted(w, Increment("a"))
        assert await w.produce(TOPIC, b"x") == ErrorCode.INVALID_TOPIC_EXCEPTION
        client = await w.client(0)
        answer = await client.ask(messages.MetadataRequest(topics=None), 9)
        client.close()
        assert {topic.name: topic.is_internal for topic in answer.topics} == {"t": False, TOPIC: True}


async def test_pairs_survive_the_controller(tmp_path: Path) -> None:
    async with world(tmp_path, guests=(COUNTER,)) as w:
        await w.create("t")
        await counted(w, Increment("a"))
        pairs = list(w.metadata.pairs)
        w.node.close()
        await w.start_controller(restarted=True)
        assert list(w.metadata.pairs) == pairs
        await until(lambda: w.partition("t").leader != NO_LEADER)
        assert await counted(w, Fetched()) == 1
