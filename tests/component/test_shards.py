"""The offsets partition of each shard process: spares, demand, leadership."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.broker.coordinators.processes import Processes
from actors.links.known_topics import KnownTopics
from actors.links.relay import PAYLOADS, Assignment, Kind, RelayProtocol
from actors.wire.errors import ErrorCode
from placement.hashing import partition_for_group
from placement.metadata import NO_LEADER, OFFSETS_TOPIC, PartitionInfo, TopicInfo
from placement.records import TopicRecord
from tests.support.runtime_helpers import until
from tests.support.shard_world import GROUP, PARTITIONS, Client, Commit, FakeShard, Heartbeat, batch, heartbeat, world

# --- spares and demand ---


async def test_a_spare_waits_until_a_partition_wants_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.spare()
        assert shard.heard == []
        assert not w.ensure(1)
        partition, epoch, payload = await shard.hear(Kind.BECOME)
        assert (partition, epoch) == (1, 5)
        told = PAYLOADS.read(Assignment, payload)
        assert told.config.group_initial_rebalance_delay_ms == 3000
        assert (OFFSETS_TOPIC, b"o" * 16, PARTITIONS) in told.topics
        shard.protocol.send(Kind.ACTIVE, 1)
        await until(lambda: w.ensure(1))


async def test_as_many_processes_are_asked_for_as_partitions_and_spares_want(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_spare_shards="2") as w:
        w.ensure(0)
        w.ensure(1)
        assert (w.asked[-1], w.urgent) == (4, 2)
        await w.shard()
        await until(lambda: w.asked[-1] == 3)
        w.coordinators.tick()  # says it again: the controller may not have heard
        assert w.asked[-2:] == [3, 3]
        for _ in range(3):
            await w.shard()
        await until(lambda: len(w.states("Spare")) == 2)
        asked = len(w.asked)
        w.coordinators.tick()
        assert len(w.asked) == asked, "enough"


async def test_a_broker_that_hosts_nothing_keeps_one_spare(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_spare_shards="3") as w:
        w.coordinators.tick()
        assert w.asked[-1] == 1
        shard = await w.shard()
        await until(lambda: w.asked[-1] == 0)
        w.ensure(0)
        await shard.serve()
        assert w.asked[-1] == 3


async def test_no_spare_is_kept_where_none_is_wanted(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_spare_shards="0") as w:
        w.coordinators.tick()
        assert not any(w.asked)


async def test_who_is_needed_less_is_asked_less_often_for_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, heard, asked = RelayProtocol.send, Processes.heard, set[RelayProtocol]()

    def sent(protocol: RelayProtocol, kind: int, *others: Any, **named: Any) -> None:
        if kind == Kind.PING:
            asked.add(protocol)
        send(protocol, kind, *others, **named)

    def answered(processes: Processes, protocol: RelayProtocol) -> None:
        asked.discard(protocol)
        heard(processes, protocol)

    monkeypatch.setattr(RelayProtocol, "send", sent)
    monkeypatch.setattr(Processes, "heard", answered)
    async with world(tmp_path) as w:
        serving, spare = await w.serving(1), await w.spare()

        async def tick() -> None:
            w.coordinators.tick()
            await until(lambda: not asked, what="answers")

        for _ in range(16):
            await tick()
        assert (serving.pings, spare.pings) == (8, 2)
        Client(w.coordinators).send(heartbeat(), 3)
        for _ in range(16):
            await tick()
        assert (serving.pings, spare.pings) == (8 + 16, 4), "a client waits"


async def test_the_launcher_is_told_which_processes_have_come(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.shard()
        await until(lambda: w.here == (f"shard-{first.pid}",))
        w.ensure(0)
        await first.serve()
        w.shards.append(await FakeShard(w.socket, 77).connect(hello=False))  # it has not said who it is
        w.ensure(1)
        assert w.here == (f"shard-{first.pid}",)
        w.shards[-1].hello()
        await until(lambda: w.here == (f"shard-{first.pid}", "shard-77"))
        asked = len(w.asked)
        w.coordinators.processes.report()  # as after each registration
        assert len(w.asked) == asked + 1


async def test_spares_beyond_the_target_end_after_a_while_and_get_no_partition_meanwhile(tmp_path: Path) -> None:
    """One that had been told to end could still be given a partition, whose requests it took with it."""
    async with world(tmp_path) as w:
        kept, ended = await w.spare(), await w.spare()
        processes, now = w.coordinators.processes, w.context.loop.time()
        for later in (0, 29):
            processes.end_surplus(now + later)
        assert ended.of(Kind.END) == []
        processes.end_surplus(now + 31)
        processes.end_surplus(now + 62)
        await ended.hear(Kind.END)
        w.ensure(1)
        w.ensure(2)
        await kept.hear(Kind.BECOME)
        assert [kind for kind, *_ in ended.heard] == [Kind.END]


async def test_a_partition_a_client_waits_for_comes_before_those_loaded_in_the_background(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(0, 1)
        w.write(2, 1)
        w.hub.note_topics()  # as on a start: partitions with records are loaded in the background
        w.ensure(1)
        w.ensure(2)  # waits already, and is wanted now
        order = []
        for _ in range(3):
            shard = await w.shard()
            order.append(await shard.serve())
        assert order == [1, 2, 0]


async def test_partitions_nobody_asks_for_are_loaded_one_at_a_time(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for partition in (0, 1, 2):
            w.write(partition, 20)  # more pieces than are on their way at once
        w.hub.note_topics()
        assert w.asked[-1] == 2, "one to load, one spare"
        first, second = await w.shard(), await w.shard()
        assert (await first.hear(Kind.BECOME))[0] == 0
        await until(lambda: len(w.states("Spare")) == 1)
        assert second.of(Kind.BECOME) == []
        w.ensure(2)
        assert (await second.hear(Kind.BECOME))[0] == 2, "a client waits for it"
        third = await w.spare()
        for shard, partition in ((first, 0), (second, 2)):
            assert third.of(Kind.BECOME) == []
            while not shard.of(Kind.LOADED):
                pieces = len(shard.of(Kind.LOAD))
                shard.protocol.send(Kind.LOAD_MORE, partition)
                await until(lambda shard=shard, n=pieces: len(shard.of(Kind.LOAD)) > n or shard.of(Kind.LOADED))  # type: ignore[misc]
            await shard.serve()
        assert await third.serve() == 1


async def test_an_empty_partition_gets_no_process_before_it_is_asked_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(2, 1)
        w.hub.note_topics()
        assert w.hub.led() == [2]
        shard = await w.shard()
        assert (await shard.hear(Kind.BECOME))[0] == 2
        await w.spare()  # the next one stays a spare


@pytest.mark.conformance("A-15")
async def test_all_requests_of_a_group_reach_the_groups_one_partition(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        client = Client(w.coordinators)
        topics = []
        for name in ("a", "b", "c"):
            topic = Commit.OffsetCommitRequestTopic(
                name=name,
                partitions=[Commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
            topics.append(topic)
            client.send(Commit(group_id=GROUP, member_id="m", topics=[topic]), 8)
        client.send(Commit(group_id=GROUP, member_id="m", topics=topics), 8)
        await shard.hear(Kind.REQUEST, 4)
        assert w.hub.partition_of(GROUP.encode()) == partition_for_group(GROUP, PARTITIONS) == 1
        assert [s.partition for s in w.states("Active", "Loading")] == [1]


# --- leadership ---


@pytest.mark.conformance("A-16")
async def test_a_shard_whose_partition_moves_away_resigns_and_its_clients_are_sent_on(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        client = Client(w.coordinators)
        client.send(heartbeat(), 3)
        await shard.hear(Kind.REQUEST)
        assert w.coordinator(GROUP) == (0, 0)
        w.lead(1, leader=1, epoch=6)
        await shard.hear(Kind.RESIGN)
        assert client.answers((Heartbeat, 3))[0].error_code == ErrorCode.NOT_COORDINATOR
        assert w.coordinator(GROUP) == (0, 1)
        client.send(heartbeat(), 3)
        assert [a.error_code for a in client.answers((Heartbeat, 3), (Heartbeat, 3))] == [16, 16]
        assert w.states("Spare") == [], "not before it has said so"
        shard.hello()
        await until(lambda: len(w.states("Spare")) == 1)


async def test_what_a_resigning_shard_had_on_its_way_reaches_no_log(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        w.lead(1, leader=1, epoch=6)
        w.lead(1, leader=0, epoch=7)  # and back, before the shard has heard of any of it
        shard.protocol.send(Kind.APPEND, 1, 0, batch(b"of a former life"))
        shard.protocol.send(Kind.ACTIVE, 1)
        await shard.hear(Kind.RESIGN)
        shard.hello()
        w.ensure(1)
        partition, epoch, _ = await shard.hear(Kind.BECOME, 2)
        assert (partition, epoch) == (1, 7)
        assert not w.states("Active")
        assert shard.of(Kind.APPENDED) == shard.of(Kind.REFUSED) == []
        assert w.keys(1) == []


async def test_a_new_epoch_of_the_same_leader_loads_the_shard_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(1, 1)
        shard = await w.serving(1)
        spare = await w.spare()
        w.lead(1, leader=0, epoch=8)
        await shard.hear(Kind.RESIGN)
        assert (await spare.hear(Kind.BECOME))[:2] == (1, 8)


async def test_a_shard_whose_log_was_repaired_loads_it_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(1, 1)
        shard = await w.serving(1)
        spare = await w.spare()
        w.hub.reload(2)  # this partition has no shard
        w.hub.reload(1)
        await shard.hear(Kind.RESIGN)
        assert (await spare.hear(Kind.BECOME))[:2] == (1, 5)


async def test_shards_are_told_which_topics_there_are(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        w.hub.note_topics()
        w.context.metadata.apply(TopicRecord(TopicInfo("new", b"n" * 16, (PartitionInfo(1, 0, (1,), (1,)),) * 2)))
        w.hub.note_topics()
        await until(lambda: shard.of(Kind.TOPICS))
        assert ("new", b"n" * 16, 2) in PAYLOADS.read(KnownTopics, shard.of(Kind.TOPICS)[-1][2]).topics
        told = len(shard.of(Kind.TOPICS))
        w.hub.note_topics()
        await asyncio.sleep(0.02)
        assert len(shard.of(Kind.TOPICS)) == told, "nothing has changed"


async def test_a_topic_made_anew_before_a_partition_has_loaded_does_not_get_the_old_ones_offsets(
    tmp_path: Path,
) -> None:
    """The partition waits for a process, loads, and is loaded again after a death: the same holds each time."""
    async with world(tmp_path) as w:
        w.write(1, 1)
        for name in ("one", "two", "other"):
            w.topic(name, b"1" * 16)  # as on a start: the partition waits for a process
        w.delete_topic("one")
        w.topic("one", b"2" * 16)
        shard = await w.shard()
        assert await shard.hear_deleted() == ("one",)
        w.delete_topic("two")
        w.topic("two", b"2" * 16)
        assert await shard.hear_deleted(2) == ("two",)
        shard.protocol.close()
        successor = await w.shard()
        assert await successor.hear_deleted() == ("one", "two")
        await successor.serve()
        await until(lambda: w.states("Active"))
        w.delete_topic("other")
        w.hub.reload(1)
        await (await w.shard()).hear(Kind.LOADED)
        assert not w.shards[-1].of(Kind.TOPICS_DELETED), "those before it heard of when it served"


async def test_deletions_are_forgotten_when_another_broker_leads_the_partition(tmp_path: Path) -> None:
    """It may have taken offsets of the new topic."""
    async with world(tmp_path) as w:
        w.write(1, 1)
        w.topic("t", b"1" * 16)
        w.delete_topic("t")
        w.topic("t", b"2" * 16)
        w.lead(1, leader=NO_LEADER, epoch=6)
        w.lead(1, leader=0, epoch=7)
        shard = await w.shard()
        assert await shard.hear_deleted() == ("t",)
        w.lead(1, leader=1, epoch=8)
        w.lead(1, leader=0, epoch=9)
        await shard.hear(Kind.RESIGN)
        shard.hello()
        await shard.hear(Kind.BECOME, 2)
        await shard.hear(Kind.LOADED)
        assert len(shard.of(Kind.TOPICS_DELETED)) == 1


async def test_closing_hangs_up_on_every_shard_and_asks_for_no_more(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, spare = await w.serving(1), await w.spare()
        asked = len(w.asked)
        w.coordinators.close()
        await one.lost.wait()
        await spare.lost.wait()
        assert len(w.asked) == asked
