"""Brokers that die, fall silent or get no CPU, and what the controller makes of it, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.controller.decisions.elections import leadership_balanced
from actors.links.connection import ControlProtocol
from actors.links.control import (
    Confirmed,
    Heartbeat,
    Image,
)
from actors.links.status import Load
from actors.runtime.liveness import Doing, Sight
from placement.metadata import NO_LEADER, BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo, changed
from placement.records import BrokerRecord, PartitionRecord, TopicRecord
from tests.support.controller_world import Controller, controller, create
from tests.support.runtime_helpers import Clock, FakeBroker, until

# --- deaths ---


@pytest.mark.conformance("N-D-02")
async def test_the_end_of_a_connection_is_a_death_its_partitions_move_and_it_is_started_again(tmp_path: Path) -> None:
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


async def test_a_broker_that_comes_back_leads_what_it_led_at_a_higher_epoch(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("enabled", [True, False])
async def test_leadership_goes_back_to_a_preferred_replica_once_it_is_in_sync_again(
    tmp_path: Path, enabled: bool
) -> None:
    async with controller(tmp_path, auto_leader_rebalance_enable=str(enabled).lower()) as c:
        one = await FakeBroker(0).register(c.port)
        two = await FakeBroker(1).register(c.port)
        await create(one, "t", partitions=2, factor=2)
        index, balanced = next(i for i in (0, 1) if c.leader("t", i).replicas[0] == 1), c.server.liveness.began
        two.hang_up()
        await until(lambda: c.leader("t", index).leader == 0)
        await FakeBroker(1).register(c.port)
        c.server.balance(balanced + 300)
        assert c.leader("t", index).leader == 0, "the other is not in sync"
        before = changed(c.leader("t", index), isr=(1, 0))
        c.server.publisher.commit([PartitionRecord("t", index, before)])
        c.server.balance(balanced + 599)
        assert c.leader("t", index) == before, "it is not time to look"
        c.server.balance(balanced + 600)
        after = c.leader("t", index)
        assert (after.leader, after.leader_epoch) == ((1, before.leader_epoch + 1) if enabled else (0, 1))


def test_a_broker_that_leads_most_of_what_it_is_preferred_for_is_left_alone() -> None:
    metadata = ClusterMetadata()
    for broker in (0, 1):
        metadata.apply(BrokerRecord(BrokerInfo(broker, "h", 1, None, 1)))
    home, away = PartitionInfo(0, 0, (0, 1), (0, 1)), PartitionInfo(1, 4, (0, 1), (0, 1))
    metadata.apply(TopicRecord(TopicInfo("t", bytes(16), (*[home] * 9, away))))
    assert leadership_balanced(metadata, 10) == []
    assert leadership_balanced(metadata, 9) == [PartitionRecord("t", 9, changed(away, leader=0, leader_epoch=5))]
    metadata.apply(PartitionRecord("t", 9, changed(away, adding=(2,))))
    assert leadership_balanced(metadata, 9) == [], "while it moves to another broker"


class Delays(Clock):
    """The loop, and after how long brokers are to be started."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.delays: list[float] = []

    def call_later(self, delay: float, call: Any, *args: Any) -> asyncio.TimerHandle:
        if call.__name__ == "_start_if_missing":
            self.delays.append(delay)
        return self._loop.call_later(delay, call, *args)


async def test_a_broker_that_keeps_dying_is_started_more_and_more_slowly(tmp_path: Path) -> None:
    loop = Delays(asyncio.get_running_loop())
    async with controller(tmp_path, clock=loop) as c:
        c.server.expect([0])
        for count in range(1, 6):
            broker = await FakeBroker(0).register(c.port)
            broker.hang_up()
            await until(lambda count=count: len(c.launcher.started) == count)
        assert loop.delays == [0, 0, 0, 0.5, 1], "the first ones at once"
        gaps = [b - a for a, b in zip(c.launcher.times, c.launcher.times[1:], strict=False)]
        assert gaps[2] >= 0.45
        assert gaps[3] >= 0.9


async def test_a_broker_nobody_expects_is_not_started_again(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(5).register(c.port)
        broker.hang_up()
        await until(lambda: not c.metadata.brokers[5].alive)
        assert c.launcher.started == []


async def test_a_silent_broker_is_hung_up_on_killed_and_succeeded(tmp_path: Path) -> None:
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


async def test_a_controller_that_stood_still_gives_no_broker_up_for_what_it_has_not_read(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0, 1])  # 1 has been there, and says its hello while we stand still
        broker = await FakeBroker(0).register(c.port)
        c.clock.ahead = 100.0
        c.server.tick()
        assert (await create(broker, "t"))["error_code"] == 0
        assert (c.launcher.started, c.launcher.killed) == ([], [])
        for _ in range(5):  # ticks in time: now it is the brokers who are silent
            c.clock.ahead += 16.0
            c.server.tick()
        await broker.lost.wait()
        await until(lambda: sorted(c.launcher.killed) == [0, 1])


async def test_a_broker_that_gets_no_cpu_is_waited_for_and_nobody_else_leads(tmp_path: Path) -> None:
    """On a starved machine brokers were killed for their silence, and starting others starved it more."""
    async with controller(tmp_path) as c:
        c.server.expect([0, 1])
        starved, other = await FakeBroker(0).register(c.port), await FakeBroker(1).register(c.port)
        await create(starved, "t", partitions=2, factor=2)
        before = [c.leader("t", index) for index in (0, 1)]

        async def ticks(count: int) -> None:
            for _ in range(count):
                c.clock.ahead += 15.0
                beats = len(other.of(Confirmed))
                other.send(Heartbeat(0.0, Load()))
                await other.hear(Confirmed, beats + 1)
                c.server.tick()

        c.launcher.sights[0] = Sight(Doing.RUNNABLE, 0.2)
        await ticks(40)  # ten leases
        assert c.launcher.killed == []
        assert [c.leader("t", index) for index in (0, 1)] == before
        c.launcher.sights[0] = Sight(Doing.NOTHING, 0.2)  # now it is stopped
        await ticks(4)
        await starved.lost.wait()
        await until(lambda: c.launcher.killed == [0])
        assert {c.leader("t", index).leader for index in (0, 1)} == {1}


def connected(c: Controller) -> set[ControlProtocol]:
    return {each.protocol for each in c.server.sessions.connected}


async def hung_up_unanswered(c: Controller, broker_id: int, epoch: int) -> None:
    """A broker says hello and, tired of waiting, hangs up: a busy controller reads both at once."""
    before = connected(c)
    impatient = await FakeBroker(broker_id, epoch).connect(c.port)
    (its_end,) = await until(lambda: connected(c) - before)
    impatient.send(impatient.hello())
    assert impatient.protocol.transport is not None
    impatient.protocol.transport.close()
    await impatient.lost.wait()
    await until(lambda: its_end not in connected(c), what="the hello and the end after it to be read")


async def test_a_broker_that_hung_up_before_its_hello_was_answered_is_not_dead(tmp_path: Path) -> None:
    """A starved controller read the hang-up as a death, killed a sound broker, and started another one."""
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


@pytest.mark.parametrize("sight", [None, Sight(Doing.RUNNABLE, 0.0)])
async def test_one_that_hung_up_unanswered_and_does_not_come_again_is_judged_by_its_process(
    tmp_path: Path, sight: Sight | None
) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0])
        broker = await FakeBroker(0).register(c.port)
        if sight is not None:
            c.launcher.sights[0] = sight
        await hung_up_unanswered(c, 0, broker.epoch)
        for _ in range(8):  # two leases
            c.clock.ahead += 15.1
            c.server.tick()
        assert c.launcher.killed == ([0] if sight is None else [])
        assert c.metadata.brokers[0].alive is (sight is not None)


async def test_one_that_hung_up_unanswered_and_could_not_start_is_started_again_at_once(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.start([0])
        await hung_up_unanswered(c, 0, -1)
        c.server.start_failed(0, "it ended")
        await until(lambda: c.launcher.started == [0, 0])


@pytest.mark.parametrize("doing", [Doing.NOTHING, Doing.RUNNABLE])
async def test_a_broker_that_is_asleep_or_busy_without_a_word_is_given_up_after_its_lease(
    tmp_path: Path, doing: Doing
) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0])
        await FakeBroker(0).register(c.port)
        for tick in range(5):
            c.launcher.sights[0] = Sight(doing, 15.0 * tick)
            c.clock.ahead += 15.1
            c.server.tick()
        await until(lambda: c.launcher.killed == [0])


@pytest.mark.conformance("N-A-02")
async def test_a_start_that_failed_is_tried_again(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.start([0])
        assert c.launcher.started == [0]
        c.server.start_failed(0, "it ended")  # the process died before it could register
        await until(lambda: c.launcher.started == [0, 0])
        assert c.launcher.times[1] - c.launcher.times[0] >= 0.4
        broker = await FakeBroker(0).register(c.port)
        c.server.start_failed(0, "it ended")  # news of the first one, too late
        await create(broker, "t")
        assert c.launcher.started == [0, 0]


async def test_a_broker_that_takes_longer_than_a_lease_to_recover_is_left_to_it(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        await FakeBroker(0).register(c.port)
    async with controller(tmp_path, lease_ms=1000) as c:
        assert c.metadata.brokers[0].alive, "as the log of the last run says"
        c.server.start([0])
        assert not c.metadata.brokers[0].alive
        assert not c.server.ready()
        await asyncio.sleep(1.6)  # time in which nothing may happen
        assert (c.launcher.started, c.launcher.killed) == ([0], [])
        await FakeBroker(0).register(c.port)
        await until(c.server.ready)
