"""Checks produced batches before a leader appends them, and rewrites them if the topic's settings ask for it.

Looks at bytes and topic settings only. Checks of single records are in record_checks.py, those of producers' sequences
and epochs in producer_state.py.
"""

from typing import Final, NamedTuple

from actors.log import batch as batches
from actors.log.batch import HEADER_BYTES, LENGTH_BYTES, MIN_LENGTH, BatchHeader, Buffer
from actors.log.compression import MAX_DECOMPRESSED_BYTES, ZSTD
from actors.log.config import LogConfig
from actors.log.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    CorruptBatchError,
    LogError,
)
from actors.log.record_checks import check_records

_MAGIC_AT: Final = 16
_PREFIX_BYTES: Final = 17
_MIN_RECORD_BYTES: Final = 7


class Admitted(NamedTuple):
    """One batch to append: bytes and header, whose base offset and leader epoch are not set yet."""

    data: Buffer
    header: BatchHeader


def admit(data: Buffer, config: LogConfig, now_ms: int, *, internal: bool) -> list[Admitted]:
    """The batches of one produce request, checked. Raises LogError with the code to answer if one is bad.

    `internal`: a process of this cluster made them. Their records are not looked at, and may be control records.
    """
    if len(data) > config.segment_bytes:
        raise LogError(RECORD_LIST_TOO_LARGE, f"{len(data)} bytes do not fit in segment.bytes")
    view = memoryview(data)
    admitted = []
    position, size = 0, len(view)
    while position < size:
        header = _whole_header(view, position)
        end = position + LENGTH_BYTES + header.length
        batch = view[position:end]
        _check(batch, header, config, now_ms, internal)
        admitted.append(_as_topic_wants(batch, header, config, now_ms))
        position = end
    if not admitted:
        raise LogError(INVALID_RECORD, "an append holds at least one record batch")
    return admitted


def _whole_header(view: memoryview, position: int) -> BatchHeader:
    left = len(view) - position
    if left >= _PREFIX_BYTES and view[position + _MAGIC_AT] < batches.MAGIC:
        raise LogError(UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats before version 2 are not supported")
    if left < HEADER_BYTES:
        raise CorruptBatchError(f"{left} bytes are not a record batch")
    header = batches.read_header(view, position)
    if header.magic != batches.MAGIC or not MIN_LENGTH <= header.length <= left - LENGTH_BYTES:
        raise CorruptBatchError(f"batch of length {header.length}, magic {header.magic} in {left} bytes")
    return header


def _check(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, internal: bool) -> None:
    _check_size(batch, config)
    if not batches.crc_matches(batch, header.crc):
        raise CorruptBatchError("batch fails its checksum")
    room = MAX_DECOMPRESSED_BYTES if header.codec else len(batch) - HEADER_BYTES
    count = header.record_count
    if not 1 <= count <= room // _MIN_RECORD_BYTES or header.last_offset_delta != count - 1:
        raise LogError(
            INVALID_RECORD,
            f"{count} records with a last offset delta of {header.last_offset_delta}",
        )
    if header.codec > ZSTD:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {header.codec}")
    if header.is_control and not internal:
        raise LogError(INVALID_RECORD, "clients do not write control batches")
    idempotent = header.producer_id >= 0 and not header.is_control
    if idempotent and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise LogError(INVALID_RECORD, "a producer id needs a producer epoch and a base sequence")
    if not internal:
        check_records(batch, header, config, now_ms)


def _check_size(batch: Buffer, config: LogConfig) -> None:
    if len(batch) > config.max_message_bytes:
        raise LogError(
            MESSAGE_TOO_LARGE, f"batch of {len(batch)} bytes, max.message.bytes is {config.max_message_bytes}"
        )


def _as_topic_wants(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> Admitted:
    data: Buffer = batch
    codec = config.target_codec
    if codec is not None and codec != header.codec and not header.is_control:
        data = batches.recompress(data, header, codec)
        _check_size(data, config)
        header = batches.read_header(data)
    if config.message_timestamp_type == "LogAppendTime":
        data = batches.with_log_append_time(data, header, now_ms)
        header = batches.read_header(data)
    elif header.is_log_append_time:
        # Only a broker sets this bit; a client's would misdate every record.
        raise LogError(INVALID_TIMESTAMP, "the topic's timestamps are CreateTime, the batch says LogAppendTime")
    return Admitted(data, header)
