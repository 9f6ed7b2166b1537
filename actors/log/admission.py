"""Decides what of a produced batch goes into a log: nothing that it says of itself is believed.

`one_batch` looks at the header alone. `admit` verifies the checksum, decompresses, checks each record, works out the
largest timestamp, and rewrites the batch if the topic's settings, or clients that read only the first of several
frames, ask for it. It touches no log, so that it may run in another thread; `admit_at_once` does it only if that takes
a loop less than a millisecond. Sequences and epochs of producers are looked at when the batch is appended
(producer_state.py).
"""

from typing import NamedTuple

from actors.log.config import LogConfig
from actors.records import compression as codecs
from actors.records.batch import (
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    LOG_APPEND_TIME,
    LZ4,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    NONE,
    BatchHeader,
    Buffer,
    crc_matches,
    iter_batches,
    read_header,
    sealed,
)
from actors.records.bounds import Bounds, at_produce, bounds_at_once, may_read_at_once
from actors.records.building import recompressed
from actors.records.checks import Limits, largest_timestamp
from actors.records.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
    CorruptBatchError,
    LogError,
    OverBoundsError,
)
from actors.records.glances import magic_of
from actors.records.summary import LONG_MAX, LONG_MIN


class Admitted(NamedTuple):
    """One batch to append, and how it is in the log but for base offset and leader epoch: header and payload."""

    header: BatchHeader
    payload: Buffer


class Produced(NamedTuple):
    """One batch as a producer sent it."""

    header: BatchHeader
    batch: memoryview

    @property
    def payload(self) -> memoryview:
        return self.batch[HEADER_BYTES:]


def one_batch(data: Buffer, config: LogConfig) -> Produced:
    """The one batch that a partition gets in a produce request. Raises LogError with the code to answer."""
    view = memoryview(data)
    header = _whole_header(view)
    if header.size_bytes != len(view):
        raise LogError(INVALID_RECORD, "a produce request holds exactly one record batch for each partition")
    if header.base_offset != 0:
        raise LogError(INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}")
    _check_size(header.size_bytes, config)
    return Produced(header, view)


def admit_at_once(produced: Produced, config: LogConfig, now_ms: int) -> Admitted | None:
    """`admit` if that takes less than a millisecond; None if it may take longer."""
    header = produced.header
    if not may_read_at_once(header):
        return None
    bounds = bounds_at_once(header.codec).within(at_produce(config.max_message_bytes))
    try:
        return _admit(produced, config, now_ms, bounds, at_once=True)
    except OverBoundsError:
        return None


def admit(produced: Produced, config: LogConfig, now_ms: int) -> Admitted:
    """The batch as the topic wants it. Raises LogError with the code to answer. May take long, in any thread."""
    bounds = at_produce(config.max_message_bytes)
    try:
        return _admit(produced, config, now_ms, bounds, at_once=False)
    except OverBoundsError as error:
        raise LogError(MESSAGE_TOO_LARGE, f"{error}: max.message.bytes is {config.max_message_bytes}") from error


def admit_own(data: Buffer, config: LogConfig) -> list[Admitted]:
    """Batches that a process of this cluster made: their records are not looked at, and may be control records."""
    view = memoryview(data)
    admitted = []
    for start, end, header in iter_batches(view):
        batch = view[start:end]
        _check_size(len(batch), config)
        _check_crc(batch, header)
        _check_header(header)
        admitted.append(_sealed(header, batch[HEADER_BYTES:], header))
    if sum(header.size_bytes for header, _ in admitted) != len(view) or not admitted:
        raise CorruptBatchError(f"{len(view)} bytes are not whole record batches")
    return admitted


def _whole_header(view: memoryview) -> BatchHeader:
    left = len(view)
    if left == 0:
        raise LogError(INVALID_RECORD, "a produce request holds one record batch for each partition, this one none")
    magic = magic_of(view)
    if magic is not None and magic < MAGIC:
        raise LogError(INVALID_RECORD, f"record format {magic}; only {MAGIC} is taken")
    if left < HEADER_BYTES:
        raise CorruptBatchError(f"{left} bytes are not a record batch")
    header = read_header(view)
    if not header.is_sound or header.size_bytes > left:
        raise CorruptBatchError(f"batch of length {header.length}, magic {header.magic} in {left} bytes")
    return header


def _check_size(size_bytes: int, config: LogConfig) -> None:
    if size_bytes > config.max_message_bytes:
        raise LogError(
            MESSAGE_TOO_LARGE, f"batch of {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}"
        )


def _check_crc(batch: memoryview, header: BatchHeader) -> None:
    if not crc_matches(batch, header.crc):
        raise CorruptBatchError("batch fails its checksum")


def _check_header(header: BatchHeader) -> None:
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise LogError(INVALID_RECORD, f"{count} records with a last offset delta of {header.last_offset_delta}")
    if header.codec not in codecs.CODEC_NAMES:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {header.codec}")
    if header.producer_id < NO_PRODUCER_ID:
        raise LogError(INVALID_RECORD, f"no producer has the id {header.producer_id}")
    idempotent = header.producer_id >= 0 and not header.is_control
    if idempotent and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise LogError(INVALID_RECORD, "a producer id needs a producer epoch and a base sequence")


def _admit(produced: Produced, config: LogConfig, now_ms: int, bounds: Bounds, *, at_once: bool) -> Admitted:
    header, batch = produced
    _check_crc(batch, header)
    _check_header(header)
    if header.is_control:
        raise LogError(INVALID_RECORD, "clients do not write control batches")
    if header.record_count > bounds.records:
        raise OverBoundsError(f"the batch has {header.record_count} records, more than {bounds.records}")
    limits = _limits(header, config, now_ms, bounds)._replace(at_once=at_once)
    _check_time_of_append(header, config, limits)
    rewrites = _other_codec(header, config)
    plain_bytes = min(bounds.plain_bytes, bounds.rewritten_bytes) if rewrites else bounds.plain_bytes
    try:
        plain, is_one_frame = codecs.unpack(header.codec, produced.payload, plain_bytes, bounds.parts)
        if not is_one_frame and header.codec == LZ4:
            raise CorruptBatchError("the lz4 data is several frames, or its blocks depend on one another")
        latest = largest_timestamp(plain, header.record_count, header.first_timestamp, limits)
    except OverBoundsError:
        raise
    except CorruptBatchError as error:
        # Behind a checksum that is right it is the producer who is wrong: CORRUPT_MESSAGE would have it try for ever.
        raise LogError(INVALID_RECORD, str(error)) from error
    fields = _stamped(header, config, latest, now_ms)
    if rewrites or not is_one_frame:
        if len(plain) > bounds.rewritten_bytes:
            raise OverBoundsError(f"{len(plain)} bytes to compress anew, at most {bounds.rewritten_bytes}")
        codec = header.codec if config.target_codec is None else config.target_codec
        fields, payload = recompressed(fields, plain, codec)
        _check_size(HEADER_BYTES + len(payload), config)
        return _fitting(_sealed(fields, payload, header), config)
    return _fitting(_sealed(fields, produced.payload, header), config)


def _fitting(admitted: Admitted, config: LogConfig) -> Admitted:
    size_bytes = HEADER_BYTES + len(admitted.payload)
    if size_bytes > config.segment_bytes:
        raise LogError(RECORD_LIST_TOO_LARGE, f"{size_bytes} bytes do not fit in segment.bytes")
    return admitted


def _limits(header: BatchHeader, config: LogConfig, now_ms: int, bounds: Bounds) -> Limits:
    oldest, latest = LONG_MIN, LONG_MAX
    if config.message_timestamp_type == "CreateTime":
        oldest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
    if _other_codec(header, config):
        oldest = max(oldest, 0)  # as in Kafka, which writes no records with times before 1970, and only keeps them
    record_bytes = LONG_MAX if header.codec == NONE else config.max_decompressed_message_bytes
    return Limits(config.compacts, oldest, latest, bounds.headers, record_bytes)


def _check_time_of_append(header: BatchHeader, config: LogConfig, limits: Limits) -> None:
    """Of a batch that says LogAppendTime, which only a broker may, Kafka goes by the one time in its header."""
    if not header.is_log_append_time:
        return
    time = header.max_timestamp
    in_range = time != NO_TIMESTAMP and limits.oldest <= time <= limits.latest
    if config.message_timestamp_type == "LogAppendTime" or not in_range:
        raise LogError(INVALID_TIMESTAMP, "a producer does not set the timestamp type to LogAppendTime")


def _other_codec(header: BatchHeader, config: LogConfig) -> bool:
    return config.target_codec is not None and config.target_codec != header.codec


def _stamped(header: BatchHeader, config: LogConfig, latest: int, now_ms: int) -> BatchHeader:
    """The header with our timestamps, and without bits that no producer sets."""
    attributes = header.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME
    if config.message_timestamp_type == "LogAppendTime":
        return header._replace(attributes=attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
    if attributes == header.attributes and latest == header.max_timestamp:
        return header
    return header._replace(attributes=attributes, max_timestamp=latest)


def _sealed(fields: BatchHeader, payload: Buffer, produced: BatchHeader) -> Admitted:
    return Admitted(fields if fields is produced else sealed(fields, payload), payload)


def packed(admitted: Admitted, base_offset: int, leader_epoch: int) -> bytes:
    """The 61 bytes before the payload, with the offset and the epoch that the batch gets."""
    return admitted.header._replace(base_offset=base_offset, leader_epoch=leader_epoch).packed()
