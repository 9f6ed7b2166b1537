"""Three controllers over real sockets: they vote, one of them is the controller, and another one follows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

import pytest

from actors.controller import new_secret
from actors.controller.active import ActiveController
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.quorum_log import QuorumLog
from actors.controller.new_secret import NewSecretError
from actors.controller.voter_changes import VoterChangeError, VoterChanges
from actors.links.connection import ControlProtocol, dial
from actors.links.operations import QuorumNode
from actors.links.secret import next_of, previous_of
from actors.quorum.log import VoterId
from actors.runtime.environment import REAL
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterSettings
from placement.records import BrokerConfigsRecord, ClusterSettingsRecord
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_controllers import Controllers, controllers

_CALM_S = 3.0
"""Nobody else stands meanwhile, though this machine be busy."""


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


async def test_while_the_one_that_led_is_gone_nobody_is_sent_to_it(tmp_path: Path) -> None:
    async with controllers(tmp_path, election_s=_CALM_S) as world:
        await commit(world, "1")
        address = world.nodes[0].address
        await until(lambda: {world.nodes[each].leader_address for each in (1, 2)} == {address}, what="its address")
        world.stop(0)
        for each in (1, 2):
            await until(lambda n=each: not _knows_leader(world, n), what="its end")  # type: ignore[misc]
            assert world.logs[each].leader is not None, "no other one has been elected yet"


def _knows_leader(world: Controllers, number: int) -> bool:
    with suppress(NotControllerError):
        return world.nodes[number].leader_address != ("", 0)
    return False


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
    async with controllers(tmp_path, election_s=_CALM_S) as world:
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


@pytest.mark.conformance("N-C-07")
async def test_all_go_by_changed_settings_and_by_those_of_their_start_again(
    tmp_path: Path,
) -> None:
    def partitions(number: int) -> int:
        return world.nodes[number].in_force.config.integer("num.partitions")

    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        first = partitions(leader)
        for settings, wanted in ((ClusterSettings({"num.partitions": "7"}), 7), (None, first)):
            server_of(world, leader).publisher.commit([ClusterSettingsRecord(settings)])
            await until(lambda w=wanted: {partitions(n) for n in world.numbers} == {w}, what="taken")  # type: ignore[misc]
        server_of(world, leader).publisher.commit([ClusterSettingsRecord(ClusterSettings({"num.partitions": "8"}))])
        await until(lambda: {partitions(n) for n in world.numbers} == {8}, what="taken")
        world.stop(leader)
        await world.led()
        await world.start(leader)
        await until(lambda: partitions(leader) == 8, what="taken after a start")
        assert world.metadata(leader).settings == ClusterSettings({"num.partitions": "8"})


async def commits(world: Controllers, name: str) -> None:
    await asyncio.wait_for(commit(world, name), 60)


@pytest.mark.conformance("N-C-07", "XE-06")
async def test_the_secret_of_several_controllers_is_changed_while_they_run(tmp_path: Path) -> None:
    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        server, path = server_of(world, leader), world.secret_file(leader)
        with pytest.raises(
            NewSecretError,
            match=r"controller \d has not got .*: there is none with that mark; its node needs .*secret\.next",
        ):
            await new_secret.begin(server, path)
        for number in world.numbers:  # as a person does it, or the broker's way of asking for it
            next_of(world.secret_file(number)).write_text(next_of(path).read_text())
            next_of(world.secret_file(number)).chmod(0o600)
        await new_secret.begin(server, path)
        await new_secret.use(server, path)
        await commits(world, "1")
        await new_secret.forget(server, path, world.nodes[leader].close_unauthenticated)
        await commits(world, "2")
        files = {world.secret_file(number).read_text() for number in world.numbers}
        assert len(files) == 1
        assert files != {SECRET.current.hex()}
        for number in world.numbers:
            assert not next_of(world.secret_file(number)).exists()
            assert not previous_of(world.secret_file(number)).exists()
        world.stop(leader)
        await world.led()
        await world.start(leader)
        await commits(world, "3")


# --- voters that are added and removed by a person's word ---


def changes_at(world: Controllers, number: int) -> VoterChanges:
    server, loop = server_of(world, number), asyncio.get_running_loop()
    return VoterChanges(world.logs[number], server.publisher.commit, loop.time)


async def removed(world: Controllers, voter: VoterId) -> None:
    """Have a vote taken. On a busy machine another one may lead meanwhile: that one is asked then."""
    while voter in world.logs[await world.led()].voters:
        with suppress(NotControllerError, VoterChangeError):
            await changes_at(world, await world.led()).remove(voter.id, voter.directory, 30)


async def added(world: Controllers, voter: VoterId) -> None:
    while voter not in world.logs[await world.led()].voters:
        with suppress(NotControllerError, VoterChangeError):
            await changes_at(world, await world.led()).add(voter.id, voter.directory, 30)


@pytest.mark.conformance("N-C-08")
async def test_a_removed_controller_is_unlisted_and_comes_back_only_when_it_is_added(tmp_path: Path) -> None:
    def leading() -> list[QuorumLog]:
        return [world.logs[number] for number in world.leading if number != gone]

    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        await until(lambda: len(world.metadata(leader).controllers) == 3, what="registered")
        gone = next(number for number in world.numbers if number != leader)
        me = world.logs[gone].me
        await removed(world, me)
        await commit(world, "1")
        await until(lambda: any(me in log.observers for log in leading()), what="it follows")
        await asyncio.sleep(1.5)  # it says where it is, again and again
        for log in (world.logs[number] for number in world.numbers):
            assert gone not in log.committed.controllers
            assert me not in log.voters, "though it is one of those that are wanted"
        await added(world, me)
        await until(lambda: all(gone in log.committed.controllers for log in world.logs.values()), what="listed")
        assert all(me in log.voters for log in leading())


@pytest.mark.conformance("N-C-08")
async def test_a_leader_that_removes_itself_is_followed_by_another(tmp_path: Path) -> None:
    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        me = world.logs[leader].me
        await removed(world, me)
        await until(lambda: world.leading not in ([], [leader]), what="another leads")
        assert me not in world.logs[world.leading[0]].voters
        await until(
            lambda: all(leader not in log.committed.controllers for log in world.logs.values()), what="unlisted"
        )


@pytest.mark.conformance("N-C-08")
async def test_what_cannot_be_changed_is_refused_with_kafkas_code(tmp_path: Path) -> None:
    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        follower = next(number for number in world.numbers if number != leader)
        me, other = world.logs[leader].me, world.logs[follower].me
        changes = changes_at(world, leader)

        async def refused(change: Awaitable[None]) -> ErrorCode:
            with pytest.raises(VoterChangeError) as error:
                await change
            return error.value.code

        assert await refused(changes.add(other.id, other.directory, 1)) == ErrorCode.DUPLICATE_VOTER
        assert await refused(changes.add(other.id, "another", 1)) == ErrorCode.DUPLICATE_VOTER
        assert await refused(changes.add(7, "nowhere", 0.2)) == ErrorCode.REQUEST_TIMED_OUT
        assert await refused(changes.remove(other.id, "another", 1)) == ErrorCode.VOTER_NOT_FOUND
        with pytest.raises(VoterChangeError, match=f"controller {leader} leads") as error:
            await VoterChanges(world.logs[follower], server_of(world, leader).publisher.commit, time.monotonic).remove(
                *(other.id, other.directory, 1)
            )
        assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for number in world.numbers:
            if number != leader:
                await removed(world, world.logs[number].me)
        assert await refused(changes_at(world, leader).remove(me.id, me.directory, 1)) == ErrorCode.INVALID_REQUEST


# --- what is told of them ---


@pytest.mark.conformance("N-C-09")
async def test_the_quorum_is_described_with_each_voters_end_and_times(tmp_path: Path) -> None:
    async with controllers(tmp_path, election_s=_CALM_S) as world:
        leader = await world.led()
        server = server_of(world, leader)
        silent = next(number for number in world.numbers if number != leader)

        def rows() -> dict[int, QuorumNode]:
            return {each.controller_id: each for each in server.quorum(REAL.clock.wall_ms()).controllers}

        await until(lambda: all(each.host for each in rows().values()), what="addresses")
        world.stop(silent)
        await commit(world, "1")
        end = server.decided.version
        await until(lambda: server.quorum(0).high_watermark == server.quorum(0).log_end_offset == end, what="committed")
        for number in world.numbers:
            if number != silent:
                await until(lambda n=number: rows()[n].log_end_offset == end, what="all of it")  # type: ignore[misc]
        found = rows()
        assert [number for number, each in found.items() if each.leads] == [leader]
        assert found[silent].log_end_offset < end
        assert found[silent].heard_ms < found[leader].heard_ms
        assert {each.directory for each in found.values()} == {voter.directory for voter in world.logs[leader].voters}
        status = {each.id: (each.role, each.lag > 0) for each in server.status().controllers}
        assert status[leader] == ("Leader", False)
        assert status[silent] == ("Voter", True)
