"""One partition's log: a class that hands each call on to one of its parts.

One thread calls a log. Work that takes long is returned, to be run in another thread: flush jobs, extents to read,
files to remove. The parts share a `LogState` (state.py), and each has its module:

    appending.py   records come in            retention.py    records leave at the start
    reading.py     records are read           truncation.py   the end moves back, or on without records
    storage.py     segment files              cleaning.py     compaction
    flush.py       becoming durable           repair.py       coming back after a failure

Opening stands in recovery.py.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from actors.log.admission import Admitted, admit, admit_own, one_batch
from actors.log.appending import Appender, AppendResult
from actors.log.checkpoint import Checkpoint
from actors.log.clean_stop import Closed
from actors.log.cleaning import Cleaning
from actors.log.config import LogConfig
from actors.log.damage import Damage, Damages, tell_nobody
from actors.log.errors import StorageError
from actors.log.files import FileWriter
from actors.log.flush import Flushing
from actors.log.mending import Mending
from actors.log.producer_state import ProducerStates
from actors.log.reading import Extent, Reader, StoredBatch
from actors.log.recovery import OpenedLog, open_directory
from actors.log.repair import Repairs
from actors.log.retention import Retention
from actors.log.segments import Segments
from actors.log.state import LogState
from actors.log.storage import Storage
from actors.log.truncation import Truncation


class PartitionLog:
    """A log on disk. Errors are LogErrors with Kafka's code; after one, the log is as it was before.

    `flushing`, `retention`, `cleaning`, `repairs` and `mending` are its upkeep. Leaders and followers see none of it.
    """

    def __init__(
        self, directory: Path, config: LogConfig, opened: OpenedLog, writer: FileWriter, damages: Damages
    ) -> None:
        self._state = state = LogState(directory, config, opened, writer, damages)
        self.flushing = flushing = Flushing(state)
        self._storage = storage = Storage(state, flushing)
        self._appender = Appender(state, storage, flushing)
        self._reader = Reader(state)
        self.retention = Retention(state, storage)
        self._truncation = Truncation(state, storage, flushing)
        self.cleaning = Cleaning(state, storage, flushing)
        self.repairs = Repairs(state, flushing)
        self.mending = Mending(state)
        self.is_short = opened.is_short
        """True if records that had been on disk were gone from its end when it was opened."""

    @classmethod
    def open(
        cls,
        directory: Path | str,
        config: LogConfig,
        writer: FileWriter,
        *,
        clean_shutdown: bool,
        power_lost: bool = True,
        now_ms: int,
        closed: Closed | None = None,
        damaged: Callable[[Damage], None] = tell_nobody,
    ) -> "PartitionLog":
        """Open or create the log in `directory`. Raises StorageError.

        `damaged` is told of each batch that a read finds damaged, in whichever thread that reads.

        Unless the last stop was clean, everything after the recovery point is checked and cut at the first
        bad batch; with `power_lost`, also where whole batches are missing. `closed`: how it was closed, if
        the mark of a clean stop says so.
        """
        directory = Path(directory)
        opened = open_directory(
            *(directory, config, writer),
            clean_shutdown=clean_shutdown,
            power_lost=power_lost,
            now_ms=now_ms,
            closed=closed,
        )
        return cls(directory, config, opened, writer, Damages(damaged))

    # -- what it is

    @property
    def directory(self) -> Path:
        """The log's folder."""
        return self._state.directory

    @property
    def config(self) -> LogConfig:
        """The topic's settings. They may be replaced at any time."""
        return self._state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._state.config = config

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._state.start

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self._state.end

    @property
    def high_watermark(self) -> int:
        """All before it is committed."""
        return self._state.watermark

    @property
    def recovery_point(self) -> int:
        """All records before it are on disk."""
        return self._state.checkpoint.recovery_point

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that was last written, for the next opening."""
        return self._state.checkpoint

    @property
    def size_bytes(self) -> int:
        """Size of all segments, without their indexes."""
        return self._state.segments.size_bytes

    @property
    def segments(self) -> Segments:
        """The log's segments, to look at."""
        return self._state.segments

    @property
    def producers(self) -> ProducerStates:
        """The idempotent producers this log remembers."""
        return self._state.producers

    @property
    def damages(self) -> Damages:
        """The damaged batches that reads have found."""
        return self._state.damages

    @property
    def failure(self) -> str | None:
        """The reason why the log takes no appends until it is repaired or opened again, or None."""
        return self._state.failure

    # -- offsets and epochs

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the watermark up to `offset`, at most to the log end; whether it moved."""
        return self._state.advance_watermark(offset)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch, -1 where no leader has written."""
        return self._state.epochs.latest

    def assign_leader_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """A leader of `epoch` begins at `start_offset`, or at the log end (KIP-101).

        It is not written to a file before the next checkpoint: until then recovery finds it in the epoch's batches, and
        an epoch without batches is not needed after a crash.
        """
        self._state.epochs.assign(epoch, self._state.end if start_offset is None else start_offset)

    def epoch_entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of all known epochs, ascending."""
        return self._state.epochs.entries()

    def epochs_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of the epochs from `start` to `end`. The first one may begin before `start`."""
        return self._state.epochs.between(start, end)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written; -1 if unknown."""
        return self._state.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset), (-1, -1) if unknown: OffsetForLeaderEpoch."""
        return self._state.epochs.end_offset(epoch, self._state.end)

    def batch_with(self, timestamp_ms: int, since: int = 0, max_offset: int | None = None) -> StoredBatch | None:
        """The first batch from `since` on, below the watermark, that should have a record at or after `timestamp_ms`.

        Its `find`, which may take long, finds that record. If it does not, the next batch may have it.
        """
        return self._reader.batch_with(timestamp_ms, since, max_offset)

    def newest_batch(self, max_offset: int | None = None) -> StoredBatch | None:
        """The batch whose first record with the largest timestamp `find` finds, if it is below the watermark (KIP-734).

        As in Kafka that record counts until its file goes, also if DeleteRecords has taken it away.
        """
        return self._reader.newest(max_offset)

    # -- appending

    def append_as_leader(
        self, data: bytes | memoryview, leader_epoch: int, now_ms: int, *, internal: bool = False
    ) -> AppendResult:
        """Check and append a produced batch, which gets the next offsets and `leader_epoch`.

        A repeat of one of an idempotent producer's last five batches is answered with that batch's offsets.
        `internal`: a process of this cluster made the batches, of which there may be several, so control batches are
        allowed and records not looked at. `data` itself is not changed.
        """
        config = self.config
        if internal:
            return self.append_admitted(admit_own(data, config), leader_epoch, now_ms)
        return self.append_admitted([admit(one_batch(data, config), config, now_ms)], leader_epoch, now_ms)

    def append_admitted(self, admitted: Sequence[Admitted], leader_epoch: int, now_ms: int) -> AppendResult:
        """Append batches that `admission` has checked, all or none, as `append_as_leader` does."""
        return self._appender.as_leader(admitted, leader_epoch, now_ms)

    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> AppendResult:
        """Append batches that a leader has stamped. Offsets may have gaps from compaction, but never go back.

        The first batch may begin before the log end, because compaction merges batches. Then only its records from the
        log end on are appended. If there are none, the log end stays.
        """
        return self._appender.as_follower(data, now_ms)

    # -- reading

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None, min_one_batch: bool = True) -> bytes:
        """Whole batches from the one that holds `offset` on, below `max_offset` (default: the watermark).

        At most `max_bytes`, but with `min_one_batch` always the first batch. b"" when nothing is there yet.
        FetchOffsetOutOfRange before the log start or after the log end.
        """
        place = self._reader.place(offset, max_bytes, max_offset, min_one_batch)
        return self._reader.read(place, offset)[0] if place else b""

    def read_or_locate(
        self, offset: int, max_bytes: int, at_once_bytes: int, min_one_batch: bool = True
    ) -> bytes | Extent:
        """The same as `read`, but as an extent if it is longer than `at_once_bytes`. Then StorageError, too."""
        place = self._reader.place(offset, max_bytes, None, min_one_batch)
        if place is None:
            return b""
        if place.size_bytes > at_once_bytes:
            return Extent(self._state, place, offset)
        return self._reader.read(place, offset)[0]

    def locate(
        self, offset: int, max_bytes: int, max_offset: int | None = None, min_one_batch: bool = True
    ) -> Extent | None:
        """The same range as `read` would return, as an extent that another thread can read; None for b"".

        Opens the file.
        """
        place = self._reader.place(offset, max_bytes, max_offset, min_one_batch)
        return Extent(self._state, place, offset) if place else None

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        """The number of bytes that `read` would return."""
        place = self._reader.place(offset, max_bytes, None, True)
        return place.size_bytes if place else 0

    def bytes_from(self, offset: int) -> int:
        """The number of bytes from `offset` on, to an entry of the index. No file is read."""
        return self._state.segments.bytes_from(offset) if offset < self.log_end_offset else 0

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from `offset` on, committed or not, and the offset to read from next: for followers.

        b"" and the log end if compaction has left nothing.
        """
        return self._reader.read_with_end(offset, max_bytes)

    def extents(self, max_bytes: int, max_offset: int | None = None) -> Iterator[Extent]:
        """The log from its start to the watermark, or to `max_offset`, in pieces: for loading a shard."""
        return self._reader.extents(max_bytes, max_offset)

    # -- segments and durability

    def roll(self) -> bool:
        """Begin a new segment unless the active one is empty. Returns True if it did."""
        return self._storage.roll()

    def roll_if_due(self, now_ms: int) -> bool:
        """`roll` when the active segment is as old as a segment may become."""
        return self._storage.roll_if_due(now_ms)

    def flush(self) -> None:
        """Make all appended records durable in this thread, now."""
        self.flushing.flush()

    def is_saved(self, *, watermark: bool) -> bool:
        """True if the checkpoint that was last written has the start, and if asked for the watermark.

        Its other fields are written as they change.
        """
        return self._state.is_saved(watermark=watermark)

    def write_checkpoint(self, *, durable: bool = False) -> None:
        """Write start, watermark and recovery point for the next opening, if they have moved."""
        self._state.save(durable=durable)

    # -- removing

    def advance_start(self, offset: int) -> None:
        """Move the log start to `offset`, as the leader has, but not past the watermark. Files go with retention."""
        self.retention.advance_start(offset)

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on; a batch that holds `offset` goes as a whole.

        For followers that have diverged from their leader. The watermark moves back with the end, if it is above.
        """
        self._truncation.truncate_to(offset)

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`: the leader's log begins after the end of this one."""
        self._truncation.reset_to(offset)

    def skip_to(self, offset: int) -> None:
        """Move the log end to `offset` without records: compaction has left none there in the leader's log."""
        self._truncation.skip_to(offset)

    # -- the end

    def close(self) -> Closed | None:
        """Flush, write what an opening after a clean stop reads, and close; how it is closed, None if it was before.

        After StorageError it was not clean.
        """
        active = self._state.segments.active
        if active.fd < 0:
            return None
        try:
            if self.failure is not None:
                raise StorageError(f"{self.directory} is not closed cleanly: {self.failure}")
            self.flushing.flush_for_good()
        except OSError as error:
            raise StorageError(f"cannot close {self.directory}: {error}") from error
        finally:
            self._state.abandon()
        epochs = tuple(self._state.epochs.entries())
        return Closed(active.base_offset, active.size_bytes, self._state.checkpoint, epochs)

    def abandon(self) -> None:
        """Leave the files as they are, as a crash would. From now on nothing in the folder is changed."""
        self._state.abandon()
