"""Messages of brokers and shards for consumer groups: settings, topics with racks, and rights to see topics.

In the first half a test plays the shard process, in the second half the broker.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from actors.broker.authorization import ALLOW_ALL, Authorization
from actors.broker.coordinators.visible import VisibleTopics
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.groups.messages import ListedGroup, MaySleepResponse
from actors.coordinator.records import encode
from actors.coordinator_kinds.groups import GROUPS
from actors.group_api.consumer_group_describe import Description
from actors.links.known_topics import KnownTopics, TopicNames, TopicRacks
from actors.links.relay import PAYLOADS, Assignment, Greeting, Kind, packed_range
from actors.links.versions import OWN, UNTOLD, Spoken, encoded
from actors.records.building import build_batch
from actors.records.reading import iter_key_values
from actors.security.acl import AclOperation, PatternType
from actors.wire import messages as m
from placement.infos import AclRow, BrokerInfo
from placement.metadata import PartitionInfo, TopicInfo
from placement.records import BrokerRecord, GroupConfigsRecord, TopicRecord
from tests.support.acls import TOPIC, allowed
from tests.support.consumer_groups import GROUP, records_of
from tests.support.handler_helpers import AUTHORIZER
from tests.support.runtime_helpers import until
from tests.support.shard_broker import FakeBroker, process
from tests.support.shard_world import Client, FakeShard, World, heartbeat, world

# --- the broker ---


async def serving(w: World, spoken: Spoken = OWN) -> FakeShard:
    """A shard process of a build that speaks these versions; it has partition 1."""
    shard = await w.shard(hello=False)
    w.ensure(1)
    hello = PAYLOADS.encode(Greeting(0, "tests", "shard"))
    shard.protocol.send(Kind.HELLO, packed_range(spoken), payload=hello)
    await shard.serve()
    await until(lambda: w.states("Active"))
    return shard


def topic(name: str, *replicas: tuple[int, ...]) -> TopicRecord:
    partitions = tuple(PartitionInfo(each[0], 0, each, each) for each in replicas)
    return TopicRecord(TopicInfo(name, name.encode().ljust(16), partitions))


async def test_settings_of_groups_are_told_at_the_start_and_when_they_change(tmp_path: Path) -> None:
    async with world(tmp_path, group_consumer_max_size="7", group_consumer_assignors="range") as w:
        w.context.metadata.apply(GroupConfigsRecord("g", {"consumer.session.timeout.ms": "50000", "share.x": "1"}))
        shard = await serving(w)
        told = PAYLOADS.read(Assignment, (await shard.hear(Kind.BECOME))[2]).consumer
        wanted = {"g": {"session_timeout_ms": 50_000}}
        assert told == ConsumerSettings(max_size=7, assignors=("range",), overrides=wanted)
        w.coordinators.note_topics()
        assert PAYLOADS.read(ConsumerSettings, (await shard.hear(Kind.SETTINGS))[2]) == told
        w.context.metadata.apply(GroupConfigsRecord("h", {"consumer.assignment.interval.ms": "0"}))
        w.coordinators.note_topics()
        changed = PAYLOADS.read(ConsumerSettings, (await shard.hear(Kind.SETTINGS, 2))[2])
        assert changed.overrides == wanted | {"h": {"assignment_interval_ms": 0}}
        w.coordinators.note_topics()
        w.context.metadata.apply(topic("new", (0,)))
        w.coordinators.note_topics()
        await shard.hear(Kind.TOPICS)
        assert len(shard.of(Kind.SETTINGS)) == 2, "these have not changed"


async def test_a_shard_of_an_older_build_is_told_of_no_settings(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = await serving(w, UNTOLD)
        assert PAYLOADS.read(Assignment, (await shard.hear(Kind.BECOME))[2]).consumer == ConsumerSettings()
        w.context.metadata.apply(GroupConfigsRecord("g", {"consumer.session.timeout.ms": "50000"}))
        w.coordinators.note_topics()
        w.context.metadata.apply(topic("new", (0,)))
        w.coordinators.note_topics()
        await until(lambda: any("new" in row for row in _rows(shard)))
        assert shard.of(Kind.SETTINGS) == []


def _rows(shard: FakeShard) -> list[Any]:
    return [row for *_, payload in shard.of(Kind.TOPICS) for row in PAYLOADS.read(KnownTopics, payload).topics]


@pytest.mark.conformance("K-B-67")
async def test_topics_are_told_with_the_metadatas_version_and_the_racks_of_their_replicas(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        metadata = w.context.metadata
        metadata.apply(topic("t", (0, 1), (1,)))
        shard = await serving(w)
        start = PAYLOADS.read(Assignment, (await shard.hear(Kind.BECOME))[2]).known_topics
        assert (start.version, start.racks) == (metadata.version, ())
        assert ("t", b"t".ljust(16), 2) in start.topics
        w.coordinators.note_topics()
        for broker_id, rack in ((1, "b"), (0, "a")):
            metadata.apply(BrokerRecord(BrokerInfo(broker_id, "127.0.0.1", 9092, rack, 0)))
            w.coordinators.note_topics()
        await until(lambda: len(shard.of(Kind.TOPICS)) >= 2)
        known = PAYLOADS.read(KnownTopics, shard.of(Kind.TOPICS)[-1][2])
        assert known.version == metadata.version > start.version
        assert TopicRacks("t", (("a", "b"), ("b",))) in known.racks


@pytest.mark.conformance("K-B-79")
async def test_a_shard_is_told_which_topics_its_client_may_describe(tmp_path: Path) -> None:
    async with world(tmp_path, authorizer_class_name=AUTHORIZER) as w:
        rows = [allowed(AclOperation.READ, TOPIC, "mine-", pattern=PatternType.PREFIXED).row]
        w.context.metadata.acls = {bytes([at]) * 16: AclRow(*row) for at, row in enumerate(rows)}
        w.context.authorizer = Authorization.of(w.context.config, w.context.metadata, lambda: 0.0)
        shard = await serving(w)
        client = Client(w.coordinators, 5)
        client.send(heartbeat(), 3)
        await shard.hear(Kind.OPEN)
        assert await asked(shard, 5, 70, "mine-1", "other", "mine-2") == ("mine-1", "mine-2")
        assert await asked(shard, 5, 71, "other") == ()
        w.context.authorizer = ALLOW_ALL
        assert await asked(shard, 5, 72, "other") == ("other",)
        client.go()
        assert await asked(shard, 5, 73, "mine-1") is None, "nobody knows what it might have seen"


@pytest.mark.conformance("K-B-79")
async def test_topics_by_the_thousand_are_judged_in_turns_and_for_nobody_who_goes_meanwhile(tmp_path: Path) -> None:
    """All in one turn kept other clients waiting for half a second."""
    async with world(tmp_path, authorizer_class_name=AUTHORIZER) as w:
        row = allowed(AclOperation.READ, TOPIC, "mine-", pattern=PatternType.PREFIXED).row
        w.context.metadata.acls = {b"1" * 16: AclRow(*row)}
        w.context.authorizer = Authorization.of(w.context.config, w.context.metadata, lambda: 0.0)
        shard = await serving(w)
        client = Client(w.coordinators, 5)
        client.send(heartbeat(), 3)
        await shard.hear(Kind.OPEN)
        names = tuple(f"{whose}-{number}" for number in range(2_000) for whose in ("mine", "other"))
        seen = await asked(shard, 5, 70, *names)
        assert seen == tuple(name for name in names if name.startswith("mine"))
        link = w.coordinators[GROUPS].partitions.links[1]
        VisibleTopics(w.context).asked(link, 5, 71, PAYLOADS.encode(TopicNames(names)))
        assert len(w.context.turns) == 1, "nothing is judged in the turn in which it is asked"
        client.go()
        await until(lambda: _answered(shard, 71))
        assert [payload for _, number, payload in shard.of(Kind.VISIBLE) if number == 71] == [b""]


def _answered(shard: FakeShard, question: int) -> bool:
    return any(number == question for _, number, _ in shard.of(Kind.VISIBLE))


async def asked(shard: FakeShard, connection: int, question: int, *names: str) -> tuple[str, ...] | None:
    """Ask the broker, as a shard does, which of these topics a client may see. None if the answer is empty."""
    shard.protocol.send(Kind.MATCHED, connection, question, PAYLOADS.encode(TopicNames(names)))
    await until(lambda: _answered(shard, question))
    payload = next(payload for _, number, payload in shard.of(Kind.VISIBLE) if number == question)
    return PAYLOADS.read(TopicNames, payload).names if payload else None


# --- the shard ---

FOUND = [["foo", b"f" * 16, 1], ["foobar", b"g" * 16, 1], ["bar", b"b" * 16, 1]]


def beat(epoch: int = 0, **fields: Any) -> m.ConsumerGroupHeartbeatRequest:
    made: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    return m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="A", member_epoch=epoch, **(made | fields))


async def served(broker: FakeBroker) -> None:
    """The process serves a partition for a broker of this build."""
    broker.topics = FOUND
    broker.link.send(Kind.VERSIONS, payload=encoded(OWN))
    await broker.serving()
    broker.link.send(Kind.OPEN, 9, 0, b"10.0.0.1")


def resolved(broker: FakeBroker) -> list[bytes]:
    """The values of what was written of expressions: records of type 16."""
    pairs = (pair for batch, _ in broker.log for pair in iter_key_values(batch))
    return [value or b"" for key, value in pairs if key is not None and key[:2] == b"\0\x10"]


@pytest.mark.conformance("K-B-78", "K-B-79")
async def test_topics_that_a_client_may_not_see_are_no_part_of_its_expression(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await served(broker)
        joined = await broker.answer(broker.ask(beat(subscribed_topic_regex="fo.*"), 1, 9))
        assert (joined.error_code, joined.assignment.topic_partitions) == (0, [])
        connection, question, payload = await broker.hear(Kind.MATCHED)
        assert (connection, PAYLOADS.read(TopicNames, payload).names) == (9, ("foo", "foobar"))
        assert resolved(broker) == [], "it waits for the broker's word"
        broker.link.send(Kind.VISIBLE, 0, question, PAYLOADS.encode(TopicNames(("foo",))))
        await until(lambda: resolved(broker))
        answer = await broker.answer(broker.ask(beat(joined.member_epoch), 1, 9))
        assert [each.topic_id for each in answer.assignment.topic_partitions] == [b"f" * 16]
        assert b"foobar" not in resolved(broker)[0]


@pytest.mark.conformance("K-B-81")
async def test_an_expression_of_a_client_that_has_gone_is_resolved_for_the_next_one(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await served(broker)
        joined = await broker.answer(broker.ask(beat(subscribed_topic_regex="fo.*"), 1, 9))
        _, question, _ = await broker.hear(Kind.MATCHED)
        broker.link.send(Kind.CLOSE, 9)
        broker.link.send(Kind.VISIBLE, 0, question, b"")
        broker.link.send(Kind.VISIBLE, 0, question + 100, b"")  # a question that was never asked
        await broker.answer(broker.ask(beat(joined.member_epoch), 1, 10))
        connection, _, _ = await broker.hear(Kind.MATCHED, 2)
        assert (connection, resolved(broker)) == (10, [])


async def test_a_description_ends_with_its_client_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    """Its encoded part stayed until the partition moved."""
    members = [(key, value, (), 0) for key, value in encode(records_of(2_000))]
    ask = m.ConsumerGroupDescribeRequest(group_ids=[GROUP])
    async with process(tmp_path) as broker:
        broker.log = [(bytes(build_batch(members)), len(members))]
        broker.end = len(members)
        await served(broker)
        gone = [broker.ask(ask, 1, 9) for _ in range(3)]
        await until(told_of)
        broker.link.send(Kind.CLOSE, 9)
        answer = await broker.answer(broker.ask(ask, 1, 10))
        assert len(answer.groups[0].members) == 2_000
        assert not any(map(broker.answered, gone))
        await until(lambda: not told_of())


def told_of() -> list[Description]:
    """The descriptions that are under way in this process."""
    return [each for each in gc.get_objects() if type(each) is Description]


async def test_a_consumer_groups_member_keeps_its_shard_awake_and_an_empty_group_does_not(tmp_path: Path) -> None:
    """The shard's own wait for expressions to resolve does not keep it awake, either."""

    async def rests(number: int) -> MaySleepResponse:
        broker.link.send(Kind.MAY_SLEEP, 3, number)
        return PAYLOADS.read(MaySleepResponse, (await broker.hear(Kind.RESTS, number))[2])

    async with process(tmp_path) as broker:
        await served(broker)
        assert (await rests(1)).busy == ""
        await broker.answer(broker.ask(beat(subscribed_topic_names=["foo"]), 1, 9))
        assert (await rests(2)).busy == "group g is Stable"
        assert (await broker.answer(broker.ask(beat(-1), 1, 9))).member_epoch == -1
        await broker.commit(4, "foo")
        rest = await rests(3)
        assert (rest.busy, rest.groups) == ("", (ListedGroup("g", "consumer", "Empty", "consumer"),))


async def test_what_was_begun_for_another_partition_is_forgotten(tmp_path: Path) -> None:
    async with process(tmp_path) as broker:
        await served(broker)
        await broker.answer(broker.ask(beat(subscribed_topic_regex="fo.*"), 1, 9))
        broker.link.send(Kind.RESIGN)
        await broker.hear(Kind.HELLO, 2)
        said = len(broker.of(Kind.MATCHED))
        broker.log, broker.end = [], 0
        await broker.serving()
        await broker.answer(broker.ask(beat(subscribed_topic_names=["bar"]), 1, 9))
        assert len(broker.of(Kind.MATCHED)) == said
