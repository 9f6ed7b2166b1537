"""Checks each record of a produced batch, and names all that fail, so that a client can tell which (KIP-467).

Only for topics whose settings need it, because it reads the whole batch.
"""

from collections.abc import Iterator
from typing import Final

from actors.log import batch as batches
from actors.log.batch import NO_TIMESTAMP, BatchHeader, Record
from actors.log.config import MAX_LONG, LogConfig
from actors.log.errors import INVALID_RECORD, INVALID_TIMESTAMP, LogError, RefusedRecordsError

MAX_NAMED: Final = 10_000
"""How many bad records are named at most: a compressed batch can hold millions."""


def check_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raises RefusedRecordsError for records the topic refuses, CorruptBatchError for bytes that are not records."""
    create_time = config.message_timestamp_type == "CreateTime"
    latest = now_ms + config.message_timestamp_after_max_ms if create_time else MAX_LONG
    before = config.message_timestamp_before_max_ms if create_time else MAX_LONG
    oldest = now_ms - before
    keyed = config.compacts and not header.is_control
    too_late = header.max_timestamp > latest
    if not (keyed or too_late or before != MAX_LONG):
        return
    if refused := _refused(_numbered(batch, header, in_order=keyed), keyed, oldest, latest):
        code = INVALID_TIMESTAMP if any(error[1] == INVALID_TIMESTAMP for error in refused) else INVALID_RECORD
        raise RefusedRecordsError(code, header.record_count, [(index, text) for index, _, text in refused])
    if too_late:
        raise LogError(INVALID_TIMESTAMP, f"the batch's timestamp {header.max_timestamp} is after {latest}")


def _refused(
    records: Iterator[tuple[int, Record]], keyed: bool, oldest: int, latest: int
) -> list[tuple[int, int, str]]:
    found = []
    for index, record in records:
        timestamp = record.timestamp
        if keyed and record.key is None:
            found.append((index, INVALID_RECORD, "a compacted topic takes no record without a key"))
        elif timestamp != NO_TIMESTAMP and not oldest <= timestamp <= latest:
            found.append((index, INVALID_TIMESTAMP, _out_of_range(timestamp, oldest, latest)))
        if len(found) == MAX_NAMED:
            break
    return found


def _out_of_range(timestamp: int, oldest: int, latest: int) -> str:
    if timestamp < oldest:
        return f"timestamp {timestamp} is before {oldest}: message.timestamp.before.max.ms"
    return f"timestamp {timestamp} is after {latest}: message.timestamp.after.max.ms"


def _numbered(batch: memoryview, header: BatchHeader, *, in_order: bool) -> Iterator[tuple[int, Record]]:
    """The records with their indexes. `in_order`: check that offset deltas are 0, 1, 2, which compaction needs."""
    for index, record in enumerate(batches.batch_records(batch, header)):
        if in_order and record.offset != header.base_offset + index:
            raise LogError(INVALID_RECORD, "the records' offset deltas are not 0, 1, 2, ...")
        yield index, record
