"""Changes of the metadata: when they are answered, and what is not logged is not made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.controller.active import ACK_WAIT_SECONDS
from actors.controller.decisions import operations
from actors.links.control import (
    Answer,
    Applied,
    Call,
    Confirmed,
    Heartbeat,
    Image,
)
from actors.links.operations import CreatePartitions
from actors.links.status import Load
from placement.metadata import OFFSETS_TOPIC, changed
from placement.records import PartitionRecord, Record
from tests.support.calls import operation, plain
from tests.support.controller_world import Controller, controller, create, topic
from tests.support.own_log import logged
from tests.support.runtime_helpers import FakeBroker, until

ACL = {"resource_type": 2, "name": "t", "pattern": 3, "principal": "User:a", "host": "*"}
KEYS = {"salt": b"s", "stored_key": b"t", "server_key": b"u", "iterations": 4096}

# --- changes ---


async def waiting_for_a_slow_one(c: Controller) -> tuple[FakeBroker, FakeBroker]:
    """A broker that has had the topic t made, and one that does not acknowledge it of itself."""
    one = await FakeBroker(0).register(c.port)
    slow = await FakeBroker(1, acks=False).register(c.port)
    one.ask("create_topics", 7, topics=[topic("t")])
    await until(lambda: "t" in c.metadata.topics)
    return one, slow


async def test_a_change_is_answered_when_every_living_broker_has_the_image(tmp_path: Path) -> None:
    async with controller(tmp_path, ack_wait_s=3600.0) as c:
        one, slow = await waiting_for_a_slow_one(c)
        await until(lambda: any("t" in m.metadata.topics for m in slow.of(Image)))
        assert one.of(Answer) == []
        slow.send(Applied(c.metadata.version))
        assert plain((await one.hear(Answer)).result)[0]["name"] == "t"


async def test_a_broker_that_never_acknowledges_delays_a_change_but_does_not_stop_it(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        await FakeBroker(1, acks=False).register(c.port)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        assert (await create(one, "t"))["error_code"] == 0
        assert loop.time() - asked >= ACK_WAIT_SECONDS * 0.9


async def test_the_death_of_the_broker_that_was_waited_for_releases_the_answer(tmp_path: Path) -> None:
    async with controller(tmp_path, ack_wait_s=3600.0) as c:
        one, slow = await waiting_for_a_slow_one(c)
        slow.hang_up()
        assert plain((await one.hear(Answer)).result)[0]["error_code"] == 0


async def test_a_refused_change_is_answered_at_once_and_logged_nowhere(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        await FakeBroker(1, acks=False).register(c.port)
        version = c.metadata.version
        result = await create(one, "t", factor=3)
        assert result["error_code"] == 38
        assert c.metadata.version == version


async def test_an_operation_without_a_rule_is_an_error_of_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(operations.OPERATIONS, CreatePartitions)  # type: ignore[arg-type]
    met: list[str] = []

    async with controller(tmp_path, faults=lambda what, error: met.append(what)) as c:
        one = await FakeBroker(0).register(c.port)
        answer = await one.call("create_partitions", 1, topics=[])
        assert "CreatePartitions" in answer["error"]
        assert met == ["CreatePartitions"]
        assert (await create(one, "t", number=2))["error_code"] == 0


async def test_a_change_that_cannot_be_logged_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)

        def full(records: Sequence[Record], epoch: int) -> None:
            raise OSError(28, "no space left")

        with monkeypatch.context() as patch:
            patch.setattr(c.server.log, "append", full)
            answer = await one.call("create_topics", 1, topics=[topic("t")])
        assert "no space left" in answer["error"]
        assert "t" not in c.metadata.topics


def refuse(patch: pytest.MonkeyPatch, c: Controller) -> list[Sequence[Record]]:
    """Have the disk refuse every change; returns what was refused so far."""
    refused: list[Sequence[Record]] = []

    def full(records: Sequence[Record], epoch: int) -> None:
        if records:
            refused.append(records)
            raise OSError(28, "no space left")

    patch.setattr(c.server.log, "append", full)
    return refused


async def test_a_death_that_cannot_be_logged_is_logged_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(tmp_path, lease_ms=1000) as c:
        one = await FakeBroker(0).register(c.port)
        two = await FakeBroker(1).register(c.port)

        async def talk() -> None:
            while True:
                for broker in (one, two):
                    broker.send(Heartbeat(1.0, Load()))
                await asyncio.sleep(0.1)

        talking = asyncio.ensure_future(talk())
        await create(one, "t", partitions=2, factor=2)
        c.server.expect([0, 1])
        with monkeypatch.context() as patch:
            refused = refuse(patch, c)
            two.hang_up()
            await until(lambda: c.launcher.started == [1])
            await until(lambda: len(refused) > 3)
            assert c.metadata.brokers[1].alive
        await until(lambda: not c.metadata.brokers[1].alive)
        assert [c.leader("t", i).leader for i in (0, 1)] == [0, 0]
        assert (c.launcher.started, c.launcher.killed) == ([1], [1])
        version = c.metadata.version
        c.server.look_after_brokers(asyncio.get_running_loop().time())
        assert c.metadata.version == version, "it is logged once"
        talking.cancel()


async def test_all_that_do_not_come_are_started_though_nothing_can_be_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(tmp_path) as c:
        for broker_id in (0, 1):
            await FakeBroker(broker_id).register(c.port)
    async with controller(tmp_path, lease_ms=1000) as c:
        c.server.expect([0, 1])
        with monkeypatch.context() as patch:
            refused = refuse(patch, c)
            await until(lambda: c.launcher.started == [0, 1])
            assert len(refused) >= 2
        await until(lambda: not c.metadata.alive())


async def test_a_broker_counts_as_leaving_until_one_of_its_heartbeats_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        assert "error" not in await one.call("broker_leaving", broker_id=0)
        one.send(Heartbeat(1.0, Load(), leaving=True))
        await one.hear(Confirmed)
        assert c.metadata.brokers[0].leaving
        with monkeypatch.context() as patch:
            refused = refuse(patch, c)
            one.send(Heartbeat(2.0, Load()))
            await until(lambda: len(refused) == 1)
        assert c.metadata.brokers[0].leaving
        one.send(Heartbeat(3.0, Load()))
        await until(lambda: not c.metadata.brokers[0].leaving)


async def test_brokers_are_looked_after_though_leadership_could_not_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(tmp_path, lease_ms=1000) as c:
        silent = await FakeBroker(0).register(c.port)

        def refused(now: float) -> None:
            raise OSError(28, "no space left")

        monkeypatch.setattr(c.server, "balance", refused)
        await silent.lost.wait()
        await until(lambda: not c.metadata.brokers[0].alive)


async def test_a_loss_told_before_the_welcome_is_refused_so_that_it_is_told_again(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        await FakeBroker(1).register(c.port)
        await create(one, "t", factor=2)
        one.hang_up()
        await until(lambda: not c.metadata.brokers[0].alive)
        again = await FakeBroker(0, one.epoch).register(c.port)
        before = changed(c.leader("t"), isr=(0, 1))
        c.server.publisher.commit([PartitionRecord("t", 0, before)])
        told = {"broker_id": 0, "partitions": [[c.metadata.topics["t"].id, 0]]}
        refused = await again.call("replica_torn", 1, **told, broker_epoch=one.epoch)
        assert "broker 0 is not registered at epoch 0" in refused["error"]
        assert c.leader("t") == before
        assert "error" not in await again.call("replica_torn", 2, **told, broker_epoch=again.epoch)
        assert c.leader("t").isr == (1,)


@pytest.mark.conformance("A-07", "A-08")
async def test_the_offsets_topic_is_created_once_however_many_ask(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        brokers = [await FakeBroker(i).register(c.port) for i in range(3)]
        answers = await asyncio.gather(*(b.call("create_offsets_topic", 1) for b in brokers))
        assert [a["result"]["error_code"] for a in answers] == [0, 0, 0]
        made = c.metadata.topics[OFFSETS_TOPIC]
        assert len(made.partitions) == 50
        assert {len(p.replicas) for p in made.partitions} == {3}
        configs = dict(made.configs)
        assert configs["cleanup.policy"] == "compact"
        assert configs["compression.type"] == "producer"
        assert configs["segment.bytes"] == "104857600"
        image = brokers[2].of(Image)[-1].metadata
        assert image.topics[OFFSETS_TOPIC].id == made.id, "one topic, not three"


async def test_producer_ids_are_never_given_twice_not_even_by_a_successor(tmp_path: Path) -> None:
    taken: list[int] = []
    for _ in range(2):
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            two = await FakeBroker(1).register(c.port)
            for number in (1, 2):
                for broker in (one, two):
                    block = (await broker.call("allocate_producer_ids", number))["result"]
                    taken += range(block["first"], block["first"] + block["count"])
    assert len(taken) == len(set(taken)) == 8000


@pytest.mark.conformance("XC-22")
async def test_acls_are_sent_when_they_change_and_to_who_comes_and_not_with_every_topic(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        acls = [ACL | {"operation": 3, "permission": 3}]
        one.ask("create_acls", 7, acls=acls)
        await one.hear(Answer)
        with_acls = one.of(Image)[-1].metadata
        assert [row.principal for row in with_acls.acls.values()] == ["User:a"]
        one.ask("create_topics", 8, topics=[topic("t")])
        await one.hear(Answer, 2)
        last = one.of(Image)[-1].metadata
        assert (last.whole, last.acls, "t" in last.topics) == (False, {}, True)
        assert last.with_security_of(with_acls) == c.metadata
        other = await FakeBroker(1).register(c.port)
        assert (await other.hear(Image)).metadata.acls == c.metadata.acls


@pytest.mark.conformance("XE-09", "XC-86")
async def test_every_change_is_logged_with_its_broker_and_principal_and_none_is_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker has judged it: the controller has no authorizer. Names are quoted, so that none makes up a line."""
    authorizer = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    changes: dict[str, dict[str, Any]] = {
        "create_topics": {"topics": [topic("t")]},
        "create_acls": {"acls": [{**ACL, "operation": 3, "permission": 2}]},
        "alter_scram": {"upsertions": [{"user": "b", "mechanism": 1, **KEYS}], "deletions": []},
        "allocate_producer_ids": {},
        "delete_topics": {"topics": [{"name": "t"}]},
    }
    async with controller(tmp_path, **authorizer) as c:
        broker = await FakeBroker(1).register(c.port)
        with caplog.at_level(logging.INFO, "actors.controller.operations"):
            for number, (name, arguments) in enumerate(changes.items(), 1):
                caplog.clear()
                broker.send(Call(number, operation(name, **arguments), "User:nobody\nx by 'User:ann'"))
                await until(lambda number=number: broker.answer(number))  # type: ignore[misc]
                assert "error" not in (broker.answer(number) or {})
                (line,) = caplog.messages
                label = "".join(word.capitalize() for word in name.split("_"))
                assert line.startswith(f"{label} by \"User:nobody\\nx by 'User:ann'\" at broker 1: ")
            assert c.metadata.topics == {}, "they were carried out"
            assert len(c.metadata.acls) == len(c.metadata.scram) == 1
            caplog.clear()
            assert (await create(broker, "t", 0, number=9))["error_code"]
            assert logged(caplog) == [], "what changes nothing is no change"
