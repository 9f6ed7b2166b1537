"""A second kind of coordinator is hosted as groups are: by the same broker and the same processes, in its own topic.

It is `tests/support/counters.py`. Nothing in the product knows of it but the kinds that its hosts are given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.authorization import Authorization
from actors.broker.entrance.routing import Router
from actors.broker.handlers import find_coordinator
from actors.broker.handlers.internal_topics import InternalTopics
from actors.broker.handlers.registry import APIS, NamedKey, Runs
from actors.broker.handlers.rights import Right
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.coordinator_kinds.table import KINDS
from actors.links.operations import CreateOffsetsTopic
from actors.links.relay import Kind
from actors.offsets_partition.process import ShardProcess
from actors.security.acl import AclOperation, ResourceType
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import encode_request
from actors.wire.messages import FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest
from placement.metadata import OFFSETS_TOPIC, AclRow
from tests.support.acls import GROUP, TRANSACTIONAL_ID, allowed
from tests.support.counters import (
    COUNTERS,
    COUNTERS_TOPIC,
    VERSION,
    CountersTopicCreated,
    CreateCountersTopic,
    count_up,
)
from tests.support.handler_helpers import AUTHORIZER, Broker
from tests.support.runtime_helpers import until
from tests.support.shard_world import Client, World, commit, world

BOTH = (*KINDS, COUNTERS)
NAME = "a"  # in partition 1, as GROUP is in that of groups


@asynccontextmanager
async def processes(w: World, count: int) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Real shard processes that have said hello."""
    run = [asyncio.ensure_future(ShardProcess(w.socket, f"p{i}", "tests", kinds=BOTH).run()) for i in range(count)]
    try:
        await until(lambda: len(w.coordinators.processes.links) == count)
        yield run
    finally:
        for each in run:
            each.cancel()
        await asyncio.gather(*run, return_exceptions=True)


def send(client: Client, name: str = NAME) -> None:
    client.send(count_up(name), VERSION, name, kind=COUNTERS)


async def counted(client: Client, answers: int) -> list[tuple[int, int]]:
    """Error and count of so many answers."""
    asked = [(InitProducerIdRequest, VERSION)] * answers
    await until(lambda: len(_whole(client.written)) >= answers)
    return [(each.error_code, each.producer_id) for each in client.answers(*asked)]


def _whole(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
        found.append(data[:end])
        data = data[end:]
    return found


async def test_a_key_of_the_second_kind_is_coordinated_in_its_own_topic(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH, num_partitions="5") as w, processes(w, 1):
        client = Client(w.coordinators)
        send(client)
        send(client)
        assert await counted(client, 2) == [(0, 5), (0, 10)], "the shard has the setting that its kind gives it"
        assert w.keys(1, COUNTERS_TOPIC) == [b"a", b"a"]
        assert w.keys(1) == [], "the log of groups has nothing of it"


async def test_a_broker_hosts_both_kinds_side_by_side(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 2):
        counts, commits = Client(w.coordinators, 1), Client(w.coordinators, 2)
        send(counts)
        commits.send(commit(), 8)
        assert await counted(counts, 1) == [(0, 1)]
        await until(lambda: commits.written)
        served = {kind.name: list(hub.partitions.links) for kind, hub in w.coordinators.items()}
        assert served == {"groups": [1], "counters": [1]}
        assert [row.partition for row in w.coordinators.status(COUNTERS)] == [1]


async def test_another_process_goes_on_from_the_log_when_one_dies(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 2):
        client = Client(w.coordinators)
        send(client)
        await counted(client, 1)
        links = w.coordinators[COUNTERS].partitions.links
        first = links[1]
        first.protocol.close()
        await until(lambda: links.get(1) is not first)
        send(client)
        assert await counted(client, 2) == [(0, 1), (0, 2)]


async def test_it_is_answered_by_its_own_rule_if_there_is_no_process(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH, coterie_shard_wait_ms="0") as w:
        client = Client(w.coordinators)
        send(client)
        send(client, "aaa")  # in partition 3, which another broker leads
        assert await counted(client, 2) == [
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
            (ErrorCode.NOT_COORDINATOR, -1),
        ]


async def test_requests_of_both_kinds_wait_for_processes_each_for_its_own(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w:
        counts, commits = Client(w.coordinators, 1), Client(w.coordinators, 2)
        send(counts)
        commits.send(commit(), 8)
        assert (w.coordinators.waiting, w.urgent) == (2, 2)
        async with processes(w, 1):
            assert await counted(counts, 1) == [(0, 1)]
            assert commits.written == b"", "the process is the other kind's"


async def test_a_partition_of_the_second_kind_falls_asleep_by_its_rule_and_is_woken(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH, coterie_shard_idle_ms="1") as w, processes(w, 1):
        client, hub = Client(w.coordinators), w.coordinators[COUNTERS]
        send(client)
        await counted(client, 1)
        await until(lambda: w.coordinators.tick() or 1 in hub.sleeping)
        assert [(row.state, row.pid) for row in hub.status()] == [("Asleep", None)]
        send(client)
        assert await counted(client, 2) == [(0, 1), (0, 2)]
        assert 1 not in hub.sleeping


async def test_a_process_that_has_hosted_one_kind_hosts_the_other_next(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 1):
        counts, commits = Client(w.coordinators, 1), Client(w.coordinators, 2)
        send(counts)
        await counted(counts, 1)
        w.lead(1, 1, 6, COUNTERS_TOPIC)
        await until(lambda: w.states("Spare"))
        commits.send(commit(), 8)
        await until(lambda: commits.written)
        assert list(w.hub.partitions.links) == [1]


async def test_a_log_that_was_repaired_is_loaded_again_by_its_kind(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 1):
        client, links = Client(w.coordinators), w.coordinators[COUNTERS].partitions.links
        send(client)
        await counted(client, 1)
        w.coordinators.reload(OFFSETS_TOPIC, 1)
        assert links[1].active, "not that one's"
        w.coordinators.reload("some-topic", 1)
        w.coordinators.reload(COUNTERS_TOPIC, 1)
        send(client)
        assert await counted(client, 2) == [(0, 1), (0, 2)]


async def coordinator(w: World, name: str) -> tuple[int, int]:
    """Error and broker that a lookup is answered."""
    answers: list[Any] = []
    message = FindCoordinatorRequest(key=name, key_type=COUNTERS.key_type)
    asks = SimpleNamespace(listener="PLAINTEXT")
    header = SimpleNamespace(api_key=message.api_key)
    request: Any = SimpleNamespace(message=message, version=2, connection=asks, header=header, reply=answers.append)
    at_once = find_coordinator.handle(w.handlers, request)
    if at_once is not None:
        answers.append(at_once)
    await until(lambda: answers)
    return answers[0].error_code, answers[0].node_id


async def test_a_lookup_finds_the_leader_of_the_keys_partition_in_its_own_topic(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 1):
        assert await coordinator(w, "aaa") == (0, 1)
        assert await coordinator(w, NAME) == (0, 0)
        assert (list(w.coordinators[COUNTERS].partitions.links), list(w.hub.partitions.links)) == ([1], [])


async def test_a_process_is_told_what_it_is_to_host(tmp_path: Path) -> None:
    """A process that is not told hosts groups: older brokers did not say, for there was one kind."""
    async with world(tmp_path) as w:
        shard = await w.serving()
        assert [payload for _, _, payload in shard.of(Kind.HOST)] == [b"groups"]
    assert KINDS[0] is GROUPS


async def test_a_process_that_does_not_know_the_kind_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path, BOTH) as w:
        run = asyncio.ensure_future(ShardProcess(w.socket, "old", "tests").run())
        await until(lambda: w.states("Spare"))
        send(Client(w.coordinators))
        await asyncio.wait_for(run, 20)
    assert "knows no coordinators of counters" in caplog.text


RIGHT = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
COUNT = replace(
    APIS[ApiKey.INIT_PRODUCER_ID], runs=Runs.SHARD, rights=(RIGHT,), handle=None, names=NamedKey(COUNTERS, RIGHT)
)
"""The row that a request of counters would have in the table of requests."""


def router(w: World) -> Router:
    """The router of a broker whose table of requests has that row."""
    return Router(w.handlers, w.coordinators, {**APIS, ApiKey.INIT_PRODUCER_ID: COUNT})


async def test_the_router_sends_a_request_to_the_shard_of_the_kind_that_its_row_names(tmp_path: Path) -> None:
    async with world(tmp_path, BOTH) as w, processes(w, 1):
        client, requests = Client(w.coordinators), router(w)
        frame = encode_request(count_up(NAME), VERSION, 1, "tests")[4:]
        requests.on_frame(client.connection, frame, 0, len(frame))
        assert await counted(client, 1) == [(0, 1)]


async def test_the_guard_asks_for_the_right_on_the_resource_that_the_kind_names(tmp_path: Path) -> None:
    """A connection's note is about that resource, too: the right to all groups gives no right to all counters."""
    async with world(tmp_path, BOTH, authorizer_class_name=AUTHORIZER) as w, processes(w, 1):
        client, requests = Client(w.coordinators), router(w)
        acls = [allowed(AclOperation.ALL, GROUP, "*"), allowed(AclOperation.WRITE, TRANSACTIONAL_ID, NAME)]
        w.context.authorizer = Authorization.of(w.context.config, w.context.metadata, w.context.loop.time)
        w.context.authorizer.update({repr(acl.row).encode(): AclRow(*acl.row) for acl in acls})
        for name in (NAME, NAME, "b"):
            frame = encode_request(count_up(name), VERSION, 1, "tests")[4:]
            requests.on_frame(client.connection, frame, 0, len(frame))
        client.connection.flush()
        assert await counted(client, 3) == [(0, 1), (0, 2), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]


def test_the_topic_of_each_kind_is_created_by_its_own_operation_one_call_at_a_time() -> None:
    calls: list[tuple[Any, Any]] = []
    controller: Any = SimpleNamespace(call=lambda operation, done: calls.append((operation, done)))
    topics = InternalTopics(controller)
    for kind in (*BOTH, *BOTH):
        topics.ensure(kind)
    assert [operation for operation, _ in calls] == [CreateOffsetsTopic(), CreateCountersTopic()]
    calls[1][1](CountersTopicCreated(), None)
    for kind in BOTH:
        topics.ensure(kind)
    assert [operation for operation, _ in calls[2:]] == [CreateCountersTopic()]


def test_a_client_that_names_the_topic_of_a_kind_has_it_created_with_its_own_settings(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    ensured: list[CoordinatorKind] = []
    topics: Any = SimpleNamespace(ensure=ensured.append)
    both: Any = dict.fromkeys(BOTH, broker.shards)
    broker.handlers = replace(broker.handlers, coordinators=both, internal_topics=topics)
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in (COUNTERS_TOPIC, OFFSETS_TOPIC)]
    broker.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9)
    assert (ensured, broker.controller.operations) == ([GROUPS, COUNTERS], [])
