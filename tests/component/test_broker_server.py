"""A broker without Ray beside a real controller, on one loop: joining, limits, and a controller that comes back."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.broker.controller_link import ControllerLink
from actors.broker.registration import Registration
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, StartError
from actors.controller.metadata_log import MetadataLog
from actors.controller.server import ControllerServer
from actors.links.connection import ControlProtocol, Message
from actors.links.control import Heartbeat, Load
from actors.log.batch import build_batch
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from placement.metadata import PartitionInfo, partition_record
from tests.support.runtime_helpers import SECRET, run, until


class NoProcesses:
    """A launcher whose processes are the test's own objects."""

    def __init__(self) -> None:
        self.started: list[int] = []

    def start_broker(self, broker_id: int) -> None:
        self.started.append(broker_id)

    def kill_broker(self, broker_id: int) -> None: ...

    def start_shards(self, broker_id: int, count: int) -> None: ...

    def look_at(self, broker_id: int, pid: int, started: int) -> None: ...


class World:
    """A controller that can be replaced, and broker 0."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.launcher = NoProcesses()
        self.controller: ControllerServer | None = None
        self.port = 0
        self.server: BrokerServer

    async def start_controller(self) -> ControllerServer:
        log = MetadataLog(self.path / "metadata.log")
        config = BrokerConfig.from_mapping(self.settings)
        self.controller = ControllerServer(log, config, SECRET, self.launcher, asyncio.get_running_loop())
        self.port = await self.controller.listen("127.0.0.1")
        self.controller.expect([0])
        return self.controller

    def stop_controller(self) -> None:
        if self.controller is not None:
            self.controller.close()
            self.controller = None

    def find_controller(self) -> tuple[str, int, bytes]:
        if self.controller is None:
            raise ConnectionError("there is none now")
        return "127.0.0.1", self.port, SECRET

    async def start_broker(self) -> BrokerServer:
        spec = BrokerSpec(
            broker_id=0,
            bind_host="127.0.0.1",
            advertised_host="127.0.0.1",
            port=0,
            advertised_port=0,
            data_dir=str(self.path / "broker-0"),
            socket_path=str(self.path / "sockets" / "0"),
            config=self.settings,
        )
        self.server = await BrokerServer.open(spec, self.find_controller)
        await self.server.start()
        return self.server

    async def client(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        return Client(reader, writer)

    @property
    def metadata(self) -> Any:
        assert self.controller is not None
        return self.controller.metadata


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._sent: list[tuple[type[ApiMessage], int]] = []

    def send(self, *requests: tuple[ApiMessage, int]) -> None:
        data = b""
        for message, version in requests:
            self._sent.append((response_class(message.api_key), version))
            data += encode_request(message, version, len(self._sent), "tests")
        self.writer.write(data)

    async def answer(self) -> Any:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(length)
        cls, version = self._sent[int.from_bytes(frame[:4], "big") - 1]
        return decode_response(cls, version, frame)[1]

    async def closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def world(path: Path, **settings: str) -> AsyncIterator[World]:
    made = World(path, **settings)
    await made.start_controller()
    await made.start_broker()
    try:
        yield made
    finally:
        await made.server.stop()
        made.stop_controller()


VERSIONS: tuple[ApiMessage, int] = (messages.ApiVersionsRequest(), 2)


def create(name: str, partitions: int = 1) -> tuple[ApiMessage, int]:
    topic = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return messages.CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5


def test_a_started_broker_is_registered_and_answers(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            assert [(b.id, b.port) for b in w.metadata.alive()] == [(0, w.server.port)]
            client = await w.client()
            client.send(VERSIONS)
            assert (await client.answer()).error_code == 0

    run(test())


@pytest.mark.conformance("A-06", "A-07")
def test_lookups_of_many_clients_make_the_offsets_topic_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, offsets_topic_replication_factor="1", coterie_shard_wait_ms="0") as w:
            lookup = (messages.FindCoordinatorRequest(key="g", key_type=0), 2)
            clients = [await w.client() for _ in range(3)]
            link, held = w.server.registration.link, list[Any]()
            send = link.send
            link.send = held.append  # type: ignore[method-assign]  # nothing is made before all have asked
            for client in clients:
                client.send(lookup)
            assert [(await client.answer()).error_code for client in clients] == [15, 15, 15]
            link.send = send  # type: ignore[method-assign]
            for message in held:
                send(message)
            await until(lambda: "__consumer_offsets" in w.server.context.metadata.topics)
            made = w.metadata.topics["__consumer_offsets"].id
            clients[0].send(lookup)
            answer = await clients[0].answer()
            assert answer.error_message.endswith("is being started"), "here are no processes"
            assert w.metadata.topics["__consumer_offsets"].id == made

    run(test())


def test_requests_pipelined_on_one_socket_are_answered_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            client = await w.client()
            heartbeat = messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            # The second waits for the controller; what comes after it must wait as well.
            client.send(VERSIONS, create("slow"), (heartbeat, 3), (messages.MetadataRequest(topics=[]), 5))
            kinds = [type(await client.answer()).__name__ for _ in range(4)]
            assert kinds == [
                "ApiVersionsResponse",
                "CreateTopicsResponse",
                "HeartbeatResponse",
                "MetadataResponse",
            ]

    run(test())


@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
def test_connections_beyond_the_limit_are_refused_and_a_place_that_is_free_is_given_again(
    tmp_path: Path, setting: str
) -> None:
    async def test() -> None:
        async with world(tmp_path, **{setting: "2"}) as w:
            first, second = await w.client(), await w.client()
            for client in (first, second):
                client.send(VERSIONS)
                await client.answer()
            third = await w.client()
            assert await third.closed()
            first.writer.close()
            await until(lambda: len(w.server.clients) == 1)
            fourth = await w.client()
            fourth.send(VERSIONS)
            assert (await fourth.answer()).error_code == 0
            assert len(w.server.clients) == 2

    run(test())


def test_the_system_looks_whether_a_silent_client_is_still_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            client = await w.client()
            client.send(VERSIONS)
            await client.answer()
            (connection,) = w.server.clients
            assert connection.transport is not None
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    run(test())


def test_an_idle_connection_is_closed_one_that_waits_for_its_answer_is_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, connections_max_idle_ms="60000") as w:
            idle, waiting = await w.client(), await w.client()
            waiting.send(create("t"))
            await waiting.answer()
            part = messages.FetchRequest.FetchPartition
            topic = messages.FetchRequest.FetchTopic(
                topic="t", partitions=[part(partition=0, fetch_offset=0, partition_max_bytes=1000)]
            )
            fetch = messages.FetchRequest(max_wait_ms=120_000, min_bytes=1, max_bytes=1000, topics=[topic])
            waiting.send((fetch, 11))
            await until(lambda: len(w.server.context.fetches), what="the fetch")
            for connection in w.server.clients:
                connection.last_active -= 61  # nobody has said anything for so long
            assert await idle.closed()
            other = await w.client()
            other.send(delete("t"))
            await other.answer()
            assert (await waiting.answer()).error_code == 0

    run(test())


def test_a_client_that_came_before_the_broker_was_registered_is_not_taken_for_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that only beat, and reached a broker as it started, were hung up on without a word."""
    early: list[Client] = []
    register = Registration._register

    async def slow(registration: Registration) -> None:
        client = Client(*await asyncio.open_connection("127.0.0.1", registration._front_door.port))
        early.append(client)
        client.send(VERSIONS)
        await client.answer()
        await register(registration)

    monkeypatch.setattr(Registration, "_register", slow)

    async def test() -> None:
        # Long enough for any start, and shorter than what a clock shows that counts from the machine's own.
        idle_ms = max(int(asyncio.get_running_loop().time() * 1000) // 2, 1)
        async with world(tmp_path, connections_max_idle_ms=str(idle_ms)) as w:
            begun = w.server.front_door._last_tick
            await until(lambda: w.server.front_door._last_tick > begun, what="a tick")
            early[0].send(VERSIONS)
            assert (await early[0].answer()).error_code == 0

    run(test())


def test_a_broker_that_stood_still_takes_no_client_for_idle_before_it_has_listened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with world(tmp_path, connections_max_idle_ms="60000") as w:
            client = await w.client()
            client.send(VERSIONS)
            await client.answer()
            (connection,) = w.server.clients
            connection.last_active -= 100
            w.server.front_door._last_tick -= 100  # as after SIGSTOP
            client.send(VERSIONS)  # what it said meanwhile
            w.server._tick()
            assert (await client.answer()).error_code == 0
            connection.last_active -= 100
            assert await client.closed()
            assert "idle for more than connections.max.idle.ms=60000" in caplog.text

    run(test())


@pytest.mark.parametrize(
    "frame",
    [
        b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",  # no such API
        b"\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff\x00\x01g",  # a version of Heartbeat nobody has
        b"\x00\x0c\x00\x03\x00\x00\x00\x01\xff\xff\x7f\xff",  # a group id longer than the request
        b"\x00\x0c\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff",  # none at all
        b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff",  # ends within its header
        b"\x00\x0c\x00\x03\x00\x00\x00\x01\xff\xff\x00\x02\xff\xfe",  # no UTF-8
        b"\x00\x0c\x00\x03\x00\x00\x00\x01",  # not even a client id
    ],
)
def test_a_request_that_makes_no_sense_closes_its_connection_alone(tmp_path: Path, frame: bytes) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            good, bad = await w.client(), await w.client()
            bad.writer.write(len(frame).to_bytes(4, "big") + frame)
            assert await bad.closed()
            good.send(VERSIONS)
            assert (await good.answer()).error_code == 0

    run(test())


def test_a_group_request_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_group_request_max_bytes="1000") as w:
            client = await w.client()
            client.send((messages.HeartbeatRequest(group_id="g" * 1500, generation_id=1, member_id="m"), 3))
            assert await client.closed()

    run(test())


# --- the controller ---


def test_a_broker_outlives_its_controller_and_registers_with_the_next_one_as_it_was(tmp_path: Path) -> None:
    async def test() -> None:
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

    run(test())


def test_a_controller_that_dies_again_and_again_leaves_one_connection_not_several(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            for round_ in range(4):
                w.stop_controller()
                if round_ % 2:
                    await until(lambda: not w.server.registration.link.connected)
                controller = await w.start_controller()
                await until(controller.ready, what="registered again")
            await asyncio.sleep(0.3)
            assert len(controller._sessions) == 1
            assert controller.ready()
            assert w.server.registration.link.epoch == 0
            assert w.launcher.started == []

    run(test())


def test_nothing_is_said_to_the_controller_among_the_proofs(tmp_path: Path) -> None:
    async def test() -> None:
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
                link.heartbeat(Load())
                await asyncio.sleep(0)
            assert not link.connected
            Slow.hears = True
            for protocol, data in held:
                protocol.data_received(data)
            await joining
            link.heartbeat(Load(connections=1))
            await until(lambda: heard)
            assert [message.load for message in heard if isinstance(message, Heartbeat)] == [Load(connections=1)]
            assert len(heard) == 1
            link.close()
            server.close()

    run(test())


def test_a_welcome_is_no_lease_only_what_comes_after_the_image_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_message = ControllerServer._on_message

    def without_heartbeats(server: ControllerServer, protocol: ControlProtocol, message: Message) -> None:
        if not isinstance(message, Heartbeat):
            on_message(server, protocol, message)

    async def test() -> None:
        async with world(tmp_path) as w:
            w.stop_controller()
            await until(lambda: not w.server.registration.link.connected)
            confirmed = w.server.registration.link.last_confirmed
            with monkeypatch.context() as patch:
                patch.setattr(ControllerServer, "_on_message", without_heartbeats)
                controller = await w.start_controller()
                await until(lambda: controller.ready() and not w.server.registration.rejoining, what="registered again")
                assert w.server.registration.link.last_confirmed == confirmed
                w.stop_controller()
            await w.start_controller()
            await until(lambda: w.server.registration.link.last_confirmed > confirmed, what="a lease")

    run(test())


def test_a_broker_that_is_closing_its_logs_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        w = World(tmp_path)
        controller = await w.start_controller()
        server = await w.start_broker()
        go_on, close = threading.Event(), server.context.data_dir.close
        monkeypatch.setattr(server.context.data_dir, "close", lambda: (go_on.wait(30), close()))
        stopping = asyncio.ensure_future(server.stop())
        await until(lambda: server._stopping)
        said: list[Any] = []
        on_message = controller._brokers[0].protocol._on_message
        controller._brokers[0].protocol._on_message = lambda p, message: (said.append(message), on_message(p, message))
        try:
            await until(lambda: len(said) > 2, what="heartbeats")
        finally:
            go_on.set()
            await stopping
        await until(lambda: not controller._brokers, what="hung up")
        w.stop_controller()

    run(test())


def test_an_image_of_a_former_controller_is_ignored(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            present = w.server.context.metadata
            stale = type(present).from_wire(present.to_wire())
            stale.controller_epoch -= 1
            stale.version += 100
            w.server.images.apply(stale)
            assert w.server.context.metadata is present

    run(test())


def delete(name: str) -> tuple[ApiMessage, int]:
    return messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 4


def test_the_logs_of_a_large_topic_are_dropped_some_in_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of folders renamed and flushed in one turn held up every client."""
    monkeypatch.setattr("actors.broker.images._DROPS_A_TURN", 5)

    async def test() -> None:
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
            await until(lambda: not list((tmp_path / "broker-0").glob("large-*")))

    run(test())


def test_a_new_topic_finds_its_place_free_of_the_deleted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.broker.images._DROPS_A_TURN", 1)

    async def test() -> None:
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
            await until(lambda: len(list((tmp_path / "broker-0").glob("t-*"))) == 9)
            assert not list((tmp_path / "broker-0").glob("*.stray"))

    run(test())


def test_an_image_that_raises_the_epochs_of_many_partitions_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            client, context = await w.client(), w.server.context
            client.send(create("t", 20))
            await client.answer()
            logs = [context.log("t", index) for index in range(20)]
            image = type(context.metadata).from_wire(context.metadata.to_wire())
            for index in range(20):
                image.apply(partition_record("t", index, PartitionInfo(0, 7, (0,), (0,))))

            def refuse(*_: Any, **__: Any) -> None:
                raise AssertionError("a file is written in the loop's turn")

            with monkeypatch.context() as patch:
                patch.setattr("actors.log.epochs.write_atomically", refuse)
                w.server.images.apply(image)
            assert [each.leader_epoch for each in logs] == [7] * 20

    run(test())


def alter_broker(name: str, key: str, value: str | None) -> tuple[ApiMessage, int]:
    """Set a broker's setting, or take it back; of all brokers if the name is empty."""
    request = messages.IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
    return request(resources=[resource]), 1


def test_a_changed_setting_of_brokers_holds_for_the_logs_that_are_there(tmp_path: Path) -> None:
    async def test() -> None:
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

    run(test())


def test_a_directory_the_cluster_knows_and_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path):
            pass
        (tmp_path / "broker-0").rename(tmp_path / "moved")
        w = World(tmp_path)
        await w.start_controller()
        try:
            with pytest.raises(StartError, match=rf"{tmp_path / 'broker-0'}.*missing"):
                await w.start_broker()
            assert not (tmp_path / "broker-0").exists()
        finally:
            w.stop_controller()

    run(test())


def test_clients_are_told_a_brokers_rack(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, broker_rack="r1") as w:
            client = await w.client()
            client.send((messages.MetadataRequest(topics=[]), 5))
            assert [broker.rack for broker in (await client.answer()).brokers] == ["r1"]

    run(test())


async def beside(w: World, port: int, chosen_by: str) -> BrokerServer:
    folder = w.path
    spec = BrokerSpec(1, "127.0.0.1", "127.0.0.1", port, 0, str(folder / "b1"), str(folder / "s1"), {}, chosen_by)
    return await BrokerServer.open(spec, w.find_controller)


@pytest.mark.parametrize("chosen_by", ["--port 9092", "listeners"])
def test_a_port_that_is_taken_is_said_to_be_with_the_setting_that_chose_it(tmp_path: Path, chosen_by: str) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            second = await beside(w, w.server.port, chosen_by)
            said = rf"broker 1 cannot listen on 127\.0\.0\.1:{w.server.port}, which {chosen_by} chose \(Address already"
            with pytest.raises(StartError, match=said):
                await second.start()
            second.registration.close()

    run(test())


def test_a_broker_whose_free_port_an_outgoing_connection_took_while_it_was_down_takes_another(tmp_path: Path) -> None:
    """It was started again and again at the port it once had."""

    async def test() -> None:
        async with world(tmp_path) as w:
            somebodys = socket.create_connection(("127.0.0.1", w.server.port))
            port = somebodys.getsockname()[1]
            second = await beside(w, port, chosen_by="")
            await second.start()
            try:
                assert second.port not in (0, port)
                assert [(b.id, b.port) for b in w.metadata.alive()] == [(0, w.server.port), (1, second.port)]
            finally:
                await second.stop()
                somebodys.close()

    run(test())
