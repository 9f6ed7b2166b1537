"""One segment of a log: a file of record batches, its two sparse indexes, and walking over its batches.

It knows positions and batch boundaries. The log decides what may be appended, read or deleted.
"""

import mmap
import os
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from actors.log.checking import Known, in_memory
from actors.log.errors import StorageError
from actors.log.files import read_exactly
from actors.log.index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from actors.log.walking import BatchAt, Walk
from actors.records.batch import (
    HEADER_BYTES,
    LENGTH_BYTES,
    MIN_LENGTH,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from actors.records.glances import BRIEF

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"

_WALK_BYTES: Final = 8192


def file_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Kafka's name of a file that begins at `base_offset`."""
    return f"{base_offset:020d}{suffix}"


class BrokenChainError(StorageError):
    """Headers of batches that do not lead from one to the next: the one at `position` is damaged."""

    def __init__(self, segment: "Segment", position: int) -> None:
        super().__init__(f"{segment.path} holds no record batch at byte {position}")
        self.segment = segment
        self.position = position


class OpenFile:
    """A file that is open for reading as long as anybody refers to it. Raises OSError."""

    __slots__ = ("__weakref__", "fd")
    _present: ClassVar[set[int]] = set()  # not a number: threads close files, too

    def __init__(self, path: Path) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._present.add(self.fd)

    def __del__(self) -> None:
        if self.fd >= 0:
            self._present.discard(self.fd)
            os.close(self.fd)

    @classmethod
    def count(cls) -> int:
        """The number of files that this process has open."""
        return len(cls._present)


class Segment:
    """A segment. `fd` is open while it is the active one; otherwise each read opens the file."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.base_offset = base_offset
        self.path = directory / file_name(base_offset)
        self.offsets = SparseIndex(directory / file_name(base_offset, INDEX_SUFFIX), OFFSET_ENTRY)
        self.times = SparseIndex(directory / file_name(base_offset, TIME_INDEX_SUFFIX), TIME_ENTRY)
        self.fd = -1
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_append_ms = NO_TIMESTAMP
        self.flushed = False
        self.cuts = 0
        """The number of times that its end was cut off. Findings from before a cut are no longer valid."""
        self.damaged: dict[int, BatchAt] = {}
        """By position: what stands for bytes that are known to be damaged when the batches are walked over."""
        self.known = Known()
        """The parts of the file that need not be checked when they are read."""
        self._unindexed_bytes = 0
        self._shared: weakref.ref[OpenFile] | None = None

    # -- opening and closing

    def open_for_append(self) -> None:
        """Create the file if it is missing, and keep it open. Raises OSError."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open_to_read(self) -> OpenFile:
        """The file, which all who read at the same time share. Raises StorageError."""
        file = self._shared() if self._shared is not None else None
        if file is None:
            try:
                file = OpenFile(self.path)
            except OSError as error:
                raise StorageError(f"cannot read {self.path}: {error}") from error
            self._shared = weakref.ref(file)
        return file

    @contextmanager
    def reading(self) -> Iterator[int]:
        """A file descriptor to read from."""
        if self.fd >= 0:
            yield self.fd
            return
        file = self.open_to_read()
        yield file.fd

    def paths(self) -> list[Path]:
        return [self.path, self.offsets.path, self.times.path]

    # -- growing

    def added(self, base_offset: int, size_bytes: int, max_timestamp: int, interval_bytes: int) -> None:
        """A batch of `size_bytes` was written at the end of the file: make an index entry if one is due."""
        relative = base_offset - self.base_offset
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = base_offset
        if self._unindexed_bytes >= interval_bytes:
            self.offsets.append(relative, self.size_bytes)
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.known.add(self.size_bytes, self.size_bytes + size_bytes)
        self.size_bytes += size_bytes

    def seal(self) -> None:
        """No more batches will follow: add the time index entry that holds the segment's largest timestamp."""
        entry = (self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        if self.size_bytes and self.times.last() != entry:
            self.times.append(*entry)

    def jitter_ms(self, limit_ms: int) -> int:
        """Below `limit_ms`, and always the same for a segment: so those of many partitions are not due at once."""
        return zlib.crc32(bytes(self.path)) % limit_ms if limit_ms > 0 else 0

    # -- rebuilding

    def rebuild(
        self,
        interval_bytes: int,
        *,
        verify: bool,
        on_batch: Callable[[BatchHeader], None] | None = None,
        flushed_to: int = 0,
        end: int | None = None,
    ) -> int:
        """Read the file batch by batch and make its indexes anew. Stops at the first bad batch.

        Returns the file's length: if `size_bytes` is less, the rest has to be cut. `verify`: check the checksums too.
        Damage before offset `flushed_to` was not left by a crash: if sound batches follow it is passed over, and noted
        in `damaged`. `end`: the offset before which all of the file is, if that is known.
        """
        self._forget()
        with self.reading() as fd:
            length = os.fstat(fd).st_size
            if length == 0:
                return 0
            with mmap.mmap(fd, length, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
                walk = Walk(content, view, self.base_offset, verify, flushed_to, self.damaged, end)
                for header in walk:
                    for damaged in walk.passed:
                        self.pass_over(damaged, interval_bytes)
                    self.added(header.base_offset, header.size_bytes, header.max_timestamp, interval_bytes)
                    if on_batch is not None:
                        on_batch(header)
                for damaged in walk.passed:
                    self.pass_over(damaged, interval_bytes)
        if not verify:
            self.known.forget()
        return length

    def pass_over(self, damaged: BatchAt, interval_bytes: int) -> None:
        """Damaged bytes are at the end of what is known of the file: go on behind them."""
        self.damaged = {**self.damaged, damaged.position: damaged}
        self.size_bytes = damaged.end
        self._unindexed_bytes = interval_bytes  # so that the next batch is found without what comes before it

    def cut(self, position: int, interval_bytes: int, *, written_to: int = 0) -> None:
        """Drop everything from the batch boundary `position` on. Raises OSError.

        Damage before offset `written_to` is passed over, as in `rebuild`.
        """
        self.cuts += 1
        self.damaged = {at: each for at, each in self.damaged.items() if each.end <= position}
        os.truncate(self.path, position)
        self.rebuild(interval_bytes, verify=False, flushed_to=written_to)

    def load(self) -> bool:
        """Load the indexes of a closed segment. False if they do not fit its file."""
        self._forget()
        self.size_bytes = self.path.stat().st_size
        if not (self.offsets.load() and self.times.load()):
            return False
        last, time = self.offsets.last(), self.times.last()
        if (last is not None and last[1] >= self.size_bytes) or (time is None and self.size_bytes):
            return False
        if time is not None:
            self.max_timestamp, self.max_timestamp_offset = time[0], self.base_offset + time[1]
        return True

    def _forget(self) -> None:
        self.size_bytes = self._unindexed_bytes = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.flushed = False
        self.known.forget()
        self.offsets.clear()
        self.times.clear()

    # -- finding batches

    def find(self, offset: int) -> BatchAt | None:
        """The first batch whose last offset is at least `offset`."""
        entry = self.offsets.floor_first(max(offset - self.base_offset, 0))
        for batch in self.walk(*(entry or (0, 0))[::-1]):
            if batch.last_offset >= offset:
                return batch
        return None

    def last_batch_until(self, limit: int, start: int = 0) -> BatchAt | None:
        """The last batch that ends at byte `limit` or before. `start` is a batch boundary, at `limit` at most."""
        entry = self.offsets.floor_second(limit - 1)
        # The batch that the index finds may end after the limit; then the one before it is the result.
        while entry is not None and entry[1] > start:
            with suppress(BrokenChainError):
                found = self._last_until(limit, entry[1])
                if found is not None:
                    return found
            entry = self.offsets.floor_second(entry[1] - 1)
        return self._last_until(limit, start)

    def last_batch(self) -> BatchAt | None:
        return self.last_batch_until(self.size_bytes)

    def header_at(self, position: int) -> BatchHeader:
        with self.reading() as fd:
            return read_header(read_exactly(fd, HEADER_BYTES, position))

    def headers_from(self, offset: int, *, past_damage: bool = False) -> Iterator[BatchHeader]:
        """The headers of the batches from the one that holds `offset` on; if so wanted, without those in `damaged`."""
        entry = self.offsets.floor_first(max(offset - self.base_offset, 0))
        if self.size_bytes == 0:
            return
        with self.reading() as fd, mmap.mmap(fd, self.size_bytes, access=mmap.ACCESS_READ) as content:
            position = entry[1] if entry else 0
            while position + HEADER_BYTES <= self.size_bytes:
                if past_damage and position in self.damaged:
                    position = self.damaged[position].end
                    continue
                header = read_header(content, position)  # type: ignore[arg-type]
                if header.length < MIN_LENGTH:
                    raise BrokenChainError(self, position)
                if header.last_offset >= offset:
                    yield header
                position += header.size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        if self.fd >= 0:  # most reads are of the active segment: no context for them
            return self.read_from(self.fd, position, size_bytes)
        with self.reading() as fd:
            return self.read_from(fd, position, size_bytes)

    def read_from(self, fd: int, position: int, size_bytes: int) -> bytes:
        """Bytes of the file, which is open already. Nothing is known of it any more if they come from the disk."""
        end = position + size_bytes
        if self.known.touches(position, end) and not in_memory(fd, position, end):
            self.known.forget()
        return read_exactly(fd, size_bytes, position)

    def _last_until(self, limit: int, start: int) -> BatchAt | None:
        found = None
        try:
            for batch in self.walk(start):
                if batch.end > limit:
                    break
                found = batch
        except BrokenChainError:
            if found is None:
                raise
        return found

    def walk(self, position: int, relative: int = 0) -> Iterator[BatchAt]:
        """The batches from the boundary `position` on, reading ahead a little at a time.

        Their offsets, relative to that of the segment, are not below `relative`. Known damage is passed as if it were
        one batch. Raises BrokenChainError.
        """
        with self.reading() as fd:
            chunk, chunk_at, low = b"", position, self.base_offset + relative
            unpack, need, damaged = BRIEF.unpack_from, BRIEF.size, self.damaged
            while position + HEADER_BYTES <= self.size_bytes:
                if damaged and position in damaged:
                    stand_in = damaged[position]
                    yield stand_in
                    position, low = stand_in.end, stand_in.last_offset + 1
                    continue
                if position + need > chunk_at + len(chunk):
                    chunk_at = position
                    chunk = self.read_from(fd, position, min(_WALK_BYTES, self.size_bytes - position))
                    if len(chunk) < need:
                        raise BrokenChainError(self, position)  # the file has lost its end
                base_offset, length, delta = unpack(chunk, position - chunk_at)
                end = position + length + LENGTH_BYTES
                if length < MIN_LENGTH or base_offset < low or delta < 0 or end > self.size_bytes:
                    raise BrokenChainError(self, position)
                yield BatchAt(position, length + LENGTH_BYTES, base_offset, base_offset + delta)
                position, low = end, base_offset + delta + 1
