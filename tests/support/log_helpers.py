"""Helpers of the log's tests: batches with known content, logs in temporary folders, a disk that fails."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from actors.broker.context import log_config
from actors.log.compaction import compact
from actors.log.config import LogConfig
from actors.log.files import REAL_WRITER, FileWriter, remove_files
from actors.log.machine import Machine
from actors.log.partition_log import PartitionLog
from actors.records.batch import HEADER_BYTES, LOG_APPEND_TIME, assembled, iter_batches, read_header
from actors.records.building import build_batch
from actors.records.errors import LogError
from actors.records.reading import Record
from actors.runtime.environment import REAL, new_uuid
from actors.settings import INTERNAL_SEGMENT_BYTES, BrokerConfig
from tests.support.read_records import read_records

NOW_MS = 1_700_000_000_000


def config(**settings: str) -> LogConfig:
    """A LogConfig from Kafka's names with underscores for dots. Segments may be smaller than users may have them."""
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    if "segment.bytes" in texts:
        texts[INTERNAL_SEGMENT_BYTES] = texts.pop("segment.bytes")
    expiration = {name: texts.pop(name) for name in ("producer.id.expiration.ms",) if name in texts}
    return log_config(texts, BrokerConfig.from_mapping(expiration))


def open_log(
    path: Path, *, clean: bool = False, power_lost: bool = True, writer: FileWriter = REAL_WRITER, **settings: str
) -> PartitionLog:
    return PartitionLog.open(
        path, config(**settings), writer, clean_shutdown=clean, power_lost=power_lost, now_ms=NOW_MS
    )


def machine(writer: FileWriter = REAL_WRITER, boot: Callable[[], bytes] = REAL.kernel.boot) -> Machine:
    """The machine we run on, with another disk or another boot."""
    return Machine(writer, boot, lambda: new_uuid(REAL.chance).hex)


def values(*items: bytes | None, key: bytes | None = b"k", timestamp_ms: int = NOW_MS, **options: object) -> bytes:
    """One batch with these values."""
    return build_batch([(key, item, None, timestamp_ms) for item in items], **options)  # type: ignore[arg-type]


def append(
    log: PartitionLog,
    data: bytes,
    epoch: int = 0,
    now_ms: int = NOW_MS,
    commit: bool = True,
    *,
    internal: bool = False,
) -> int:
    """Append as leader and commit; the base offset. Several batches at once are `internal`."""
    base = log.append_as_leader(data, epoch, now_ms, internal=internal).base_offset
    if commit:
        log.advance_high_watermark(log.log_end_offset)
    return base


def all_bytes(log: PartitionLog) -> bytes:
    """Everything from the log start to the log end, committed or not."""
    return b"".join(extent.read() for extent in log.extents(1 << 20, log.log_end_offset))


def all_records(log: PartitionLog) -> list[Record]:
    return list(read_records(all_bytes(log), verify_crc=True))


def content(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every record."""
    return [(each.offset, each.key, each.value) for each in all_records(log)]


def batch_bounds(log: PartitionLog) -> list[tuple[int, int]]:
    """(base offset, last offset) of every batch."""
    return [(header.base_offset, header.last_offset) for _, _, header in iter_batches(all_bytes(log))]


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int, max_offset: int | None = None) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after a time, looked for batch by batch as a broker does."""
    since = 0
    while (batch := log.batch_with(timestamp_ms, since, max_offset)) is not None:
        if (found := batch.find()) is not None:
            return found.offset, found.timestamp
        since = batch.header.next_offset
    return None


def max_timestamp(log: PartitionLog, max_offset: int | None = None) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the largest timestamp."""
    batch = log.newest_batch(max_offset)
    found = None if batch is None else batch.find()
    return None if found is None else (found.offset, found.timestamp)


def last_values(records):
    table = {}
    for _, key, value in records:
        table.pop(key, None)
        if value is not None:
            table[key] = value
    return table


class FullDisk(FileWriter):
    """Takes `room` more bytes, then part of a write and ENOSPC; and refuses with the errors it is given."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.fsync_error: OSError | None = None
        self.file_error: OSError | None = None
        """For files that are replaced as a whole."""

    def write(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        data = b"".join(buffers)
        if self.room is not None and len(data) > self.room:
            os.pwrite(fd, data[: self.room], position)
            raise OSError(28, "No space left on device")
        if self.room is not None:
            self.room -= len(data)
        return super().write(fd, buffers, position)

    def fsync(self, fd: int) -> None:
        if self.fsync_error is not None:
            raise self.fsync_error
        super().fsync(fd)

    def fsync_file(self, path: Path) -> None:
        if self.fsync_error is not None:
            raise self.fsync_error
        super().fsync_file(path)

    def write_atomically(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        if self.file_error is not None:
            raise self.file_error
        super().write_atomically(path, data, durable=durable)


COMPACT = {"cleanup_policy": "compact", "segment_bytes": "400", "index_interval_bytes": "100"}


def put(log, *pairs, now_ms=NOW_MS, **options):
    append(log, build_batch([(key, value, None, now_ms) for key, value in pairs], **options), now_ms=now_ms)


def clean(log, now_ms=NOW_MS, **options):
    """Compact now, whatever the ratio; true if there was something to do."""
    plan = log.cleaning.plan(now_ms, force=True, **options)
    if plan is None:
        return False
    remove_files(log.cleaning.swap(compact(plan, REAL_WRITER), now_ms))
    return True


def refused(log, data, code, **options):
    before = (log.log_end_offset, log.size_bytes, all_bytes(log))
    with pytest.raises(LogError) as caught:
        log.append_as_leader(data, options.pop("epoch", 0), NOW_MS, **options)
    assert caught.value.error_code == code
    assert (log.log_end_offset, log.size_bytes, all_bytes(log)) == before
    return caught.value


def sent(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7) -> bytes:
    records = [(b"k", b"%d" % (sequence + number), None, NOW_MS) for number in range(count)]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def appended_at(batch: bytes, time_ms: int) -> bytes:
    """The batch as a broker has it whose topic uses LogAppendTime."""
    header = read_header(batch)
    fields = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=time_ms)
    return assembled(fields, batch[HEADER_BYTES:])
