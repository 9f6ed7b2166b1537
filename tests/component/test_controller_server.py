"""The controller without Ray: brokers that come, die, fall silent and come back, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from actors.controller import server as controller_server
from actors.controller.decisions import topics
from actors.controller.decisions.elections import leadership_balanced
from actors.controller.metadata_log import MetadataLog
from actors.controller.server import ControllerServer
from actors.links.control import (
    CODEC,
    Answer,
    Applied,
    Confirmed,
    Heartbeat,
    Hello,
    Image,
    Join,
    Joined,
    Load,
    WantSpares,
)
from actors.links.operations import CreatePartitions
from actors.runtime.liveness import Doing, Sight
from actors.settings import BrokerConfig
from placement.metadata import (
    NO_LEADER,
    OFFSETS_TOPIC,
    BrokerInfo,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
    broker_record,
    changed,
    partition_record,
    topic_record,
)
from tests.support.calls import plain
from tests.support.runtime_helpers import SECRET, FakeBroker, run, until


class Launcher:
    """Notes what it is asked for; the test plays the processes."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.killed: list[int] = []
        self.shards: list[tuple[int, int]] = []
        self.times: list[float] = []
        self.sights: dict[int, Sight] = {}

    def start_broker(self, broker_id: int) -> None:
        self.started.append(broker_id)
        self.times.append(asyncio.get_running_loop().time())

    def kill_broker(self, broker_id: int) -> None:
        self.killed.append(broker_id)

    def start_shards(self, broker_id: int, count: int) -> None:
        self.shards.append((broker_id, count))

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        assert (pid, started) in ((1000 + broker_id, 77), (0, 0))
        return self.sights.get(broker_id)


class Controller:
    def __init__(self, server: ControllerServer, launcher: Launcher, port: int) -> None:
        self.server = server
        self.launcher = launcher
        self.port = port

    @property
    def metadata(self) -> ClusterMetadata:
        metadata: ClusterMetadata = self.server.metadata
        return metadata

    def leader(self, topic: str, index: int = 0) -> PartitionInfo:
        found = self.metadata.partition(topic, index)
        assert found is not None
        return found


@asynccontextmanager
async def controller(path: Path, lease_ms: int = 60_000, **settings: str) -> AsyncIterator[Controller]:
    """A controller on the log in `path`; using the same path again is its restart."""
    loop = asyncio.get_running_loop()
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_mapping(
        {"broker.session.timeout.ms": str(lease_ms), "broker.heartbeat.interval.ms": "100", **texts}
    )
    launcher = Launcher()
    server = ControllerServer(MetadataLog(path / "metadata.log"), config, SECRET, launcher, loop)
    port = await server.listen("127.0.0.1")
    try:
        yield Controller(server, launcher, port)
    finally:
        server.close()


def topic(name: str, partitions: int = 1, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "partitions": partitions, "factor": factor, "configs": {}}


async def create(broker: FakeBroker, name: str, partitions: int = 1, factor: int = 1, number: int = 1) -> Any:
    answer = await broker.call("create_topics", number, topics=[topic(name, partitions, factor)])
    return answer["result"][0]


# --- registering ---


def test_a_new_cluster_gets_an_id_that_it_keeps(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as first:
            cluster_id = first.metadata.cluster_id
        assert len(cluster_id) == 22
        async with controller(tmp_path) as second:
            assert second.metadata.cluster_id == cluster_id
            assert second.metadata.controller_epoch == 2

    run(test())


def test_a_joining_broker_is_given_the_cluster_and_its_image(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            broker = await FakeBroker(0).connect(c.port)
            broker.send(Join())
            joined = await broker.hear(Joined)
            assert joined.cluster_id == c.metadata.cluster_id
            assert joined.metadata.controller_epoch == 1
            assert c.metadata.brokers == {}, "joining is not registering"

    run(test())


def test_a_registered_broker_is_in_every_brokers_image(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port, listens_on=9092)
            two = await FakeBroker(1).register(c.port, listens_on=9093)
            assert (one.epoch, two.epoch) == (0, 0)
            await until(lambda: len(one.of(Image)) >= 2 and two.of(Image))
            images = [b.of(Image)[-1].metadata for b in (one, two)]
            for image in images:
                assert [(b.id, b.port, b.alive) for b in image.alive()] == [(0, 9092, True), (1, 9093, True)]

    run(test())


def test_each_new_process_of_a_broker_has_a_higher_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            epochs = []
            for _ in range(3):
                broker = await FakeBroker(0).register(c.port)
                epochs.append(broker.epoch)
                broker.hang_up()
                await until(lambda: not c.metadata.brokers[0].alive)
            assert epochs == [0, 1, 2]

    run(test())


def test_a_process_that_registers_twice_replaces_its_older_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0])
            older = await FakeBroker(0).register(c.port)
            newer = await FakeBroker(0, older.epoch).register(c.port)
            await older.lost.wait()
            assert newer.epoch == older.epoch
            assert c.metadata.brokers[0].alive
            assert c.launcher.killed == []
            assert c.server.status().brokers[0].pid == 1000

    run(test())


def test_a_stranger_is_hung_up_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            stranger = await FakeBroker(0).connect(c.port, b"wrong" * 8)
            await stranger.lost.wait()
            assert not stranger.ready.is_set()
            assert stranger.heard == []
            good = await FakeBroker(1).register(c.port)  # nobody else was disturbed
            assert good.epoch == 0

    run(test())


def test_a_message_that_makes_no_sense_ends_its_connection_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            good = await FakeBroker(0).register(c.port)
            bad = await FakeBroker(1).connect(c.port)
            bad.protocol.send_encoded(
                msgpack.packb([next(tag for tag, cls in CODEC.classes.items() if cls is Hello)])
            )  # says nothing of itself
            await bad.lost.wait()
            assert (await create(good, "t"))["error_code"] == 0

    run(test())


# --- deaths ---


def test_the_end_of_a_connection_is_a_death_its_partitions_move_and_it_is_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0, 1])
            one = await FakeBroker(0).register(c.port)
            two = await FakeBroker(1).register(c.port)
            await create(one, "t", partitions=2)
            before = [c.leader("t", i) for i in (0, 1)]
            assert {p.leader for p in before} == {0, 1}
            two.hang_up()
            await until(lambda: c.launcher.started == [1])
            assert c.launcher.killed == [1]
            mine = next(i for i in (0, 1) if before[i].leader == 1)
            assert c.leader("t", mine).leader == NO_LEADER, "its only replica is gone"
            assert c.leader("t", mine).isr == (1,), "and may come back with what it has"
            assert c.leader("t", 1 - mine) == before[1 - mine], "the others are left alone"
            await until(lambda: one.of(Image)[-1].metadata.brokers[1].alive is False)

    run(test())


def test_a_broker_that_comes_back_leads_what_it_led_at_a_higher_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            await create(one, "t")
            before = c.leader("t")
            one.hang_up()
            await until(lambda: c.leader("t").leader == NO_LEADER)
            again = await FakeBroker(0).register(c.port)
            assert c.leader("t").leader == 0
            assert c.leader("t").leader_epoch > before.leader_epoch
            image = (await again.hear(Image)).metadata
            found = image.partition("t", 0)
            assert found is not None
            assert found.leader_epoch == c.leader("t").leader_epoch

    run(test())


@pytest.mark.parametrize("enabled", [True, False])
def test_leadership_goes_back_to_a_preferred_replica_once_it_is_in_sync_again(tmp_path: Path, enabled: bool) -> None:
    async def test() -> None:
        async with controller(tmp_path, auto_leader_rebalance_enable=str(enabled).lower()) as c:
            one = await FakeBroker(0).register(c.port)
            two = await FakeBroker(1).register(c.port)
            await create(one, "t", partitions=2, factor=2)
            index = next(i for i in (0, 1) if c.leader("t", i).replicas[0] == 1)
            two.hang_up()
            await until(lambda: c.leader("t", index).leader == 0)
            await FakeBroker(1).register(c.port)
            c.server._balance(c.server._balanced + 300)
            assert c.leader("t", index).leader == 0, "the other is not in sync"
            before = changed(c.leader("t", index), isr=(1, 0))
            c.server._commit([partition_record("t", index, before)])
            c.server._balance(c.server._balanced + 299)
            assert c.leader("t", index) == before, "it is not time to look"
            c.server._balance(c.server._balanced + 300)
            after = c.leader("t", index)
            assert (after.leader, after.leader_epoch) == ((1, before.leader_epoch + 1) if enabled else (0, 1))

    run(test())


def test_a_broker_that_leads_most_of_what_it_is_preferred_for_is_left_alone() -> None:
    metadata = ClusterMetadata()
    for broker in (0, 1):
        metadata.apply(broker_record(BrokerInfo(broker, "h", 1, None, 1)))
    home, away = PartitionInfo(0, 0, (0, 1), (0, 1)), PartitionInfo(1, 4, (0, 1), (0, 1))
    metadata.apply(topic_record(TopicInfo("t", bytes(16), (*[home] * 9, away))))
    assert leadership_balanced(metadata, 10) == []
    assert leadership_balanced(metadata, 9) == [partition_record("t", 9, changed(away, leader=0, leader_epoch=5))]
    metadata.apply(partition_record("t", 9, changed(away, adding=(2,))))
    assert leadership_balanced(metadata, 9) == [], "while it moves to another broker"


class Delays:
    """The loop, and after how long brokers are to be started."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.delays: list[float] = []

    def call_later(self, delay: float, call: Any, *args: Any) -> asyncio.TimerHandle:
        if call.__name__ == "_start_if_wanted":
            self.delays.append(delay)
        return self._loop.call_later(delay, call, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_a_broker_that_keeps_dying_is_started_more_and_more_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0])
            loop = Delays(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", loop)
            for count in range(1, 6):
                broker = await FakeBroker(0).register(c.port)
                broker.hang_up()
                await until(lambda count=count: len(c.launcher.started) == count)
            assert loop.delays == [0, 0, 0, 0.5, 1], "the first ones at once"
            gaps = [b - a for a, b in zip(c.launcher.times, c.launcher.times[1:], strict=False)]
            assert gaps[2] >= 0.45
            assert gaps[3] >= 0.9

    run(test())


def test_a_broker_nobody_expects_is_not_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            broker = await FakeBroker(5).register(c.port)
            broker.hang_up()
            await until(lambda: not c.metadata.brokers[5].alive)
            assert c.launcher.started == []

    run(test())


def test_a_silent_broker_is_hung_up_on_killed_and_succeeded(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path, lease_ms=1000) as c:
            silent = await FakeBroker(0).register(c.port)
            talker = await FakeBroker(1).register(c.port)
            c.server.expect([0, 1])

            async def talk() -> None:
                while True:
                    talker.send(Heartbeat(1.0, Load(connections=3, requests=4)))
                    await asyncio.sleep(0.1)

            talking = asyncio.ensure_future(talk())
            await silent.lost.wait()
            await until(lambda: 0 in c.launcher.started)
            assert c.launcher.killed == [0]
            assert talker.of(Confirmed), "heartbeats are answered: that is the broker's lease"
            assert not talker.lost.is_set()
            assert c.server.status().brokers[1].load == Load(connections=3, requests=4)
            talking.cancel()

    run(test())


class Clock:
    """The loop with a clock that the test puts forward."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ahead = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_a_controller_that_stood_still_gives_no_broker_up_for_what_it_has_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0, 1])  # 1 has been there, and says its hello while we stand still
            broker = await FakeBroker(0).register(c.port)
            clock = Clock(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", clock)
            clock.ahead = 100.0
            c.server._tick()
            assert (await create(broker, "t"))["error_code"] == 0
            assert (c.launcher.started, c.launcher.killed) == ([], [])
            for _ in range(5):  # ticks in time: now it is the brokers who are silent
                clock.ahead += 16.0
                c.server._tick()
            await broker.lost.wait()
            await until(lambda: sorted(c.launcher.killed) == [0, 1])

    run(test())


def test_a_broker_that_gets_no_cpu_is_waited_for_and_nobody_else_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a starved machine brokers were killed for their silence, and starting others starved it more."""

    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0, 1])
            starved, other = await FakeBroker(0).register(c.port), await FakeBroker(1).register(c.port)
            await create(starved, "t", partitions=2, factor=2)
            before = [c.leader("t", index) for index in (0, 1)]
            clock = Clock(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", clock)

            async def ticks(count: int) -> None:
                for _ in range(count):
                    clock.ahead += 15.0
                    beats = len(other.of(Confirmed))
                    other.send(Heartbeat(0.0, Load()))
                    await other.hear(Confirmed, beats + 1)
                    c.server._tick()

            c.launcher.sights[0] = Sight(Doing.RUNNABLE, 0.2)
            await ticks(40)  # ten leases
            assert c.launcher.killed == []
            assert [c.leader("t", index) for index in (0, 1)] == before
            c.launcher.sights[0] = Sight(Doing.NOTHING, 0.2)  # now it is stopped
            await ticks(4)
            await starved.lost.wait()
            await until(lambda: c.launcher.killed == [0])
            assert {c.leader("t", index).leader for index in (0, 1)} == {1}

    run(test())


async def hung_up_unanswered(c: Controller, broker_id: int, epoch: int) -> None:
    """A broker says hello and, tired of waiting, hangs up: a busy controller reads both at once."""
    before = set(c.server._sessions)
    impatient = await FakeBroker(broker_id, epoch).connect(c.port)
    (its_end,) = await until(lambda: set(c.server._sessions) - before)
    impatient.send(impatient.hello())
    assert impatient.protocol.transport is not None
    impatient.protocol.transport.close()
    await impatient.lost.wait()
    await until(lambda: its_end not in c.server._sessions, what="the hello and the end after it to be read")


def test_a_broker_that_hung_up_before_its_hello_was_answered_is_not_dead(tmp_path: Path) -> None:
    """A starved controller read the hang-up as a death, killed a sound broker, and started another one."""

    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0, 1])
            one, _ = await FakeBroker(0).register(c.port), await FakeBroker(1).register(c.port)
            await create(one, "t", factor=2)
            before = c.leader("t")
            await hung_up_unanswered(c, 0, one.epoch)
            assert one.lost.is_set(), "the connection it had before is over as well"
            assert (c.launcher.killed, c.launcher.started) == ([], [])
            assert c.metadata.brokers[0].alive
            assert c.leader("t") == before
            assert not c.server.ready(), "nor does it count as one that knows of the others"
            assert (await FakeBroker(0, one.epoch).register(c.port)).epoch == one.epoch
            await until(c.server.ready)
            assert c.launcher.killed == []

    run(test())


@pytest.mark.parametrize("sight", [None, Sight(Doing.RUNNABLE, 0.0)])
def test_one_that_hung_up_unanswered_and_does_not_come_again_is_judged_by_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sight: Sight | None
) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0])
            broker = await FakeBroker(0).register(c.port)
            if sight is not None:
                c.launcher.sights[0] = sight
            await hung_up_unanswered(c, 0, broker.epoch)
            clock = Clock(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", clock)
            for _ in range(8):  # two leases
                clock.ahead += 15.1
                c.server._tick()
            assert c.launcher.killed == ([0] if sight is None else [])
            assert c.metadata.brokers[0].alive is (sight is not None)

    run(test())


def test_one_that_hung_up_unanswered_and_could_not_start_is_started_again_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.start([0])
            await hung_up_unanswered(c, 0, -1)
            c.server.start_failed(0)
            await until(lambda: c.launcher.started == [0, 0])

    run(test())


@pytest.mark.parametrize("doing", [Doing.NOTHING, Doing.RUNNABLE])
def test_a_broker_that_is_asleep_or_busy_without_a_word_is_given_up_after_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doing: Doing
) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.expect([0])
            await FakeBroker(0).register(c.port)
            clock = Clock(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", clock)
            for tick in range(5):
                c.launcher.sights[0] = Sight(doing, 15.0 * tick)
                clock.ahead += 15.1
                c.server._tick()
            await until(lambda: c.launcher.killed == [0])

    run(test())


def test_a_start_that_failed_is_tried_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            c.server.start([0])
            assert c.launcher.started == [0]
            c.server.start_failed(0)  # the process died before it could register
            await until(lambda: c.launcher.started == [0, 0])
            assert c.launcher.times[1] - c.launcher.times[0] >= 0.4
            broker = await FakeBroker(0).register(c.port)
            c.server.start_failed(0)  # news of the first one, too late
            await create(broker, "t")
            assert c.launcher.started == [0, 0]

    run(test())


def test_a_broker_that_takes_longer_than_a_lease_to_recover_is_left_to_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            await FakeBroker(0).register(c.port)
        async with controller(tmp_path, lease_ms=1000) as c:
            assert c.metadata.brokers[0].alive, "as the log of the last run says"
            c.server.start([0])
            assert not c.metadata.brokers[0].alive
            assert not c.server.ready()
            await asyncio.sleep(1.6)  # what is shown is that nothing happens
            assert (c.launcher.started, c.launcher.killed) == ([0], [])
            await FakeBroker(0).register(c.port)
            await until(c.server.ready)

    run(test())


# --- restarts of the controller ---


def test_brokers_that_outlive_the_controller_register_again_without_an_election(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            broker = await FakeBroker(0).register(c.port)
            await create(broker, "t", partitions=3)
            before = [c.leader("t", i) for i in range(3)]
        await broker.lost.wait()
        async with controller(tmp_path) as c:
            c.server.expect([0])
            again = await FakeBroker(0, broker.epoch).register(c.port)
            assert again.epoch == broker.epoch
            assert [c.leader("t", i) for i in range(3)] == before
            image = (await again.hear(Image)).metadata
            assert image.controller_epoch == 2
            assert (await create(again, "u"))["error_code"] == 0
            assert c.launcher.started == []

    run(test())


def test_a_restarted_controller_waits_a_lease_before_it_gives_a_broker_up(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            broker = await FakeBroker(0).register(c.port)
            await create(broker, "t")
        started = asyncio.get_running_loop().time()
        async with controller(tmp_path, lease_ms=1000) as c:
            c.server.expect([0])
            assert c.leader("t").leader == 0
            await until(lambda: c.launcher.started == [0])
            assert c.launcher.times[0] - started >= 0.95
            assert c.leader("t").leader == NO_LEADER

    run(test())


def test_a_restarted_controller_waits_for_a_broker_that_gets_no_cpu_to_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knew no pids of its predecessor's brokers, and killed those of a starved machine."""

    async def test() -> None:
        async with controller(tmp_path) as c:
            await create(await FakeBroker(0).register(c.port), "t")
        async with controller(tmp_path) as c:
            c.server.expect([0])
            before = c.leader("t")
            clock = Clock(asyncio.get_running_loop())
            monkeypatch.setattr(c.server, "_loop", clock)
            c.launcher.sights[0] = Sight(Doing.RUNNABLE, 0.2)
            for _ in range(12):  # three leases
                clock.ahead += 15.1
                c.server._tick()
            assert (c.launcher.killed, c.leader("t")) == ([], before)
            c.launcher.sights[0] = Sight(Doing.NOTHING, 0.2)  # now it is stopped
            for _ in range(4):
                clock.ahead += 15.1
                c.server._tick()
            assert c.launcher.killed == [0]
            assert c.leader("t").leader == NO_LEADER

    run(test())


def test_a_broker_that_was_dead_already_when_the_controller_restarted_is_started(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            broker = await FakeBroker(0).register(c.port)
            broker.hang_up()
            await until(lambda: not c.metadata.brokers[0].alive)
        async with controller(tmp_path, lease_ms=1000) as c:
            c.server.expect([0])
            await until(lambda: c.launcher.started == [0])

    run(test())


# --- changes ---


def test_a_change_is_answered_when_every_living_broker_has_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        monkeypatch.setattr(controller_server, "_ACK_WAIT_SECONDS", 3600.0)
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            slow = await FakeBroker(1, acks=False).register(c.port)
            one.ask("create_topics", 7, topics=[topic("t")])
            await until(lambda: "t" in c.metadata.topics)
            await until(lambda: any("t" in m.metadata.topics for m in slow.of(Image)))
            assert one.of(Answer) == []
            slow.send(Applied(c.metadata.version))
            assert plain((await one.hear(Answer)).result)[0]["name"] == "t"

    run(test())


def test_a_broker_that_never_acknowledges_delays_a_change_but_does_not_stop_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            await FakeBroker(1, acks=False).register(c.port)
            loop = asyncio.get_running_loop()
            asked = loop.time()
            assert (await create(one, "t"))["error_code"] == 0
            assert loop.time() - asked >= controller_server._ACK_WAIT_SECONDS * 0.9

    run(test())


def test_the_death_of_the_broker_that_was_waited_for_releases_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        monkeypatch.setattr(controller_server, "_ACK_WAIT_SECONDS", 3600.0)
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            slow = await FakeBroker(1, acks=False).register(c.port)
            one.ask("create_topics", topics=[topic("t")])
            await until(lambda: "t" in c.metadata.topics)
            slow.hang_up()
            assert plain((await one.hear(Answer)).result)[0]["error_code"] == 0

    run(test())


def test_a_refused_change_is_answered_at_once_and_logged_nowhere(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            await FakeBroker(1, acks=False).register(c.port)
            version = c.metadata.version
            result = await create(one, "t", factor=3)
            assert result["error_code"] == 38
            assert c.metadata.version == version

    run(test())


def test_an_operation_without_a_rule_is_an_error_of_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(topics.OPERATIONS, CreatePartitions)

    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            answer = await one.call("create_partitions", 1, topics=[])
            assert "CreatePartitions" in answer["error"]
            assert (await create(one, "t", number=2))["error_code"] == 0

    run(test())


def test_a_change_that_cannot_be_logged_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)

            def full(records: list[Any]) -> None:
                raise OSError(28, "no space left")

            with monkeypatch.context() as patch:
                patch.setattr(c.server.log, "append", full)
                answer = await one.call("create_topics", 1, topics=[topic("t")])
            assert "no space left" in answer["error"]
            assert "t" not in c.metadata.topics

    run(test())


def refuse(patch: pytest.MonkeyPatch, c: Controller) -> list[list[Any]]:
    """Have the disk refuse every change; returns what was refused so far."""
    refused: list[list[Any]] = []

    def full(records: list[Any]) -> None:
        if records:
            refused.append(records)
            raise OSError(28, "no space left")

    patch.setattr(c.server.log, "append", full)
    return refused


def test_a_death_that_cannot_be_logged_is_logged_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with controller(tmp_path, lease_ms=1000) as c:
            one = await FakeBroker(0).register(c.port)
            two = await FakeBroker(1).register(c.port)

            async def talk() -> None:
                while True:
                    for broker in (one, two):
                        broker.send(Heartbeat(1.0, Load()))
                    await asyncio.sleep(0.1)

            talking = asyncio.ensure_future(talk())
            await create(one, "t", partitions=2, factor=2)
            c.server.expect([0, 1])
            with monkeypatch.context() as patch:
                refused = refuse(patch, c)
                two.hang_up()
                await until(lambda: c.launcher.started == [1])
                await until(lambda: len(refused) > 3)
                assert c.metadata.brokers[1].alive
            await until(lambda: not c.metadata.brokers[1].alive)
            assert [c.leader("t", i).leader for i in (0, 1)] == [0, 0]
            assert (c.launcher.started, c.launcher.killed) == ([1], [1])
            version = c.metadata.version
            c.server._look_after_brokers(asyncio.get_running_loop().time())
            assert c.metadata.version == version, "it is logged once"
            talking.cancel()

    run(test())


def test_all_that_do_not_come_are_started_though_nothing_can_be_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            for broker_id in (0, 1):
                await FakeBroker(broker_id).register(c.port)
        async with controller(tmp_path, lease_ms=1000) as c:
            c.server.expect([0, 1])
            with monkeypatch.context() as patch:
                refused = refuse(patch, c)
                await until(lambda: c.launcher.started == [0, 1])
                assert len(refused) >= 2
            await until(lambda: not c.metadata.alive())

    run(test())


def test_brokers_are_looked_after_though_leadership_could_not_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with controller(tmp_path, lease_ms=1000) as c:
            silent = await FakeBroker(0).register(c.port)

            def refused(now: float) -> None:
                raise OSError(28, "no space left")

            monkeypatch.setattr(c.server, "_balance", refused)
            await silent.lost.wait()
            await until(lambda: not c.metadata.brokers[0].alive)

    run(test())


def test_a_loss_told_before_the_welcome_is_refused_so_that_it_is_told_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            one = await FakeBroker(0).register(c.port)
            await FakeBroker(1).register(c.port)
            await create(one, "t", factor=2)
            one.hang_up()
            await until(lambda: not c.metadata.brokers[0].alive)
            again = await FakeBroker(0, one.epoch).register(c.port)
            before = changed(c.leader("t"), isr=(0, 1))
            c.server._commit([partition_record("t", 0, before)])
            told = {"broker_id": 0, "partitions": [[c.metadata.topics["t"].id, 0]]}
            refused = await again.call("replica_torn", 1, **told, broker_epoch=one.epoch)
            assert "broker 0 is not registered at epoch 0" in refused["error"]
            assert c.leader("t") == before
            assert "error" not in await again.call("replica_torn", 2, **told, broker_epoch=again.epoch)
            assert c.leader("t").isr == (1,)

    run(test())


@pytest.mark.conformance("A-07", "A-08")
def test_the_offsets_topic_is_created_once_however_many_ask(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            brokers = [await FakeBroker(i).register(c.port) for i in range(3)]
            answers = await asyncio.gather(*(b.call("create_offsets_topic", 1) for b in brokers))
            assert [a["result"]["error_code"] for a in answers] == [0, 0, 0]
            made = c.metadata.topics[OFFSETS_TOPIC]
            assert len(made.partitions) == 50
            assert {len(p.replicas) for p in made.partitions} == {3}
            configs = dict(made.configs)
            assert configs["cleanup.policy"] == "compact"
            assert configs["compression.type"] == "producer"
            assert configs["segment.bytes"] == "104857600"
            image = brokers[2].of(Image)[-1].metadata
            assert image.topics[OFFSETS_TOPIC].id == made.id, "one topic, not three"

    run(test())


def test_producer_ids_are_never_given_twice_not_even_by_a_successor(tmp_path: Path) -> None:
    async def test() -> None:
        taken: list[int] = []
        for _ in range(2):
            async with controller(tmp_path) as c:
                one = await FakeBroker(0).register(c.port)
                two = await FakeBroker(1).register(c.port)
                for number in (1, 2):
                    for broker in (one, two):
                        block = (await broker.call("allocate_producer_ids", number))["result"]
                        taken += range(block["first"], block["first"] + block["count"])
        assert len(taken) == len(set(taken)) == 8000

    run(test())


# --- shards, status, the end ---


def test_spares_are_asked_of_the_launcher_for_the_broker_that_asks(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            nobody = await FakeBroker(9).connect(c.port)
            nobody.send(WantSpares(3))  # it has not said who it is
            broker = await FakeBroker(4).register(c.port)
            broker.send(WantSpares(2))
            await until(lambda: c.launcher.shards)
            assert c.launcher.shards == [(4, 2)]

    run(test())


def test_ready_means_that_all_expected_brokers_know_of_one_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path) as c:
            assert not c.server.ready(), "nobody is expected yet"
            c.server.start([0, 1])
            await FakeBroker(0).register(c.port)
            slow = await FakeBroker(1, acks=False).register(c.port)
            assert not c.server.ready()
            slow.send(Applied(c.metadata.version))
            await until(c.server.ready)

    run(test())


def test_a_stopping_controller_starts_nobody_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with controller(tmp_path, lease_ms=1000) as c:
            broker = await FakeBroker(0).register(c.port)
            c.server.expect([0])
            c.server.stopping = True
            broker.hang_up()
            c.server.start_failed(0)
            await until(lambda: c.server.status().brokers[0].pid is None)
            assert c.launcher.started == []

    run(test())
