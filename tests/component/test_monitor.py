"""A Monitor of three brokers over its real link: what it sees, what it may ask, and what is done without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.links.connection import ControlProtocol, reach_controller
from actors.links.control import Heartbeat
from actors.links.observations import LookAround
from actors.links.operations import CreateTopics, NewTopic
from actors.links.reading import ForBroker
from actors.links.status import Load
from actors.links.views import GetGroupHistory, GetOverview, GetSeen, Overview
from actors.monitor.cluster_link import ClusterLink
from actors.monitor.server import MonitorServer
from actors.monitor.spec import MonitorSpec
from actors.runtime.environment import REAL
from actors.wire import messages
from actors.wire.api_keys import ApiKey
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_brokers import Client, World, commit, world


@asynccontextmanager
async def monitor(w: World) -> AsyncIterator[MonitorServer]:
    """A Monitor as a task of this loop, once it has looked."""
    spec = MonitorSpec("tests", "coterie-tests", str(w.path), "", w.settings | {"coterie.monitor.interval.ms": "500"})
    server = await MonitorServer.open(spec, lambda: ("127.0.0.1", w.port, SECRET))
    task = asyncio.get_running_loop().create_task(server.run())
    try:
        await until(lambda: server.work.picture.seen.last_look_ms, what="a look")
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def coordinator_of(w: World, group: str) -> Client:
    """A connection to the broker that coordinates a group."""
    await until_commits(w, "another")
    leader = w.partition(OFFSETS_TOPIC, partition_for_group(group, 4)).leader
    return await w.client(leader)


async def until_commits(w: World, group: str) -> None:
    """A commit of a group without members succeeds."""
    if "t" not in w.metadata.topics:
        await w.create("t", factor=1)
    deadline = asyncio.get_running_loop().time() + 60
    while await commit(w, group, 7):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


async def join(client: Client, group: str, member_id: str = "", reason: str | None = None) -> Any:
    """One round of JoinGroup, with the member id that was given out first."""
    request = messages.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        reason=reason,
    )
    answer = await client.ask(request, 9)
    return await join(client, group, answer.member_id, reason) if answer.error_code == 79 else answer


async def sync(client: Client, group: str, joined: Any) -> None:
    answer = await client.ask(
        messages.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
        ),
        5,
    )
    assert answer.error_code == 0


async def overview(w: World) -> Overview:
    """The overview that a driver is shown."""
    return await w.controller.monitoring.view(GetOverview(1_000))


async def test_an_operator_sees_brokers_shards_topics_and_what_they_do(tmp_path: Path) -> None:
    async with world(tmp_path) as w, monitor(w):
        await w.create("orders", partitions=3)
        assert await w.produce("orders", b"one") == 0
        await until_commits(w, "billing")

        async def shown() -> bool:
            seen = await overview(w)
            return seen.topics == 3 and any(shard.offsets for shard in seen.shards)

        await until_true(shown)
        seen = await overview(w)
        assert [(each.id, each.alive) for each in seen.brokers] == [(0, True), (1, True), (2, True)]
        assert sum(each.leads for each in seen.brokers) == seen.partitions == 3 + 4 + 1
        assert sum(each.replicas for each in seen.brokers) == 3 * 3 + 3 * 4 + 1
        kinds = {(event.kind, event.subject) for event in seen.events}
        assert {("start", "controller"), ("start", "broker 2"), ("created", "orders")} <= kinds
        assert any(kind == "load" and subject.startswith(OFFSETS_TOPIC) for kind, subject in kinds)
        numbers = [event.number for event in seen.events]
        assert numbers == sorted(set(numbers))


async def until_true(call: Any) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while not await call():
        assert asyncio.get_running_loop().time() < deadline, "it was never shown"
        await asyncio.sleep(0.02)


async def test_requests_errors_and_bytes_are_counted_exactly(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w, monitor(w) as watched:
        await w.create("orders", factor=1)
        for _ in range(20):
            assert await w.produce("orders", b"one") == 0
        client = await w.client(0)
        await client.ask(messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
        client.close()
        server = w.servers[0]

        def figures() -> Any:
            told = watched.work.observed.brokers.get(0)
            return {each.api_key: each for each in told.apis} if told is not None else {}

        await until(lambda: ApiKey.HEARTBEAT in figures(), what="a look after it")
        produced = figures()[ApiKey.PRODUCE]
        assert (produced.requests, produced.errors, produced.timed) == (20, 0, 1)
        assert sum(produced.buckets) == 1
        assert produced.total_ms > 0
        assert (figures()[ApiKey.HEARTBEAT].requests, figures()[ApiKey.HEARTBEAT].errors) == (1, 1)
        (topic,) = [each for each in watched.work.observed.brokers[0].topics if each.name == "orders"]
        log = server.context.data_dir.get("orders", 0)
        assert log is not None
        assert (topic.records_in, topic.bytes_in, topic.bytes_out) == (20, log.size_bytes, 0)


async def test_a_rebalance_is_shown_with_who_came_and_whom_it_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1, offsets_topic_replication_factor="1") as w, monitor(w):
        first = await coordinator_of(w, "g")
        one = await join(first, "g")
        await sync(first, "g", one)
        second = await coordinator_of(w, "g")
        joining = asyncio.create_task(join(second, "g"))

        async def runs() -> bool:
            history = await w.controller.monitoring.view(GetOverview())
            return history.groups.get("PreparingRebalance", 0) == 1

        await until_true(runs)
        rejoined = await join(first, "g", one.member_id)
        two = await joining
        leader, follower = (first, second) if rejoined.leader == rejoined.member_id else (second, first)
        joined = {first: rejoined, second: two}
        await sync(leader, "g", joined[leader])
        await sync(follower, "g", joined[follower])

        async def rebalances() -> Any:
            return (await w.controller.monitoring.view(GetGroupHistory("g", 0, 1 << 60))).rebalances

        async def both() -> bool:
            return len(await rebalances()) == 2

        await until_true(both)
        begun, grown = await rebalances()
        assert (begun.came, begun.members, begun.reason) == ((one.member_id,), 1, "member joined")
        assert (grown.came, grown.members, grown.member_id) == ((two.member_id,), 2, two.member_id)
        assert grown.client_id == "tests"
        assert grown.host == "/127.0.0.1"
        assert grown.began_ms <= grown.joined_ms <= grown.ended_ms
        assert grown.waited[0].member_id == one.member_id, "who rejoined last"
        assert (grown.waited[0].phase, grown.waited[0].client_id) == ("join", "tests")


async def test_a_broker_that_does_not_answer_is_left_out_and_named(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=2) as w, monitor(w):

        def broken(asked: object) -> None:
            raise ConnectionError("it does not answer")

        w.servers[1].observing.look = broken  # type: ignore[method-assign, assignment]

        async def named() -> bool:
            return (await w.controller.monitoring.view(GetSeen())).problems == ("broker 1 did not answer",)

        await until_true(named)
        assert [each.alive for each in (await overview(w)).brokers] == [True, True], "the controller knows better"


async def test_the_death_of_a_broker_and_the_elections_after_it_are_told_in_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w, monitor(w):
        await w.create("t")
        leader = w.partition("t").leader
        await w.kill(leader)

        async def told() -> bool:
            kinds = [(event.kind, event.subject) for event in (await overview(w)).events]
            return {("death", f"broker {leader}"), ("election", "t-0"), ("shrink", "t-0")} <= set(kinds)

        await until_true(told)


async def test_a_monitor_comes_again_to_the_next_controller_and_knows_what_it_knew(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w, monitor(w) as watched:
        await w.create("before", factor=1)

        async def created() -> bool:
            return any(event.kind == "created" for event in (await overview(w)).events)

        await until_true(created)
        w.node.close()
        await w.start_controller(restarted=True)
        await until(lambda: w.controller.monitoring.status.state == "Active", what="it has come")  # type: ignore[union-attr]
        run = w.controller.chronicle.run
        await until(lambda: any(each.run == run for each in watched.work.observed.positions))

        async def two_starts() -> bool:
            """The Monitor shows a look as a whole, some time after it has heard of the starts."""
            events = (await overview(w)).events
            return [event.subject for event in events if event.kind == "start"].count("controller") == 2

        await until_true(two_starts)
        told = [(event.kind, event.text) for event in (await overview(w)).events if event.subject == "controller"]
        assert [kind for kind, _ in told] == ["start", "death", "start"]
        assert told[1][1] == "The process of the controller at epoch 1 has ended. Brokers went on without it."
        assert await created(), "what happened before is remembered"


async def test_no_group_notices_that_the_monitor_has_gone(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1, offsets_topic_replication_factor="1") as w:
        async with monitor(w):
            client = await coordinator_of(w, "g")
            joined = await join(client, "g")
            await sync(client, "g", joined)
        await until(lambda: w.controller.monitoring.status.state == "Starting", what="its end")  # type: ignore[union-attr]
        beat = messages.HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await client.ask(beat, 4)).error_code == 0
        with pytest.raises(ConnectionError, match="no Monitor now"):
            await w.controller.monitoring.view(GetSeen())


async def test_a_monitor_may_look_and_change_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w:
        link = ClusterLink(lambda asked: asked)  # type: ignore[arg-type, return-value]
        await link.connect("127.0.0.1", w.port, SECRET, REAL.chance, 77, tls=None)
        for forbidden in (CreateTopics((NewTopic("t"),)), ForBroker(0, LookAround())):
            with pytest.raises(ConnectionError, match=r"PermissionError: .* is nothing that a Monitor asks for"):
                await link.ask(forbidden)
        assert "t" not in w.metadata.topics
        seen = await link.ask(LookAround())
        assert seen.metadata is not None
        assert not seen.metadata.whole, "no credentials"
        again = await link.ask(LookAround((), seen.metadata.version))
        assert again.metadata is None
        link.close()


async def test_a_monitor_that_speaks_as_a_broker_is_hung_up_on(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w:
        ended = asyncio.Event()
        made: list[ControlProtocol] = []
        await reach_controller(
            "monitor",
            ("127.0.0.1", w.port),
            SECRET,
            REAL.chance,
            made.append,
            lambda *_: None,
            lambda _: ended.set(),
            tls=None,
        )
        made[0].send(Heartbeat(1.0, Load()))
        await ended.wait()
        assert list(w.controller.brokers) == [0]


async def test_a_question_that_a_monitor_cannot_answer_is_answered_by_its_error(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w, monitor(w):
        with pytest.raises(ConnectionError, match="TypeError: CreateTopics is nothing that a Monitor shows"):
            await w.controller.monitoring.view(CreateTopics(()))
