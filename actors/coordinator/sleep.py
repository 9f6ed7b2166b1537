"""Whether a shard's process may be given back: nothing is under way, and no group has a member.

What has expired is removed first. Then the answer holds for as long as nobody asks the shard anything: only time can
change what it holds, and the answer says when.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.coordinator.expiry import Expiry
from actors.coordinator.group import GroupState
from actors.coordinator.messages import ListedGroup, MaySleepRequest, MaySleepResponse, Now, Token
from actors.coordinator.runtime import Runtime
from actors.coordinator.timers import Timer

GROUPS_MAX: Final = 1_000
"""A shard with more groups stays awake, because the broker keeps the list of groups of a shard that sleeps."""
_WRITES_MS: Final = 2_000
"""How long the answer waits for the writes by which expired offsets and groups that have ended are removed.

Without that the shard would be busy with them, and asked again after another `coterie.shard.idle.ms` only.
"""
_LOOK_MS: Final = 50
_WRITING: Final = "a write is under way"


class Sleep:
    """Answers `MaySleepRequest`."""

    def __init__(self, runtime: Runtime, expiry: Expiry) -> None:
        self._runtime = runtime
        self._expiry = expiry

    def may_sleep(self, token: Token, request: MaySleepRequest, now: Now) -> None:
        """Answer at once if the shard is busy, else when the expired offsets of all groups have been looked for."""
        self._runtime.park(token, request)
        if busy := self._busy_because():
            self._runtime.answer(token, MaySleepResponse(busy))
        else:
            self._expiry.run_at_once(partial(self._looked, token, now.monotonic_ms + _WRITES_MS), now)

    def _looked(self, token: Token, until_ms: int, due_ms: int | None, now: Now) -> None:
        busy = self._busy_because()
        if busy == _WRITING and now.monotonic_ms < until_ms:
            again = Timer(partial(self._expiry.run_at_once, partial(self._looked, token, until_ms)))
            self._runtime.timers.arm(again, now.monotonic_ms + _LOOK_MS)
            return
        if not busy and due_ms is not None and due_ms <= now.wall_ms:
            busy = "offsets have expired"
        self._runtime.answer(token, MaySleepResponse(busy) if busy else self._rest(due_ms))

    def _rest(self, due_ms: int | None) -> MaySleepResponse:
        groups = self._runtime.groups
        found = list(self._runtime.durable.items())
        topics = frozenset().union(*(durable.topics() for _, durable in found))
        listed = [
            ListedGroup(group_id, groups[group_id].protocol_type or "", groups[group_id].state.value)
            for group_id, _ in found
        ]
        return MaySleepResponse("", due_ms, tuple(sorted(topics)), tuple(listed))

    def _busy_because(self) -> str:
        runtime = self._runtime
        if runtime.writer.pending_groups():
            return _WRITING
        if len(runtime.groups) > GROUPS_MAX:
            return f"it has more than {GROUPS_MAX} groups"
        for group in runtime.groups.values():
            if group.state is not GroupState.EMPTY:
                return f"group {group.group_id} is {group.state}"
            if not group.is_vacant:
                return f"a member is about to join group {group.group_id}"
        if any(not isinstance(request, MaySleepRequest) for request in runtime.unanswered.values()):
            return "a request is under way"
        return ""
