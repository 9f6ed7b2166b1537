"""Deletes the offsets of deleted topics from all groups, in whatever state these are.

A turn looks at a share of all offsets (sweep.py). If a group commits meanwhile to a new topic of the same name, it is
looked at first, so that its tombstones stand before the new offset in the log.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import chain
from typing import Any

from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import DurableGroup
from actors.coordinator.groups.messages import (
    DeleteTopicOffsetsRequest,
    DeleteTopicOffsetsResponse,
    TopicPartition,
)
from actors.coordinator.groups.offset_records import OffsetsDeleted, OffsetsPut
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.sweep import PAUSE_MS, in_writes, share
from actors.coordinator.timers import Timer
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write


class TopicDeletions:
    """The deletions under way in one shard."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self._sweeps: list[_Sweep] = []

    def handle(self, token: Token, request: DeleteTopicOffsetsRequest, now: Now) -> None:
        """Begin a deletion. It is answered when the outcome of all its writes is known."""
        self._runtime.park(token, request)
        self._sweeps = [each for each in self._sweeps if each.left]
        sweep = _Sweep(self._runtime, token, request)
        self._sweeps.append(sweep)
        sweep.begin(now)

    def before_commit(self, group_id: str, topics: Iterable[str], now: Now) -> None:
        """To be called before a group commits to `topics`: deletes offsets of former topics of these names first."""
        for sweep in self._sweeps:
            if sweep.left and not sweep.topics.isdisjoint(topics):
                sweep.pull_forward(group_id, now)

    @property
    def under_way(self) -> bool:
        """True if groups are left to look at."""
        return bool(self._sweeps) and any(sweep.left for sweep in self._sweeps)

    def forget(self) -> None:
        """Give up all deletions, for the shard is unloaded. It answers what is parked itself."""
        for sweep in self._sweeps:
            sweep.left.clear()
        self._sweeps = []


class _Sweep:
    def __init__(self, runtime: GroupRuntime, token: Token, request: DeleteTopicOffsetsRequest) -> None:
        self.topics = request.topics
        self.left: deque[str] = deque()
        """The groups to look at. Those that are not in `_unseen` have been looked at already, by `before_commit`."""
        self._unseen: set[str] = set()
        self._runtime = runtime
        self._token = token
        self._request = request
        self._timer = Timer(self._turn)
        self._undecided: set[Write] = set()
        self._error: int = Error.NONE

    def begin(self, now: Now) -> None:
        for group_id, partitions in self._on_their_way().items():
            self._delete(group_id, partitions, now)
        self.left.extend(self._runtime.groups)
        self._unseen.update(self.left)
        self._turn(now)

    def _on_their_way(self) -> dict[str, set[TopicPartition]]:
        """The offsets that have been written and not committed yet: their tombstones have to follow them in the log."""
        found: dict[str, set[TopicPartition]] = defaultdict(set)
        for change in self._runtime.writer.all_pending_changes():
            if isinstance(change, OffsetsPut):
                gone = [at for at in change.partitions() if at[0] in self.topics]
                if gone:
                    found[change.group_id].update(gone)
        return found

    def _turn(self, now: Now) -> None:
        for group, durable in share(self.left, self._runtime):
            if group.group_id in self._unseen:
                self._look_at(group.group_id, durable, now)
        if self.left:
            self._runtime.timers.arm(self._timer, now.monotonic_ms + PAUSE_MS)
        else:
            self._answer_if_done()

    def pull_forward(self, group_id: str, now: Now) -> None:
        if group_id in self._unseen:
            self._unseen.remove(group_id)
            durable = self._runtime.durable.get(group_id)
            if durable is not None:
                self._look_at(group_id, durable, now)

    def _look_at(self, group_id: str, durable: DurableGroup, now: Now) -> None:
        stored = chain(durable.offsets, *durable.pending.values())
        self._delete(group_id, {at for at in stored if at[0] in self.topics}, now)

    def _delete(self, group_id: str, gone: set[TopicPartition], now: Now) -> None:
        if not gone:
            return
        changes: list[Any] = [*self._runtime.record_of_its_own(group_id)]
        changes += in_writes(OffsetsDeleted(group_id, sorted(gone)), self._runtime.config)
        for change in changes:
            write = _TombstonesWrite(self, [change])
            self._undecided.add(write)
            self._runtime.write(write, now)

    def decided(self, write: Write, error: int, now: Now) -> None:
        self._undecided.discard(write)
        self._error = self._error or error
        self._answer_if_done()

    def _answer_if_done(self) -> None:
        if self.left or self._undecided:
            return
        response = DeleteTopicOffsetsResponse(Error.NONE)
        self._runtime.answer(self._token, self._request.refused(self._error) if self._error else response)

    def committed(self, deleted: list[Any]) -> None:
        for change in deleted:
            if isinstance(change, OffsetsDeleted):
                self._runtime.metrics.offset_deletions += len(change.partitions)
            self._runtime.reap(change.group_id)


class _TombstonesWrite(Write):
    __slots__ = ("_sweep",)

    def __init__(self, sweep: _Sweep, changes: list[Any]) -> None:
        super().__init__(changes)
        self._sweep = sweep

    def committed(self, now: Now) -> None:
        self._sweep.committed(self.changes)
        self._sweep.decided(self, Error.NONE, now)

    def failed(self, error: int, now: Now) -> None:
        self._sweep.decided(self, error, now)
