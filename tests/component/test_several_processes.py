"""The processes of three controllers: one starts the cluster, and another goes on with it when that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.controller.metadata.standalone import SeveralVotersError, StandaloneLog
from actors.controller.process import ControllerProcess
from actors.controller.ray_actors import Role
from actors.controller.settings_in_force import Changed
from actors.links.not_controller import NotControllerError
from actors.runtime.ray_connection import ClusterError
from placement.records import ProducerIdsRecord
from tests.support.controller_process import commit, in_thread
from tests.support.runtime_helpers import until
from tests.support.several_processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.close()


async def started(processes: Processes) -> ControllerProcess:
    """A cluster with two brokers has been started; the controller that leads."""
    leader = await processes.start_all()
    starting = asyncio.ensure_future(in_thread(leader.start_brokers, 60.0))
    await until(lambda: len(processes.ray.of(Role.BROKER)) == 2, what="both to be started")
    brokers = await processes.brokers()
    assert await starting == [("127.0.0.1", 9092), ("127.0.0.1", 9093)]
    for each in processes.running.values():
        each.cluster_started()
    assert leader.status().controllers
    for broker in brokers:
        broker.hang_up()
    return leader


def _roles(process: ControllerProcess) -> list[str]:
    return sorted(each.role for each in process.status().controllers)


@pytest.mark.conformance("N-C-10")
async def test_another_controller_goes_on_when_the_one_that_leads_has_ended(processes: Processes) -> None:
    leader = await started(processes)
    assert processes.leading == [0], "it founded the cluster"
    leader.reconfigure(Changed({"log.retention.ms": "7"}, everywhere=True))
    follower = processes.running[1]
    assert follower.join_info()[:2] == leader.own_address(), "each knows who leads"
    with pytest.raises(NotControllerError, match="another node is the controller now"):
        follower.addresses()
    processes.kill(0)
    after = await processes.led()
    assert after.addresses() == [("127.0.0.1", 9092), ("127.0.0.1", 9093)]
    await until(lambda: after.controller.starts.wanted == {0, 1}, what="the brokers to be expected")
    assert after.launcher.told(0).config == {"log.retention.ms": "7"}
    began = len(processes.ray.of(Role.BROKER))
    await processes.brokers()
    assert len(processes.ray.of(Role.BROKER)) == began, "they run, and are not started"
    commit(after, ProducerIdsRecord(77_000))
    back = await asyncio.to_thread(processes.start, 0, restarted=True)
    await until(lambda: back.loop.node.log.committed.next_producer_id == 77_000, what="it to catch up")
    assert back.join_info()[:2] == after.own_address()
    assert not back.leads()


@pytest.mark.conformance("N-C-10")
async def test_a_controller_that_comes_back_with_an_empty_disk_follows_and_gets_its_vote_again(
    processes: Processes,
) -> None:
    leader = await started(processes)
    processes.kill(0)
    (processes.folder / "controller" / "metadata.log").unlink()
    after = await processes.led()
    assert after.own_address() != leader.own_address()
    back = await asyncio.to_thread(processes.start, 0, founds=True, restarted=True)
    assert not back.has_log()
    await until(lambda: len(processes.voters()) == 3 and _roles(after) == ["Leader", "Voter", "Voter"], what="a vote")
    cluster_id = after.controller.metadata.cluster_id
    await until(lambda: back.loop.node.log.committed.cluster_id == cluster_id, what="it to catch up")


@pytest.mark.conformance("N-C-10")
async def test_a_cluster_is_started_anew_by_whoever_leads_then(processes: Processes) -> None:
    await started(processes)
    processes.close()
    processes.ray.started.clear()
    leader = await processes.start_all()
    assert leader.controller.starts.wanted == set(), "nothing is taken over before it is started"
    starting = asyncio.ensure_future(in_thread(leader.start_brokers, 60.0))
    await until(lambda: len(processes.ray.of(Role.BROKER)) == 2, what="both to be started")
    await processes.brokers()
    await starting


async def test_one_of_several_is_not_started_alone(processes: Processes) -> None:
    await started(processes)
    processes.close()
    with pytest.raises(SeveralVotersError, match=r"one of 3 controllers.*\(--controllers 3\)"):
        StandaloneLog(processes.folder / "controller" / "metadata.log")


@pytest.mark.conformance("N-C-11")
async def test_a_controller_is_removed_by_its_id_and_has_a_vote_again_once_it_is_added(processes: Processes) -> None:
    leader = await started(processes)
    with pytest.raises(ClusterError, match=r"controller 7 has no vote; these have one: 0, "):
        await in_thread(leader.remove_controller, 7, 30.0)
    with pytest.raises(NotControllerError):
        await in_thread(processes.running[1].remove_controller, 2, 30.0)
    await in_thread(leader.remove_controller, 2, 30.0)
    assert processes.voters() == [0, 1]
    await in_thread(leader.remove_controller, 2, 30.0)  # the answer may have been lost
    processes.kill(2)
    with pytest.raises(ClusterError, match=r"controller 2 .*does not follow"):
        await in_thread(leader.add_controller, 2, 0.0)
    await asyncio.to_thread(processes.start, 2, restarted=True)
    await in_thread(leader.add_controller, 2, 30.0)
    assert processes.voters() == [0, 1, 2]
    await in_thread(leader.add_controller, 2, 30.0)  # it is that already


@pytest.mark.conformance("N-C-11")
async def test_the_controller_that_leads_is_removed_and_another_one_leads(processes: Processes) -> None:
    leader = await started(processes)
    await in_thread(leader.remove_controller, 0, 30.0)
    after = await until(lambda: next((p for p in processes.running.values() if p is not leader and p.leads()), None))
    assert after.loop.node.server is not None
    await until(lambda: processes.leading != [] and 0 not in processes.leading)
    assert processes.voters() == [1, 2]
