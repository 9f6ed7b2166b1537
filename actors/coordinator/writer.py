"""Hands records to the log, and tells the operations that wrote them what became of them.

Everything written in one turn shares one append; several appends may be under way. A write's changes become
durable state, and its answer leaves, when the high watermark has passed them. Until then they are kept here.

If the log refuses an append, those sent after it stay valid, if what is written keeps to one rule: nothing depends on
what has not committed. Durable and live state change only when a record has committed, so nothing has to be undone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from actors import CoterieError
from actors.coordinator.errors import Error, client_error
from actors.coordinator.metrics import Metrics
from actors.coordinator.records import Record
from actors.coordinator.timers import Timer, Timers
from actors.coordinator.turn import Now
from actors.records.batch import HEADER_BYTES

BATCH_OVERHEAD_BYTES = HEADER_BYTES
RECORD_OVERHEAD_BYTES = 24
"""The most that lengths, deltas and attributes add to one record's key and value."""


class Append(NamedTuple):
    """One atomic append, as the driver is to hand it to the log: its records' keys, and their values."""

    batch_id: int
    keys: list[bytes]
    values: list[bytes | None]

    @property
    def records(self) -> list[Record]:
        return list(map(Record, self.keys, self.values))


class WriteLimits(NamedTuple):
    """The limits of a writer."""

    commit_timeout_ms: int
    """Writes that have not committed after this long are answered COORDINATOR_NOT_AVAILABLE."""
    max_batch_bytes: int
    """The largest record batch that the log takes. Records of a turn beyond it go into further appends."""


class UnexpectedLogEndError(CoterieError):
    """The log does not end where this shard expected: somebody else wrote, or an outcome got lost."""


class Write(ABC):
    """The records of one operation and what follows from each outcome.

    `failed`: nothing was written. `timed_out`: the records may still commit, so `committed` may follow. The second
    answer to a request is dropped.
    """

    __slots__ = ("changes",)

    def __init__(self, changes: list[Any]) -> None:
        self.changes = changes

    @abstractmethod
    def committed(self, now: Now) -> None:
        """Its records are durable: answer."""

    @abstractmethod
    def failed(self, error: int, now: Now) -> None:
        """Its records were not written: answer with this error."""

    def timed_out(self, now: Now) -> None:
        self.failed(Error.COORDINATOR_NOT_AVAILABLE, now)

    def touches(self, entity: str) -> bool:
        return any(change.entity == entity for change in self.changes)


class Batch:
    """The writes that share one append, until the high watermark has passed it or the log has refused it."""

    __slots__ = (
        "batch_id",
        "deadline_ms",
        "has_timed_out",
        "keys",
        "next_offset",
        "size_bytes",
        "values",
        "writes",
        "written_ms",
    )

    def __init__(self, batch_id: int, deadline_ms: int, now: Now) -> None:
        self.batch_id = batch_id
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        self.writes: list[Write] = []
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.next_offset: int | None = None
        """Set when the log has taken it."""
        self.deadline_ms = deadline_ms
        self.has_timed_out = False
        self.written_ms = now.monotonic_ms


def _not_loaded(_: Any) -> None:
    raise AssertionError("a write before the log was loaded")


class Writer:
    """The batches of one shard that have not committed yet."""

    def __init__(self, limits: WriteLimits, timers: Timers, metrics: Metrics) -> None:
        self._limits = limits
        self._replay: Callable[[Any], None] = _not_loaded
        self._timers = timers
        self._metrics = metrics
        self._timer = Timer(self._time_out)
        self._open: deque[Batch] = deque()
        """Batches that the driver has not taken yet."""
        self._sent: deque[Batch] = deque()
        """Batches that the driver has taken, in the order of the log."""
        self._next_batch_id = 0
        self._log_end = 0
        self._high_watermark = 0

    # -- the shard's side

    def submit(
        self, write: Write, keys: Sequence[bytes], values: Sequence[bytes | None], size_bytes: int, now: Now
    ) -> None:
        """Have the records of `write.changes` appended atomically. `size_bytes`: all their keys and values together."""
        size = RECORD_OVERHEAD_BYTES * len(keys) + size_bytes
        batch = self._open[-1] if self._open else None
        if batch is None or batch.size_bytes + size > self._limits.max_batch_bytes:
            batch = self._start_batch(now)
        batch.size_bytes += size
        batch.keys += keys
        batch.values += values
        batch.writes.append(write)

    def _start_batch(self, now: Now) -> Batch:
        due_ms = now.monotonic_ms + self._limits.commit_timeout_ms
        batch = Batch(self._next_batch_id, due_ms, now)
        self._next_batch_id += 1
        self._open.append(batch)
        if self._timer.due_ms is None:
            self._timers.arm(self._timer, due_ms)
        return batch

    @property
    def committed_to(self) -> int:
        """The offset below which all has committed, as far as the driver has said."""
        return self._high_watermark

    def pending_writes(self) -> Iterator[Write]:
        """The writes that have not committed yet, oldest first."""
        for batch in self._batches():
            yield from batch.writes

    def _batches(self) -> Iterator[Batch]:
        yield from self._sent
        yield from self._open

    def pending_changes(self, entity: str) -> list[Any]:
        """The changes of, for instance, a group that have been written and not committed yet, oldest first."""
        return [change for change in self.all_pending_changes() if change.entity == entity]

    def all_pending_changes(self) -> Iterator[Any]:
        """The changes of all entities that have been written and not committed yet, oldest first."""
        for write in self.pending_writes():
            yield from write.changes

    def pending_entities(self) -> set[str]:
        """The ids of all that has changes which have been written and not committed yet."""
        return {change.entity for change in self.all_pending_changes()}

    @property
    def last_batch_id(self) -> int:
        return self._next_batch_id - 1

    def wait_for(self, entity: str, up_to: int, reader: Write, now: Now) -> bool:
        """Tell `reader` the outcome of the last batch up to `up_to` that touches `entity`. False if there is none."""
        for batch in reversed(list(self._batches())):
            if batch.batch_id <= up_to and any(write.touches(entity) for write in batch.writes):
                batch.writes.append(reader)
                if batch.has_timed_out:
                    reader.timed_out(now)
                return True
        return False

    # -- the driver's side

    def start(self, replay: Callable[[Any], None], log_end_offset: int) -> None:
        """The log has been read up to `log_end_offset`. `replay` applies a change to what it says."""
        self._replay = replay
        self._log_end = self._high_watermark = log_end_offset

    def take(self) -> Append | None:
        """The next append for the log; None if nothing was written since."""
        if not self._open:
            return None
        batch = self._open.popleft()
        self._sent.append(batch)
        self._metrics.appends += 1
        return Append(batch.batch_id, batch.keys, batch.values)

    def appended(self, batch_id: int, base_offset: int, next_offset: int, now: Now) -> None:
        """The log took the next append. Raises UnexpectedLogEndError if this is another one, or at another offset."""
        batch = next((batch for batch in self._sent if batch.next_offset is None), None)
        if batch is None or batch.batch_id != batch_id:
            raise UnexpectedLogEndError(f"append {batch_id} came out of turn")
        if base_offset != self._log_end or next_offset != base_offset + len(batch.keys):
            raise UnexpectedLogEndError(
                f"append {batch_id} of {len(batch.keys)} records went to offsets {base_offset} to {next_offset - 1}, "
                f"expected from {self._log_end} on"
            )
        batch.next_offset = self._log_end = next_offset
        self._commit(now)

    def refused(self, batch_id: int, error_code: int, now: Now) -> None:
        """The log refused the next append. Raises UnexpectedLogEndError if this is another one."""
        batch = next((batch for batch in self._sent if batch.next_offset is None), None)
        if batch is None or batch.batch_id != batch_id:
            raise UnexpectedLogEndError(f"append {batch_id} was refused out of turn")
        self._metrics.appends_refused += 1
        self._sent.remove(batch)
        error = client_error(error_code)
        for write in batch.writes:
            write.failed(error, now)
        self._arm_timer()

    def high_watermark(self, offset: int, now: Now) -> None:
        """All records before `offset` have committed: apply them, and answer those who wait for them."""
        self._high_watermark = max(self._high_watermark, offset)
        self._commit(now)

    def _commit(self, now: Now) -> None:
        sent = self._sent
        while sent and sent[0].next_offset is not None and sent[0].next_offset <= self._high_watermark:
            batch = sent.popleft()
            self._measure(now.monotonic_ms - batch.written_ms)
            replay = self._replay
            for write in batch.writes:
                for change in write.changes:
                    replay(change)
            for write in batch.writes:
                write.committed(now)
        self._arm_timer()

    def _measure(self, waited_ms: int) -> None:
        metrics = self._metrics
        metrics.appends_committed += 1
        metrics.replication_wait_ms += waited_ms
        metrics.replication_wait_max_ms = max(metrics.replication_wait_max_ms, waited_ms)

    def _time_out(self, now: Now) -> None:
        """Time out the batches that are due. They are in the order of their deadlines, so one timer is enough."""
        for batch in list(self._batches()):
            if batch.deadline_ms > now.monotonic_ms:
                break
            if not batch.has_timed_out:
                batch.has_timed_out = True
                self._metrics.appends_timed_out += 1
                for write in batch.writes:
                    write.timed_out(now)
        self._arm_timer()

    def _arm_timer(self) -> None:
        for batch in self._batches():
            if not batch.has_timed_out:
                self._timers.arm(self._timer, batch.deadline_ms)
                return
        self._timer.cancel()

    def forget(self) -> None:
        """Drop all that was written: its outcome is unknown, and the shard has to be loaded again."""
        self._timer.cancel()
        self._open.clear()
        self._sent.clear()
