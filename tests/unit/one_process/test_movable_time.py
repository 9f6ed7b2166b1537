"""A loop whose time can be moved on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

from actors.one_process.clock import MovableLoop, MovableTime, move
from actors.runtime.environment import Clock

HOUR = 3600.0


def _run(work: Coroutine[Any, Any, None], time: MovableTime) -> None:
    with asyncio.Runner(loop_factory=lambda: MovableLoop(time)) as runner:
        runner.run(work)


def test_timers_within_a_move_fire_in_their_order_at_their_times() -> None:
    time = MovableTime()
    fired: list[tuple[str, int]] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for name, seconds in (("late", 300), ("early", 100), ("between", 200), ("beyond", HOUR)):
            loop.call_later(seconds, lambda name=name: fired.append((name, round(loop.time() - begun))))
        await move(time, 400)

    _run(go(), time)
    assert fired == [("early", 100), ("between", 200), ("late", 300)]


def test_all_clocks_are_moved_together() -> None:
    time = MovableTime(Clock(lambda: 5.0, lambda: 5000, lambda: 77_000))
    time.left_s = HOUR
    time.skip(HOUR)
    clock = time.clock
    assert (clock.monotonic(), clock.monotonic_ms(), clock.wall_ms()) == (5.0 + HOUR, 3_605_000, 3_677_000)


def test_time_does_not_jump_past_what_a_thread_does() -> None:
    time = MovableTime()
    begun, ended = threading.Event(), threading.Event()
    passed: list[float] = []

    def work() -> None:
        begun.set()
        ended.wait(30)

    async def go() -> None:
        loop = asyncio.get_running_loop()
        at = loop.time()
        done = loop.run_in_executor(None, work)
        done.add_done_callback(lambda _: passed.append(loop.time() - at))
        begun.wait(30)
        loop.call_soon(ended.set)
        await move(time, HOUR)

    _run(go(), time)
    assert passed[0] < HOUR / 2


def test_time_goes_on_as_usual_after_a_move() -> None:
    time = MovableTime()

    async def go() -> None:
        loop = asyncio.get_running_loop()
        await move(time, HOUR)
        assert time.left_s == 0.0
        begun = loop.time()
        await asyncio.sleep(0)
        assert loop.time() - begun < HOUR

    _run(go(), time)


def test_a_long_move_leaps_in_its_middle_and_is_lived_through_at_its_ends() -> None:
    time = MovableTime()
    ticks: list[float] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def tick() -> None:
            ticks.append(loop.time() - begun)
            loop.call_later(10, tick)

        loop.call_later(10, tick)
        await move(time, 240 * HOUR)

    _run(go(), time)
    assert 160 < len(ticks) < 190
    steps = [after - before for before, after in pairwise(ticks)]
    assert len([step for step in steps if step > 11]) == 1


def test_what_loads_when_a_leap_is_over_and_looks_ten_minutes_later_looks_before_the_move_ends() -> None:
    time = MovableTime()
    fired: list[str] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(120 * HOUR, lambda: loop.call_later(605, fired.append, "checked"))
        await move(time, 240 * HOUR)

    _run(go(), time)
    assert fired == ["checked"]
