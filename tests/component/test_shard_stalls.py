"""A shard's process, or its broker, stands still, and members' heartbeats wait unread: nobody is expelled for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.links.relay import PAYLOADS, Figures, Kind
from actors.runtime.environment import REAL, Clock, Environment
from actors.runtime.liveness import SharedClock
from actors.wire import messages
from actors.wire.errors import ErrorCode
from tests.support.runtime_helpers import until
from tests.support.shard_broker import FakeBroker, shard

Join = messages.JoinGroupRequest
Sync = messages.SyncGroupRequest


@dataclass
class Timer:
    """One that waits for the test."""

    due_ms: int
    call: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Time:
    """The machine's monotonic clock, put forward by the test, and the loop's timers of a second and more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        loop = asyncio.get_running_loop()
        self._soon = loop.call_later
        self._timers: list[Timer] = []
        monkeypatch.setattr(loop, "call_later", self.call_later)

    def monotonic_ms(self) -> int:
        return REAL.clock.monotonic_ms() + self.ahead_ms

    def call_later(self, delay: float, call: Callable[..., object], *args: Any, **named: Any) -> Any:
        if delay < 1:
            return self._soon(delay, call, *args, **named)
        self._timers.append(Timer(self.monotonic_ms() + int(delay * 1000), partial(call, *args)))
        return self._timers[-1]

    async def go_on(self, ms: int) -> None:
        """Go forward, and run all that is due then."""
        self.ahead_ms += ms
        due = [each for each in self._timers if each.due_ms <= self.monotonic_ms() and not each.is_cancelled]
        self._timers = [each for each in self._timers if each not in due]
        for timer in due:
            timer.call()
        if due:
            await asyncio.sleep(0.02)  # a timer of the process may ask the loop for a short one


def environment(clock: Time) -> Environment:
    return Environment(clock=Clock(monotonic_ms=clock.monotonic_ms))


async def member(broker: FakeBroker, session_ms: int) -> messages.HeartbeatRequest:
    """The one member of a stable group; its heartbeat."""
    protocol = Join.JoinGroupRequestProtocol(name="range", metadata=b"")
    asked = Join(
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = await broker.answer(broker.ask(asked, 3))
    assert joined.error_code == 0
    who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    given = Sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = await broker.answer(broker.ask(Sync(**who, assignments=[given]), 3))
    assert synced.error_code == 0
    return messages.HeartbeatRequest(**who)


def test_deadlines_do_not_count_time_in_which_the_process_or_its_broker_stood_still() -> None:
    clock = SharedClock(5_000)
    for now_ms in range(5_000, 8_001, 250):
        clock.heard(now_ms)
        assert clock.now_ms(now_ms) == now_ms
    assert clock.now_ms(8_900) == 8_900
    assert clock.now_ms(68_000) == 9_000
    clock.heard(68_000)
    assert clock.now_ms(68_000) == 9_000, "it does not go on from there either"
    assert clock.now_ms(68_250) == 9_250


async def test_a_member_whose_heartbeat_waits_in_the_broker_survives_a_stall_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard's process ran all the while: its timers were in time, and expelled members it could not hear."""
    clock = Time(monkeypatch)
    async with shard(tmp_path, environment(clock)) as (_, broker):
        await broker.serving()
        heartbeat = await member(broker, 20_000)
        for _ in range(240):
            await clock.go_on(250)
        answer = await broker.answer(broker.ask(heartbeat, 3))
        assert answer.error_code == ErrorCode.NONE


async def test_a_member_that_says_nothing_while_the_broker_pings_is_expelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Time(monkeypatch)
    async with shard(tmp_path, environment(clock)) as (_, broker):
        await broker.serving()
        heartbeat = await member(broker, 20_000)
        for pings in range(1, 101):
            clock.ahead_ms += 250
            broker.link.send(Kind.PING)
            await broker.hear(Kind.PONG, pings)
            await clock.go_on(0)
        answer = await broker.answer(broker.ask(heartbeat, 3))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_came_while_the_process_was_in_the_middle_of_something_is_read_before_sessions_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop runs what is due, and what that asked to be called soon, before it reads again."""
    async with shard(tmp_path) as (_, broker):
        await broker.serving(group_min_session_timeout_ms=100)
        heartbeat = await member(broker, 400)
        slots: list[int] = []

        def stands_still(protocol: Any, kind: int, a: int, b: int, payload: bytes) -> None:
            if kind == Kind.PONG and not slots:
                slots.append(broker.ask(heartbeat, 3))
                broker.link.flush()
                time.sleep(0.6)
            broker.heard.append((kind, a, b, payload))

        monkeypatch.setattr(broker, "hear_one", stands_still)
        broker.link.send(Kind.PING)
        await until(lambda: slots)
        answer = await broker.answer(slots[0])
        assert answer.error_code == ErrorCode.NONE
        assert PAYLOADS.read(Figures, (await broker.hear(Kind.PONG))[2]).groups == {"Stable": 1}
