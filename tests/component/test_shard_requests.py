"""A broker relays requests to its shards, appends for them and answers; the test plays the shard process."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers.context import Request
from actors.broker.handlers.group_requests import consumer_groups
from actors.links.group_status import ClassicStatus, RebalanceEvent
from actors.links.relay import PAYLOADS, Kind
from actors.log.errors import StorageError
from actors.wire import messages
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader, encode_request
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, PartitionInfo
from placement.records import METADATA_LEVELS, METADATA_VERSION, FeatureLevelRecord, PartitionRecord
from tests.support.runtime_helpers import until
from tests.support.shard_world import GROUP, OTHER, PARTITIONS, Client, Heartbeat, World, batch, heartbeat, world

# --- requests ---


async def test_a_request_and_its_answer_pass_through_unchanged(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        client = Client(w.coordinators, 77)
        client.send(heartbeat(), 4, correlation_id=4242)
        connection, slot, frame = await shard.hear(Kind.REQUEST)
        assert (await shard.hear(Kind.OPEN)) == (77, 0, b"10.0.0.9")
        assert connection == 77
        assert frame == encode_request(heartbeat(), 4, 4242, "tests")[4:]
        shard.answer(slot, frame, messages.HeartbeatResponse(error_code=27))
        await until(lambda: client.written)
        assert client.written[4:8] == (4242).to_bytes(4, "big")
        assert client.answers((Heartbeat, 4))[0].error_code == 27
        client.send(heartbeat(), 4)
        await shard.hear(Kind.REQUEST, 2)
        assert len(shard.of(Kind.OPEN)) == 1, "a connection is announced once"


async def test_answers_from_two_shards_leave_in_the_clients_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, two = await w.serving(1), await w.serving(2)
        client = Client(w.coordinators)
        client.send(heartbeat(), 3, GROUP, correlation_id=1)
        client.send(heartbeat(group=OTHER), 3, OTHER, correlation_id=2)
        _, slot, frame = await two.hear(Kind.REQUEST)
        two.answer(slot, frame, messages.HeartbeatResponse(error_code=22))
        await until(lambda: not w.hub.partitions.links[2].pending)
        assert client.written == b"", "the first one has not been answered"
        _, slot, frame = await one.hear(Kind.REQUEST)
        one.answer(slot, frame, messages.HeartbeatResponse(error_code=25))
        await until(lambda: len(client.written) > 20)
        assert [a.error_code for a in client.answers((Heartbeat, 3), (Heartbeat, 3))] == [25, 22]


async def test_a_request_the_shard_cannot_read_closes_that_clients_connection_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        bad, good = Client(w.coordinators, 1), Client(w.coordinators, 2)
        bad.send(heartbeat(), 3)
        good.send(heartbeat(), 3)
        _, slot, _ = await shard.hear(Kind.REQUEST)
        shard.protocol.send(Kind.RESPONSE, 0, slot, b"")
        await until(lambda: bad.aborted)
        _, slot, frame = await shard.hear(Kind.REQUEST, 2)
        shard.answer(slot, frame, messages.HeartbeatResponse())
        await until(lambda: good.written)
        assert not good.aborted


@pytest.mark.parametrize("owed", [False, True])
@pytest.mark.parametrize("api", [messages.ConsumerGroupHeartbeatRequest, messages.LeaveGroupRequest])
async def test_a_malformed_request_that_no_shard_answered_kept_all_others_from_their_answers(
    tmp_path: Path, api: Any, owed: bool
) -> None:
    """And the broker from its metadata: it could not be answered with an error, which ended the turn."""
    async with world(tmp_path) as w:
        w.ensure(1)
        if owed:
            shard = await w.shard()
            await shard.serve()
            await until(lambda: w.states("Active"))
        bad, good = Client(w.coordinators, 5), Client(w.coordinators, 6)
        frame = encode_request(api(group_id=GROUP), 1, 1, "tests")[4:-1]
        w.hub.relay(bad.connection, 1, frame, 1, api.api_key, 1)
        good.send(api(group_id=GROUP), 1)
        w.lead(1, 77, 9)
        assert bad.aborted
        (answer,) = good.answers((api, 1))
        assert (answer.error_code, good.aborted) == (ErrorCode.NOT_COORDINATOR, False)


async def test_a_client_that_goes_is_forgotten_by_the_shards_it_talked_to(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, two = await w.serving(1), await w.serving(2)
        client = Client(w.coordinators, 5)
        client.send(heartbeat(), 3)
        _, slot, frame = await one.hear(Kind.REQUEST)
        client.go()
        assert await one.hear(Kind.CLOSE) == (5, 0, b"")
        assert two.of(Kind.CLOSE) == []
        assert w.hub.partitions.links[1].pending == {}
        one.answer(slot, frame, messages.HeartbeatResponse())  # too late, and harmless
        other = Client(w.coordinators, 6)
        other.send(heartbeat(), 3)
        _, slot, frame = await one.hear(Kind.REQUEST, 2)
        one.answer(slot, frame, messages.HeartbeatResponse())
        await until(lambda: other.written)
        assert client.written == b""


def describe(client: Client, w: World, *groups: str) -> None:
    """A description as its handler has it made."""
    message = messages.ConsumerGroupDescribeRequest(group_ids=list(groups))
    header = RequestHeader(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, 8, "tests", 0)
    slot = client.connection.slots.open(99, header.api_key, 1, 8)
    consumer_groups.describe(w.handlers, Request(header, message, client.connection, slot))


async def test_a_description_went_on_for_a_client_that_had_gone(tmp_path: Path) -> None:
    """Its shards were not told. One that is not serving yet is not asked any more."""
    async with world(tmp_path) as w:
        w.context.metadata.apply(FeatureLevelRecord(METADATA_VERSION, METADATA_LEVELS[-1]))
        one = await w.serving(1)
        client = Client(w.coordinators, 5)
        describe(client, w, GROUP, OTHER)
        assert (await one.hear(Kind.OPEN))[0] == 5
        assert (await one.hear(Kind.REQUEST))[:2] == (5, 99)
        client.go()
        assert await one.hear(Kind.CLOSE) == (5, 0, b"")
        assert w.hub.partitions.links[1].pending == {}
        assert w.coordinators.waiting == 0
        two = await w.serving(2)
        other = Client(w.coordinators, 6)
        describe(other, w, OTHER)
        assert (await two.hear(Kind.REQUEST))[0] == 6
        assert (len(one.of(Kind.REQUEST)), len(two.of(Kind.REQUEST))) == (1, 1)


async def test_a_description_is_answered_by_its_shards(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.context.metadata.apply(FeatureLevelRecord(METADATA_VERSION, METADATA_LEVELS[-1]))
        shards = [await w.serving(1), await w.serving(2)]
        client = Client(w.coordinators, 5)
        describe(client, w, OTHER, GROUP)
        for shard, group in zip(shards, (GROUP, OTHER), strict=True):
            _, slot, frame = await shard.hear(Kind.REQUEST)
            row = messages.ConsumerGroupDescribeResponse.DescribedGroup(group_id=group)
            shard.answer(slot, frame, messages.ConsumerGroupDescribeResponse(groups=[row]))
        await until(lambda: client.written)
        (answer,) = client.answers((messages.ConsumerGroupDescribeRequest, 1))
        assert [(each.group_id, each.error_code) for each in answer.groups] == [(OTHER, 0), (GROUP, 0)]


async def test_questions_of_the_brokers_own_are_answered_by_the_shard_or_for_it(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_wait_ms="0") as w:
        answers: list[Any] = []
        question = messages.DescribeGroupsRequest(groups=[GROUP])
        w.hub.ask(1, question, 5, answers.append)
        assert answers[0].groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        w.hub.ask(3, question, 5, answers.append)  # led elsewhere
        assert answers[1].groups[0].error_code == ErrorCode.NOT_COORDINATOR
        shard = await w.serving(1)
        w.hub.ask(1, question, 5, answers.append)
        _, slot, frame = await shard.hear(Kind.REQUEST)
        described = messages.DescribeGroupsResponse.DescribedGroup(group_id=GROUP, group_state="Stable")
        shard.answer(slot, frame, messages.DescribeGroupsResponse(groups=[described]))
        await until(lambda: len(answers) == 3)
        assert answers[2].groups[0].group_state == "Stable"
        w.hub.ask(1, question, 5, answers.append)
        shard.protocol.close()
        await until(lambda: len(answers) == 4)
        assert answers[3].groups[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_a_shard_is_asked_what_it_knows_of_a_group(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert await w.hub.group_status(GROUP, 60) is None, "nobody serves it"
        shard = await w.serving(1)
        status = ClassicStatus(3, ("m-1",), 400, (RebalanceEvent(1, 2, "member left", "m-2"),))
        for number, said in enumerate((status, None), 1):
            asked = asyncio.create_task(w.hub.group_status(GROUP, 60))
            _, question, group = await shard.hear(Kind.DESCRIBE, number)
            assert group.decode() == GROUP
            shard.protocol.send(Kind.DESCRIBED, 0, question + 1, b"an answer to somebody else")
            shard.protocol.send(Kind.DESCRIBED, 0, question, b"" if said is None else PAYLOADS.encode(said))
            assert await asked == said


async def test_a_shard_that_does_not_say_what_it_knows_of_a_group_is_waited_for_a_while(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.serving(1)
        with pytest.raises(TimeoutError):
            await w.hub.group_status(GROUP, 0.01)


# --- appending ---


async def test_an_append_is_answered_with_its_offsets_and_the_watermark(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.write(1, 2)
        shard = await w.shard()
        w.ensure(1)
        await shard.serve()
        shard.protocol.send(Kind.APPEND, 1, 40, batch(b"a"))
        shard.protocol.send(Kind.APPEND, 1, 41, batch(b"b"))
        for i, number in enumerate((40, 41)):
            partition, b, payload = await shard.hear(Kind.APPENDED, i + 1)
            base, following = int.from_bytes(payload[:8], "big"), int.from_bytes(payload[8:], "big")
            assert (partition, b, base, following) == (1, number, 2 + i, 3 + i)
        await until(lambda: shard.of(Kind.HIGH_WATERMARK) and shard.of(Kind.HIGH_WATERMARK)[-1][1] == 4)
        assert w.keys(1) == [b"k0", b"k1", b"a", b"b"]


@pytest.mark.parametrize("what", ["not led here any more", "at another epoch", "not confirmed"])
async def test_only_the_leader_at_its_epoch_appends(tmp_path: Path, what: str) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        change = {"not led here any more": (1, 6), "at another epoch": (0, 6)}.get(what)
        if change is not None:  # the image has come, but not what follows from it
            info = PartitionInfo(change[0], change[1], (change[0],), (change[0],))
            w.context.metadata.apply(PartitionRecord(OFFSETS_TOPIC, 1, info))
        else:
            led = w.context.metadata.partition(OFFSETS_TOPIC, 1)
            assert led is not None
            w.context.metadata.apply(PartitionRecord(OFFSETS_TOPIC, 1, replace(led, replicas=(0, 1), isr=(0, 1))))
            w.replication.leading = False  # nobody confirms that we lead
        shard.protocol.send(Kind.APPEND, 1, 9, batch(b"stale"))
        error, number, _ = await shard.hear(Kind.REFUSED)
        assert (error, number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9)
        assert w.keys(1) == []


async def test_too_few_in_sync_replicas_refuse_an_append_and_nothing_is_written(tmp_path: Path) -> None:
    async with world(tmp_path, min_insync_replicas="2") as w:
        shard = await w.serving(1)
        shard.protocol.send(Kind.APPEND, 1, 0, batch(b"alone"))
        assert (await shard.hear(Kind.REFUSED))[0] == ErrorCode.NOT_ENOUGH_REPLICAS
        assert w.keys(1) == []


@pytest.mark.parametrize("trouble", [StorageError("no space left"), OSError(24, "Too many open files")])
async def test_a_full_disk_refuses_an_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        log = w.context.log(OFFSETS_TOPIC, 1)

        def full(*_: Any, **__: Any) -> None:
            raise trouble

        monkeypatch.setattr(log, "append_as_leader", full)
        shard.protocol.send(Kind.APPEND, 1, 3, batch(b"x"))
        assert await shard.hear(Kind.REFUSED) == (ErrorCode.KAFKA_STORAGE_ERROR, 3, b"")


# --- limits ---


async def test_clients_of_a_shard_whose_queue_is_full_are_not_read_until_it_drains(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.serving(1)
        await w.serving(2)
        link = w.hub.partitions.links[1]
        busy, other = Client(w.coordinators, 1), Client(w.coordinators, 2)
        link.protocol.pause_writing()  # as the transport does beyond 8 MiB
        busy.send(heartbeat(), 3)
        busy.send(heartbeat(), 3)
        other.send(heartbeat(group=OTHER), 3, OTHER)
        assert not busy.reading
        assert other.reading
        link.protocol.resume_writing()
        assert busy.reading


async def test_the_death_of_a_full_shard_lets_its_clients_go_on(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await w.serving(1)
        client = Client(w.coordinators)
        w.hub.partitions.links[1].protocol.pause_writing()
        client.send(heartbeat(), 3)
        assert not client.reading
        shard.protocol.close()
        await until(lambda: client.reading)
        assert client.answers((Heartbeat, 3))[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_long_group_ids_are_hashed_each_time_not_remembered(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for i in range(300):
            name = f"{i}-" + "x" * 5000
            assert w.hub.partition_of(name.encode()) == partition_for_group(name, PARTITIONS)
        assert len(w.hub.keys) == 0
        w.hub.partition_of(b"short")
        assert len(w.hub.keys) == 1
        with pytest.raises(ValueError, match="utf-8"):
            w.hub.partition_of(b"\xff\xfe")
