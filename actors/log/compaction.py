"""Compaction: of the records with one key only the last stays, tombstones go after a while, offsets never change.

`compact` is a plain function on files, which runs in a helper process: it reads closed segments and writes `*.cleaned`
files beside them. The log plans what to compact (cleaning.py), and puts the result in place (swap.py).

Small neighbouring batches are merged into larger ones, which makes the log of an offsets partition, one commit a
batch, several times faster to load. Batches of idempotent or transactional producers are not merged; each producer's
last one stays even without records, as in Kafka: a replica made from the log later must know its sequence.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from actors.log.files import FileWriter, remove_files
from actors.log.segment import Segment
from actors.log.walking import MAX_RELATIVE_OFFSET
from actors.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    assembled,
    crc_matches,
    iter_batches,
    read_header,
    without_records,
)
from actors.records.building import moved
from actors.records.compression import compress
from actors.records.errors import CorruptBatchError
from actors.records.reading import payload_of
from actors.records.rows import Row
from actors.records.scan import rows_of
from actors.records.summary import LONG_MAX, LONG_MIN

CLEANED_SUFFIX: Final = ".cleaned"
DEFAULT_MAX_KEYS: Final = 5_000_000

_CHUNK_BYTES: Final = 4 << 20
_MERGED_BYTES: Final = 64 << 10
_MERGED_RECORDS: Final = 5_000


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The input of one compaction: plain data, so that it can go to another process.

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
    """The outcome of one compaction: segments `new_bases` take the place of `old_bases` once swapped in.

    `unreadable`: the base offsets of batches that cannot be read, and stay as they are.
    """

    directory: str
    old_bases: tuple[int, ...]
    new_bases: tuple[int, ...]
    cleaned_to: int
    generation: int
    records_read: int
    records_kept: int
    unreadable: tuple[int, ...] = ()


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
    except BaseException:  # of a bug, too: half an output must not stay on the disk
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
        unreadable=tuple(keeper.unreadable),
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
            view = memoryview(chunk)
            for start, stop, header in iter_batches(chunk):
                if not header.is_control:
                    _note_keys(latest, view[start:stop], header)
                if len(latest) >= plan.max_keys:
                    return latest, header.next_offset
    return latest, plan.end


def _note_keys(latest: dict[bytes, int], batch: memoryview, header: BatchHeader) -> None:
    base = header.base_offset
    found: dict[bytes, int] = {}
    with contextlib.suppress(CorruptBatchError):  # it stays as it is, and replaces nothing: see `_Keeper.take`
        payload = _sound_payload(batch, header)
        for row in _rows(payload, header):
            if row.key_size >= 0:
                found[payload[row.key_start : row.key_start + row.key_size]] = base + row.offset_delta
        latest.update(found)


def _sound_payload(batch: memoryview, header: BatchHeader) -> bytes:
    """The payload, if the batch is what was written: what is damaged must not get a checksum that is right."""
    if not crc_matches(batch, header.crc):
        raise CorruptBatchError(f"the batch at offset {header.base_offset} fails its checksum")
    return payload_of(batch, header)


def _rows(payload: bytes, header: BatchHeader) -> Iterator[Row]:
    """The records of a batch. CorruptBatchError also for offsets and times that would spoil those it is merged with."""
    least, most = 0, header.last_offset_delta
    latest = LONG_MAX - header.first_timestamp
    for row in rows_of(payload, header.record_count):
        if not least <= row.offset_delta <= most or row.time_delta > latest:
            raise CorruptBatchError("the offsets of the records are not in order, or a time has more than 64 bits")
        least = row.offset_delta + 1
        yield row


class _Keeper:
    """Decides which records stay, and gathers these into batches.

    A record that stays does so to the byte. A batch that cannot be read stays as a whole: it is no reason to keep a
    topic from being compacted.
    """

    def __init__(self, plan: CompactionPlan, latest: dict[bytes, int], output: "_Output") -> None:
        self.records_read = self.records_kept = 0
        self.unreadable: list[int] = []
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
            try:
                payload = _sound_payload(batch, header)
                kept = self._kept(payload, header)
            except CorruptBatchError:
                self.unreadable.append(header.base_offset)
                self.records_read += header.record_count
                self.records_kept += header.record_count
                self._write(batch, header)
                continue
            self.records_read += header.record_count
            self.records_kept += kept.count
            self._put(batch, header, payload, kept)

    def finish(self) -> None:
        """Write the batch that is being gathered."""
        pending, self._pending = self._pending, _Pending()
        if pending.first is not None and pending.last is not None:
            batch = pending.build()
            self._output.write(batch, read_header(batch))

    def _kept(self, payload: bytes, header: BatchHeader) -> "_Kept":
        """The records that stay. They are gathered as bytes: as objects, those of one batch may be millions."""
        latest, base = self._latest.get, header.base_offset
        until, start = self._plan.tombstones_until, self._plan.log_start
        few = header.record_count <= _MERGED_RECORDS
        kept = _Kept()
        for row in _rows(payload, header):
            offset = base + row.offset_delta
            if row.key_size < 0 or offset < start or (row.value_size < 0 and offset < until):
                continue
            if latest(payload[row.key_start : row.key_start + row.key_size], -1) > offset:
                continue
            kept.count += 1
            kept.latest = max(kept.latest, header.first_timestamp + row.time_delta)
            if few:
                kept.rows.append(row)
            else:
                kept.records += payload[row.start : row.end]
        return kept

    def _put(self, batch: memoryview, header: BatchHeader, payload: bytes, kept: "_Kept") -> None:
        if not kept.count:
            if header.producer_id >= 0 and header.last_offset in self._plan.producers_last:
                empty = without_records(header)
                self._write(empty, read_header(empty))
        elif self._mergeable(header, payload, kept):
            self._merge(payload, header, kept)
        elif kept.count == header.record_count:
            self._write(batch, header)
        else:
            self._write_rebuilt(payload, header, kept)

    def _mergeable(self, header: BatchHeader, payload: bytes, kept: "_Kept") -> bool:
        plain = header.producer_id < 0 and not header.is_transactional and not header.is_log_append_time
        return plain and bool(kept.rows) and HEADER_BYTES + len(payload) < self._merge_limit

    def _merge(self, payload: bytes, header: BatchHeader, kept: "_Kept") -> None:
        if not self._pending.fits(header, payload, kept, self._merge_limit):
            self.finish()
        self._pending.add(header, payload, kept)

    def _write(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        self.finish()
        self._output.write(batch, header)

    def _write_rebuilt(self, payload: bytes, header: BatchHeader, kept: "_Kept") -> None:
        """The batch without its superseded records; offsets, times and sequences stay what they were."""
        plain = bytes(kept.records) or b"".join([payload[row.start : row.end] for row in kept.rows])
        fields = header._replace(record_count=kept.count)
        if not header.is_log_append_time:
            fields = fields._replace(max_timestamp=kept.latest)
        batch = assembled(fields, compress(header.codec, plain))
        self._write(batch, read_header(batch))


@dataclass(slots=True)
class _Kept:
    """The records of a batch that stay: where they are or, of many, their bytes. `latest` is their last timestamp."""

    count: int = 0
    latest: int = NO_TIMESTAMP
    rows: list[Row] = field(default_factory=list)
    records: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Pending:
    """Records of small batches, which become one batch."""

    first: BatchHeader | None = None
    last: BatchHeader | None = None
    size_bytes: int = 0
    latest: int = NO_TIMESTAMP
    records: list[bytes] = field(default_factory=list)

    def fits(self, header: BatchHeader, payload: bytes, kept: _Kept, limit: int) -> bool:
        if self.first is None:
            return True
        alike = (
            header.leader_epoch == self.first.leader_epoch
            and header.attributes & CODEC_MASK == self.first.attributes & CODEC_MASK
        )
        small = self.size_bytes + len(payload) <= limit and len(self.records) < _MERGED_RECORDS
        near = header.last_offset - self.first.base_offset <= MAX_RELATIVE_OFFSET
        shift = header.first_timestamp - self.first.first_timestamp
        return alike and small and near and all(LONG_MIN <= row.time_delta + shift <= LONG_MAX for row in kept.rows)

    def add(self, header: BatchHeader, payload: bytes, kept: _Kept) -> None:
        if self.first is None:
            self.first = header
        offset_shift = header.base_offset - self.first.base_offset
        time_shift = header.first_timestamp - self.first.first_timestamp
        self.last = header
        self.size_bytes += len(payload)
        self.latest = max(self.latest, kept.latest)
        self.records += [moved(payload, row, offset_shift, time_shift) for row in kept.rows]

    def build(self) -> bytes:
        assert self.first is not None
        assert self.last is not None
        header = self.first._replace(
            attributes=self.first.codec,
            last_offset_delta=self.last.last_offset - self.first.base_offset,
            max_timestamp=self.latest,
            record_count=len(self.records),
        )
        return assembled(header, compress(header.codec, b"".join(self.records)))


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
