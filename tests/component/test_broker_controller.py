"""A broker without Ray and its controller: one that comes back, and the images it sends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.broker.controller_link import ControllerLink
from actors.broker.server import BrokerServer
from actors.broker.spec import StartError
from actors.controller.active import ActiveController
from actors.links.connection import ControlProtocol, Message
from actors.links.control import Confirmed, Heartbeat, Stop
from actors.links.status import Load
from actors.records.building import build_batch
from actors.runtime.environment import REAL
from actors.wire import messages
from actors.wire.messages import ApiMessage
from placement.metadata import Directory, PartitionInfo
from placement.records import BrokerDirectoryRecord, PartitionRecord, UnregisterBrokerRecord
from tests.support.one_broker import VERSIONS, World, create, delete, world
from tests.support.runtime_helpers import SECRET, until

# --- the controller ---


@pytest.mark.conformance("N-A-04", "N-A-09")
async def test_a_broker_outlives_its_controller_and_registers_with_the_next_one_as_it_was(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client = await w.client()
        client.send(create("before"))
        assert (await client.answer()).topics[0].error_code == 0
        epochs = (w.server.registration.link.epoch, w.metadata.partition("before", 0).leader_epoch)
        w.stop_controller()
        await until(lambda: not w.server.registration.link.connected)
        client.send(VERSIONS)
        assert (await client.answer()).error_code == 0, "clients are served meanwhile"
        client.send(create("nobody decides"))
        assert (await client.answer()).topics[0].error_code in (7, 17)
        await w.start_controller()
        await until(lambda: w.controller is not None and w.controller.ready(), what="registered again")
        assert (w.server.registration.link.epoch, w.metadata.partition("before", 0).leader_epoch) == epochs
        client.send(create("after"))
        assert (await client.answer()).topics[0].error_code == 0
        assert w.server.context.metadata.controller_epoch == 2


@pytest.mark.conformance("N-D-02")
async def test_a_broker_that_was_replaced_while_it_was_away_stops_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w:
        own = w.server.context.data_dir.directory_id
        assert w.metadata.directories == {0: Directory(own)}
        w.stop_controller()
        await until(lambda: not w.server.registration.link.connected)
        controller = await w.start_controller()
        controller.publisher.commit([BrokerDirectoryRecord(0, Directory("another", awaited=True))], tell=False)
        await asyncio.wait_for(w.server.registration.stop_wanted.wait(), 30)
        assert f"has directory.id={own}, but broker 0 was replaced and has directory.id=another now" in caplog.text
        assert not controller.brokers


async def test_a_broker_that_was_removed_while_it_was_away_stops_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w:
        w.stop_controller()
        await until(lambda: not w.server.registration.link.connected)
        controller = await w.start_controller()
        controller.publisher.commit([UnregisterBrokerRecord(0)], tell=False)
        await asyncio.wait_for(w.server.registration.stop_wanted.wait(), 30)
        text = "broker 0 was removed from the cluster, and its id is never used again"
        assert f"fenced: {text}" in caplog.text
        assert not controller.brokers
        with pytest.raises(StartError, match=text):
            await BrokerServer.open(w.server.spec, w.find_controller)


async def test_a_controller_that_dies_again_and_again_leaves_one_connection_not_several(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for round_ in range(4):
            w.stop_controller()
            if round_ % 2:
                await until(lambda: not w.server.registration.link.connected)
            controller = await w.start_controller()
            await until(controller.ready, what="registered again")
        await asyncio.sleep(0.3)
        assert len(controller.sessions.connected) == 1
        assert controller.ready()
        assert w.server.registration.link.epoch == 0
        assert w.launcher.started == []


async def test_nothing_is_said_to_the_controller_among_the_proofs(tmp_path: Path) -> None:
    async with world(tmp_path):
        held: list[tuple[Slow, bytes]] = []

        class Slow(ControlProtocol):
            hears = False

            def data_received(self, data: bytes) -> None:
                if self.hears:
                    super().data_received(data)
                else:
                    held.append((self, data))

        loop = asyncio.get_running_loop()
        heard: list[Message] = []
        server = await loop.create_server(
            lambda: Slow(
                "controller", SECRET, REAL.chance, lambda _: None, lambda _, m: heard.append(m), lambda _: None
            ),
            "127.0.0.1",
            0,
        )
        link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance)
        joining = asyncio.ensure_future(link.connect("127.0.0.1", server.sockets[0].getsockname()[1]))
        await until(lambda: held)
        for _ in range(20):
            link.heartbeat(Load(), leaving=False)
            await asyncio.sleep(0)
        assert not link.connected
        Slow.hears = True
        for protocol, data in held:
            protocol.data_received(data)
        await joining
        link.heartbeat(Load(connections=1), leaving=False)
        await until(lambda: heard)
        assert [message.load for message in heard if isinstance(message, Heartbeat)] == [Load(connections=1)]
        assert len(heard) == 1
        link.close()
        server.close()


async def test_one_that_hangs_up_between_two_answers_is_not_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance)
        await link.connect(*w.find_controller()[:2])
        await link.join(7)
        w.stop_controller()
        await until(lambda: not link.connected)
        with pytest.raises(ConnectionError, match="the controller hung up"):
            await asyncio.wait_for(link.join(7), 2)


async def test_a_controller_that_was_given_up_may_stop_the_broker_and_show_it_nothing(tmp_path: Path) -> None:
    """Its image was older than a proposal that it had yet to read, and the broker dropped that proposal."""
    async with world(tmp_path) as w:
        registration, controller = w.server.registration, w.controller
        assert controller is not None
        shown: list[int] = []
        w.server.images.apply = lambda metadata: shown.append(metadata.version)  # type: ignore[method-assign]
        given_up, confirmed = registration.link, registration.link.last_confirmed
        (session,) = controller.brokers.values()
        registration.stop_looking()
        given_up.give_up()
        controller.publisher.tell()
        session.protocol.send(Confirmed(confirmed + 1000))
        session.protocol.send(Stop())
        await asyncio.wait_for(registration.stop_wanted.wait(), 10)
        assert shown == []
        assert given_up.last_confirmed == confirmed


async def test_a_welcome_is_no_lease_only_what_comes_after_the_image_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_message = ActiveController.heard

    def without_heartbeats(server: ActiveController, protocol: ControlProtocol, message: Message) -> None:
        if not isinstance(message, Heartbeat):
            on_message(server, protocol, message)

    async with world(tmp_path) as w:
        w.stop_controller()
        await until(lambda: not w.server.registration.link.connected)
        confirmed = w.server.registration.link.last_confirmed
        with monkeypatch.context() as patch:
            patch.setattr(ActiveController, "heard", without_heartbeats)
            controller = await w.start_controller()
            await until(lambda: controller.ready() and not w.server.registration.rejoining, what="registered again")
            assert w.server.registration.link.last_confirmed == confirmed
            w.stop_controller()
        await w.start_controller()
        await until(lambda: w.server.registration.link.last_confirmed > confirmed, what="a lease")


async def test_a_broker_that_is_closing_its_logs_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = World(tmp_path)
    controller = await w.start_controller()
    server = await w.start_broker()
    go_on, close = threading.Event(), server.context.data_dir.close
    monkeypatch.setattr(server.context.data_dir, "close", lambda: (go_on.wait(30), close()))
    stopping = asyncio.ensure_future(server.stop())
    await until(lambda: server.stopping)
    said: list[Any] = []
    on_message = controller.brokers[0].protocol._on_message
    controller.brokers[0].protocol._on_message = lambda p, message: (said.append(message), on_message(p, message))
    try:
        await until(lambda: len(said) > 2, what="heartbeats")
    finally:
        go_on.set()
        await stopping
    await until(lambda: not controller.brokers, what="hung up")
    w.stop_controller()


async def test_an_image_of_a_former_controller_is_ignored(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        present = w.server.context.metadata
        stale = type(present).from_wire(present.to_wire())
        stale.controller_epoch -= 1
        stale.version += 100
        w.server.images.apply(stale)
        assert w.server.context.metadata is present


async def test_the_logs_of_a_large_topic_are_dropped_some_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of folders renamed and flushed in one turn held up every client."""
    monkeypatch.setattr("actors.broker.images._DROPS_A_TURN", 5)

    async with world(tmp_path) as w:
        loop, client, data_dir = asyncio.get_running_loop(), await w.client(), w.server.context.data_dir
        client.send(create("large", 23), create("kept"))
        assert [(await client.answer()).topics[0].error_code for _ in range(2)] == [0, 0]
        for index in range(23):
            w.server.context.log("large", index)
        w.server.context.log("kept", 0)
        turns: list[int] = [0]

        def turn() -> None:
            turns.append(0)
            loop.call_soon(turn)

        def count(topic: str, partition: int, drop: Any = data_dir.delete) -> Any:
            turns[-1] += 1
            return drop(topic, partition)

        monkeypatch.setattr(data_dir, "delete", count)
        turn()
        client.send(delete("large"))
        assert (await client.answer()).responses[0].error_code == 0
        await until(lambda: list(data_dir.logs) == [("kept", 0)])
        assert sum(turns) == 23
        assert max(turns) == 5
        await until(lambda: not list((tmp_path / "data" / "broker-0").glob("large-*")))


async def test_a_new_topic_finds_its_place_free_of_the_deleted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.broker.images._DROPS_A_TURN", 1)

    async with world(tmp_path) as w:
        client, context = await w.client(), w.server.context
        client.send(create("t", 9))
        await client.answer()
        for index in range(9):
            context.log("t", index).append_as_leader(build_batch([(b"k", b"v", None, 0)]), 9, 0)
        client.send(delete("t"), create("t", 9))
        assert (await client.answer()).responses[0].error_code == 0
        assert (await client.answer()).topics[0].error_code == 0
        assert [context.log("t", index).log_end_offset for index in range(9)] == [0] * 9
        await until(lambda: len(list((tmp_path / "data" / "broker-0").glob("t-*"))) == 9)
        assert not list((tmp_path / "data" / "broker-0").glob("*.stray"))


async def test_an_image_that_raises_the_epochs_of_many_partitions_writes_no_file(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client, context = await w.client(), w.server.context
        client.send(create("t", 20))
        await client.answer()
        logs = [context.log("t", index) for index in range(20)]
        image = type(context.metadata).from_wire(context.metadata.to_wire())
        for index in range(20):
            image.apply(PartitionRecord("t", index, PartitionInfo(0, 7, (0,), (0,))))

        def files() -> dict[Path, tuple[int, int]]:
            found = {path: path.stat() for path in context.data_dir.path.rglob("*")}
            return {path: (status.st_ino, status.st_mtime_ns) for path, status in found.items()}

        before = files()
        w.server.images.apply(image)
        assert files() == before, "a file is written in the loop's turn"
        assert [each.leader_epoch for each in logs] == [7] * 20


def alter_broker(name: str, key: str, value: str | None) -> tuple[ApiMessage, int]:
    """Set a broker's setting, or take it back; of all brokers if the name is empty."""
    request = messages.IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
    return request(resources=[resource]), 1


async def test_a_changed_setting_of_brokers_holds_for_the_logs_that_are_there(tmp_path: Path) -> None:
    async with world(tmp_path, message_max_bytes="5000") as w:
        client, context = await w.client(), w.server.context
        own = messages.CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="77")
        asked, version = create("t")
        asked.topics[0].configs = [own]  # type: ignore[attr-defined]
        client.send((asked, version))
        assert (await client.answer()).topics[0].error_code == 0
        log = context.log("t", 0)

        async def alter(name: str, key: str, value: str | None) -> None:
            client.send(alter_broker(name, key, value))
            assert (await client.answer()).responses[0].error_code == 0
            await until(lambda: context.metadata.broker_configs.get(name, {}).get(key) == value)

        await alter("", "message.max.bytes", "4000")
        assert (log.config.max_message_bytes, log.config.retention_ms) == (4000, 77)
        await alter("0", "message.max.bytes", "3000")
        assert log.config.max_message_bytes == 3000
        await alter("", "log.retention.ms", "5")
        await alter("", "log.flush.interval.messages", "1")
        assert (log.config.retention_ms, log.config.flush_messages) == (77, 1)
        before = log.config
        await alter("", "max.connections", "90")
        assert log.config is before, "it is no setting of logs"

        await w.server.stop()
        await w.start_broker()
        again = w.server.context.log("t", 0)
        assert (again.config.max_message_bytes, again.config.flush_messages) == (3000, 1)
        client, context, log = await w.client(), w.server.context, again
        await until(lambda: context.metadata.brokers[0].alive)
        await alter("0", "message.max.bytes", None)
        await alter("", "message.max.bytes", None)
        assert log.config.max_message_bytes == 5000
