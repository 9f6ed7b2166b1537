"""Offsets partitions whose shard gives its process back: when it may, what the broker keeps, and what wakes it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers.group_requests.whole_groups import list_groups
from actors.coordinator.groups.messages import ListedGroup, MaySleepResponse
from actors.links.relay import PAYLOADS, Kind
from actors.wire.errors import ErrorCode
from actors.wire.messages import ListGroupsRequest, ListGroupsResponse, OffsetCommitResponse
from placement.records import RemoveTopicRecord
from tests.support.runtime_helpers import until
from tests.support.shard_world import GROUP, OTHER, Client, FakeShard, Fetch, World, batch, commit, world

LISTED = (ListedGroup(GROUP, "consumer", "Empty"), ListedGroup("another", "", "Empty"))
IDLE = {"coterie_shard_idle_ms": "1"}


async def question(w: World, shard: FakeShard) -> int:
    """The number under which a shard has been asked whether it may sleep."""
    before = len(shard.of(Kind.MAY_SLEEP))

    def asked() -> bool:
        w.coordinators.tick()
        return len(shard.of(Kind.MAY_SLEEP)) > before

    await until(asked, what="the question")
    partition, number, _ = shard.of(Kind.MAY_SLEEP)[-1]
    assert w.states("Drowsy")[0].partition == partition
    return number


def say(shard: FakeShard, number: int, partition: int = 1, **answer: Any) -> None:
    shard.protocol.send(Kind.RESTS, partition, number, PAYLOADS.encode(MaySleepResponse(**answer)))


async def asleep(w: World, **answer: Any) -> FakeShard:
    """A shard of partition 1 that has gone to sleep; its process is a spare again."""
    w.write(1, 1)
    shard = await w.serving(1)
    say(shard, await question(w, shard), **{"topics": ("t",), "groups": LISTED, **answer})
    await shard.hear(Kind.RESIGN)
    await w.spare_again(shard)
    return shard


def listed(w: World, **filters: Any) -> list[Any]:
    """The answers to a ListGroups; none while shards are waited for."""
    answers: list[Any] = []

    class Asked:
        message = ListGroupsRequest(**filters)
        version = 5
        connection = None
        is_moot = False
        reply = answers.append

    asked: Any = Asked()
    list_groups(w.handlers, asked)
    return answers


async def test_a_shard_that_nobody_asks_gives_its_process_back(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        w.write(1, 1)
        shard = await w.serving(1)
        say(shard, await question(w, shard))
        await shard.hear(Kind.RESIGN)
        (row,) = w.states("Asleep")
        assert (row.partition, row.pid, row.epoch) == (1, None, 5)
        assert w.hub.led() == []
        await w.spare_again(shard)
        w.hub.note_topics()
        w.coordinators.tick()
        assert len(shard.of(Kind.BECOME)) == 1, "it sleeps on"


async def test_with_an_idle_time_of_zero_no_shard_is_asked(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_idle_ms="0") as w:
        shard = await w.serving(1)
        for _ in range(3):
            w.coordinators.tick()
        await asyncio.sleep(0.02)
        assert shard.of(Kind.MAY_SLEEP) == []
        assert w.states("Active")[0].why == "coterie.shard.idle.ms is 0"


async def test_a_request_begins_the_idle_time_anew(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_idle_ms="100000") as w:
        shard = await w.serving(1)
        now = w.context.loop.time()
        idling, links = w.hub.idling, w.hub.partitions.links
        idling.tick(links.values(), now)
        idling.tick(links.values(), now + 99)
        client = Client(w.coordinators)
        client.send(commit(), 8)
        slot, frame = (await shard.hear(Kind.REQUEST))[1:]
        idling.tick(links.values(), now + 150)
        shard.answer(slot, frame, OffsetCommitResponse())
        await until(lambda: not links[1].pending)
        idling.tick(links.values(), now + 249)
        assert shard.of(Kind.MAY_SLEEP) == []
        idling.tick(links.values(), now + 251)
        await shard.hear(Kind.MAY_SLEEP)


async def test_a_list_of_all_groups_that_is_under_way_does_not_begin_the_idle_time_anew(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_idle_ms="100000") as w:
        shard = await w.serving(1)
        now = w.context.loop.time()
        idling, links = w.hub.idling, w.hub.partitions.links
        idling.tick(links.values(), now)
        answers = listed(w)
        slot, frame = (await shard.hear(Kind.REQUEST))[1:]
        idling.tick(links.values(), now + 99)
        idling.tick(links.values(), now + 101)
        shard.answer(slot, frame, ListGroupsResponse())
        await until(lambda: answers)
        assert shard.of(Kind.MAY_SLEEP) == [], "it had not answered yet"
        idling.tick(links.values(), now + 102)
        await shard.hear(Kind.MAY_SLEEP)


async def test_a_busy_shard_stays_and_says_why(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await w.serving(1)
        say(shard, await question(w, shard), busy="group g is Stable")
        await until(lambda: w.states("Active"))
        assert w.states("Active")[0].why == "group g is Stable"
        assert await question(w, shard), "it is asked again"
        assert shard.of(Kind.RESIGN) == []


async def test_an_answer_from_before_a_request_counts_no_more(tmp_path: Path) -> None:
    """The request may be on its way to the shard while the shard says that it may sleep."""
    async with world(tmp_path, **IDLE) as w:
        shard = await w.serving(1)
        number = await question(w, shard)
        client = Client(w.coordinators)
        client.send(commit(), 8)
        say(shard, number)
        slot, frame = (await shard.hear(Kind.REQUEST))[1:]
        shard.answer(slot, frame, OffsetCommitResponse())
        await until(lambda: client.written)
        await until(lambda: w.states("Active"))
        assert shard.of(Kind.RESIGN) == []
        say(shard, number)  # nor does it later
        say(shard, await question(w, shard), busy="it has more than 1000 groups")
        await until(lambda: w.states("Active"))
        assert shard.of(Kind.RESIGN) == []


async def test_an_answer_from_before_the_topics_changed_counts_no_more(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await w.serving(1)
        number = await question(w, shard)
        w.topic("t", b"t" * 16)
        say(shard, number)
        again = await question(w, shard)
        assert shard.of(Kind.RESIGN) == []
        say(shard, again)
        await shard.hear(Kind.RESIGN)


@pytest.mark.parametrize("message", [commit(), Fetch(group_id=GROUP, topics=None)], ids=["commit", "fetch"])
async def test_a_request_wakes_a_partition_in_one_process(tmp_path: Path, message: Any) -> None:
    async with world(tmp_path, **IDLE, coterie_spare_shards="2") as w:
        shard = await asleep(w)
        other = await w.spare()
        client = Client(w.coordinators)
        client.send(message, 7)
        client.send(message, 7, correlation_id=2)
        w.hub.note_topics()
        w.coordinators.tick()
        await until(lambda: len(shard.of(Kind.BECOME)) + len(other.of(Kind.BECOME)) > 1)
        woken = shard if len(shard.of(Kind.BECOME)) > 1 else other
        woken.protocol.send(Kind.ACTIVE, 1)
        await woken.hear(Kind.REQUEST, 2)
        assert len(shard.of(Kind.BECOME)) + len(other.of(Kind.BECOME)) == 2
        assert w.states("Asleep") == []


async def test_a_lookup_of_the_coordinator_wakes_a_partition(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await asleep(w)
        told: list[ErrorCode] = []
        w.hub.await_serving(1, told.append)
        await shard.serve()
        await until(lambda: told == [ErrorCode.NONE])


async def test_what_expires_wakes_a_partition(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        due_ms = time.time_ns() // 10**6 + 1_000_000
        shard = await asleep(w, due_ms=due_ms)
        w.coordinators.tick()
        assert w.states("Asleep")
        w.context.now_ms = lambda: due_ms
        w.coordinators.tick()
        await shard.serve()
        await until(lambda: w.states("Active"))
        assert not shard.of(Kind.TOPICS_DELETED)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
async def test_the_deletion_of_one_of_its_topics_wakes_a_partition_and_it_is_told(tmp_path: Path, again: bool) -> None:
    async with world(tmp_path, **IDLE) as w:
        w.topic("t", b"t" * 16)
        w.topic("other", b"o" * 16)
        shard = await asleep(w)
        w.delete_topic("other")
        w.coordinators.tick()
        assert w.states("Asleep"), "it has no offsets of that one"
        w.context.metadata.apply(RemoveTopicRecord("t"))
        if again:
            w.topic("t", b"T" * 16)
        w.hub.note_topics()
        w.coordinators.tick()
        assert await shard.hear_deleted() == ("t",)
        shard.protocol.close()  # before it could delete the offsets
        successor = await w.shard()
        assert await successor.hear_deleted() == ("t",)


async def test_groups_are_listed_while_their_partition_sleeps(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await asleep(w)
        (answer,) = listed(w)
        assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups] == [
            (GROUP, "consumer", "Empty", "classic"),
            ("another", "", "Empty", "classic"),
        ]
        assert [a.groups for a in listed(w, states_filter=["Stable"])] == [[]]
        assert [len(a.groups) for a in listed(w, states_filter=["empty"], types_filter=["Classic"])] == [2]
        assert w.states("Asleep")
        w.hub.await_serving(1, lambda _: None)
        assert listed(w) == [], "it is being woken, and will be asked itself"
        assert len(shard.of(Kind.BECOME)) == 1


@pytest.mark.parametrize("how", ["epoch", "leader", "repair"])
async def test_what_was_known_of_a_sleeper_counts_no_more_when_its_log_is_another(tmp_path: Path, how: str) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await asleep(w)
        if how == "repair":
            w.hub.reload(2)  # this partition has never had a shard
            w.hub.reload(1)
        else:
            w.lead(1, 1 if how == "leader" else 0, 6)
        assert w.states("Asleep") == []
        assert listed(w) == ([] if how != "leader" else [ListGroupsResponse(groups=[])])
        if how == "leader":
            assert len(shard.of(Kind.BECOME)) == 1
        else:
            assert (await shard.hear(Kind.BECOME, 2))[:2] == (1, 6 if how == "epoch" else 5)


@pytest.mark.parametrize("how", ["epoch", "repair", "a log that cannot be read"])
async def test_a_deletion_while_a_partition_slept_outlives_what_else_was_known_of_it(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, **IDLE) as w:
        w.topic("t", b"t" * 16)
        shard = await asleep(w)
        w.delete_topic("t")
        w.topic("t", b"T" * 16)
        if how == "epoch":
            w.lead(1, leader=0, epoch=6)
        elif how == "repair":
            w.hub.reload(1)
        else:
            with monkeypatch.context() as patch:
                w.break_log(patch, 1)
                w.coordinators.tick()
                await shard.hear(Kind.RESIGN, 2)
            await w.spare_again(shard)
            w.ensure(1)
        assert w.states("Asleep") == []
        again = 2 if how == "a log that cannot be read" else 1
        await shard.hear(Kind.LOADED, 2)
        assert [a for a, _, _ in shard.of(Kind.TOPICS_DELETED)] == [1] * again
        assert await shard.hear_deleted(again) == ("t",)


async def test_a_log_that_cannot_be_read_does_not_wake_its_partition_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await asleep(w, due_ms=1)
        tries = w.break_log(monkeypatch, 1)
        w.coordinators.tick()
        await shard.hear(Kind.RESIGN, 2)
        await w.spare_again(shard)
        w.coordinators.tick()
        assert tries == [1]


async def test_a_list_of_all_groups_keeps_no_shard_awake(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await w.serving(1)
        first = await question(w, shard)
        answers = listed(w)
        slot, frame = (await shard.hear(Kind.REQUEST))[1:]
        say(shard, first)
        await until(lambda: w.states("Active"))
        assert shard.of(Kind.RESIGN) == [], "it has not answered yet"
        shard.answer(slot, frame, ListGroupsResponse())
        await until(lambda: answers)
        second = await question(w, shard)
        listed(w)
        slot, frame = (await shard.hear(Kind.REQUEST, 2))[1:]
        shard.answer(slot, frame, ListGroupsResponse())
        say(shard, second)
        await shard.hear(Kind.RESIGN)


async def test_what_a_sleeping_shard_had_on_its_way_reaches_no_log(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        w.write(1, 1)
        shard = await w.serving(1)
        say(shard, await question(w, shard))
        shard.protocol.send(Kind.APPEND, 1, 9, batch(b"late"))
        await shard.hear(Kind.RESIGN)
        await w.spare_again(shard)
        w.ensure(1)
        await shard.serve()
        await until(lambda: w.states("Active"))
        assert w.keys(1) == [b"k0"]


async def test_a_question_about_a_group_wakes_its_partition(tmp_path: Path) -> None:
    async with world(tmp_path, **IDLE) as w:
        shard = await asleep(w)
        assert await w.hub.group_status(OTHER, 5) is None, "it never had a shard"
        asked = asyncio.ensure_future(w.hub.group_status(GROUP, 5))
        await asyncio.sleep(0)
        await shard.serve()
        number = (await shard.hear(Kind.DESCRIBE))[1]
        shard.protocol.send(Kind.DESCRIBED, 0, number)
        assert await asked is None
