"""A consumer stays alive and quiet: brokers that are all gone, handlers that take long, its timers."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import Consumer, TopicPartition
from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.polling import Polling
from actors.client.errors import KafkaConnectionError
from actors.client.group.classic.standing import MemberState
from actors.client.net.connection import Connection
from actors.client.net.network import Dialler, Network
from actors.client.net.settings import NetworkSettings
from actors.client.records import Node
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.runtime.environment import REAL, Clock, Environment
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.consuming import Watched
from tests.support.membership_script import Script

T0 = TopicPartition("t", 0)
PATIENCE_S = 60


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t", 1)
        yield running


def reading(kafka: ScriptedBroker, *topics: str, **settings: Any) -> Watched:
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **settings}
    return Watched(*topics, bootstrap_servers=kafka.bootstrap_servers, **settings)


def poll_until(reader: Consumer, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        reader.poll(20)


class Even(random.Random):
    """Chance that makes no pause longer or shorter than it is."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


def _steady(now_ms: Callable[[], int]) -> Environment:
    return Environment(Clock(monotonic_ms=now_ms), Even())


# --- all nodes down ---------------------------------------------------------------------------------------------------


def test_a_broker_that_is_gone_is_tried_at_growing_intervals() -> None:
    """With a clock of the test's: `reconnect_backoff_ms`, doubled up to `reconnect_backoff_max_ms`, and no sooner."""
    now = 0
    attempts: list[int] = []

    async def refused(*_: Any) -> Connection:
        attempts.append(now)
        raise KafkaConnectionError

    async def ask_every_millisecond(client: Network, until: int) -> None:
        nonlocal now
        while now < until:
            with pytest.raises(KafkaConnectionError):
                await client.connection(Node(1, "h", 9092))
            now += 1

    client = Network(NetworkSettings(bootstrap=(("h", 9092),)), environment=_steady(lambda: now), dial=refused)
    try:
        client.loop.run_until_complete(ask_every_millisecond(client, 4_000))
    finally:
        client.loop.close()
    assert attempts == [0, 50, 150, 350, 750, 1_550, 2_550, 3_550]


def test_the_bootstrap_list_is_dialled_in_turns_with_brokers_that_are_down():
    """This holds even if each request comes just when their backoff ends: they may be back under another address."""
    now = 0
    dialled: list[str] = []

    async def refused(node: Node, on_lost: Any) -> Connection:
        dialled.append(node.host)
        raise KafkaConnectionError

    async def ask_each_second(client: Network) -> None:
        nonlocal now
        while now < 10_000:
            now += 1_000
            with pytest.raises(KafkaConnectionError):
                await client.connection(None)

    settings = NetworkSettings(bootstrap=(("bootstrap", 9092),))
    client = Network(settings, environment=_steady(lambda: now), dial=refused)
    client.cluster.brokers = {1: Node(1, "broker", 9092)}
    try:
        client.loop.run_until_complete(ask_each_second(client))
    finally:
        client.loop.close()
    assert dialled == ["broker", "bootstrap"] * 5


def test_an_attempt_that_fails_after_the_request_has_timed_out_is_no_error_of_the_program() -> None:
    """asyncio logged "Task exception was never retrieved" for each machine that was gone, with a traceback."""
    logged: list[dict[str, Any]] = []

    async def silent(*_: Any) -> Connection:
        await answered.wait()
        raise KafkaConnectionError

    async def give_up(client: Network) -> None:
        client.loop.set_exception_handler(lambda _, context: logged.append(context))
        asking = client.loop.create_task(client.connection(Node(1, "h", 9092)))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        answered.set()
        await asyncio.sleep(0)

    answered = asyncio.Event()
    client = Network(NetworkSettings(bootstrap=(("h", 9092),)), environment=_steady(lambda: 0), dial=silent)
    try:
        client.loop.run_until_complete(give_up(client))
        gc.collect()
    finally:
        client.loop.close()
    assert logged == []


@pytest.mark.parametrize("known", [True, False], ids=["brokers known", "none ever seen"])
def test_with_all_nodes_down_a_consumer_of_assigned_partitions_is_quiet_and_comes_back(kafka, monkeypatch, known):
    """Work is bounded by the time that has passed, each broker is tried at growing intervals, and nothing is lost."""
    down = threading.Event()
    work: Counter[str] = Counter()
    attempts: dict[int, list[float]] = defaultdict(list)
    port = int(kafka.bootstrap_servers.partition(":")[2])
    really_dial = Dialler.__call__

    async def dial(self: Dialler, node: Node, on_lost: Any) -> Connection:
        if node.port == port:  # not those of a client that another test has left
            attempts[node.id].append(time.monotonic())
        if down.is_set():
            raise KafkaConnectionError
        return await really_dial(self, node, on_lost)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            work[function.__name__] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(Dialler, "__call__", dial)
    for owner, method in ((Polling, "turn"), (Fetcher, "step"), (Network, "ask")):
        monkeypatch.setattr(owner, method, counted(getattr(owner, method)))
    if not known:
        down.set()
    kafka.append("t", 0, b"a")
    with reading(kafka, retry_backoff_ms=100, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000) as reader:
        reader.assign([T0])
        if known:
            poll_until(reader, lambda: reader.position(T0) == 1)
            down.set()
            kafka.drop_connections()
        began = time.monotonic()
        work.clear()
        attempts.clear()
        while min(map(len, attempts.values()), default=0) < 5:
            assert time.monotonic() < began + PATIENCE_S, attempts
            assert reader.poll(200) == {}
        hundredths = (time.monotonic() - began) * 10
        assert max(work.values()) < 20 + 10 * hundredths, f"it spins: {work}"
        for times in attempts.values():
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            least = [0.8 * min(0.05 * 2**n, 1.0) - 0.002 for n in range(len(gaps))]
            assert all(gap >= floor for gap, floor in zip(gaps, least, strict=True)), gaps
        down.clear()
        kafka.append("t", 0, b"b")
        poll_until(reader, lambda: reader.position(T0) == 2)
    assert kafka.requests(m.FindCoordinatorRequest) == kafka.requests(m.JoinGroupRequest) == []


# --- handlers that take long ------------------------------------------------------------------------------------------


def busy(script: Script, for_ms: int) -> None:
    """The user's thread is away for so long; heartbeats fall due and are answered meanwhile."""
    until = script.now + for_ms
    while (due := script.member.next_deadline()) is not None and due <= until:
        script.tick(max(0, due - script.now))
        if script.unanswered("Heartbeat"):
            script.answer("Heartbeat", m.HeartbeatResponse())
    script.tick(until - script.now)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("session_timeout_ms", [10_000, 1_000_000])
def test_a_handler_just_under_the_poll_interval_costs_no_rebalance(strategy, session_timeout_ms):
    script = Script(strategy, max_poll_interval_ms=300_000, session_timeout_ms=session_timeout_ms).stable("t-0", "t-1")
    script.poll()
    generation, calls, joins = script.member.generation, list(script.calls), script.count("JoinGroup")
    for _ in range(5):
        busy(script, 299_999)
        assert script.member.may_deliver(script.now)
        script.poll()
    assert script.member.state is MemberState.STABLE
    assert script.member.generation == generation
    assert (script.calls, script.count("JoinGroup"), script.count("LeaveGroup")) == (calls, joins, 0)
    busy(script, 300_000)
    assert script.count("LeaveGroup") == 1, "one millisecond later it would have"


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_handler_that_runs_longer_than_the_session_blocks_no_heartbeat(kafka, kind):
    """It runs until heartbeats have come for longer than a session. Then its record is committed."""
    session_s = 1.5
    beats: list[float] = []

    def beat(_: Any) -> m.HeartbeatResponse:
        beats.append(time.monotonic())
        kafka.script(m.HeartbeatRequest, beat)
        return m.HeartbeatResponse()

    def handle(_: Any) -> None:
        began = time.monotonic()
        while not (beats and beats[-1] > began + 2 * session_s):
            assert time.monotonic() < began + PATIENCE_S, "no heartbeat while the handler runs"
            time.sleep(0.01)

    async def handle_async(record: Any) -> None:
        handle(record)

    kafka.script(m.HeartbeatRequest, beat)
    kafka.append("t", 0, b"a")
    options = {"session_timeout_ms": int(session_s * 1000), "heartbeat_interval_ms": 100, "fetch_max_wait_ms": 50}
    spec = MemberSpec(("t",), "g", kafka.bootstrap_servers, max_retries=0, options=options)
    loop = MemberLoop(spec, handle if kind == "function" else handle_async)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        deadline = time.monotonic() + 2 * PATIENCE_S
        while kafka.committed.get(T0) != 1 and thread.is_alive():
            assert time.monotonic() < deadline, loop.report()
            time.sleep(0.01)
    finally:
        loop.stop()
        thread.join()
    assert loop.report().error is None
    assert kafka.committed[T0] == 1
    assert kafka.generation == 1, "it cost a rebalance"


# --- the timer of the auto-commit -------------------------------------------------------------------------------------


def test_each_assignment_starts_the_auto_commits_timer_anew(kafka):
    """Not when the interval since the last commit is over: what was just assigned has only just been read."""
    ahead_ms = 0
    hours = 3_600_000
    clock = Clock(monotonic_ms=lambda: REAL.clock.monotonic_ms() + ahead_ms)
    settings = {"auto_commit_interval_ms": 10 * hours, "session_timeout_ms": 100 * hours}
    kafka.append("t", 0, b"a")
    with reading(
        kafka, "t", group_id="g", max_poll_interval_ms=200 * hours, environment=Environment(clock), **settings
    ) as reader:
        poll_until(reader, lambda: T0 in reader.assignment() and reader.position(T0) == 1)
        ahead_ms = 8 * hours
        reader.enforce_rebalance()
        poll_until(reader, lambda: kafka.generation == 2 and reader.member.settled)
        poll_until(reader, lambda: reader.position(T0) == 1)
        assert kafka.order(m.OffsetCommitRequest, m.JoinGroupRequest)[-2:] == [
            "OffsetCommitRequest",
            "JoinGroupRequest",
        ]
        committed = len(kafka.requests(m.OffsetCommitRequest))
        ahead_ms = 16 * hours
        for _ in range(3):
            reader.poll(50)
        assert len(kafka.requests(m.OffsetCommitRequest)) == committed, "counted from the assignment before"
        ahead_ms = 19 * hours
        poll_until(reader, lambda: len(kafka.requests(m.OffsetCommitRequest)) == committed + 1)


def test_what_a_cancelled_task_starts_is_ended_too() -> None:
    """A producer that was closed while its broker was gone left a request behind: "Task was destroyed"."""
    network = Network(NetworkSettings(bootstrap=(("127.0.0.1", 9),)))
    started: list[asyncio.Task[None]] = []

    async def work(left: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if left:
                started.append(network.loop.create_task(work(left - 1)))

    async def begin() -> None:
        started.append(network.loop.create_task(work(2)))
        await asyncio.sleep(0)

    network.start()
    network.run(begin()).result(PATIENCE_S)
    network.close(PATIENCE_S)
    assert len(started) > 1
    assert all(task.cancelled() for task in started)
