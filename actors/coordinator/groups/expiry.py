"""Deletes offsets and groups that nobody has used for `offsets.retention.minutes` (KIP-211)."""

from __future__ import annotations

from collections import deque
from typing import Any

from actors.coordinator.groups.durable import DurableGroup
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.messages import TopicPartition
from actors.coordinator.groups.offset_records import (
    NO_TIMESTAMP,
    OffsetAndMetadata,
    OffsetsDeleted,
    decode_offset_value,
)
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.sweep import PAUSE_MS, share, tombstones_a_write
from actors.coordinator.sleep import Looked
from actors.coordinator.timers import Timer
from actors.coordinator.turn import Now
from actors.coordinator.writer import Write


class Expiry:
    """Looks for what has expired, a share of all offsets in each turn (sweep.py)."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self._timer = Timer(self.run)
        self._left: deque[str] = deque()
        """Groups this run has not looked at yet."""
        self._next_ms: int | None = None
        """The earliest expiry among the groups and offsets that this run has looked at."""
        self._done: list[Looked] = []

    def schedule(self, now: Now) -> None:
        """Begin a run when `offsets.retention.check.interval.ms` is over. A run that is under way is given up."""
        self._left.clear()
        self._done.clear()
        interval_ms = self._runtime.config.offsets_retention_check_interval_ms
        self._runtime.timers.arm(self._timer, now.monotonic_ms + interval_ms)

    def run_at_once(self, done: Looked, now: Now) -> None:
        """Begin a run now. `done` is told at its end what expires next, from what the run saw."""
        self._left.clear()
        self._done.append(done)
        self.run(now)

    def run(self, now: Now) -> None:
        """Write tombstones for what has expired, a write for each group.

        Groups with writes under way are in use: they are looked at in the next run.
        """
        runtime, left = self._runtime, self._left
        if not left:
            left.extend(runtime.groups)
            self._next_ms = None
        busy = runtime.writer.pending_entities()
        for group, durable in share(left, runtime):
            if group.group_id in busy:
                self._expires(now.wall_ms)
            else:
                self._expire(group, durable, now)
        if left:
            runtime.timers.arm(self._timer, now.monotonic_ms + PAUSE_MS)
            return
        for done in self._done:
            done(self._next_ms, now)
        self.schedule(now)

    def _expires(self, at_ms: int) -> None:
        if self._next_ms is None or at_ms < self._next_ms:
            self._next_ms = at_ms

    def _expire(self, group: Group, durable: DurableGroup, now: Now) -> None:
        base = group.retention_base()
        if base is None:
            return
        retention_ms = self._runtime.config.offsets_retention_ms
        dues = [
            (at, due_ms)
            for at, value in map(_read, durable.offsets.items())
            if (due_ms := _due_ms(value, base(at[0], value), retention_ms)) is not None
        ]
        if durable.pending:
            dues = [(at, due_ms) for at, due_ms in dues if not durable.is_unstable(at)]
        if dues:
            self._expires(min(due_ms for _, due_ms in dues))
        expired = [at for at, due_ms in dues if due_ms <= now.wall_ms]
        # A larger append is refused as a whole; the rest goes at the next run.
        expired = expired[: tombstones_a_write(group.group_id, self._runtime.config)]
        changes: list[Any] = [OffsetsDeleted(group.group_id, expired)] if expired else []
        nothing_left = len(expired) == len(durable.offsets) and not durable.pending
        ends = group.is_empty and group.is_vacant and nothing_left
        if ends:
            changes += group.tombstones()
            group.begin_deletion()
            self._expires(now.wall_ms)
        if changes:
            self._runtime.write(ExpiryWrite(self._runtime, group if ends else None, changes), now)


def _read(stored: tuple[TopicPartition, bytes]) -> tuple[TopicPartition, OffsetAndMetadata]:
    return stored[0], decode_offset_value(stored[1])


def _due_ms(value: OffsetAndMetadata, base_ms: int | None, retention_ms: int) -> int | None:
    """The time at which an offset is over; None while it is in use."""
    if base_ms is None:
        return None
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        return value.expire_timestamp_ms
    return base_ms + retention_ms


class ExpiryWrite(Write):
    """Tombstones that no request waits for. A failed one is tried again in the next run."""

    __slots__ = ("_runtime", "group")

    def __init__(self, runtime: GroupRuntime, group: Group | None, changes: list[Any]) -> None:
        super().__init__(changes)
        self._runtime = runtime
        self.group = group
        """The group that ends with this; None if it keeps offsets, or members."""

    def committed(self, now: Now) -> None:
        metrics = self._runtime.metrics
        metrics.offset_expirations += sum(
            len(change.partitions) for change in self.changes if isinstance(change, OffsetsDeleted)
        )
        if self.group is not None:
            metrics.group_expirations += 1
            self._runtime.bury(self.group)

    def failed(self, error: int, now: Now) -> None:
        if self.group is not None:
            self._runtime.revive(self.group)

    def timed_out(self, now: Now) -> None:
        """It may still commit; until that is decided the group stays Dead."""
