"""Appends to a leader's log: accepted, refused, answered; and a full disk."""

import struct

import pytest

from actors.log.admission import admit, one_batch
from actors.log.config import LogConfig
from actors.log.errors import StorageError
from actors.records.batch import crc_matches, read_header, split_batches
from actors.records.building import build_sparse_batch
from tests.support.log_helpers import (
    NOW_MS,
    FullDisk,
    all_bytes,
    all_records,
    append,
    config,
    content,
    max_timestamp,
    open_log,
    refused,
    sent,
    values,
)
from tests.support.read_records import read_records

ONE = values(b"v")


def patched(batch: bytes, layout: str, position: int, value: int) -> bytes:
    """The batch with one header field changed and the checksum made right again."""
    import crc32c

    copy = bytearray(batch)
    struct.pack_into(layout, copy, position, value)
    struct.pack_into(">I", copy, 17, crc32c.crc32c(memoryview(copy)[21:]))
    return bytes(copy)


def test_offsets_and_epoch_are_stamped(tmp_path):
    log = open_log(tmp_path)
    first = log.append_as_leader(values(b"a", b"b"), 3, NOW_MS)
    second = log.append_as_leader(memoryview(values(b"c") + values(b"d", b"e")), 4, NOW_MS, internal=True)
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 1, False)
    assert (second.base_offset, second.last_offset, second.log_append_time_ms) == (2, 4, -1)
    assert log.log_end_offset == 5
    assert log.high_watermark == 0
    headers = [header for _, _, header in split_batches(all_bytes(log))]
    assert [(each.base_offset, each.leader_epoch) for each in headers] == [(0, 3), (2, 4), (3, 4)]
    assert [value for _, _, value in content(log)] == [b"a", b"b", b"c", b"d", b"e"]
    log.abandon()


def test_the_callers_bytes_are_not_changed(tmp_path):
    log, data = open_log(tmp_path), bytearray(ONE)
    append(log, ONE)
    log.append_as_leader(memoryview(data), 5, NOW_MS)
    assert bytes(data) == ONE
    log.abandon()


def test_bad_batches_are_refused_and_leave_nothing(tmp_path):
    log = open_log(tmp_path, max_message_bytes="1000", segment_bytes="5000")
    append(log, ONE)
    flipped = ONE[:-1] + bytes([ONE[-1] ^ 1])
    refused(log, b"", 87)
    refused(log, ONE[:-1], 2)
    refused(log, ONE[:10], 2)
    refused(log, ONE + ONE[:30], 87)
    refused(log, flipped, 2)
    refused(log, ONE + flipped, 87)
    refused(log, ONE[:16] + b"\x01" + ONE[17:], 87)
    refused(log, ONE[:16] + b"\x03" + ONE[17:], 2)
    refused(log, values(bytes(1000)), 10)
    refused(log, ONE * 3, 87)
    refused(log, patched(ONE, ">i", 57, 2), 87)
    refused(log, patched(ONE, ">i", 57, 0), 87)
    refused(log, patched(ONE, ">i", 57, -1), 87)
    refused(log, patched(ONE, ">i", 23, 5), 87)
    refused(log, patched(patched(ONE, ">i", 23, 999), ">i", 57, 1000), 87)
    refused(log, patched(ONE, ">h", 21, 5), 76)
    refused(log, values(b"v", is_control=True), 87)
    refused(log, values(b"v", producer_id=5), 87)
    refused(log, ONE + flipped, 2, internal=True)
    refused(log, ONE + ONE[:30], 2, internal=True)
    refused(log, b"", 2, internal=True)
    log.append_as_leader(values(b"v", is_control=True), 0, NOW_MS, internal=True)
    assert log.log_end_offset == 2
    log.abandon()


def test_a_batch_larger_than_a_segment_is_refused(tmp_path):
    log = open_log(tmp_path, segment_bytes="5000")
    refused(log, values(bytes(5000)), 18)
    log.abandon()


def test_an_older_leader_is_refused(tmp_path):
    log = open_log(tmp_path)
    append(log, ONE, epoch=5)
    refused(log, ONE, 74, epoch=4)
    log.assign_leader_epoch(7)
    refused(log, ONE, 74, epoch=6)
    assert append(log, ONE, epoch=7) == 1
    log.abandon()


def test_a_compacted_topic_needs_keys(tmp_path):
    log = open_log(tmp_path, cleanup_policy="compact")
    for codec in ("none", "gzip", "zstd"):
        refused(log, values(b"v", key=None, compression=codec), 87)
        append(log, values(b"v", compression=codec))
    lying = patched(patched(values(b"v", compression="gzip"), ">i", 23, 1), ">i", 57, 2)
    refused(log, lying, 87)
    gapped = build_sparse_batch([(3, b"k", b"v", None, NOW_MS)], base_offset=0)
    refused(log, patched(gapped, ">i", 23, 0), 87)
    log.abandon()


def test_create_time_is_bounded_by_the_topic(tmp_path):
    log = open_log(tmp_path, message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    refused(log, values(b"v", timestamp_ms=NOW_MS + 1001), 32)
    refused(log, values(b"v", timestamp_ms=NOW_MS - 1001), 32)
    append(log, values(b"v", timestamp_ms=NOW_MS + 1000))
    append(log, values(b"v", timestamp_ms=NOW_MS - 1000))
    log.abandon()


def test_log_append_time(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    for batch in (values(b"v", timestamp_ms=5), values(b"w")):
        result = log.append_as_leader(batch, 0, NOW_MS + 9)
        assert result.log_append_time_ms == NOW_MS + 9
    assert [each.timestamp for each in all_records(log)] == [NOW_MS + 9] * 2
    assert max_timestamp(log, 2) == (0, NOW_MS + 9)
    log.abandon()


@pytest.mark.parametrize("kind", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_compression_type_of_the_topic_wins(tmp_path, kind):
    log = open_log(tmp_path, compression_type=kind, message_timestamp_type="LogAppendTime")
    append(log, values(b"v" * 100, compression="zstd"))
    append(log, values(b"w" * 100))
    headers = [header for _, _, header in split_batches(all_bytes(log))]
    assert {each.codec for each in headers} == {{"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[kind]}
    assert [each.value for each in all_records(log)] == [b"v" * 100, b"w" * 100]
    log.abandon()


def test_what_the_topics_compression_makes_too_large_is_refused(tmp_path):
    log = open_log(tmp_path, compression_type="uncompressed", max_message_bytes="1000")
    refused(log, values(b"v" * 2000, compression="zstd"), 10)
    assert log.log_end_offset == 0
    log.abandon()


def test_more_batches_than_one_system_call_takes(tmp_path):
    log = open_log(tmp_path)
    append(log, ONE * 3000, internal=True)
    assert log.log_end_offset == 3000
    assert len(content(log)) == 3000
    log.abandon()


def test_segments_roll_by_size_and_age(tmp_path):
    log = open_log(tmp_path, segment_bytes=str(3 * len(ONE)), segment_ms="1000")
    for _ in range(7):
        append(log, ONE)
    assert log.segments.bases() == (0, 3, 6)
    append(log, ONE, now_ms=NOW_MS + 1000)
    assert log.segments.bases() == (0, 3, 6, 7)
    assert len(content(log)) == 8
    log.abandon()


# -- a disk that is full


def test_a_full_disk_refuses_and_recovers(tmp_path):
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk)
    append(log, ONE)
    for room in range(len(ONE) * 2):
        disk.room = room
        refused(log, ONE + ONE, 56, internal=True)
        assert log.segments.active.path.stat().st_size == len(ONE), "no partial bytes remain"
    disk.room = None
    assert append(log, values(b"after")) == 1
    log.abandon()
    log = open_log(tmp_path)
    assert [value for _, _, value in content(log)] == [b"v", b"after"]
    log.abandon()


def test_a_refused_append_leaves_no_trace_of_its_producer(tmp_path):
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk)
    batch = values(b"v", producer_id=1, producer_epoch=0, base_sequence=0)
    disk.room = 10
    refused(log, batch, 56)
    disk.room = None
    result = log.append_as_leader(batch, 0, NOW_MS)
    assert (result.base_offset, result.duplicate) == (0, False)
    log.abandon()


def test_a_new_segment_that_cannot_be_made_refuses_the_append(tmp_path, monkeypatch):
    from actors.log.segment import Segment

    log = open_log(tmp_path, segment_bytes=str(len(ONE)))
    append(log, ONE)

    def full(self):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "open_for_append", full)
        refused(log, ONE, 56)
    assert append(log, ONE) == 1
    assert log.segments.bases() == (0, 1)
    log.abandon()


def test_after_a_failed_fsync_nothing_is_appended_until_reopened(tmp_path):
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk, flush_messages="2")
    append(log, ONE)
    disk.fsync_error = OSError(5, "Input/output error")
    with pytest.raises(StorageError):
        log.append_as_leader(ONE, 0, NOW_MS)
    disk.fsync_error = None
    refused(log, ONE, 56)
    assert "flush failed" in log.failure
    with pytest.raises(StorageError):
        log.close()
    log = open_log(tmp_path)
    assert log.recovery_point == 0
    append(log, ONE)
    log.abandon()


def test_a_disk_too_full_for_index_files_stops_no_log_for_good(tmp_path):
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk, segment_bytes=str(len(ONE)))
    for _ in range(3):
        append(log, ONE)
    disk.file_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError, match="No space"):
        log.flush()
    assert log.recovery_point == 0
    assert append(log, ONE) == 3
    assert log.failure is None
    disk.file_error = None
    log.flush()
    assert log.recovery_point == 4
    log.close()


def test_flush_messages_makes_records_durable(tmp_path):
    log = open_log(tmp_path, flush_messages="3")
    for expected in (0, 0, 3, 3, 3, 6):
        append(log, ONE)
        assert log.recovery_point == expected
    log.abandon()


def test_a_flush_can_run_elsewhere_while_appends_go_on(tmp_path):
    log = open_log(tmp_path, segment_bytes=str(2 * len(ONE)))
    for _ in range(5):
        append(log, ONE)
    assert log.flushing.needed
    job = log.flushing.begin()
    append(log, ONE)
    append(log, ONE)
    job.run()
    log.flushing.finish(job)
    assert log.recovery_point == 5
    log.flush()
    assert log.recovery_point == 7
    assert not log.flushing.needed
    assert log.flushing.begin() is None
    log.abandon()


def test_a_flush_begun_before_a_truncation_proves_nothing(tmp_path):
    log = open_log(tmp_path)
    for _ in range(5):
        append(log, ONE)
    job = log.flushing.begin()
    log.truncate_to(2)
    for _ in range(5):
        append(log, ONE)
    job.run()
    log.flushing.finish(job)
    assert log.recovery_point == 0
    log.abandon()


def test_every_appended_batch_passes_its_checksum(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime", compression_type="lz4")
    append(log, sent(0, 5))
    append(log, values(b"x", compression="gzip"))
    data = all_bytes(log)
    for start, end, header in split_batches(data):
        assert crc_matches(data[start:end], header.crc)
    assert read_header(data).producer_id == 7
    assert len(list(read_records(data))) == 6
    log.abandon()


def test_the_default_config_is_kafkas():
    assert config() == LogConfig()


# -- when a segment ends


def test_a_full_index_ends_its_segment(tmp_path):
    log = open_log(tmp_path, index_interval_bytes="0", segment_index_bytes="24")
    for _ in range(5):
        append(log, ONE)
    assert len(log.segments) > 1
    assert all(len(segment.times.packed()) <= 24 + 12 for segment in log.segments), "sealing may add a last entry"
    assert len(content(log)) == 5
    log.abandon()


@pytest.mark.parametrize(
    "limits",
    [{"segment_ms": "1000"}, {"segment_ms": "9000", "max_compaction_lag_ms": "1000", "cleanup_policy": "compact"}],
)
def test_a_jitter_above_the_age_of_a_segment_does_not_end_it_at_each_append(tmp_path, limits):
    log = open_log(tmp_path, segment_jitter_ms="500000", **limits)
    append(log, ONE)
    append(log, ONE)
    assert len(log.segments) == 1
    assert log.roll_if_due(NOW_MS + 1000)
    log.abandon()


def test_segment_jitter_ends_segments_of_many_partitions_at_different_times(tmp_path):
    ends = set()
    for number in range(8):
        settings = {"segment_ms": "10000", "segment_jitter_ms": "5000"}
        log = open_log(tmp_path / f"t-{number}", **settings)
        append(log, ONE)
        ends.add(next(age for age in range(0, 10_001, 10) if log.roll_if_due(NOW_MS + age)))
        log.abandon()
    assert len(ends) > 4
    assert min(ends) > 5_000


def test_the_append_time_that_is_told_is_the_one_that_is_stored(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    checked = admit(one_batch(values(b"v"), log.config), log.config, NOW_MS + 9)
    told = log.append_admitted((checked,), 0, NOW_MS + 12).log_append_time_ms
    log.advance_high_watermark(log.log_end_offset)
    assert [each.timestamp for each in all_records(log)] == [told]
    log.abandon()
