"""Partitions that move to other brokers, and brokers that leave and hand over what they lead."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator_kinds.groups import GROUPS
from actors.wire import messages
from actors.wire.errors import ErrorCode
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, commit, committed, until_async, world


async def test_a_partition_moves_to_other_brokers_with_all_its_records(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=4) as w:
        await w.create("t", factor=1)
        values = [b"%d" % i for i in range(20)]
        for value in values[:10]:
            assert await w.produce("t", value) == 0
        first = w.partition("t").leader
        others = sorted(set(w.servers) - {first})[:2]
        client = await w.client(first)
        part = messages.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=others)
        topic = messages.AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[part])
        answer = await client.ask(messages.AlterPartitionReassignmentsRequest(topics=[topic]), 0)
        assert answer.responses[0].partitions[0].error_code == 0
        await until(lambda: w.partition("t").replicas == tuple(others), what="the move")
        image = w.servers[first].context
        await until(lambda: image.metadata.partition("t", 0) == w.partition("t"), what="the news of it")
        listed = await client.ask(messages.ListPartitionReassignmentsRequest(topics=None), 0)
        assert listed.topics == []
        for value in values[10:]:
            await until_async(lambda value=value: w.produce("t", value), 0)
        assert all(w.records(broker, "t") == values for broker in others)
        await until(lambda: w.servers[first].context.data_dir.get("t", 0) is None, what="the old copy is gone")
        client.close()


async def reassign(w: World, topic: str, index: int, replicas: list[int]) -> None:
    client = await w.client(replicas[0])
    part = messages.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
    moved = messages.AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[part])
    answer = await client.ask(messages.AlterPartitionReassignmentsRequest(topics=[moved]), 0)
    client.close()
    assert answer.responses[0].partitions[0].error_code == 0
    await until(lambda: w.partition(topic, index).replicas == tuple(replicas), what="the move")


def uncommitted(w: World, topic: str, index: int) -> bool:
    log = w.servers[w.partition(topic, index).leader].context.data_dir.get(topic, index)
    return log is not None and log.log_end_offset > log.high_watermark


async def test_who_waits_for_replicas_that_are_taken_away_is_answered(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        assert await w.produce("t", b"a") == 0
        await until_async(lambda: commit(w, "g", 1), 0)
        offsets = (OFFSETS_TOPIC, partition_for_group("g", 4))
        for server in w.servers.values():
            server.replicas.stop_following()
        waiting = [
            asyncio.create_task(w.produce("t", b"b", timeout_ms=60_000)),
            asyncio.create_task(commit(w, "g", 2)),
        ]
        await until(lambda: uncommitted(w, "t", 0) and uncommitted(w, *offsets))
        for topic, index in (("t", 0), offsets):
            before = w.partition(topic, index)
            await reassign(w, topic, index, [before.leader])
            assert w.partition(topic, index).leader_epoch == before.leader_epoch
        assert await asyncio.gather(*waiting) == [0, 0]


async def test_a_shard_that_waits_for_replicas_that_are_taken_away_serves(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        await until_async(lambda: commit(w, "g", 1), 0)
        index = partition_for_group("g", 4)
        server = w.servers[w.partition(OFFSETS_TOPIC, index).leader]
        for each in w.servers.values():
            each.replicas.stop_following()
        waiting = asyncio.create_task(commit(w, "g", 2))
        await until(lambda: uncommitted(w, OFFSETS_TOPIC, index))
        server.coordinators.reload(OFFSETS_TOPIC, index)
        assert await waiting == ErrorCode.NOT_COORDINATOR
        hub = server.coordinators[GROUPS]
        links = hub.partitions.links
        await until(lambda: index in links and not hub.loading.is_sending(links[index]), what="all is read")
        assert not links[index].active
        await reassign(w, OFFSETS_TOPIC, index, [server.spec.broker_id])
        await until(lambda: links[index].active, what="the shard serves")
        assert await committed(w, "g") == 2


async def test_a_broker_that_leaves_hands_over_what_it_leads(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="2")
        assert await w.produce("t", b"a") == 0
        first = w.partition("t").leader
        await w.servers[first].hand_over()
        p = w.partition("t")
        assert p.leader != first
        assert first not in p.isr
        await until_async(lambda: w.produce("t", b"b"), 0)
        server = w.servers.pop(first)
        await server.stop()
        await until(lambda: not w.metadata.brokers[first].alive)
        await w.start_broker(first)
        await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")
        assert w.records(first, "t") == [b"a", b"b"]


@pytest.mark.parametrize("fault", ["full disk", "no connection", "no answer"])
async def test_a_broker_that_cannot_hand_over_stays_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def full(records: list[Any]) -> None:
        raise OSError(28, "no space left")

    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="3")
        assert await w.produce("t", b"a") == 0
        follower = next(broker for broker in w.servers if broker != w.partition("t").leader)
        server = w.servers[follower]
        with monkeypatch.context() as patch:
            if fault == "full disk":
                patch.setattr(w.controller.log, "append", full)
            elif fault == "no connection":
                away = "the controller cannot be reached"
                patch.setattr(server.registration.link, "call", lambda operation, done: done(None, away))
            else:
                patch.setattr(server.registration.link, "call", lambda operation, done: None)
            with pytest.raises(TimeoutError if fault == "no answer" else ConnectionError):
                await server.leaving.hand_over(answer_s=0.01 if fault == "no answer" else 10.0)
        assert await w.produce("t", b"b") == 0, "it follows: all three are needed"
        assert w.records(follower, "t") == [b"a", b"b"]
        await server.hand_over()
        assert follower not in w.partition("t").isr


async def test_nobody_counts_on_a_broker_that_has_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        assert await w.produce("t", b"a") == 0
        leader = w.partition("t").leader
        follower = next(broker for broker in w.servers if broker != leader)
        came: list[Any] = []
        listener = w.servers[follower].replicas.listener
        introduce = listener.introduce
        monkeypatch.setattr(listener, "introduce", lambda *who: (came.append(who), introduce(*who)))
        await w.servers[follower].hand_over()
        await until(lambda: len(came) > 3, what="the leader tries to reach it")
        assert await w.produce("t", b"b") == 0
        assert follower not in w.partition("t").isr
        assert w.records(follower, "t") == [b"a"]


@pytest.mark.parametrize("fault", ["the controller dies", "nobody comes"])
async def test_a_broker_that_has_handed_over_and_is_not_stopped_follows_again(tmp_path: Path, fault: str) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        follower = next(broker for broker in w.servers if broker != w.partition("t").leader)
        stop_s = 0.1 if fault == "nobody comes" else 30.0
        await w.servers[follower].leaving.hand_over(stop_s=stop_s)
        if fault == "the controller dies":
            assert follower not in w.partition("t").isr
            w.node.close()
            await w.start_controller()
        await until(lambda: follower in w.partition("t").isr, what="in sync again")
