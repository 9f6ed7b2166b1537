"""A controller's process: its start and restart, brokers that start and come back, and the secret for them."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.broker.spec import BrokerSpec, BrokerStart
from actors.controller.ray_actors import Role
from actors.controller.spec import ControllerSpec
from actors.links.versions import OWN, Spoken, VersionError
from actors.runtime.logs import LogPlace
from actors.runtime.ray_connection import ClusterError
from placement.metadata import BrokerInfo
from placement.records import BrokerRecord, UnregisterBrokerRecord
from tests.support.controller_process import (
    Controllers,
    ProcessEnded,
    commit,
    in_thread,
    registered,
    spec_in,
    stopped,
    told,
)
from tests.support.runtime_helpers import SECRET, until

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    yield made
    for each in made.running:
        each.close()


# --- its start ---


def test_only_a_restarted_controller_that_cannot_start_leaves_it_to_the_next(
    controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("actors.controller.starting.StandaloneLog", refused)
    with pytest.raises(ClusterError, match="its disk is full: make room there"):
        controllers.begin()
    controllers.restarted = True
    with pytest.raises(ProcessEnded):
        controllers.begin()


def test_a_controller_that_is_restarted_on_another_disk_makes_no_new_cluster(
    controllers: Controllers, caplog: pytest.LogCaptureFixture
) -> None:
    """The next node at its address may have an empty one."""
    controllers.restarted = True
    with pytest.raises(ProcessEnded):
        controllers.begin()
    assert "this node has not the disk of the one that the controller was on" in caplog.text
    assert list((controllers.folder / "controller").iterdir()) == []


def test_a_cluster_in_which_nobody_may_do_anything_is_not_started_but_goes_on_where_it_runs(
    controllers: Controllers,
) -> None:
    """XB-44."""
    config = {"authorizer.class.name": AUTHORIZER}
    with pytest.raises(ClusterError, match=r"set super\.users"):
        controllers.begin(config=config)
    controllers.restarted = True
    controllers.begin(config=config)


def test_a_controller_does_not_start_for_a_build_that_it_has_no_version_in_common_with(
    controllers: Controllers,
) -> None:
    with pytest.raises(
        VersionError, match=r"the one that has it started \(build 99\) speaks versions 98 to 99: install"
    ):
        controllers.begin(Spoken(98, 99, "99"))


@pytest.mark.conformance("XE-07")
@pytest.mark.parametrize("host", [None, "0.0.0.0", "::", "127.0.0.1"])
def test_brokers_find_the_controller_at_the_nodes_address_wherever_clients_may_come(
    controllers: Controllers, host: str | None
) -> None:
    process = controllers.begin(host=host)
    assert process.join_info()[0] == "127.0.0.1"
    listening = process.loop.node.acceptor.listening
    assert listening is not None
    (bound,) = listening.sockets
    assert bound.getsockname()[0] == "127.0.0.1"


# --- the secret ---


@pytest.mark.conformance("XE-33")
def test_what_starts_the_processes_names_the_secret_and_does_not_have_it(tmp_path: Path) -> None:
    spec = replace(spec_in(tmp_path), config={"coterie.secret.file": str(tmp_path / "secret")})
    broker = BrokerSpec(0, "127.0.0.1", (), str(tmp_path), "", spec.config)
    start = BrokerStart(OWN, broker, "coterie-c", LogPlace(str(tmp_path), "c")).encoded()
    for sent in (pickle.dumps(spec), pickle.dumps(broker), told(spec), start):
        assert b"coterie.secret.file" in sent
        assert SECRET.current.hex().encode() not in sent
        assert SECRET.current not in sent


@pytest.mark.conformance("XE-34", "N-D-07")
def test_the_secret_itself_is_handed_out_only_where_its_file_was_not_named(
    controllers: Controllers, caplog: pytest.LogCaptureFixture
) -> None:
    controllers.ray.token = True
    process = controllers.begin()
    assert process.join_info()[2] == SECRET.marks
    with caplog.at_level("WARNING"):
        assert process.hand_out_secret(1) == SECRET
        assert process.hand_out_secret("controller 2, on another node") == SECRET
    assert "broker 1 has no " in caplog.text
    assert "controller 2, on another node has no " in caplog.text
    assert SECRET.current.hex() not in caplog.text
    controllers.end()
    process = controllers.begin(config={"coterie.secret.file": "/etc/secret"})
    with pytest.raises(PermissionError, match=r"coterie\.secret\.file=/etc/secret is set: no secret goes through Ray"):
        process.hand_out_secret(1)


@pytest.mark.conformance("XE-34", "N-D-07")
def test_no_secret_goes_through_a_ray_that_asks_for_no_token(controllers: Controllers) -> None:
    process = controllers.begin()
    with pytest.raises(
        PermissionError, match=r"asks for no token .*: no secret goes .*/secret on the node of broker 1"
    ):
        process.hand_out_secret(1)


# --- programs of other builds ---


def test_programs_of_earlier_builds_find_the_class_of_the_settings_where_they_have_it() -> None:
    spec = ControllerSpec("c", "/d", None, 1, 0, "/s", "/secret", {}, "v")
    sent = pickle.dumps(spec)
    assert b"actors.controller.actor" in sent
    assert pickle.loads(sent) == spec


# --- brokers ---


async def test_a_cluster_has_started_when_all_brokers_serve(controllers: Controllers) -> None:
    process = controllers.begin()
    starting = asyncio.ensure_future(in_thread(process.start_brokers, 60.0))
    await until(lambda: len(controllers.ray.of(Role.BROKER)) == 2, what="both to be started")
    assert process.launcher.is_starting()
    brokers = await registered(process, [0, 1])
    assert await starting == [("127.0.0.1", 9092), ("127.0.0.1", 9093)] == process.addresses()
    assert not process.launcher.is_starting()
    for each in brokers:
        each.hang_up()


async def test_a_cluster_of_which_a_broker_does_not_start_says_why_and_tries_no_more(controllers: Controllers) -> None:
    process = controllers.begin()
    starting = asyncio.ensure_future(in_thread(process.start_brokers, 60.0))
    first, _ = await until(lambda: started if len(started := controllers.ray.of(Role.BROKER)) == 2 else None)
    first.ended(ConnectionError("its port is in use"))
    with pytest.raises(RuntimeError, match=r"^its port is in use$"):
        await starting
    assert process.controller.stopping


async def test_brokers_added_have_ids_of_their_own_and_fail_for_their_own_reasons(controllers: Controllers) -> None:
    process = controllers.begin()
    process.loop.ask(process.controller.expect, [0, 1, 2])  # 2 has not come up yet
    process.loop.ask(process.controller.start_failed, 2, "its port is in use")

    async def added(count: int, *come: int) -> Any:
        adding = asyncio.ensure_future(in_thread(process.add_brokers, count, 60.0))
        await until(lambda: process.controller.starts.wanted.issuperset(come), what="them to be expected")
        await registered(process, come)
        return await adding

    assert await added(2, 3, 4) == [3, 4]
    assert await added(1, 5) == [5]
    adding = asyncio.ensure_future(in_thread(process.add_brokers, 1, 60.0))
    await until(lambda: 6 in process.controller.starts.wanted)
    process.loop.ask(process.controller.start_failed, 6, "no")
    with pytest.raises(RuntimeError, match=r"^no$"):
        await adding
    assert sorted(process.controller.decided.homes) == list(range(7))


@pytest.mark.conformance("N-D-05")
async def test_a_broker_that_was_removed_is_in_no_later_start_and_its_id_is_not_used_again(
    controllers: Controllers,
) -> None:
    one_copy = {"offsets.topic.replication.factor": "1"}
    process = controllers.begin(config=one_copy)
    process.loop.ask(process.controller.expect, process.placing.place(3))
    commit(process, *(BrokerRecord(BrokerInfo(i, "h", 9092 + i, None, 0)) for i in range(3)))
    process.remove_broker(2, None)
    assert process.removal(2).status is not None, "it waits for the brokers to register"
    commit(process, UnregisterBrokerRecord(2))
    assert process.removal(2).removed
    controllers.end()
    process = controllers.begin(brokers=3, config=one_copy)
    starting = asyncio.ensure_future(in_thread(process.start_brokers, 60.0))
    await until(lambda: process.controller.starts.wanted == {0, 1}, what="both to be expected")
    await registered(process, [0, 1])
    await starting
    assert process.controller.starts.wanted == {0, 1}
    assert process.left_out() == [2]
    adding = asyncio.ensure_future(in_thread(process.add_brokers, 1, 60.0))
    await until(lambda: 3 in process.controller.starts.wanted)
    await registered(process, [3])
    assert await adding == [3]
    assert sorted(process.controller.decided.homes) == [0, 1, 3]


async def test_what_the_loop_changes_is_read_on_the_loop(
    controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = controllers.begin(brokers=1)
    readers: set[tuple[str, str]] = set()

    def noted(real: Any) -> Any:
        def read(*arguments: Any) -> Any:
            readers.add((real.__name__, threading.current_thread().name))
            return real(*arguments)

        return read

    for real in (process.controller.ready, process.controller.status, process.controller.in_sync_everywhere):
        monkeypatch.setattr(process.controller, real.__name__, noted(real))
    starting = asyncio.ensure_future(in_thread(process.start_brokers, 60.0))
    await until(lambda: process.controller.starts.wanted)
    (broker,) = await registered(process, [0])
    await starting
    restarting = asyncio.ensure_future(in_thread(process.restart_broker, 0, 60.0))
    await stopped(broker)
    (broker,) = await registered(process, [0])
    await restarting
    broker.hang_up()
    await until(lambda: not process.controller.brokers)
    assert process.status().brokers[0].id == 0
    assert readers == {(name, "coterie-controller") for name in ("ready", "status", "in_sync_everywhere")}


async def test_a_broker_that_was_cut_off_and_comes_back_as_it_was_is_restarted_all_the_same(
    controllers: Controllers,
) -> None:
    """It was taken for one that had started with the new settings."""
    process = controllers.begin(brokers=1)
    process.loop.ask(process.controller.expect, process.placing.place(1))
    commit(process, BrokerRecord(BrokerInfo(0, "h", 1, None, 0, alive=False, pid=1000, process_started=77)))
    restarting = asyncio.ensure_future(in_thread(process.restart_broker, 0, 60.0))
    await until(lambda: controllers.ray.of(Role.BROKER), what="it to be started")
    (as_it_was,) = await registered(process, [0])
    await stopped(as_it_was)
    assert not restarting.done()
    await registered(process, [0])
    await restarting


def test_a_broker_that_does_not_run_is_started_and_one_that_cannot_start_says_why(controllers: Controllers) -> None:
    process = controllers.begin()
    process.placing.place(1)
    commit(process, BrokerRecord(BrokerInfo(0, "h", 1, None, 0, alive=False)))
    process.loop.ask(process.controller.start_failed, 0, "of an earlier try")
    process.loop.ask(process.controller.expect, [0])
    process.failing_s = 0.0
    controllers.ray.refusal = RuntimeError("no certificate")
    with pytest.raises(RuntimeError, match=r"^broker 0 does not start: no certificate$"):
        process.restart_broker(0, 60.0)


async def test_a_broker_that_failed_to_start_once_is_waited_for(controllers: Controllers) -> None:
    """Ray had it on a node that had ended, and the next start took longer than failures are allowed."""
    process = controllers.begin(brokers=1)
    process.loop.ask(process.controller.expect, process.placing.place(1))
    commit(process, BrokerRecord(BrokerInfo(0, "h", 1, None, 0, alive=False)))
    process.failing_s = 0.0
    controllers.ray.refusal = RuntimeError("its node has ended")
    restarting = asyncio.ensure_future(in_thread(process.restart_broker, 0, 60.0))
    await until(lambda: process.controller.starts.failures, what="a failure")
    controllers.ray.refusal = None
    await until(lambda: controllers.ray.of(Role.BROKER), what="the next start")
    assert not restarting.done()
    await registered(process, [0])
    await restarting


def test_no_broker_is_restarted_that_is_not_there_or_does_not_come_back(controllers: Controllers) -> None:
    process = controllers.begin()
    with pytest.raises(RuntimeError, match=r"^there is no broker 7$"):
        process.restart_broker(7, 60.0)
    process.placing.place(1)
    commit(process, BrokerRecord(BrokerInfo(0, "h", 1, None, 0)))
    with pytest.raises(RuntimeError, match=r"^broker 0 could not be closed: it does not run$"):
        process.restart_broker(0, 60.0)
    commit(process, BrokerRecord(BrokerInfo(0, "h", 1, None, 0, alive=False)))
    process.loop.ask(process.controller.expect, [0])
    with pytest.raises(RuntimeError, match=r"^broker 0 did not come back within 0 s; see .*logs$"):
        process.restart_broker(0, 0.01)


def test_a_stop_ends_all_processes_that_ray_knows(controllers: Controllers) -> None:
    process = controllers.begin()
    controllers.ray.named = ["broker-0-7-1", "shard-0-7-1", "monitor", "controller"]
    process.launcher.adopt()
    process.stop()
    assert controllers.ray.killed == ["broker-0-7-1", "shard-0-7-1", "monitor"]
    assert process.controller.stopping
