"""Consumer groups (KIP-848) from a client's socket to their shard and back, with all processes on one loop."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC
from tests.support.runtime_helpers import until
from tests.support.three_brokers import Client, World, until_async, world

ONE = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "group_consumer_assignment_interval_ms": "0",
    "coterie_shard_silence_ms": "600000",
}
GROUP = "g1"
Heartbeat = m.ConsumerGroupHeartbeatRequest
Owned = Heartbeat.TopicPartitions


class Member:
    """A member that does at once what it is told; the test says when it asks."""

    def __init__(self, client: Client, member_id: str, **subscribed: Any) -> None:
        self.client = client
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self._subscribed = subscribed or {"subscribed_topic_names": ["foo"]}

    @property
    def partitions(self) -> list[int]:
        return sorted(index for each in self.owned.values() for index in each)

    async def beat(self, **fields: Any) -> Any:
        """Say what it owns; the answer."""
        if self.epoch == 0:
            fields = {"rebalance_timeout_ms": 300_000, **self._subscribed, **fields}
        owned = [Owned(topic_id=topic_id, partitions=each) for topic_id, each in self.owned.items()]
        asked = Heartbeat(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, topic_partitions=owned, **fields
        )
        answer = await self.client.ask(asked, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer

    async def until(self, *partitions: int) -> None:
        """Beat until it has these."""

        async def has() -> bool:
            answer = await self.beat()
            assert answer.error_code == 0, answer
            return self.partitions == list(partitions)

        await until_async(has, True)


@asynccontextmanager
async def served(path: Path, **settings: str) -> AsyncIterator[tuple[World, Client]]:
    """A broker that has a topic of six partitions and serves the group, and a client of it."""
    async with world(path, 1, **(ONE | settings)) as w:
        await w.create("foo", factor=1, partitions=6)
        client = await w.client(0)
        await coordinator(client)
        yield w, client
        client.close()


async def coordinator(client: Client) -> None:
    """Ask until the group has one."""

    async def found() -> bool:
        answer = await client.ask(m.FindCoordinatorRequest(key=GROUP), 3)
        return bool(answer.error_code == 0)

    await until_async(found, True)


async def raw(client: Client, version: int, body: bytes) -> bytes:
    """Send a heartbeat's body; the answer's."""
    head = struct.pack(">hhih", 68, version, 7, 5) + b"tests" + b"\0"
    client.writer.write(struct.pack(">i", len(head + body)) + head + body)
    size = int.from_bytes(await client.reader.readexactly(4), "big")
    answer = await client.reader.readexactly(size)
    assert answer[:5] == struct.pack(">iB", 7, 0)
    return answer[5:]


@pytest.mark.conformance("K-A-67", "K-A-68", "K-A-69", "K-A-70", "K-A-71", "K-A-75")
@pytest.mark.parametrize("version", [0, 1])
async def test_a_members_life_in_kafkas_bytes(tmp_path: Path, version: int) -> None:
    regex = "00" * version
    async with served(tmp_path) as (w, client):
        t1 = w.metadata.topics["foo"].id.hex()
        six = f"02{t1}07" + "".join(f"{index:08x}" for index in range(6)) + "00"
        joined = await raw(client, version, bytes.fromhex(f"0367310241000000000000000493e00204666f6f{regex}000100"))
        assert joined.hex() == "0000000000000002410000000200001388" + f"01{six}0000"
        same = await raw(client, version, bytes.fromhex(f"0367310241000000020000ffffffff00{regex}000000"))
        assert same.hex() == "0000000000000002410000000200001388ff00"
        owns = await raw(client, version, bytes.fromhex(f"0367310241000000020000ffffffff00{regex}00{six}00"))
        assert owns.hex() == "0000000000000002410000000200001388ff00"
        ahead = await raw(client, version, bytes.fromhex(f"0367310241000000030000ffffffff00{regex}000000"))
        assert ahead.hex().startswith("00000000006e")
        left = await raw(client, version, bytes.fromhex(f"0367310241ffffffff0000ffffffff00{regex}000000"))
        assert left.hex() == "000000000000000241ffffffff00000000ff00"


@pytest.mark.conformance("K-A-02", "K-A-14", "K-A-59", "K-D-03", "K-D-05", "K-D-15", "K-D-26", "K-I-33")
async def test_a_group_grows_commits_is_looked_at_and_goes(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        one, two = Member(client, "A"), Member(client, "B")
        await one.until(*range(6))
        assert (await two.beat()).assignment.topic_partitions == [], "all is taken"
        await one.until(*one.partitions[:3])
        await one.beat()  # it says that it has given back the others
        await two.until(*(index for index in range(6) if index not in one.partitions))
        assert await commits(client, one.member_id, one.epoch, one.partitions[0], 41) == 0
        assert await commits(client, one.member_id, one.epoch + 1, 0, 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert await commits(client, "nobody", one.epoch, 0, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commits(client, "", -1, 0, 1) == ErrorCode.UNKNOWN_MEMBER_ID, "a tool's, while there are members"
        for member_id, epoch, code in (("A", one.epoch, 0), ("A", 1, 113), ("x", 1, 25), ("", -1, 25), (None, -1, 0)):
            assert await fetched(client, member_id, epoch, one.partitions[0]) == (code, None if code else 41)
        asked = m.ConsumerGroupDescribeRequest(group_ids=[GROUP, "other", ""])
        group, other, nameless = (await client.ask(asked, 1)).groups
        assert (group.group_state, group.assignor_name, len(group.members)) == ("Stable", "uniform", 2)
        assert [group.members[0].client_host, group.members[0].client_id] == ["/127.0.0.1", "tests"]
        assert (other.error_code, nameless.error_code) == (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)
        unknown = await client.ask(m.ListGroupsRequest(types_filter=["none-such"]), 5)
        assert (unknown.error_code, unknown.groups) == (0, [])
        listed = (await client.ask(m.ListGroupsRequest(types_filter=["consumer"]), 5)).groups
        assert [(each.group_id, each.group_type, each.group_state) for each in listed] == [
            (GROUP, "consumer", "Stable")
        ]
        assert await deleted(client) == ErrorCode.NON_EMPTY_GROUP
        for member in (one, two):
            member.epoch = -1
            assert (await member.beat()).member_epoch == -1
        assert await deleted(client) == 0
        assert (await client.ask(m.ListGroupsRequest(), 5)).groups == []


async def test_a_long_description_is_the_same_whether_it_is_asked_for_alone_or_with_others(tmp_path: Path) -> None:
    names = [f"{n:0200}" for n in range(400)]
    async with served(tmp_path) as (_, client):
        await Member(client, "A", subscribed_topic_names=["foo", *names]).until(*range(6))
        (alone,) = (await client.ask(m.ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
        one, _ = (await client.ask(m.ConsumerGroupDescribeRequest(group_ids=[GROUP, "other"]), 1)).groups
        assert alone == one
        assert [len(member.subscribed_topic_names) for member in alone.members] == [401]


async def commits(client: Client, member_id: str, epoch: int, index: int, offset: int) -> int:
    r = m.OffsetCommitRequest
    part = r.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    topic = r.OffsetCommitRequestTopic(name="foo", partitions=[part])
    asked = r(group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic])
    return int((await client.ask(asked, 9)).topics[0].partitions[0].error_code)


async def fetched(client: Client, member_id: str | None, epoch: int, index: int) -> tuple[int, int | None]:
    r = m.OffsetFetchRequest
    topic = r.OffsetFetchRequestTopics(name="foo", partition_indexes=[index])
    group = r.OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=[topic])
    (answer,) = (await client.ask(r(groups=[group], require_stable=True), 9)).groups
    rows = [part.committed_offset for topic in answer.topics for part in topic.partitions]
    return answer.error_code, rows[0] if rows else None


async def deleted(client: Client) -> int:
    return int((await client.ask(m.DeleteGroupsRequest(groups_names=[GROUP]), 3)).results[0].error_code)


@pytest.mark.conformance("K-B-67", "K-B-68", "K-B-71")
async def test_topics_that_are_made_and_grow_reach_the_group_with_its_next_heartbeat(tmp_path: Path) -> None:
    async with served(tmp_path) as (w, client):
        one = Member(client, "A", subscribed_topic_names=["foo", "later"])
        await one.until(*range(6))
        more = m.CreatePartitionsRequest.CreatePartitionsTopic(name="foo", count=8, assignments=None)
        grown = await client.ask(m.CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 3)
        assert grown.results[0].error_code == 0
        await one.until(*range(8))
        await w.create("later", factor=1, partitions=1)
        await one.until(0, *range(8))
        gone = m.DeleteTopicsRequest.DeleteTopicState(name="later")
        await client.ask(m.DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), 6)
        await one.until(*range(8))


@pytest.mark.conformance("K-B-73", "K-B-76", "K-B-78")
async def test_an_expression_is_resolved_outside_the_shards_loop(tmp_path: Path) -> None:
    async with served(tmp_path) as (w, client):
        await w.create("foobar", factor=1, partitions=1)
        await w.create("bar", factor=1, partitions=4)
        one = Member(client, "A", subscribed_topic_regex="fo.*")
        await one.until(0, *range(6))
        assert {topic.name for topic in w.metadata.topics.values() if topic.id in one.owned} == {"foo", "foobar"}
        bad = await Member(client, "B", subscribed_topic_regex="(").beat()
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def alter(client: Client, kind: int, name: str, key: str, value: str) -> int:
    r = m.IncrementalAlterConfigsRequest
    change = r.AlterableConfig(name=key, config_operation=0, value=value)
    resource = r.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return int((await client.ask(r(resources=[resource]), 1)).responses[0].error_code)


@pytest.mark.conformance("K-A-13")
async def test_settings_reach_a_group_with_its_next_heartbeat(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        one = Member(client, "A")
        assert (await one.beat()).heartbeat_interval_ms == 5_000
        assert await alter(client, 32, GROUP, "consumer.heartbeat.interval.ms", "7000") == 0
        assert await alter(client, 32, "another", "consumer.heartbeat.interval.ms", "8000") == 0

        async def told() -> bool:
            return bool((await one.beat()).heartbeat_interval_ms == 7_000)

        await until_async(told, True)


async def test_a_coordinator_that_takes_over_goes_on_with_the_group(tmp_path: Path) -> None:
    """The members keep their epochs and what they have."""
    settings = ONE | {"offsets_topic_replication_factor": "3", "coterie_shard_silence_ms": "600000"}
    async with world(tmp_path, 3, **settings) as w:
        await w.create("foo", factor=3, partitions=6)
        client = await w.client(0)
        await coordinator(client)
        leader = w.partition(OFFSETS_TOPIC, partition_for_group(GROUP, 1)).leader
        first = await w.client(leader)
        one = Member(first, "A")
        await one.until(*range(6))
        epoch = one.epoch
        await w.kill(leader)
        await until(lambda: w.partition(OFFSETS_TOPIC).leader not in (leader, -1), what="another leader")
        one.client = await w.client(w.partition(OFFSETS_TOPIC).leader)

        async def goes_on() -> bool:
            return bool((await one.beat()).error_code == 0)

        await until_async(goes_on, True)
        assert (one.epoch, one.partitions) == (epoch, list(range(6)))
        two = Member(one.client, "B")
        await two.beat()
        await one.until(*one.partitions[:3])
        for each in (client, first, one.client):
            each.close()
