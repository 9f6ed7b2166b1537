"""A broker with quotas, over real sockets: who waits, and who does not. SECURITY.md, X-D."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.broker.entrance.clients import ADMINISTRATORS_PLACES
from actors.broker.entrance.connection_rates import ConnectionRates
from actors.broker.quotas import Quotas
from actors.client import Admin
from actors.client.admin.types import QuotaEntity
from actors.client.errors import KafkaError
from actors.quotas.entities import CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE
from actors.wire import messages
from tests.support.log_helpers import values
from tests.support.one_broker import VERSIONS, Client, World, create, world
from tests.support.quotas import alter
from tests.support.runtime_helpers import until
from tests.support.tls_world import connect, secure, served

HOUR_MS = 3_600_000
METADATA = (messages.MetadataRequest(topics=[]), 5)
HEARTBEAT = (messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)


class Hands:
    """A loop whose timers the test runs by hand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.waiting: list[tuple[float, Callable[[], Any]]] = []

    def time(self) -> float:
        return 1000.0

    def call_soon(self, call: Callable[..., Any], *args: Any) -> None:
        self._loop.call_soon(call, *args)

    def call_later(self, delay: float, call: Callable[[], Any]) -> None:
        self.waiting.append((delay, call))


def hands(w: World) -> Hands:
    """Timers for the broker's connection rates, run by hand."""
    made: Any = Hands(asyncio.get_running_loop())
    w.server.socket_server.rates = ConnectionRates(w.server.context, made)
    return made  # type: ignore[no-any-return]


def by_hand(w: World, clock: Any) -> None:
    """The broker's quotas go by this clock from now on, and nothing of them has been used."""
    context = w.server.context
    context.quotas = Quotas(context.metadata.quotas, context.config, clock)


def fetch() -> tuple[messages.FetchRequest, int]:
    part = messages.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [messages.FetchRequest.FetchTopic(topic="t", partitions=[part])]
    return messages.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), 12


async def round_trips(client: Client) -> None:
    """Time in which the broker would have read what others have sent."""
    for _ in range(5):
        client.send(VERSIONS)
        await client.answer()


@pytest.mark.conformance("XD-04", "XD-08")
async def test_a_client_that_comes_too_early_is_served_when_it_is_its_turn(tmp_path: Path) -> None:
    async with world(tmp_path, max_connection_creation_rate="1") as w:
        clock = hands(w)
        first, second = await w.client(), await w.client()
        second.send(VERSIONS)
        answer = asyncio.ensure_future(second.answer())
        await round_trips(first)
        assert not answer.done()
        ((delay, release),) = clock.waiting
        assert delay == 1.0
        release()
        assert (await answer).error_code == 0
        assert await served(second)


@pytest.mark.conformance("XD-04", "XD-08")
async def test_a_client_with_tls_waits_with_its_handshake(tmp_path: Path) -> None:
    async with secure(tmp_path, listener_name_secure_max_connection_creation_rate="1") as w:
        clock = hands(w)
        first = await connect(w)
        assert await served(first)
        second = asyncio.ensure_future(connect(w))
        await until(lambda: len(w.server.clients) == 2)
        await round_trips(first)
        assert not second.done()
        assert len(clock.waiting) == 1
        clock.waiting[0][1]()
        assert await served(await second)


@pytest.mark.conformance("XD-04")
async def test_an_address_that_comes_too_often_is_sent_away_after_a_while(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.client()
        await alter(first, ("ip", "127.0.0.1"), connection_creation_rate=1)
        clock = hands(w)
        by_hand(w, clock)
        welcome, unwelcome = await w.client(), await w.client()
        assert await served(welcome)
        unwelcome.send(VERSIONS)
        answer = asyncio.ensure_future(unwelcome.answer())
        await round_trips(first)
        assert not answer.done()
        ((delay, close),) = clock.waiting
        assert delay == 1.0
        close()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await answer


@pytest.mark.conformance("XD-03")
async def test_there_are_places_for_who_is_on_the_machine(tmp_path: Path) -> None:
    async with world(tmp_path, max_connections="0") as w:
        clients = [await w.client() for _ in range(ADMINISTRATORS_PLACES)]
        for client in clients:
            assert await served(client)
        assert await (await w.client()).closed()


@pytest.mark.conformance("XD-09")
async def test_a_member_whose_fetches_are_throttled_beats_on(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_wait_ms="0") as w:
        fetching, beating = await w.client(), await w.client()
        fetching.send(create("t"))
        assert (await fetching.answer()).topics[0].error_code == 0
        data = messages.ProduceRequest.PartitionProduceData(index=0, records=values(b"x" * 10_000))
        topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        await fetching.ask(messages.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)
        await alter(fetching, ("client-id", None), **{CONSUMER_BYTE_RATE: 1})
        throttled = await fetching.ask(*fetch())
        assert HOUR_MS < throttled.throttle_time_ms < 4 * HOUR_MS
        fetching.send(fetch())
        answer = asyncio.ensure_future(fetching.answer())
        for _ in range(5):
            assert (await beating.ask(*HEARTBEAT)).throttle_time_ms == 0
        assert not answer.done(), "it is not read"
        answer.cancel()


def produce(size: int) -> tuple[messages.ProduceRequest, int]:
    data = messages.ProduceRequest.PartitionProduceData(index=0, records=values(b"x" * size))
    topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    return messages.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9


def end_of_log(w: World) -> int:
    found = w.server.context.data_dir.get("t", 0)
    return 0 if found is None else found.log_end_offset


async def test_a_client_over_its_quota_sent_on_by_new_connections(tmp_path: Path) -> None:
    """A request on each connection, new or old, was taken at once, though its user or client id was over the quota."""
    async with world(tmp_path) as w:
        admin, first, early = await w.client(), await w.client(), await w.client()
        admin.send(create("t"))
        assert (await admin.answer()).topics[0].error_code == 0
        assert (await first.ask(*produce(10))).throttle_time_ms == 0
        await alter(admin, ("client-id", None), producer_byte_rate=1)
        clock: Any = Hands(asyncio.get_running_loop())
        clock.now = 1000.0
        clock.time = lambda: clock.now
        by_hand(w, clock)
        assert (await first.ask(*produce(10_000))).throttle_time_ms > HOUR_MS
        assert end_of_log(w) == 2
        late = [early, await w.client(), await w.client()]
        for client in late:
            client.send(produce(10))
        answers = [asyncio.ensure_future(client.answer()) for client in late]
        await until(lambda: len(clock.waiting) == 4)
        await round_trips(admin)
        assert end_of_log(w) == 2, "their requests wait, and nothing more is read of them"
        _, *held = clock.waiting
        clock.waiting.clear()
        clock.now += held[0][0]
        for _, go_on in held:
            go_on()
        assert [each.throttle_time_ms > 0 for each in await asyncio.gather(answers[0])] == [True]
        assert end_of_log(w) == 3, "the first uses up what there is again, and the others wait for that"
        assert len(clock.waiting) == 3
        for client, answer in zip(late, answers, strict=True):
            answer.cancel()
            client.writer.close()


async def test_who_went_away_while_its_request_waited_leaves_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        admin, client = await w.client(), await w.client()
        admin.send(create("t"))
        assert (await admin.answer()).topics[0].error_code == 0
        await alter(admin, ("client-id", None), producer_byte_rate=1)
        clock: Any = Hands(asyncio.get_running_loop())
        by_hand(w, clock)
        await client.ask(*produce(10_000))
        other = await w.client()
        other.send(produce(10))
        await until(lambda: len(clock.waiting) == 2)
        [*w.server.clients][-1].close("gone")
        await until(lambda: len(w.server.clients) == 2)
        clock.waiting[1][1]()
        assert end_of_log(w) == 1
        assert await served(admin)


@pytest.mark.conformance("XD-07", "XD-08")
async def test_who_takes_too_much_of_the_loop_waits_for_a_second(tmp_path: Path) -> None:
    """Requests that the broker answers count, and heartbeats, which Kafka throttles, too; bytes do not count."""
    async with world(tmp_path, coterie_shard_wait_ms="0") as w:
        busy, beating, other = await w.client(), await w.client(), await w.client()
        await alter(other, ("user", "ann"), **{REQUEST_PERCENTAGE: 0.000001})
        assert (await busy.ask(*METADATA)).throttle_time_ms == 0, "who has no such quota"
        await alter(other, ("client-id", "tests"), **{REQUEST_PERCENTAGE: 0.000001})
        clock: Any = Hands(asyncio.get_running_loop())
        by_hand(w, clock)
        assert (await busy.ask(*METADATA)).throttle_time_ms == 1000
        assert (await beating.ask(*HEARTBEAT)).throttle_time_ms == 1000
        assert [delay for delay, _ in clock.waiting] == [1.0, 1.0]
        busy.send(VERSIONS)
        answer = asyncio.ensure_future(busy.answer())
        named = w.server.socket_server.ports["PLAINTEXT"]
        await asyncio.gather(*(asyncio.open_connection("127.0.0.1", named) for _ in range(3)))
        assert not answer.done(), "it is not read"
        for _, release in clock.waiting:
            release()
        assert (await answer).error_code == 0


@pytest.mark.conformance("XD-06")
async def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    for run in range(2):
        async with world(tmp_path) as w:
            client = await w.client()
            if run == 0:
                await alter(client, ("user", "ann"), producer_byte_rate=5)
            answer = await client.ask(messages.DescribeClientQuotasRequest(components=[], strict=False), 1)
            assert [(e.entity[0].entity_name, e.values[0].value) for e in answer.entries] == [("ann", 5.0)]
            assert w.server.context.quotas.limits


@pytest.mark.conformance("XD-01")
async def test_names_are_looked_up_at_the_start_and_when_the_setting_changes(tmp_path: Path) -> None:
    async with world(tmp_path, max_connections_per_ip_overrides="localhost:2") as w:
        limits = w.server.clients.address_limits
        assert limits.of("127.0.0.1") == limits.of("::ffff:127.0.0.1") == 2
        context = w.server.context
        context.config = context.config.with_dynamic(
            {"max.connections.per.ip.overrides": "localhost:7,nowhere.invalid:3"}
        )
        await until(lambda: limits.of("127.0.0.1") == 7)


async def test_a_limit_of_an_address_did_not_hold_where_the_link_was_named(tmp_path: Path) -> None:
    async with world(tmp_path, max_connections_per_ip_overrides="fe80::1:2") as w:
        of = w.server.clients.address_limits.of
        assert [of(host) for host in ("fe80::1", "fe80::1%eth0", "fe80::1%2")] == [2, 2, 2]
        assert of("fe80::2%eth0") > 2


@pytest.mark.conformance("XD-06")
async def test_our_admin_sets_and_finds_quotas(tmp_path: Path) -> None:
    ann, others = QuotaEntity(user="ann", client_id="app"), QuotaEntity(user="")

    def work(servers: str) -> list[Any]:
        with Admin(bootstrap_servers=servers) as admin:
            changes = {ann: {"producer_byte_rate": 5.0}, others: {"producer_byte_rate": 7.0, "consumer_byte_rate": 9.0}}
            assert admin.alter_client_quotas(changes, validate_only=True) == {ann: None, others: None}
            assert admin.describe_client_quotas() == {}
            assert admin.alter_client_quotas(changes) == {ann: None, others: None}
            assert admin.describe_client_quotas() == changes
            assert admin.describe_client_quotas(QuotaEntity(user="ann")) == {ann: changes[ann]}
            assert admin.describe_client_quotas(QuotaEntity(user="ann"), strict=True) == {}
            admin.alter_client_quotas({others: {"producer_byte_rate": None}})
            wrong = QuotaEntity(ip="10.0.0.1")
            refused = admin.alter_client_quotas({wrong: {"producer_byte_rate": 1.0}}, raise_errors=False)
            with pytest.raises(KafkaError, match="connection_creation_rate"):
                admin.alter_client_quotas({wrong: {"producer_byte_rate": 1.0}})
            return [refused[wrong], admin.describe_client_quotas(others)]

    async with world(tmp_path) as w:
        refused, left = await asyncio.to_thread(work, f"127.0.0.1:{w.server.port}")
        assert refused.code == 42
        assert left == {others: {"consumer_byte_rate": 9.0}}
