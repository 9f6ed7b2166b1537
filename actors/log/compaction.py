"""Compaction: of the records with one key only the last stays, tombstones go after a while, offsets never change.

`compact` is a plain function on files, which runs in a helper process: it reads closed segments and writes `*.cleaned`
files beside them. The log plans what to compact (cleaning.py), and puts the result in place (swap.py).

Small neighbouring batches are merged into larger ones, which makes the log of an offsets partition, one commit a
batch, several times faster to load. Batches of idempotent or transactional producers are not merged; each producer's
last one stays even without records, as in Kafka: a replica made from the log later must know its sequence.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

from aiokafka.record.memory_records import MemoryRecords

from actors.log.batch import (
    CODEC_MASK,
    BatchHeader,
    Headers,
    batch_records,
    build_sparse_batch,
    iter_batches,
    read_header,
    with_log_append_time,
    without_records,
)
from actors.log.files import FileWriter, remove_files
from actors.log.segment import MAX_RELATIVE_OFFSET, Segment

CLEANED_SUFFIX: Final = ".cleaned"
DEFAULT_MAX_KEYS: Final = 5_000_000

_CHUNK_BYTES: Final = 4 << 20
_MERGED_BYTES: Final = 64 << 10
_MERGED_RECORDS: Final = 5_000

SparseRecord = tuple[int, bytes | None, bytes | None, Headers | None, int]


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What one compaction reads: plain data, so that it can go to another process.

    `bases`: the base offsets of all closed, committed segments from the log's first on; they end at `end`.
    Records from `first_dirty` on have not been compacted yet. Tombstones before `tombstones_until` may go.
    `producers_last`: the last offset of the last batch of each producer that the log knows.
    """

    directory: str
    bases: tuple[int, ...]
    end: int
    first_dirty: int
    log_start: int
    tombstones_until: int
    segment_bytes: int
    index_interval_bytes: int
    max_batch_bytes: int
    generation: int
    max_keys: int = DEFAULT_MAX_KEYS
    producers_last: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What one compaction wrote: segments `new_bases` take the place of `old_bases` once swapped in."""

    directory: str
    old_bases: tuple[int, ...]
    new_bases: tuple[int, ...]
    cleaned_to: int
    generation: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_written: int


def compact(plan: CompactionPlan, writer: FileWriter) -> CompactionResult:
    """Write the compacted segments of `plan` as `*.cleaned`, durably. OSError when the disk refuses."""
    directory = Path(plan.directory)
    segments = [_loaded(directory, base, plan.index_interval_bytes) for base in plan.bases]
    latest, cleaned_to = _latest_offsets(plan, segments)
    used = [segment for segment in segments if segment.base_offset < cleaned_to]
    output = _Output(plan, used[0].base_offset, writer)
    try:
        keeper = _Keeper(plan, latest, output)
        for segment in used:
            for chunk in _chunks(segment):
                keeper.take(chunk)
        keeper.finish()
        output.finish()
    except BaseException:
        output.discard()
        raise
    return CompactionResult(
        directory=plan.directory,
        old_bases=tuple(segment.base_offset for segment in used),
        new_bases=tuple(segment.base_offset for segment in output.segments),
        cleaned_to=cleaned_to,
        generation=plan.generation,
        records_read=keeper.records_read,
        records_kept=keeper.records_kept,
        bytes_read=sum(segment.size_bytes for segment in used),
        bytes_written=sum(segment.size_bytes for segment in output.segments),
    )


def cleaned(path: Path) -> Path:
    """The name a file has between `compact` and the swap."""
    return path.with_name(path.name + CLEANED_SUFFIX)


def _loaded(directory: Path, base_offset: int, interval_bytes: int) -> Segment:
    segment = Segment(directory, base_offset)
    if not segment.load():
        segment.rebuild(interval_bytes, verify=False)
    return segment


def _chunks(segment: Segment) -> Iterator[bytes]:
    """A segment's bytes in pieces of whole batches."""
    position = 0
    while position < segment.size_bytes:
        last = segment.last_batch_until(position + _CHUNK_BYTES, position) or next(segment.walk(position), None)
        if last is None:
            return
        yield segment.read(position, last.end - position)
        position = last.end


def _latest_offsets(plan: CompactionPlan, segments: list[Segment]) -> tuple[dict[bytes, int], int]:
    """Each key's last offset in the dirty part, and the offset up to which `max_keys` was enough."""
    latest: dict[bytes, int] = {}
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else plan.end
        if end <= plan.first_dirty:
            continue
        for chunk in _chunks(segment):
            batches = MemoryRecords(chunk)
            while (batch := batches.next_batch()) is not None:
                if batch.is_control_batch:
                    continue
                for record in batch:
                    latest[cast(bytes, record.key)] = record.offset
                if len(latest) >= plan.max_keys:
                    return latest, batch.next_offset
    return latest, plan.end


class _Keeper:
    """Decides which records stay, and gathers these into batches."""

    def __init__(self, plan: CompactionPlan, latest: dict[bytes, int], output: "_Output") -> None:
        self.records_read = self.records_kept = 0
        self._plan = plan
        self._latest = latest
        self._output = output
        self._merge_limit = min(_MERGED_BYTES, plan.max_batch_bytes)
        self._pending = _Pending()

    def take(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        for start, end, header in iter_batches(chunk):
            batch = view[start:end]
            if header.is_control:
                self._write(batch, header)
                continue
            kept = self._kept(batch, header)
            self.records_read += header.record_count
            self.records_kept += len(kept)
            if not kept:
                if header.producer_id >= 0 and header.last_offset in self._plan.producers_last:
                    empty = without_records(header)
                    self._write(empty, read_header(empty))
                continue
            if self._mergeable(header):
                self._merge(kept, header)
            elif len(kept) == header.record_count:
                self._write(batch, header)
            else:
                self._write_rebuilt(kept, header)

    def finish(self) -> None:
        """Write the batch that is being gathered."""
        pending, self._pending = self._pending, _Pending()
        if pending.first is not None and pending.last is not None:
            batch = pending.build()
            self._output.write(batch, read_header(batch))

    def _kept(self, batch: memoryview, header: BatchHeader) -> list[SparseRecord]:
        latest, base = self._latest.get, header.base_offset
        until, start = self._plan.tombstones_until, self._plan.log_start
        return [
            (offset - base, record.key, record.value, record.headers, record.timestamp)
            for record in batch_records(batch, header)
            if record.key is not None
            and latest(record.key, -1) <= (offset := record.offset)
            and offset >= start
            and (record.value is not None or offset >= until)
        ]

    def _mergeable(self, header: BatchHeader) -> bool:
        plain = header.producer_id < 0 and not header.is_transactional and not header.is_log_append_time
        return plain and header.size_bytes < self._merge_limit

    def _merge(self, kept: list[SparseRecord], header: BatchHeader) -> None:
        if not self._pending.fits(header, self._merge_limit):
            self.finish()
        self._pending.add(kept, header)

    def _write(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        self.finish()
        self._output.write(batch, header)

    def _write_rebuilt(self, kept: list[SparseRecord], header: BatchHeader) -> None:
        """The batch without its superseded records; offsets and sequences stay what they were."""
        batch = build_sparse_batch(
            kept,
            base_offset=header.base_offset,
            codec=header.codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.leader_epoch,
            is_transactional=header.is_transactional,
            last_offset_delta=header.last_offset_delta,
        )
        if header.is_log_append_time:
            batch = bytes(with_log_append_time(batch, read_header(batch), header.max_timestamp))
        self._write(batch, read_header(batch))


@dataclass(slots=True)
class _Pending:
    """Records of small batches, which become one batch."""

    first: BatchHeader | None = None
    last: BatchHeader | None = None
    size_bytes: int = 0
    records: list[SparseRecord] = field(default_factory=list)

    def fits(self, header: BatchHeader, limit: int) -> bool:
        if self.first is None:
            return True
        alike = (
            header.leader_epoch == self.first.leader_epoch
            and header.attributes & CODEC_MASK == self.first.attributes & CODEC_MASK
        )
        small = self.size_bytes + header.size_bytes <= limit and len(self.records) < _MERGED_RECORDS
        return alike and small and header.last_offset - self.first.base_offset <= MAX_RELATIVE_OFFSET

    def add(self, kept: list[SparseRecord], header: BatchHeader) -> None:
        if self.first is None:
            self.first = header
        shift = header.base_offset - self.first.base_offset
        self.last = header
        self.size_bytes += header.size_bytes
        self.records += [(delta + shift, *rest) for delta, *rest in kept] if shift else kept  # type: ignore[misc]

    def build(self) -> bytes:
        assert self.first is not None
        assert self.last is not None
        return build_sparse_batch(
            self.records,
            base_offset=self.first.base_offset,
            codec=self.first.codec,
            leader_epoch=self.first.leader_epoch,
            last_offset_delta=self.last.last_offset - self.first.base_offset,
        )


class _Output:
    """The `*.cleaned` segments being written."""

    def __init__(self, plan: CompactionPlan, base_offset: int, writer: FileWriter) -> None:
        self.segments: list[Segment] = []
        self._plan = plan
        self._writer = writer
        self._file: IO[bytes] | None = None
        self._begin(base_offset)

    def write(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        segment = self.segments[-1]
        too_large = segment.size_bytes + len(batch) > self._plan.segment_bytes
        too_far = header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if too_far or (segment.size_bytes and too_large):
            # The first segment may stay empty: its name says where the log begins.
            self._end()
            segment = self._begin(header.base_offset)
        assert self._file is not None
        self._file.write(batch)
        segment.added(header.base_offset, len(batch), header.max_timestamp, self._plan.index_interval_bytes)

    def finish(self) -> None:
        self._end()
        self._writer.fsync_directory(Path(self._plan.directory))

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
        remove_files(cleaned(path) for segment in self.segments for path in segment.paths())

    def _begin(self, base_offset: int) -> Segment:
        segment = Segment(Path(self._plan.directory), base_offset)
        self.segments.append(segment)
        self._file = cleaned(segment.path).open("wb", buffering=1 << 20)
        return segment

    def _end(self) -> None:
        segment = self.segments[-1]
        assert self._file is not None
        self._file.close()
        segment.seal()
        for index in (segment.offsets, segment.times):
            cleaned(index.path).write_bytes(index.packed())
        for path in segment.paths():
            self._writer.fsync_file(cleaned(path))
