"""One partition's log: appending as leader or follower, reading, offsets, truncation, retention.

One thread calls a log. What takes long is handed out, to be run elsewhere: flush jobs, extents to read, files
to remove. Opening stands in recovery.py, compaction in compaction.py.
"""

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from actors.log.admission import Admitted, admit
from actors.log.batch import NO_TIMESTAMP, PREFIX, BatchHeader, Buffer, crc_matches, split_batches
from actors.log.checkpoint import save_checkpoint
from actors.log.config import LogConfig
from actors.log.errors import (
    FENCED_LEADER_EPOCH,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    CorruptBatchError,
    FetchOffsetOutOfRange,
    LogError,
    StorageError,
)
from actors.log.files import FileWriter, fsync_directory, remove_files
from actors.log.flush import FlushJob
from actors.log.producer_state import ProducerBatch
from actors.log.recovery import OpenedLog, open_directory, rebuild_producers
from actors.log.segment import DELETED_SUFFIX, MAX_RELATIVE_OFFSET, SNAPSHOT_SUFFIX, Segment, file_name
from actors.log.segments import Place, Segments

logger = logging.getLogger(__name__)

_PREFIX_BYTES: Final = PREFIX.size


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Where an append went. `log_append_time_ms` is -1 unless the topic uses LogAppendTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Extent:
    """Whole batches in a file: what `PartitionLog.read` would return, for another thread to read."""

    path: Path
    position: int
    size_bytes: int
    next_offset: int

    def read(self) -> bytes:
        """The bytes. FileNotFoundError when the log has dropped the file since: locate again."""
        with open(self.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), self.size_bytes, self.position)


class PartitionLog:
    """A log on disk. Errors are LogError with Kafka's code; after one the log is as it was before."""

    def __init__(self, directory: Path, config: LogConfig, opened: OpenedLog, writer: FileWriter) -> None:
        self.directory = directory
        self.config = config
        self.segments = Segments(opened.segments)
        self.checkpoint = opened.checkpoint
        self._epochs = opened.epochs
        self._producers = opened.producers
        self._writer = writer
        self._end = opened.log_end_offset
        self._start = opened.checkpoint.log_start_offset
        self._watermark = opened.checkpoint.high_watermark
        self._unflushed_records = 0
        self._snapshots: list[tuple[Path, bytes]] = []
        # Counts the times the end moved back: a flush begun before that has proved nothing.
        self._generation = 0
        self._failure: str | None = None

    @classmethod
    def open(
        cls,
        directory: Path | str,
        config: LogConfig,
        *,
        clean_shutdown: bool,
        now_ms: int,
        writer: FileWriter | None = None,
    ) -> "PartitionLog":
        """Open or create the log in `directory`. StorageError when the disk refuses.

        Unless the last stop was clean, everything after the recovery point is checked and cut at the first
        bad batch.
        """
        directory = Path(directory)
        opened = open_directory(directory, config, clean_shutdown=clean_shutdown, now_ms=now_ms)
        return cls(directory, config, opened, writer or FileWriter())

    # -- offsets and epochs

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
    def failure(self) -> str | None:
        """Why the log takes no appends until it is opened again, or None."""
        return self._failure

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the watermark up to `offset`, at most to the log end; whether it moved."""
        offset = min(offset, self._end)
        if offset <= self._watermark:
            return False
        self._watermark = offset
        return True

    def assign_leader_epoch(self, epoch: int) -> None:
        """A leader of `epoch` begins at the log end (KIP-101). StorageError when it cannot be kept."""
        self._epochs.assign(epoch, self._end)
        try:
            self._epochs.save()
        except OSError as error:
            raise StorageError(f"{self.directory}: cannot save the leader epoch: {error}") from error

    def epoch_entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of all known epochs, ascending."""
        return self._epochs.entries()

    def epoch_at(self, offset: int) -> int:
        """The leader epoch the record at `offset` was written in, -1 when not known."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset), (-1, -1) if unknown: OffsetForLeaderEpoch."""
        return self._epochs.end_offset(epoch, self._end)

    def offset_for_timestamp(self, timestamp_ms: int, max_offset: int | None = None) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after `timestamp_ms`, below the watermark."""
        high = self._watermark if max_offset is None else max_offset
        record = self.segments.first_at_or_after(timestamp_ms, self._start, high)
        return (record.offset, record.timestamp) if record else None

    def max_timestamp(self, max_offset: int | None = None) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp below the watermark (KIP-734)."""
        high = self._watermark if max_offset is None else max_offset
        record = self.segments.newest(self._start, high)
        return (record.offset, record.timestamp) if record else None

    # -- appending

    def append_as_leader(
        self, data: bytes | memoryview, leader_epoch: int, now_ms: int, *, internal: bool = False
    ) -> AppendResult:
        """Check and append the batches of `data`, which get the next offsets and `leader_epoch`.

        All or nothing. A repeat of one of an idempotent producer's last five batches is answered with that
        batch's offsets. `internal`: control batches are allowed. `data` itself is not changed.
        """
        self._must_be_usable()
        if leader_epoch < self._epochs.latest:
            raise LogError(FENCED_LEADER_EPOCH, f"epoch {leader_epoch}, the log is at {self._epochs.latest}")
        admitted = admit(data, self.config, now_ms, internal=internal)
        repeated = self._repeated(admitted)
        if repeated is not None:
            return self._result(repeated.first_offset, repeated.last_offset, repeated.timestamp_ms, True)
        base = offset = self._end
        buffers: list[Buffer] = []
        for batch, header in admitted:
            buffers += (PREFIX.pack(offset, header.length, leader_epoch), memoryview(batch)[_PREFIX_BYTES:])
            offset += header.last_offset_delta + 1
        self._write(buffers, base, offset, now_ms)
        for _, header in admitted:
            self._added(header, self._end, leader_epoch, now_ms)
        self._flush_if_due(offset - base)
        return self._result(base, offset - 1, now_ms)

    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> AppendResult:
        """Append batches a leader has stamped. Offsets may leave gaps (compaction), never go back."""
        self._must_be_usable()
        batches = split_batches(data)
        if not batches or batches[-1][1] != len(data):
            raise CorruptBatchError(f"{len(data)} bytes from the leader are no whole batches")
        offset = self._end
        for start, end, header in batches:
            if not crc_matches(memoryview(data)[start:end], header.crc):
                raise CorruptBatchError(f"batch at offset {header.base_offset} fails its checksum")
            if header.base_offset < offset:
                raise LogError(OFFSET_OUT_OF_RANGE, f"batch at {header.base_offset}, expected {offset}")
            offset = header.next_offset
        base = batches[0][2].base_offset
        self._write([data], base, offset, now_ms)
        for _, _, header in batches:
            self._added(header, header.base_offset, header.leader_epoch, now_ms)
        self._flush_if_due(offset - base)
        return self._result(base, offset - 1, batches[-1][2].max_timestamp)

    def _repeated(self, admitted: list[Admitted]) -> ProducerBatch | None:
        """Judge the batches of idempotent producers; the one already appended if this is a repeat."""
        previous: BatchHeader | None = None
        for _, header in admitted:
            if header.producer_id >= 0 and not header.is_control:
                found = self._producers.find_duplicate(header)
                if found is not None:
                    return found
                self._producers.check(header, previous)
                previous = header
        return None

    def _write(self, buffers: Sequence[Buffer], base: int, end: int, now_ms: int) -> None:
        """Put bytes at the end of the active segment, a new one if need be. On an error none remain."""
        size = sum(map(len, buffers))
        segment = self.segments.active
        if self._roll_is_due(segment, size, end, now_ms):
            self._roll(base)
            segment = self.segments.active
        try:
            self._writer.write(segment.fd, buffers, segment.size_bytes)
        except OSError as error:
            # What is left past `size_bytes` is never read, and overwritten by the next append.
            with contextlib.suppress(OSError):
                os.ftruncate(segment.fd, segment.size_bytes)
            raise StorageError(f"cannot append to {segment.path}: {error}") from error
        if segment.size_bytes == 0:
            segment.first_append_ms = now_ms

    def _added(self, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Account for a batch that has been written."""
        if leader_epoch > self._epochs.latest:
            self._epochs.assign(leader_epoch, base_offset)
            with contextlib.suppress(OSError):  # recovery finds the epoch in the batch
                self._epochs.save()
        self.segments.active.added(
            base_offset, header.size_bytes, header.max_timestamp, self.config.index_interval_bytes
        )
        self._end = base_offset + header.last_offset_delta + 1
        if header.producer_id >= 0 and not header.is_control:
            self._producers.record(header, base_offset, now_ms)

    def _result(self, base: int, last: int, time_ms: int, duplicate: bool = False) -> AppendResult:
        stamped = self.config.message_timestamp_type == "LogAppendTime"
        return AppendResult(base, last, time_ms if stamped else NO_TIMESTAMP, self._start, duplicate)

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
        if segment.size_bytes == 0:
            return False
        return (
            segment.size_bytes + more_bytes > self.config.segment_bytes
            or now_ms - segment.first_append_ms >= self.config.segment_ms
            or end - segment.base_offset > MAX_RELATIVE_OFFSET
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

    # -- reading

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None, min_one_batch: bool = True) -> bytes:
        """Whole batches from the one that holds `offset` on, below `max_offset` (default: the watermark).

        At most `max_bytes`, but with `min_one_batch` always the first batch. b"" when nothing is there yet.
        FetchOffsetOutOfRange before the log start or after the log end.
        """
        place = self._place(offset, max_bytes, max_offset, min_one_batch)
        return place.segment.read(place.position, place.size_bytes) if place else b""

    def locate(
        self, offset: int, max_bytes: int, max_offset: int | None = None, min_one_batch: bool = True
    ) -> Extent | None:
        """What `read` would return, as an extent another thread can read; None instead of b""."""
        place = self._place(offset, max_bytes, max_offset, min_one_batch)
        if place is None:
            return None
        return Extent(place.segment.path, place.position, place.size_bytes, place.next_offset)

    def _place(self, offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Place | None:
        if not self._start <= offset <= self._end:
            raise FetchOffsetOutOfRange(f"offset {offset} is not within {self._start}..{self._end}")
        limit = self._watermark if max_offset is None else min(max_offset, self._end)
        if offset >= limit:
            return None
        return self.segments.locate(offset, max_bytes, limit, self._end, min_one_batch)

    # -- durability

    @property
    def needs_flush(self) -> bool:
        """Whether closed segments wait for `begin_flush`."""
        return any(not segment.flushed for segment in self.segments.closed())

    def begin_flush(self) -> FlushJob | None:
        """A job that makes all appended records durable; None when they are. Run it, then `finish_flush`."""
        if self._end == self.recovery_point and not self.needs_flush:
            return None
        job = FlushJob(self.directory, self._end, self._generation, self._writer)
        job.active_fd = os.dup(self.segments.active.fd)
        job.sealed = [segment for segment in self.segments.closed() if not segment.flushed]
        for segment in job.sealed:
            job.files += [(index.path, index.packed()) for index in (segment.offsets, segment.times)]
        job.files += self._snapshots
        return job

    def finish_flush(self, job: FlushJob) -> None:
        """Account for a job that has run. StorageError if it failed: the log then takes no more appends.

        After a failed fsync the kernel may have dropped the data while a later one succeeds, so only
        opening the log again, which reads it, tells what is there.
        """
        if job.error is not None:
            self._failure = f"flush failed: {job.error}"
            raise StorageError(f"{self.directory}: {self._failure}") from job.error
        if job.generation != self._generation:
            return
        for segment in job.sealed:
            segment.flushed = True
        written = {path for path, _ in job.files}
        self._snapshots = [each for each in self._snapshots if each[0] not in written]
        self._unflushed_records = 0
        self.checkpoint = replace(self.checkpoint, recovery_point=job.upto)
        self.write_checkpoint()

    def flush(self) -> None:
        """Make all appended records durable, here and now."""
        job = self.begin_flush()
        if job is not None:
            job.run()
            self.finish_flush(job)

    def write_checkpoint(self, *, durable: bool = False) -> None:
        """Keep start, watermark and recovery point for the next opening. Cheap enough for every few seconds."""
        self.checkpoint = replace(self.checkpoint, log_start_offset=self._start, high_watermark=self._watermark)
        try:
            save_checkpoint(self.directory, self.checkpoint, durable=durable)
            self._epochs.save()
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint of {self.directory}: {error}") from error

    def close(self) -> None:
        """Flush, write what a clean opening wants to find, and close. StorageError: open as after a crash."""
        active = self.segments.active
        if active.fd < 0:
            return
        try:
            os.ftruncate(active.fd, active.size_bytes)
            active.seal()
            job = self.begin_flush() or FlushJob(self.directory, self._end, self._generation, self._writer)
            job.files += [(index.path, index.packed()) for index in (active.offsets, active.times)]
            job.files.append(self._snapshot(self._end))
            job.run()
            self.finish_flush(job)
        except OSError as error:
            raise StorageError(f"cannot close {self.directory}: {error}") from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, as a crash would."""
        for segment in self.segments:
            segment.close()
        self._failure = self._failure or "closed"

    def _flush_if_due(self, records: int) -> None:
        self._unflushed_records += records
        if self._unflushed_records >= self.config.flush_messages:
            self.flush()

    # -- removing from the start

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset`, -1 for the watermark; the new log start.

        LogError POLICY_VIOLATION where cleanup.policy has no delete, OFFSET_OUT_OF_RANGE past the watermark.
        Files go with the next `apply_retention`.
        """
        if not self.config.deletes:
            raise LogError(POLICY_VIOLATION, "cleanup.policy=compact: records cannot be deleted by offset")
        offset = self._watermark if offset == -1 else offset
        if not 0 <= offset <= self._watermark:
            raise LogError(OFFSET_OUT_OF_RANGE, f"{offset} is not below the watermark {self._watermark}")
        self._move_start(offset)
        return self._start

    def apply_retention(self, now_ms: int) -> list[Path]:
        """Drop segments that are over size, over age or before the log start; the files to remove.

        They are already out of the log under another name: `files.remove_files` may take its time.
        """
        self._producers.expire(now_ms, self.config.producer_id_expiration_ms)
        if self._failure is None:
            self._roll_expired(now_ms)
        count = self._expired_count(now_ms)
        if count == 0:
            return []
        doomed, kept = list(self.segments)[:count], list(self.segments)[count:]
        self._move_start(kept[0].base_offset)
        self.segments.replace(kept)
        return self._retire(doomed)

    def _roll_expired(self, now_ms: int) -> None:
        active = self.segments.active
        everything_committed = self._watermark == self._end
        if active.size_bytes and self._too_old(active, now_ms) and everything_committed:
            self.roll()
        else:
            self.roll_if_due(now_ms)

    def _expired_count(self, now_ms: int) -> int:
        surplus = self.segments.size_bytes - self.config.retention_bytes
        count = 0
        for number, segment in enumerate(self.segments.closed()):
            end = self.segments.end_of(number)
            too_large = self.config.retention_bytes >= 0 and surplus >= segment.size_bytes
            expired = self.config.deletes and (too_large or self._too_old(segment, now_ms))
            if end > self._watermark or not (end <= self._start or expired):
                break
            surplus -= segment.size_bytes
            count += 1
        return count

    def _too_old(self, segment: Segment, now_ms: int) -> bool:
        if self.config.retention_ms < 0 or not self.config.deletes:
            return False
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(segment.path.stat().st_mtime * 1000)
        return now_ms - newest > self.config.retention_ms

    def _move_start(self, offset: int) -> None:
        self._start = max(self._start, offset)
        self._epochs.truncate_start(self._start)
        self.write_checkpoint()

    def _retire(self, segments: Sequence[Segment]) -> list[Path]:
        """Take segments' files out of the log by renaming them; the new names."""
        names = []
        for segment in segments:
            segment.close()
            paths = segment.paths()
            if segment.base_offset != self.segments[0].base_offset:
                paths.append(self.directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX))
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    names.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
        return names

    # -- removing from the end

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on; a batch that holds `offset` goes as a whole.

        For followers that diverged from their leader. The watermark comes down with the end.
        """
        if offset >= self._end:
            return
        found = self.segments.find(offset)
        end = min(offset, found[1].base_offset) if found else offset
        if end < self._start:
            self.reset_to(end)
            return
        self._forget_after(end)
        kept = [each for each in self.segments if each.base_offset < end] or [self.segments[0]]
        gone = [each for each in self.segments if each not in kept]
        self.segments.replace(kept)
        remove_files(self._retire(gone))
        active = kept[-1]
        active.open_for_append()
        if found is not None and found[0] is active:
            active.cut(found[1].position, self.config.index_interval_bytes)
        self._settle_end(end)

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`: the leader's log starts after ours ends."""
        self._forget_after(min(offset, self._start))
        old = list(self.segments)
        for segment in old:
            segment.close()
            remove_files(segment.paths())
        fresh = Segment(self.directory, offset)
        fresh.open_for_append()
        self.segments.replace([fresh])
        self._epochs.truncate_end(offset)
        self._start = self._watermark = offset
        self._settle_end(offset)

    def _forget_after(self, end: int) -> None:
        """Before files change: a crash in between must check everything from `end` on."""
        self._generation += 1
        point = min(self.recovery_point, end)
        self.checkpoint = replace(self.checkpoint, recovery_point=point)
        self._watermark = min(self._watermark, end)
        self.write_checkpoint(durable=True)

    def _settle_end(self, end: int) -> None:
        self._end = end
        self._watermark = min(self._watermark, end)
        self._epochs.truncate_end(end)
        self._snapshots = []
        self._producers = rebuild_producers(self.directory, list(self.segments), end, 0)
        fsync_directory(self.directory)
        self.write_checkpoint()
