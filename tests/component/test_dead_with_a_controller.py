"""A broker dies together with its controller, over real sockets: the next controller has the word of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.links.control import Confirmed, Heartbeat, Join, Joined
from actors.links.status import Load
from actors.runtime.liveness import Doing, Sight
from tests.support.controller_world import Controller, controller, create
from tests.support.runtime_helpers import FakeBroker, until


@asynccontextmanager
async def next_controller(
    path: Path, came: tuple[int, ...] = (0, 1), factor: int = 3, leaving: tuple[int, ...] = ()
) -> AsyncIterator[tuple[Any, ...]]:
    """The next controller of a cluster of three brokers, and those that `came` to it; others have had the time for it.

    Those `leaving` are about to stop.
    """
    async with controller(path) as c:
        first = [await FakeBroker(number).register(c.port) for number in range(3)]
        await create(first[0], "t", partitions=3, factor=factor)
        for broker_id in leaving:
            await first[broker_id].call("broker_leaving", 2, broker_id=broker_id)
    async with controller(path) as c:
        c.server.expect([0, 1, 2])
        brokers = [await FakeBroker(each.broker_id, each.epoch).register(c.port) for each in (first[n] for n in came)]
        c.clock.ahead += 0.6
        yield c, *brokers


async def say(broker: FakeBroker, *unreachable: int) -> None:
    """Have the controller hear that these have hung up on a broker."""
    before = len(broker.of(Confirmed))
    broker.send(Heartbeat(0.0, Load(), unreachable=unreachable))
    await broker.hear(Confirmed, before + 1)


async def judged(c: Controller) -> None:
    """Wait until the controller has decided whether anybody has died."""
    await until(lambda: not c.server.liveness.is_judging, what="a decision")


def leaders(c: Controller) -> set[int]:
    return {c.leader("t", index).leader for index in range(3)}


def runs(c: Controller) -> bool:
    """True if broker 2 counts as running, and has been left alone."""
    return c.metadata.brokers[2].alive and leaders(c) == {0, 1, 2} and c.launcher.started == c.launcher.killed == []


async def test_one_that_has_hung_up_on_all_others_is_lost_without_a_lease_to_come_and_started(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        await say(zero, 2)
        await judged(c)
        assert runs(c), "the other one may be connected to it"
        await say(one, 2)
        await judged(c)
        assert not c.metadata.brokers[2].alive
        assert leaders(c) == {0, 1}
        await until(lambda: c.launcher.started == [2], what="its next process")


async def test_one_that_another_still_reaches_runs(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        await say(one, 2)
        await say(one)
        await say(zero, 2)
        await judged(c)
        assert runs(c)


async def test_one_has_half_a_second_to_find_the_next_controller(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        c.clock.ahead -= 0.6
        c.server.liveness.began = c.clock.time()
        await say(zero, 2)
        await say(one, 2)
        assert runs(c)
        await until(lambda: not c.metadata.brokers[2].alive, what="the end of its time, with no word more")
        assert c.clock.time() - c.server.liveness.began >= 0.5


async def test_one_has_half_a_second_after_the_last_one_that_has_come(tmp_path: Path) -> None:
    """They look for the next controller at the same time."""
    async with next_controller(tmp_path, came=(0,)) as (c, zero):
        one = await FakeBroker(1, 0).register(c.port)
        await say(zero, 2)
        await say(one, 2)
        assert runs(c)
        await until(lambda: not c.metadata.brokers[2].alive, what="the end of its time, with no word more")


async def test_one_that_has_come_back_and_reads_its_logs_is_left_to_it(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        two = await FakeBroker(2).connect(c.port)
        two.send(Join(2))
        await two.hear(Joined)
        await say(zero, 2)
        await say(one, 2)
        await judged(c)
        assert runs(c)


async def test_one_whose_process_is_seen_on_this_machine_is_judged_by_that(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        c.launcher.sights[2] = Sight(Doing.RUNNABLE, 0.0)
        await say(zero, 2)
        await say(one, 2)
        await judged(c)
        assert runs(c)


async def test_nobody_is_lost_by_the_word_of_one_that_was_never_connected_to_it(tmp_path: Path) -> None:
    """A broker pushes to those that follow it, and is connected to no others."""
    async with next_controller(tmp_path, came=(0,), factor=1) as (c, zero):
        await say(zero, 2)
        await judged(c)
        assert c.metadata.brokers[2].alive


async def test_one_that_is_here_is_not_lost_by_the_word_of_others(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        two = await FakeBroker(2, 0).register(c.port)
        await say(zero, 2)
        await say(one, 2)
        await judged(c)
        assert runs(c)
        assert not two.lost.is_set()


async def test_one_is_not_lost_before_all_have_come_that_may_be_connected_to_it(tmp_path: Path) -> None:
    async with next_controller(tmp_path, came=(0,)) as (c, zero):
        await say(zero, 2)
        await judged(c)
        assert runs(c)
        await say(zero, 1, 2)
        await judged(c)
        assert leaders(c) == {0}, "both have hung up, by all who are left"


async def test_one_that_is_about_to_stop_hangs_up_before_its_end(tmp_path: Path) -> None:
    async with next_controller(tmp_path, leaving=(2,)) as (c, zero, one):
        await say(zero, 2)
        await say(one, 2)
        await judged(c)
        assert c.metadata.brokers[2].leaving
        assert c.metadata.brokers[2].alive


async def test_a_word_that_is_old_does_not_count(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        await say(zero, 2)
        await judged(c)
        c.clock.ahead += 3.0
        await say(one, 2)
        await judged(c)
        assert runs(c)
        await say(zero, 2)
        await judged(c)
        assert not c.metadata.brokers[2].alive


async def test_a_controller_that_stood_still_reads_first_who_has_come(tmp_path: Path) -> None:
    async with next_controller(tmp_path) as (c, zero, one):
        c.clock.ahead -= 0.6
        c.server.liveness.began = c.clock.time()
        await say(zero, 2)
        await say(one, 2)
        c.clock.ahead += 2.0
        again = c.clock.time()
        while c.metadata.brokers[2].alive:  # it has another wait, and they go on to say so
            await say(zero, 2)
            await say(one, 2)
        assert c.clock.time() - again >= 0.5


async def test_a_controller_that_stood_still_reads_first_who_has_come_before_the_word(tmp_path: Path) -> None:
    """A broker came while nothing was read, and so did the word of all others that it had hung up on them."""
    async with next_controller(tmp_path) as (c, zero, one):
        for broker in (zero, one):
            broker.send(Heartbeat(0.0, Load(), unreachable=(2,)))
        await FakeBroker(2, 0).register(c.port)
        await judged(c)
        assert runs(c)
