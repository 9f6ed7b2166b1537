"""The timers of classic members of consumer groups.

A member that was told to join again has its rebalance timeout for that, and as long to ask for its assignment after it
has joined. Its session lasts as long as it has said.
"""

from __future__ import annotations

from functools import partial

from actors.coordinator.classic.messages import JoinGroupRequest
from actors.coordinator.consumer.executor import Executor
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.leaving import EndOfWait
from actors.coordinator.consumer.values import MemberMetadata
from actors.coordinator.timers import Timer, nothing
from actors.coordinator.turn import Now


class Waits:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._timers = executor.runtime.timers

    def heard(self, group: ConsumerGroup, member_id: str, member: MemberMetadata, now: Now) -> None:
        """A member has given a sign of life."""
        assert member.classic is not None
        self._executor.timing.heard(group, member_id, now, member.classic.session_timeout_ms)

    def joined(self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, now: Now) -> None:
        """A member has joined, and has to ask for its assignment now."""
        timers = self._executor.timing.of(group, member_id)
        self._executor.timing.heard(group, member_id, now, request.session_timeout_ms)
        _stop(timers.rebalance)
        due_ms = now.monotonic_ms + request.effective_rebalance_timeout_ms
        self._start(group, member_id, timers.sync, "sync timed out", due_ms)

    def synced(self, group: ConsumerGroup, member_id: str, member: MemberMetadata, now: Now) -> None:
        """A member has got its assignment."""
        _stop(self._executor.timing.of(group, member_id).sync)
        self.heard(group, member_id, member, now)

    def told(self, group: ConsumerGroup, member_id: str, member: MemberMetadata, now: Now) -> None:
        """A member was told to join again. Telling it once more gives it no more time."""
        timer = self._executor.timing.of(group, member_id).rebalance
        if timer.due_ms is None:
            self._start(
                group, member_id, timer, "member did not join again", now.monotonic_ms + member.rebalance_timeout_ms
            )

    def _start(self, group: ConsumerGroup, member_id: str, timer: Timer, reason: str, due_ms: int) -> None:
        def end(now: Now) -> None:
            retry = partial(self._start, group, member_id, timer, reason)
            self._executor.submit(group, EndOfWait(member_id, reason, is_over, retry), now)

        def is_over() -> bool:
            return timer.due_ms is None and timer.action is end

        self._timers.start(timer, due_ms, end)


def _stop(timer: Timer) -> None:
    timer.cancel()
    timer.action = nothing
