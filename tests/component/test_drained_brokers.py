"""Brokers whose Ray nodes are drained, as the controller has it over real sockets; the test plays Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller.metadata.log import MetadataLog
from actors.links.control import Image
from tests.component.test_removals import in_sync, three
from tests.support.controller_world import Controller, controller, create, topic
from tests.support.log_helpers import FullDisk
from tests.support.runtime_helpers import FakeBroker, until


async def spread(c: Controller) -> list[FakeBroker]:
    c.launcher.nodes = {0: "node-a", 1: "node-b", 2: "node-c"}
    brokers = await three(c)
    await create(brokers[0], "t", 3, 2)
    return brokers


def leaders(c: Controller) -> set[int]:
    return {each.leader for each in c.metadata.topics["t"].partitions}


def drained_until(c: Controller) -> list[int | None]:
    return [each.drained_until_ms for each in c.server.status().brokers]


@pytest.mark.conformance("N-A-13", "N-D-06")
async def test_leaders_leave_in_the_turn_in_which_it_is_told_and_brokers_hear_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path) as c:
        brokers = await spread(c)
        heard = len(brokers[0].heard)
        c.server.draining.told({"node-c": 5_000})
        assert leaders(c) == {0, 1}
        assert all(2 in each.isr for each in c.metadata.topics["t"].partitions if 2 in each.replicas)
        assert drained_until(c) == [None, None, 5_000]
        await until(lambda: any(isinstance(each, Image) for each in brokers[0].heard[heard:]))
        c.server.draining.told({"node-c": 5_000})
        events = [(event.kind, event.subject) for event in c.server.chronicle.since(0, 0).events]
        assert events.count(("drain", "broker 2")) == 1
        assert [r.getMessage() for r in caplog.records if "is drained" in r.getMessage()] == [
            "broker 2: its Ray node node-c is drained; others lead what they can"
        ]


async def test_what_catches_up_later_leads_from_the_next_tick_on(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=2_000) as c:
        c.launcher.nodes = {0: "node-a", 1: "node-b", 2: "node-c"}
        brokers = await three(c)
        asked = {"name": "t", "partitions": -1, "factor": -1, "assignments": [[2, 1]], "configs": {}}
        brokers[1].hang_up()
        await until(lambda: not c.metadata.brokers[1].alive)
        await brokers[0].call("create_topics", 1, topics=[asked])
        c.server.draining.told({"node-c": 0})
        assert leaders(c) == {2}
        brokers[1] = await FakeBroker(1, directory="d1").register(c.port)
        await in_sync(c, brokers, 5)
        await until(lambda: leaders(c) == {1})


async def test_a_drain_that_is_taken_back_lets_leaders_go_back(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        await spread(c)
        c.server.draining.told({"node-c": 0})
        c.server.elect_preferred()
        assert leaders(c) == {0, 1}
        c.server.draining.told({})
        assert drained_until(c) == [None, None, None]
        c.server.elect_preferred()
        assert leaders(c) == {0, 1, 2}


async def test_while_all_nodes_are_drained_all_stays_where_it_is(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        brokers = await spread(c)
        c.server.draining.told(dict.fromkeys(("node-a", "node-b", "node-c"), 0))
        assert leaders(c) == {0, 1, 2}
        assert drained_until(c) == [0, 0, 0]
        assert (await create(brokers[0], "u", 3, 3, number=2))["error_code"] == 0


async def test_it_is_still_known_when_a_change_could_not_be_written(tmp_path: Path) -> None:
    """After a failed write the controller decides anew from the committed metadata, and keeps the drain in mind."""
    disk = FullDisk()
    async with controller(tmp_path, log=MetadataLog(tmp_path / "metadata.log", disk)) as c:
        brokers = await spread(c)
        c.server.draining.told({"node-c": 0})
        disk.fsync_error = OSError(28, "no space left on this disk")
        told = await brokers[0].call("create_topics", 2, topics=[topic("u")])
        assert "disk" in told["error"]
        disk.fsync_error = None
        c.server.elect_preferred()
        assert leaders(c) == {0, 1}


async def test_the_next_controller_knows_of_none_until_it_is_told(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        await spread(c)
        c.server.draining.told({"node-c": 0})
    async with controller(tmp_path) as c:
        c.launcher.nodes = {0: "node-a", 1: "node-b", 2: "node-c"}
        brokers = await three(c)
        assert drained_until(c) == [None, None, None]
        assert (await create(brokers[0], "u", 6, 3, number=2))["error_code"] == 0
        assert 2 in {each.leader for each in c.metadata.topics["u"].partitions}, "nothing keeps them from there"
        c.server.draining.told({"node-c": 0})
        assert {each.leader for each in c.metadata.topics["u"].partitions} == {0, 1}
