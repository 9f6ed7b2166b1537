"""Three controllers over real sockets: they vote, one of them is the controller, and another one follows it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.controller.active import ActiveController
from actors.links.connection import ControlProtocol, dial
from actors.runtime.environment import REAL
from placement.records import BrokerConfigsRecord
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_controllers import Controllers, controllers


def server_of(world: Controllers, number: int) -> ActiveController:
    server = world.nodes[number].server
    assert server is not None
    return server


async def commit(world: Controllers, name: str) -> None:
    """Have a change that all controllers have."""
    server = server_of(world, await world.led())
    server.publisher.commit([BrokerConfigsRecord(name, {"message.max.bytes": "1"})])
    await until(lambda: all(name in log.committed.broker_configs for log in world.logs.values()), what=name)


@pytest.mark.conformance("N-C-02", "N-C-03")
async def test_two_that_come_get_a_vote_and_the_metadata_says_where_all_are(tmp_path: Path) -> None:
    async with controllers(tmp_path) as world:
        assert await world.led() == 0
        addresses = {number: node.address for number, node in world.nodes.items()}
        for number in world.numbers:
            await until(
                lambda n=number: {i: (c.host, c.port) for i, c in world.metadata(n).controllers.items()} == addresses,  # type: ignore[misc]
                what="registered",
            )


@pytest.mark.conformance("N-C-04")
async def test_another_one_goes_on_with_all_that_has_committed(tmp_path: Path) -> None:
    async with controllers(tmp_path) as world:
        await commit(world, "1")
        cluster, epoch = world.metadata(1).cluster_id, world.metadata(1).controller_epoch
        world.stop(0)
        leader = await world.led()
        assert leader in (1, 2)
        server = server_of(world, leader)
        await until(lambda: server.metadata.controller_epoch > epoch, what="begun")
        assert server.metadata.cluster_id == cluster
        assert "1" in server.metadata.broker_configs
        await commit(world, "2")
        await world.start(0)
        await until(lambda: "2" in world.metadata(0).broker_configs, what="caught up")
        assert world.leading == [leader]


async def test_all_come_back_at_other_ports(tmp_path: Path) -> None:
    async with controllers(tmp_path) as world:
        await commit(world, "1")
        for number in world.numbers:
            await until(lambda n=number: len(world.metadata(n).controllers) == 3, what="registered")  # type: ignore[misc]
        for number in world.numbers:
            world.stop(number)
        world.found_by_name = set(world.numbers)
        for number in (2, 1):
            await world.start(number)
        leader = await world.led()
        await until(
            lambda: all(
                (c.host, c.port) == world.nodes[c.id].address
                for c in server_of(world, leader).metadata.controllers.values()
                if c.id in world.nodes
            ),
            what="registered anew",
        )
        await commit(world, "2")


async def test_without_a_majority_nothing_commits_and_nobody_is_the_controller(tmp_path: Path) -> None:
    async with controllers(tmp_path) as world:
        await commit(world, "1")
        leader = await world.led()
        server = server_of(world, leader)
        for number in set(world.numbers) - {leader}:
            world.stop(number)
        change = server.publisher.commit([BrokerConfigsRecord("2", {})])
        dropped: list[bool] = []
        change.then(lambda: dropped.append(False), lambda: dropped.append(True))
        await until(lambda: world.nodes[leader].server is None, what="resigned")
        assert dropped == [True]
        assert not world.logs[leader].confirms()
        assert "2" not in world.metadata(leader).broker_configs


async def test_one_that_only_follows_hangs_up_on_a_broker(tmp_path: Path) -> None:
    async with controllers(tmp_path) as world:
        leader = await world.led()
        follower = next(number for number in world.numbers if number != leader)
        lost = asyncio.Event()
        broker = ControlProtocol("broker", SECRET, REAL.chance, lambda _: None, lambda *_: None, lambda _: lost.set())
        await dial(lambda: broker, *world.nodes[follower].address, SECRET, tls=None)
        await asyncio.wait_for(lost.wait(), 60)
