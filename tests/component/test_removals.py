"""Brokers that are removed, as the controller has it over real sockets: carried on by whichever controller there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller.removing import CannotRemoveError
from actors.links.control import Heartbeat, Image, Stop
from actors.links.status import Load
from placement.metadata import Removal
from placement.records import BrokerRemovalRecord
from tests.support.controller_world import Controller, controller, create
from tests.support.runtime_helpers import FakeBroker, until

SETTINGS = {"offsets_topic_replication_factor": "1"}


async def three(c: Controller) -> list[FakeBroker]:
    c.server.expect([0, 1, 2])
    return [await FakeBroker(each, directory=f"d{each}").register(c.port) for each in range(3)]


async def in_sync(c: Controller, brokers: list[FakeBroker], number: int, index: int = 0) -> None:
    """The leader of a partition says that all of its replicas are in sync."""
    partition = c.leader("t", index)
    isr = [[each, c.metadata.brokers[each].epoch] for each in partition.replicas]
    asked = [c.metadata.topics["t"].id, index, partition.leader_epoch, partition.partition_epoch, isr]
    leader = brokers[partition.leader]
    told = await leader.call(
        "alter_partitions", number, broker_id=leader.broker_id, broker_epoch=leader.epoch, partitions=[asked]
    )
    assert told["result"][0]["error_code"] == 0


@pytest.mark.conformance("N-D-05")
async def test_a_broker_is_removed_its_process_stops_and_its_id_is_not_used_again(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=2_000, **SETTINGS) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        c.server.removing.begin(2)
        assert all(each.leader != 2 for each in c.metadata.topics["t"].partitions), "leaders leave at once"
        await until(lambda: len([p for p in c.metadata.topics["t"].partitions if p.adding]) == 2)
        status = c.server.status().brokers[2].removal
        assert status is not None
        assert (status.partitions, status.left, status.under_way, status.waits_for) == (2, 2, 2, None)
        moving = [index for index, each in enumerate(c.metadata.topics["t"].partitions) if each.adding]
        for number, index in enumerate(moving):
            await in_sync(c, brokers, number + 10, index)
        await brokers[2].hear(Stop)
        assert c.server.removing.outlook(2).removed
        assert c.metadata.brokers.keys() == {0, 1}
        brokers[2].send(Heartbeat(0.0, Load()))
        brokers[2].hang_up()
        await until(lambda: c.launcher.killed == [2])
        assert c.launcher.started == [], "nobody starts it again"
        assert c.metadata.directories.keys() == {0, 1}
        assert c.server.next_id() == 3
        c.server.removing.begin(2)
        assert c.server.removing.outlook(2).removed, "a second call finds it gone"
    async with controller(tmp_path, **SETTINGS) as c:
        c.server.start([0, 1, 2])
        await until(lambda: c.launcher.started == [0, 1])
        assert c.server.next_id() == 3
        back = await FakeBroker(2, directory="d2").connect(c.port)
        back.send(back.hello())
        await back.lost.wait()
        assert c.metadata.brokers.keys() == {0, 1}


@pytest.mark.conformance("N-D-05")
async def test_the_next_controller_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=2_000, **SETTINGS) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        c.server.removing.begin(2, throttle=500)
        await until(lambda: any(each.adding for each in c.metadata.topics["t"].partitions))
    async with controller(tmp_path, lease_ms=2_000, **SETTINGS) as c:
        assert c.server.removing.outlook(2).status is not None
        brokers = await three(c)
        image = (await brokers[0].hear(Image)).metadata
        assert image.removals[2].throttle == 500
        for number, index in enumerate([i for i, p in enumerate(c.metadata.topics["t"].partitions) if p.adding]):
            await in_sync(c, brokers, number + 10, index)
        await until(lambda: c.metadata.removed == {2})
        assert all(len(each.replicas) == 2 for each in c.metadata.topics["t"].partitions)


async def test_a_controller_that_has_just_begun_waits_until_all_brokers_are_there(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        c.server.publisher.commit([BrokerRemovalRecord(2, Removal(0, 2))])
    async with controller(tmp_path, **SETTINGS) as c:
        c.server.start([0, 1, 2])
        await FakeBroker(0, directory="d0").register(c.port)
        await FakeBroker(2, directory="d2").register(c.port)
        c.server.removing.tick()
        assert not any(each.adding for each in c.metadata.topics["t"].partitions), "all would go to broker 0"
        await FakeBroker(1, directory="d1").register(c.port)
        for _ in range(2):  # leaders first
            c.server.removing.tick()
        assert sum(bool(each.adding) for each in c.metadata.topics["t"].partitions) == 2


async def test_a_controller_that_takes_over_waits_for_the_brokers_of_the_metadata(tmp_path: Path) -> None:
    """Nobody has told it yet which brokers to expect."""
    async with controller(tmp_path, **SETTINGS) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        c.server.publisher.commit([BrokerRemovalRecord(2, Removal(0, 2))])
    async with controller(tmp_path, **SETTINGS) as c:
        await FakeBroker(0, directory="d0").register(c.port)
        await FakeBroker(2, directory="d2").register(c.port)
        c.server.removing.tick()
        assert not any(each.adding for each in c.metadata.topics["t"].partitions), "all would go to broker 0"
        await FakeBroker(1, directory="d1").register(c.port)
        for _ in range(2):  # leaders first
            c.server.removing.tick()
        assert sum(bool(each.adding) for each in c.metadata.topics["t"].partitions) == 2


@pytest.mark.conformance("N-A-14")
async def test_one_that_is_away_is_unregistered_and_its_actor_ended(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=2_000, **SETTINGS) as c:
        brokers = await three(c)
        brokers[2].hang_up()
        await until(lambda: 2 in c.launcher.started)
        c.server.removing.begin(2)
        await until(lambda: c.metadata.removed == {2})
        assert c.launcher.killed.count(2) == 2  # on a machine that stands still, others may be killed, too
        c.server.start_failed(2, "it ended")
        assert c.launcher.started.count(2) == 1, "its start has failed since, and is not tried again"


async def test_what_is_refused_is_not_begun(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        await three(c)
        outlook = c.server.removing.outlook(2)
        assert (outlook.refused or "").startswith("offsets.topic.replication.factor=3, and 2 brokers would be left")
        with pytest.raises(CannotRemoveError, match=r"offsets\.topic\.replication\.factor=3"):
            c.server.removing.begin(2)
        with pytest.raises(CannotRemoveError, match="broker 2 is not being removed"):
            c.server.removing.call_off(2)
        assert c.metadata.removals == {}


async def test_a_removal_that_is_called_off_leaves_the_broker_there(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        assert [move.new_replicas for move in c.server.removing.outlook(2).moves] != []
        c.server.removing.begin(2)
        c.server.removing.call_off(2)
        c.server.removing.tick()
        assert (c.metadata.removals, c.metadata.removed) == ({}, frozenset())
        assert c.server.removing.outlook(2).status is None


async def test_one_that_is_being_removed_is_not_replaced_by_itself(tmp_path: Path) -> None:
    settings = {"coterie_broker_isolated_ms": "1000", "coterie_broker_replace_after_ms": "1000"}
    async with controller(tmp_path, lease_ms=1_000, **SETTINGS, **settings) as c:
        brokers = await three(c)
        await create(brokers[0], "t", 3, 2)
        brokers[2].hang_up()
        c.launcher.homeless.add(2)
        await until(lambda: not c.metadata.brokers[2].alive)
        c.server.removing.begin(2)
        c.clock.ahead += 3600
        c.server.replacing.tick()
        assert not c.metadata.directories[2].awaited


async def test_one_that_a_client_unregisters_is_let_go_too(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=2_000, **SETTINGS) as c:
        brokers = await three(c)
        told = await brokers[0].call("unregister_broker", 1, broker_id=2)
        assert told["result"] == {"error_code": 0, "error_message": None}
        await brokers[2].hear(Stop)
        assert c.metadata.removed == {2}
        brokers[2].hang_up()
        await until(lambda: c.launcher.killed == [2])
        assert c.launcher.started == []
