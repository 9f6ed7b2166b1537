"""Faults by call, at a cluster in a child process, as clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import coterie.testing
from actors.broker.handlers.registry import APIS
from actors.client import Consumer, Producer, TopicPartition
from actors.group_api import MODULES
from actors.wire import messages
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import request_class
from coterie.testing import Cluster, OrderError
from placement.hashing import partition_for_group
from tests.support.one_process import asked, wait_until

DAY = 24 * 3600
READS: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, "enable_auto_commit": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with coterie.testing.cluster() as made:
        yield made


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    yield cluster.create_topic(partitions=2)
    cluster.leave_alone()


def _member(cluster: Cluster, topic: str, **settings: Any) -> Consumer:
    group = f"group-of-{topic}"
    return Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group, **READS, **settings)


def _has_work(member: Consumer, partitions: int = 2) -> None:
    def has() -> bool:
        member.poll(50)
        return len(member.assignment()) == partitions

    wait_until(has, what=f"{partitions} partitions")


def _produce(cluster: Cluster, topic: str, count: int = 10) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n)


def _read(member: Consumer, count: int = 10) -> int:
    found = 0

    def enough() -> bool:
        nonlocal found
        found += sum(map(len, member.poll(50).values()))
        return found >= count

    wait_until(enough, what=f"{count} records")
    return found


# --- the coordinator


def test_a_group_goes_on_when_its_coordinator_was_killed(cluster: Cluster, topic: str) -> None:
    _produce(cluster, topic)
    with _member(cluster, topic) as member:
        assert _read(member) == 10
        member.commit()
        for _ in range(3):
            cluster.kill_coordinator(f"group-of-{topic}")
            member.commit()  # loaded again, and the member is known
    with _member(cluster, topic) as successor:
        _has_work(successor)
        _produce(cluster, topic, 1)
        assert _read(successor, 1) == 1


def test_a_group_that_nobody_uses_has_no_coordinator_to_kill(cluster: Cluster) -> None:
    with coterie.testing.cluster(settings={"coterie.spare.shards": "0", "offsets.topic.num.partitions": "50"}) as other:
        said = []
        for group in ("orders", "billing"):
            with pytest.raises(OrderError, match=f"nobody coordinates {group}") as refused:
                other.kill_coordinator(group)
            said.append(str(refused.value))
    # The cluster has looked up a coordinator by a name that has its pid: one of the two groups may have the same one.
    assert partition_for_group("orders", 50) != partition_for_group("billing", 50)
    assert [text for text in said if text.endswith(" now: it is not in use")], said


# --- members


def test_an_expelled_member_comes_again_as_another(cluster: Cluster, topic: str) -> None:
    with _member(cluster, topic, client_id="billing") as member:
        _has_work(member)
        first = member.group_metadata().member_id
        expelled = cluster.expel(f"group-of-{topic}", "billing")
        assert expelled == first

        def is_another() -> bool:
            member.poll(50)
            return member.group_metadata().member_id not in ("", expelled) and len(member.assignment()) == 2

        wait_until(is_another, what="the member has come again")


def test_a_member_is_expelled_by_its_instance_id(cluster: Cluster, topic: str) -> None:
    with _member(cluster, topic, group_instance_id="till-7") as member:
        _has_work(member)
        assert cluster.expel(f"group-of-{topic}", "till-7")
        with pytest.raises(OrderError, match="0 members of"):
            cluster.expel(f"group-of-{topic}", "till-7")


def test_members_of_a_group_are_named_if_none_is_meant(cluster: Cluster, topic: str) -> None:
    with _member(cluster, topic, client_id="billing") as member:
        _has_work(member)
        with pytest.raises(OrderError, match=r"0 members of .* are called 'shipping'.*'billing'"):
            cluster.expel(f"group-of-{topic}", "shipping")


# --- leaders


def test_the_only_broker_leads_again_after_it_was_lost_and_has_all_that_was_acknowledged(
    cluster: Cluster, topic: str
) -> None:
    _produce(cluster, topic)
    servers = cluster.bootstrap_servers
    assert cluster.lose_leader(topic) == 0
    assert cluster.bootstrap_servers == servers
    with _member(cluster, topic) as member:
        assert _read(member) == 10


def test_another_broker_leads_and_nothing_that_was_acknowledged_is_lost() -> None:
    with coterie.testing.cluster(brokers=3) as cluster:
        topic = cluster.create_topic(partitions=1, replicas=3)
        leaders = set()
        for _ in range(2):
            _produce(cluster, topic)
            leaders.add(cluster.lose_leader(topic))
        with _member(cluster, topic) as member:
            assert _read(member, 20) == 20
        assert leaders <= {0, 1, 2}


def test_a_broker_that_is_lost_often_is_not_waited_for_longer_each_time(cluster: Cluster, topic: str) -> None:
    """The controller starts a broker that keeps dying after ever longer pauses, up to half a minute."""
    for _ in range(12):
        assert cluster.lose_leader(topic) == 0


def test_a_partition_that_is_not_there_has_no_leader_to_lose(cluster: Cluster) -> None:
    with pytest.raises(OrderError, match="there is no partition 7 of a topic nothing"):
        cluster.lose_leader("nothing", 7)


# --- answers


async def _topic_of(answer: Awaitable[Any]) -> Any:
    return (await answer).topics[0]


async def _until_no_error(ask: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(30):
        while True:
            if not (await ask()).error_code:
                return


async def test_so_many_requests_are_refused_and_no_more(cluster: Cluster, topic: str) -> None:
    def metadata() -> messages.MetadataRequest:
        return messages.MetadataRequest(topics=[messages.MetadataRequest.MetadataRequestTopic(name=topic)])

    cluster.refuse("Metadata", "LEADER_NOT_AVAILABLE", times=2)
    codes = [(await asked(cluster.bootstrap_servers, metadata(), 5)).topics[0].error_code for _ in range(3)]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE] * 2 + [ErrorCode.NONE]


@pytest.mark.parametrize("api", [key for key in APIS if APIS[key].failed is not None or key in MODULES])
async def test_every_api_that_can_say_an_error_can_be_refused(cluster: Cluster, api: int) -> None:
    before = cluster.leave_alone()
    key = ApiKey(api)
    cluster.refuse(key.label, "REQUEST_TIMED_OUT")
    request: Any = request_class(api)()
    if api == ApiKey.PRODUCE:
        request.acks = 1
    answer = await asyncio.wait_for(asked(cluster.bootstrap_servers, request, APIS[api].last), 10)
    assert type(answer).api_key == api
    assert cluster.leave_alone() == before + 1


async def test_a_request_whose_answer_is_delayed_is_handled_at_once(cluster: Cluster) -> None:
    cluster.delay("CreateTopics", 600)
    topic = messages.CreateTopicsRequest.CreatableTopic(name="made-at-once", num_partitions=1, replication_factor=1)
    request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    answer = asyncio.ensure_future(asked(cluster.bootstrap_servers, request, 5))
    named = messages.MetadataRequest(
        topics=[messages.MetadataRequest.MetadataRequestTopic(name="made-at-once")], allow_auto_topic_creation=False
    )
    await _until_no_error(lambda: _topic_of(asked(cluster.bootstrap_servers, named, 5)))
    assert not answer.done()
    await asyncio.to_thread(cluster.advance, 600)
    assert (await asyncio.wait_for(answer, 30)).topics[0].error_code == 0


def test_a_commit_that_is_refused_is_sent_again(cluster: Cluster, topic: str) -> None:
    _produce(cluster, topic)
    before = cluster.leave_alone()
    with _member(cluster, topic) as member:
        _read(member)
        cluster.refuse("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=3)
        member.commit()
    assert cluster.leave_alone() == before + 3


def test_a_record_whose_answer_is_late_is_there_once(cluster: Cluster, topic: str) -> None:
    """The producer waits no longer, and sends it again: the broker knows that it has it."""
    cluster.delay("Produce", 600)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=300) as producer:
        sent = producer.send(topic, b"only", partition=0)
        producer.flush(30)
        assert sent.succeeded()
    _produce(cluster, topic, 1)
    with _member(cluster, topic) as member:
        assert _read(member, 2) == 2


@pytest.mark.parametrize(
    ("api", "error", "reason"),
    [
        ("Fetsh", "NOT_COORDINATOR", "there is no API 'Fetsh': one of Produce, Fetch"),
        ("Fetch", "NOT_A_COORDINATOR", "Kafka has no error 'NOT_A_COORDINATOR'"),
    ],
)
def test_what_kafka_does_not_have_is_said(cluster: Cluster, api: str, error: str, reason: str) -> None:
    with pytest.raises(OrderError, match=reason):
        cluster.refuse(api, error)


def test_no_time_at_all_is_no_order(cluster: Cluster) -> None:
    with pytest.raises(OrderError, match="times is at least 1"):
        cluster.delay("Fetch", 1, times=0)


# --- the clock


async def test_a_silent_member_is_there_until_its_session_is_over_and_no_longer(cluster: Cluster) -> None:
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(name="any", metadata=b"")
    join = messages.JoinGroupRequest(
        group_id="silent",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    find = messages.FindCoordinatorRequest(key="silent", key_type=0)
    await _until_no_error(lambda: asked(cluster.bootstrap_servers, find, 3))
    joined = await asked(cluster.bootstrap_servers, join, 2)
    beat = messages.HeartbeatRequest(group_id="silent", generation_id=1, member_id=joined.member_id)
    sync = messages.SyncGroupRequest(group_id="silent", generation_id=1, member_id=joined.member_id)
    assert (await asked(cluster.bootstrap_servers, sync, 0)).error_code == ErrorCode.NONE
    await asyncio.to_thread(cluster.advance, 40)
    assert (await asked(cluster.bootstrap_servers, beat, 0)).error_code == ErrorCode.NONE
    await asyncio.to_thread(cluster.advance, 40)
    assert (await asked(cluster.bootstrap_servers, beat, 0)).error_code == ErrorCode.NONE
    await asyncio.to_thread(cluster.advance, 46)
    assert (await asked(cluster.bootstrap_servers, beat, 0)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_a_group_without_members_stay_for_their_time(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2, settings={"retention.ms": "-1"})
    _produce(cluster, topic)
    with _member(cluster, topic) as member:
        _read(member)
        member.commit()
    cluster.advance(6 * DAY)
    with _member(cluster, topic) as successor:
        _has_work(successor)
        assert successor.poll(200) == {}


def test_offsets_have_expired_when_a_move_is_over_though_their_shard_wakes_after_its_leap_and_stays_awake() -> None:
    """It looks for what has expired ten minutes after it is loaded. By `coterie.shard.idle.ms` it sleeps only later."""
    with coterie.testing.cluster(settings={"coterie.shard.idle.ms": "700000"}) as cluster:
        topic = cluster.create_topic(partitions=2, settings={"retention.ms": "-1"})
        _produce(cluster, topic)
        with _member(cluster, topic) as member:
            _read(member)
            member.commit()
        cluster.advance(1000)  # it sleeps
        cluster.advance(8 * DAY)
        with _member(cluster, topic) as successor:
            assert [successor.committed(TopicPartition(topic, n)) for n in range(2)] == [None, None]


def test_records_are_deleted_after_their_time() -> None:
    """Clients stamp records by the machine's time, so those written afterwards are old by the cluster's time, too."""
    with coterie.testing.cluster() as cluster:
        topic = cluster.create_topic(partitions=2)
        _produce(cluster, topic)
        partitions = [TopicPartition(topic, n) for n in range(2)]
        with _member(cluster, topic) as member:
            cluster.advance(6 * DAY)
            assert sum(member.beginning_offsets(partitions).values()) == 0
            cluster.advance(2 * DAY)
            assert sum(member.beginning_offsets(partitions).values()) == 10
            assert sum(member.end_offsets(partitions).values()) == 10


async def test_for_asyncio_all_is_a_coroutine() -> None:
    async with coterie.testing.cluster() as cluster:
        topic = await cluster.create_topic(partitions=2)
        await cluster.refuse("Metadata", "LEADER_NOT_AVAILABLE")
        await cluster.delay("Metadata", 0.01)
        named = messages.MetadataRequest(topics=[messages.MetadataRequest.MetadataRequestTopic(name=topic)])
        codes = [(await asked(cluster.bootstrap_servers, named, 5)).topics[0].error_code for _ in range(2)]
        assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]
        assert await cluster.leave_alone() == 2
        assert await cluster.lose_leader(topic) == 0
        await cluster.advance(3600)
        with pytest.raises(OrderError, match="members of"):
            await cluster.expel("nobody", "nobody")
