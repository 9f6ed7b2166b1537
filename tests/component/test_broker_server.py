"""A broker without Ray: how it starts, its port and directory, and its limits for clients."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from actors.broker.controller_link import ControllerLink
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door, StartError
from actors.links.control import Hello
from actors.wire import messages
from tests.support.one_broker import VERSIONS, Client, World, create, delete, world
from tests.support.runtime_helpers import until
from tests.support.three_brokers import produce


async def test_a_started_broker_is_registered_and_answers(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert [(b.id, b.port) for b in w.metadata.alive()] == [(0, w.server.port)]
        client = await w.client()
        client.send(VERSIONS)
        assert (await client.answer()).error_code == 0


@pytest.mark.conformance("A-06", "A-07")
async def test_lookups_of_many_clients_make_the_offsets_topic_once(tmp_path: Path) -> None:
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


async def test_requests_pipelined_on_one_socket_are_answered_in_order(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("setting", ["max_connections_per_ip", "max_connections_per_ip_overrides"])
async def test_connections_beyond_the_limit_are_refused_and_a_place_that_is_free_is_given_again(
    tmp_path: Path, setting: str
) -> None:
    async with world(tmp_path, **{setting: "127.0.0.1:2" if setting.endswith("overrides") else "2"}) as w:
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


async def test_the_system_looks_whether_a_silent_client_is_still_there(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client = await w.client()
        client.send(VERSIONS)
        await client.answer()
        (connection,) = w.server.clients
        assert connection.transport is not None
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_an_idle_connection_is_closed_one_that_waits_for_its_answer_is_not(tmp_path: Path) -> None:
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


async def test_a_broker_starts_with_any_message_max_bytes_and_a_request_has_its_own_limit(tmp_path: Path) -> None:
    async with world(tmp_path, message_max_bytes="2147483647", socket_request_max_bytes="200000") as w:
        client = await w.client()
        client.send(create("t"))
        assert (await client.answer()).topics[0].error_code == 0
        for size, fits in ((190_000, True), (210_000, False)):
            client.send((produce("t", b"v" * size, 1, 5000), 9))
            if fits:
                answer = await client.answer()
                assert answer.responses[0].partition_responses[0].error_code == 0
            else:
                assert await client.closed()


async def test_a_client_that_came_before_the_broker_was_registered_is_not_taken_for_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that only beat, and reached a broker as it started, were hung up on without a word."""
    early: list[Client] = []
    register = ControllerLink.register

    async def slow(link: ControllerLink, hello: Hello, broker: Any) -> None:
        client = Client(*await asyncio.open_connection("127.0.0.1", hello.ports["PLAINTEXT"]))
        early.append(client)
        client.send(VERSIONS)
        await client.answer()
        await register(link, hello, broker)

    monkeypatch.setattr(ControllerLink, "register", slow)

    # Long enough for any start, and shorter than the loop's time, which counts from the machine's start.
    idle_ms = max(int(asyncio.get_running_loop().time() * 1000) // 2, 1)
    async with world(tmp_path, connections_max_idle_ms=str(idle_ms)) as w:
        begun = w.server.router.last_tick
        await until(lambda: w.server.router.last_tick > begun, what="a tick")
        early[0].send(VERSIONS)
        assert (await early[0].answer()).error_code == 0


async def test_a_broker_that_stood_still_takes_no_client_for_idle_before_it_has_listened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, connections_max_idle_ms="60000") as w:
        client = await w.client()
        client.send(VERSIONS)
        await client.answer()
        (connection,) = w.server.clients
        connection.last_active -= 100
        w.server.router.last_tick -= 100  # as after SIGSTOP
        client.send(VERSIONS)  # sent while the broker stood still
        w.server.tick()
        assert (await client.answer()).error_code == 0
        connection.last_active -= 100
        assert await client.closed()
        assert "idle for more than connections.max.idle.ms=60000" in caplog.text


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
async def test_a_request_that_makes_no_sense_closes_its_connection_alone(tmp_path: Path, frame: bytes) -> None:
    async with world(tmp_path) as w:
        good, bad = await w.client(), await w.client()
        bad.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await bad.closed()
        good.send(VERSIONS)
        assert (await good.answer()).error_code == 0


async def test_a_group_request_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_group_request_max_bytes="1000") as w:
        client = await w.client()
        client.send((messages.HeartbeatRequest(group_id="g" * 1500, generation_id=1, member_id="m"), 3))
        assert await client.closed()


async def test_a_directory_the_cluster_knows_and_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    async with world(tmp_path):
        pass
    (tmp_path / "data" / "broker-0").rename(tmp_path / "moved")
    w = World(tmp_path)
    await w.start_controller()
    try:
        with pytest.raises(StartError, match=rf"{tmp_path / 'data' / 'broker-0'}.*missing"):
            await w.start_broker()
        assert not (tmp_path / "data" / "broker-0").exists()
    finally:
        w.stop_controller()


async def test_clients_are_told_a_brokers_rack(tmp_path: Path) -> None:
    async with world(tmp_path, broker_rack="r1") as w:
        client = await w.client()
        client.send((messages.MetadataRequest(topics=[]), 5))
        assert [broker.rack for broker in (await client.answer()).brokers] == ["r1"]


async def beside(w: World, port: int, chosen_by: str) -> BrokerServer:
    folder = w.path
    door = Door("PLAINTEXT", "127.0.0.1", port, "127.0.0.1", port_chosen_by=chosen_by)
    spec = BrokerSpec(1, "127.0.0.1", (door,), str(folder / "b1"), str(folder / "s1"), {})
    return await BrokerServer.open(spec, w.find_controller)


@pytest.mark.parametrize("chosen_by", ["--port 9092", "listeners"])
async def test_a_port_that_is_taken_is_said_to_be_with_the_setting_that_chose_it(
    tmp_path: Path, chosen_by: str
) -> None:
    async with world(tmp_path) as w:
        second = await beside(w, w.server.port, chosen_by)
        said = rf"broker 1 cannot listen on 127\.0\.0\.1:{w.server.port}, which {chosen_by} chose \(Address already"
        with pytest.raises(StartError, match=said):
            await second.start()
        second.registration.close()


async def test_a_broker_whose_free_port_an_outgoing_connection_took_while_it_was_down_takes_another(
    tmp_path: Path,
) -> None:
    """It was started again and again at the port it once had."""
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
