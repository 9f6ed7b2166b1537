"""One partition's log: appending as leader or follower, reading, offsets, truncation, retention.

One thread calls a log. What takes long is handed out, to be run elsewhere: flush jobs, extents to read, files
to remove. Opening stands in recovery.py, compaction in compaction.py.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.log.admission import Admitted, admit
from actors.log.batch import (
    NO_TIMESTAMP,
    PREFIX,
    BatchHeader,
    Buffer,
    crc_matches,
    read_header,
    split_batches,
    without_records_before,
)
from actors.log.config import LogConfig
from actors.log.errors import (
    FENCED_LEADER_EPOCH,
    OFFSET_OUT_OF_RANGE,
    CorruptBatchError,
    FetchOffsetOutOfRange,
    LogError,
    StorageError,
)
from actors.log.files import FileWriter, read_exactly
from actors.log.producer_state import ProducerBatch
from actors.log.recovery import open_directory
from actors.log.segments import Place
from actors.log.upkeep import UpkeptLog

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


class Extent:
    """Whole batches in a file: what `PartitionLog.read` would return, for another thread to read once.

    Keeps the file open until then: a compaction may put another one, with other positions, under its name.
    """

    __slots__ = ("_fd", "next_offset", "path", "position", "size_bytes")

    def __init__(self, place: Place) -> None:
        self._fd = -1
        self.path = place.segment.path
        self.position = place.position
        self.size_bytes = place.size_bytes
        self.next_offset = place.next_offset
        self._fd = place.segment.open_to_read()

    def read(self) -> bytes:
        """The bytes. StorageError where the file has fewer."""
        try:
            data = read_exactly(self._fd, self.size_bytes, self.position)
        finally:
            self._close()
        if len(data) < self.size_bytes:
            raise StorageError(f"{self.path}: {len(data)} of {self.size_bytes} bytes at byte {self.position}")
        return data

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = _close  # one that nobody will read any more: not before a thread that reads it is done


class PartitionLog(UpkeptLog):
    """A log on disk. Errors are LogError with Kafka's code; after one the log is as it was before."""

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

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the watermark up to `offset`, at most to the log end; whether it moved."""
        offset = min(offset, self._end)
        if offset <= self._watermark:
            return False
        self._watermark = offset
        return True

    def assign_leader_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """A leader of `epoch` begins at `start_offset`, or at the log end (KIP-101).

        Costs no file: the next checkpoint writes it down, and until then recovery finds it in the epoch's batches.
        One that has none is of no use to anybody after a crash.
        """
        self._epochs.assign(epoch, self._end if start_offset is None else start_offset)

    def epoch_entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of all known epochs, ascending."""
        return self._epochs.entries()

    def epochs_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of those in force from `start` to `end`; the first one may begin before."""
        return self._epochs.between(start, end)

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
        """Append batches a leader has stamped. Offsets may leave gaps (compaction), never go back.

        A first batch that begins before the log end, as compaction's merging makes them, is taken from there. It may
        have no records left from there on: then nothing of it is appended, and the log's end stays.
        """
        self._must_be_usable()
        batches = self._from_leader(data)
        if not batches:
            return self._result(self._end, self._end - 1, -1)
        base, offset = batches[0].header.base_offset, batches[-1].header.next_offset
        self._write([batch for batch, _ in batches], base, offset, now_ms)
        for _, header in batches:
            self._added(header, header.base_offset, header.leader_epoch, now_ms)
        self._flush_if_due(offset - base)
        return self._result(base, offset - 1, batches[-1].header.max_timestamp)

    def _from_leader(self, data: bytes | memoryview) -> list[Admitted]:
        split = split_batches(data)
        if not split or split[-1][1] != len(data):
            raise CorruptBatchError(f"{len(data)} bytes from the leader are no whole batches")
        view, offset = memoryview(data), self._end
        batches: list[Admitted] = []
        for start, end, header in split:
            batch: Buffer = view[start:end]
            if not crc_matches(batch, header.crc):
                raise CorruptBatchError(f"batch at offset {header.base_offset} fails its checksum")
            if header.base_offset < offset:
                if batches or header.last_offset < offset:
                    raise LogError(OFFSET_OUT_OF_RANGE, f"batch at {header.base_offset}, expected {offset}")
                rest = without_records_before(batch, header, offset)
                if rest is None:
                    continue
                batch, header = rest, read_header(rest)
            batches.append(Admitted(batch, header))
            offset = header.next_offset
        return batches

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
        self._last_append_ms = now_ms
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms

    def _added(self, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Account for a batch that has been written."""
        self._epochs.assign(leader_epoch, base_offset)
        self.segments.active.added(
            base_offset, header.size_bytes, header.max_timestamp, self.config.index_interval_bytes
        )
        self._end = base_offset + header.last_offset_delta + 1
        if header.producer_id >= 0 and not header.is_control:
            self._producers.record(header, base_offset, now_ms)

    def _result(self, base: int, last: int, time_ms: int, duplicate: bool = False) -> AppendResult:
        stamped = self.config.message_timestamp_type == "LogAppendTime"
        return AppendResult(base, last, time_ms if stamped else NO_TIMESTAMP, self._start, duplicate)

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
        """What `read` would return, as an extent another thread can read; None instead of b"". Opens the file."""
        place = self._place(offset, max_bytes, max_offset, min_one_batch)
        return Extent(place) if place else None

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        """How much `read` would return."""
        place = self._place(offset, max_bytes, None, True)
        return place.size_bytes if place else 0

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """What stands from `offset` on, committed or not, and where reading goes on: for followers.

        b"" and the log end where compaction has left nothing.
        """
        place = self._place(offset, max_bytes, self._end, True)
        if place is None:
            return b"", self._end
        return place.segment.read(place.position, place.size_bytes), place.next_offset

    def extents(self, max_bytes: int, max_offset: int | None = None) -> Iterator[Extent]:
        """The log from its start to the watermark (or `max_offset`), in pieces: for loading a shard."""
        offset = self._start
        while (extent := self.locate(offset, max_bytes, max_offset)) is not None:
            yield extent
            offset = extent.next_offset

    def _place(self, offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Place | None:
        if not self._start <= offset <= self._end:
            raise FetchOffsetOutOfRange(f"offset {offset} is not within {self._start}..{self._end}")
        limit = self._watermark if max_offset is None else min(max_offset, self._end)
        if offset >= limit:
            return None
        return self.segments.locate(offset, max_bytes, limit, self._end, min_one_batch)
