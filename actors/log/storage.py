"""The storage side of a log: its segments on disk, rolling, flushing, coming back after a failure, closing.

Producing and fetching are partition_log.py's, removing records is upkeep.py's. Opening stands in recovery.py.
"""

import os
from dataclasses import replace
from pathlib import Path

from actors.log.checkpoint import Checkpoint, save_checkpoint
from actors.log.config import LogConfig
from actors.log.errors import StorageError
from actors.log.files import FileWriter, Hold, remove_files
from actors.log.flush import FlushJob, Syncing
from actors.log.producer_state import ProducerStates
from actors.log.recovery import OpenedLog
from actors.log.repair import RepairJob
from actors.log.segment import MAX_RELATIVE_OFFSET, SNAPSHOT_SUFFIX, Segment, file_name
from actors.log.segments import Segments


class StoredLog:
    """Segments, epochs, producers and checkpoint of one log, and their files."""

    def __init__(self, directory: Path, config: LogConfig, opened: OpenedLog, writer: FileWriter) -> None:
        self.directory = directory
        self.config = config
        self.segments = Segments(opened.segments)
        self.checkpoint = opened.checkpoint
        self._saved: Checkpoint | None = None
        self._epochs = opened.epochs
        self._producers = opened.producers
        self._writer = writer
        self._hold = Hold()
        self._syncing = Syncing()
        self._end = opened.log_end_offset
        self._start = opened.checkpoint.log_start_offset
        self._watermark = opened.checkpoint.high_watermark
        self._unflushed_records = 0
        self._unflushed_since_ms = None if self._end == opened.checkpoint.recovery_point else 0
        self._last_append_ms = 0
        self._snapshots: list[tuple[Path, bytes]] = []
        # Counts the times the end moved back: a flush begun before that has proved nothing.
        self._generation = 0
        self._failure: str | None = None
        self._in_repair = False

    @property
    def log_start_offset(self) -> int:
        return self._start

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self._end

    @property
    def high_watermark(self) -> int:
        return self._watermark

    @property
    def recovery_point(self) -> int:
        """All records before it are on disk."""
        return self.checkpoint.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch, -1 where no leader has written."""
        return self._epochs.latest

    @property
    def producers(self) -> ProducerStates:
        """The idempotent producers this log remembers."""
        return self._producers

    @property
    def failure(self) -> str | None:
        """Why the log takes no appends until it is repaired or opened again, or None."""
        return self._failure

    def _must_be_usable(self) -> None:
        if self._failure is not None:
            raise StorageError(f"{self.directory} takes no appends: {self._failure}")

    # -- segments

    def roll(self) -> bool:
        """Begin a new segment unless the active one is empty; whether it did."""
        self._must_be_usable()
        if self.segments.active.size_bytes == 0:
            return False
        self._roll(self._end)
        return True

    def roll_if_due(self, now_ms: int) -> bool:
        """`roll` when the active segment is older than segment.ms."""
        return self._roll_is_due(self.segments.active, 0, self._end, now_ms) and self.roll()

    def _roll_is_due(self, segment: Segment, more_bytes: int, end: int, now_ms: int) -> bool:
        too_far = end - segment.base_offset > MAX_RELATIVE_OFFSET + 1
        if segment.size_bytes == 0:
            return too_far  # it stays, empty: the log begins where its first segment begins
        config = self.config
        return (
            segment.size_bytes + more_bytes > config.segment_bytes
            or now_ms - segment.first_append_ms >= config.segment_ms - segment.jitter_ms(config.segment_jitter_ms)
            or too_far
            or segment.offsets.is_full(config.segment_index_bytes)
            or segment.times.is_full(config.segment_index_bytes)
        )

    def _roll(self, base_offset: int) -> None:
        old, new = self.segments.active, Segment(self.directory, base_offset)
        try:
            new.open_for_append()
            os.ftruncate(new.fd, 0)
        except OSError as error:
            new.close()
            raise StorageError(f"cannot begin {new.path}: {error}") from error
        old.seal()
        old.close()
        self._snapshots.append(self._snapshot(base_offset))
        self.segments.add(new)

    def _snapshot(self, offset: int) -> tuple[Path, bytes]:
        return self.directory / file_name(offset, SNAPSHOT_SUFFIX), self._producers.packed()

    # -- durability

    @property
    def needs_flush(self) -> bool:
        """Whether closed segments wait for `begin_flush`."""
        return any(not segment.flushed for segment in self.segments.closed())

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether closed segments, or records for longer than flush.ms, have not been flushed."""
        since = self._unflushed_since_ms
        return self.needs_flush or (since is not None and now_ms - since >= self.config.flush_ms)

    def begin_flush(self) -> FlushJob | None:
        """A job that makes all appended records durable; None when they are. Run it, then `finish_flush`."""
        self._must_be_usable()
        if self._end == self.recovery_point and not self.needs_flush:
            return None
        job = self._flush_job()
        job.active_fd = os.dup(self.segments.active.fd)
        job.sealed = [segment for segment in self.segments.closed() if not segment.flushed]
        for segment in job.sealed:
            job.files += [(index.path, index.packed()) for index in (segment.offsets, segment.times)]
        job.files += self._snapshots
        return job

    def _flush_job(self) -> FlushJob:
        shared = (self._writer, self._hold, self._syncing)
        return FlushJob(self.directory, self._end, self._generation, *shared, self._last_append_ms)

    def finish_flush(self, job: FlushJob) -> None:
        """Account for a job that has run. StorageError if it failed; the next one tries again.

        After a failed fsync the log takes no more appends: the kernel may have dropped the data while a later
        one succeeds, so only a repair, or opening the log again, tells what is there.
        """
        if self._hold.ended:
            return
        if job.error is not None:
            reason = f"flush failed: {job.error}"
            if job.lost:
                self._failure = reason
            raise StorageError(f"{self.directory}: {reason}") from job.error
        if job.generation != self._generation:
            # It may have written producers' states from before a cut.
            remove_files(path for path, _ in job.files if path.suffix == SNAPSHOT_SUFFIX)
            return
        for segment in job.sealed:
            segment.flushed = True
        written = {path for path, _ in job.files}
        self._snapshots = [each for each in self._snapshots if each[0] not in written]
        self._unflushed_records = 0
        # What came since is younger than the youngest flushed.
        self._unflushed_since_ms = None if self._end == job.upto else job.newest_ms
        self.checkpoint = replace(self.checkpoint, recovery_point=job.upto)
        self.write_checkpoint()

    def flush(self) -> None:
        """Make all appended records durable, here and now."""
        job = self.begin_flush()
        if job is not None:
            job.run()
            self.finish_flush(job)

    def begin_repair(self, now_ms: int) -> RepairJob | None:
        """A job that may end the log's failure; None without one. Run it, then `finish_repair`.

        Reads go on meanwhile. Segments are neither deleted nor cut until it is finished.
        """
        if self._failure is None or self._in_repair or self.segments.active.fd < 0:
            return None
        self._in_repair = True
        return RepairJob(self.directory, self.config, self._generation, now_ms, self._writer, self._hold)

    def finish_repair(self, job: RepairJob) -> int:
        """Take over what a job that has run made of the log; how many records at its end were lost.

        StorageError if it failed: the log stays as it is, and the next job tries again.
        """
        self._in_repair = False
        if job.error is not None:
            raise job.error
        opened = job.opened
        assert opened is not None, "run() sets one of the two"
        if job.generation != self._generation or self.segments.active.fd < 0:
            job.give_up()
            return 0
        lost = max(self._end - opened.log_end_offset, 0)
        self._adopt(opened)
        self._failure = None
        self.write_checkpoint()
        return lost

    def _adopt(self, opened: OpenedLog) -> None:
        """Go on with another reading of our own folder. What is known here, and not yet on disk, stays."""
        for segment in self.segments:
            segment.close()
        self.segments.replace(opened.segments)
        self._generation += 1
        self._syncing = Syncing()
        self._snapshots = []
        self._unflushed_records = 0
        self._unflushed_since_ms = None
        self._end = opened.log_end_offset
        self._start = min(max(self._start, opened.checkpoint.log_start_offset), self._end)
        self._watermark = min(self._watermark, self._end)
        self._producers = opened.producers
        for epoch, start in self._epochs.entries():
            opened.epochs.assign(epoch, min(start, self._end))
        self._epochs = opened.epochs
        self.checkpoint = replace(opened.checkpoint, recovery_point=self._end)

    def _must_not_be_in_repair(self) -> None:
        if self._in_repair:
            raise StorageError(f"{self.directory} is being repaired: {self._failure}")

    def write_checkpoint(self, *, durable: bool = False) -> None:
        """Keep start, watermark and recovery point for the next opening. Costs a file only if they moved."""
        if self._hold.ended:
            raise StorageError(f"{self.directory} is no longer this log's")
        self.checkpoint = replace(self.checkpoint, log_start_offset=self._start, high_watermark=self._watermark)
        try:
            self._epochs.save()  # first: recovery looks for epochs only behind the recovery point
            if durable or self.checkpoint != self._saved:
                save_checkpoint(self.directory, self.checkpoint, durable=durable)
                self._saved = self.checkpoint
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint of {self.directory}: {error}") from error

    def close(self) -> None:
        """Flush, write what a clean opening wants to find, and close. StorageError: open as after a crash."""
        active = self.segments.active
        if active.fd < 0:
            return
        if self._failure is not None:
            self.abandon()
            raise StorageError(f"{self.directory} is not closed well: {self._failure}")
        try:
            os.ftruncate(active.fd, active.size_bytes)
            active.seal()
            job = self.begin_flush() or self._flush_job()
            job.files += [(index.path, index.packed()) for index in (active.offsets, active.times)]
            job.files.append(self._snapshot(self._end))
            job.run()
            self.finish_flush(job)
        except OSError as error:
            raise StorageError(f"cannot close {self.directory}: {error}") from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, as a crash would. From here on nothing is changed in the folder."""
        self._hold.end()
        for segment in self.segments:
            segment.close()
        self._failure = self._failure or "closed"

    def _flush_if_due(self, records: int) -> None:
        self._unflushed_records += records
        if self._unflushed_records >= self.config.flush_messages:
            try:
                self.flush()
            except StorageError:
                if self._failure is not None:  # else the records are durable, only an index is not
                    raise
