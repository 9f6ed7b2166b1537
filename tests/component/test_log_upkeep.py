"""Retention, deletion of records, truncation."""

import pytest

from actors.log.files import FileWriter, remove_files
from actors.log.segment import Segment
from actors.records.errors import LogError
from tests.support.log_helpers import (
    NOW_MS,
    FullDisk,
    all_bytes,
    append,
    config,
    content,
    offset_for_timestamp,
    open_log,
    values,
)

SIZE = len(values(b"v"))
HOUR = 3_600_000


def segmented(path, count=10, per_segment=2, commit=True, **settings):
    log = open_log(path, segment_bytes=str(per_segment * SIZE), **settings)
    for number in range(count):
        append(
            log,
            values(b"%d" % (number % 10), timestamp_ms=NOW_MS + number * HOUR),
            now_ms=NOW_MS + number * HOUR,
            epoch=number // 4,
            commit=commit,
        )
    return log


def offsets(log):
    return [offset for offset, _, _ in content(log)]


def test_retention_by_time(tmp_path):
    log = segmented(tmp_path, retention_ms=str(2 * HOUR))
    assert log.retention.apply(NOW_MS + 3 * HOUR) == []
    gone = log.retention.apply(NOW_MS + 4 * HOUR)
    assert {path.name for path in gone if ".log" in path.name} == {f"{0:020d}.log.deleted"}
    remove_files(gone)
    assert log.log_start_offset == 2
    assert offsets(log) == list(range(2, 10))
    assert log.epoch_entries() == [(0, 2), (1, 4), (2, 8)]
    log.abandon()
    log = open_log(tmp_path)
    assert log.log_start_offset == 2
    log.abandon()


def test_retention_takes_an_old_active_segment_too(tmp_path):
    log = segmented(tmp_path, count=3, retention_ms=str(HOUR))
    remove_files(log.retention.apply(NOW_MS + 100 * HOUR))
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert len(log.segments) == 1
    assert log.retention.apply(NOW_MS + 200 * HOUR) == []
    assert append(log, values(b"v")) == 3
    log.abandon()


def test_retention_by_size(tmp_path):
    log = segmented(tmp_path, retention_bytes=str(5 * SIZE), retention_ms="-1")
    remove_files(log.retention.apply(NOW_MS))
    assert offsets(log) == [4, 5, 6, 7, 8, 9], "as few as keep at least retention.bytes"
    log.config = config(retention_bytes="0", retention_ms="-1")
    remove_files(log.retention.apply(NOW_MS))
    assert offsets(log) == [8, 9], "the active segment stays"
    log.abandon()


def test_nothing_above_the_watermark_is_deleted(tmp_path):
    log = segmented(tmp_path, retention_ms="1", commit=False)
    log.advance_high_watermark(5)
    remove_files(log.retention.apply(NOW_MS + 1000 * HOUR))
    assert log.log_start_offset == 4
    assert offsets(log) == list(range(4, 10))
    log.abandon()


def test_retention_frees_a_full_disk(tmp_path, monkeypatch):
    disk = FullDisk()
    log = segmented(tmp_path, retention_ms=str(HOUR), writer=disk)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    disk.file_error = OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "open_for_append", full)
        remove_files(log.retention.apply(NOW_MS + 1000 * HOUR))
    assert log.log_start_offset == 8
    log.abandon()
    log = open_log(tmp_path)
    assert log.log_start_offset == 8
    log.abandon()


def test_a_compacted_topic_has_no_retention(tmp_path):
    log = segmented(tmp_path, retention_ms="1", retention_bytes="1", cleanup_policy="compact")
    assert log.retention.apply(NOW_MS + 1000 * HOUR) == []
    assert len(offsets(log)) == 10
    log.abandon()


def test_a_topic_that_neither_deletes_nor_compacts_loses_what_is_deleted_by_offset_alone(tmp_path):
    log = segmented(tmp_path, retention_ms="1", retention_bytes="1", cleanup_policy="")
    log.retention.apply(NOW_MS + 1000 * HOUR)
    assert len(offsets(log)) == 10
    assert log.retention.delete_before(4) == 4
    remove_files(log.retention.apply(NOW_MS + 1000 * HOUR))
    assert offsets(log) == [4, 5, 6, 7, 8, 9]
    assert min(log.segments.bases()) == 4
    log.abandon()


def test_segments_without_timestamps_age_by_their_file(tmp_path):
    log = open_log(tmp_path, segment_bytes=str(SIZE), retention_ms="1000")
    for _ in range(3):
        append(log, values(b"v", timestamp_ms=-1))
    assert log.retention.apply(0) == []
    remove_files(log.retention.apply(1 << 45))
    assert log.log_start_offset == 3
    log.abandon()


def test_deleting_records(tmp_path):
    log = segmented(tmp_path, retention_ms="-1")
    assert log.retention.delete_before(5) == 5
    assert log.retention.delete_before(3) == 5, "the start never goes back"
    remove_files(log.retention.apply(NOW_MS))
    assert sorted(log.segments.bases()) == [4, 6, 8]
    assert not (tmp_path / f"{2:020d}.log").exists()
    assert log.retention.delete_before(-1) == 10
    with pytest.raises(LogError) as caught:
        log.retention.delete_before(11)
    assert caught.value.error_code == 1
    log.config = config(cleanup_policy="compact")
    with pytest.raises(LogError) as caught:
        log.retention.delete_before(10)
    assert caught.value.error_code == 44
    log.abandon()


def test_an_idle_active_segment_rolls_by_age(tmp_path):
    log = open_log(tmp_path, segment_ms="1000", retention_ms="-1")
    append(log, values(b"v"))
    log.retention.apply(NOW_MS + 999)
    assert len(log.segments) == 1
    log.retention.apply(NOW_MS + 1000)
    assert log.segments.bases() == (0, 1)
    log.retention.apply(NOW_MS + 9000)
    assert log.segments.bases() == (0, 1), "an empty segment does not roll"
    log.abandon()


@pytest.mark.parametrize("offset", range(11))
@pytest.mark.parametrize("flushed", [False, True])
def test_truncation_leaves_what_comes_before(tmp_path, offset, flushed):
    log = segmented(tmp_path)
    if flushed:
        log.flush()
    whole = all_bytes(log)
    log.read(0, 1 << 20)
    log.truncate_to(offset)
    assert (log.log_end_offset, log.high_watermark) == (offset, offset)
    assert all_bytes(log) == whole[: offset * SIZE]
    assert log.recovery_point <= offset
    assert log.epoch_entries() == [(epoch, epoch * 4) for epoch in range(3) if epoch * 4 < offset]
    append(log, values(b"new"), epoch=9)
    expected = all_bytes(log)
    assert offset_for_timestamp(log, NOW_MS) == (0, NOW_MS)
    log.abandon()
    log = open_log(tmp_path)
    assert all_bytes(log) == expected
    assert log.leader_epoch == 9
    log.abandon()


def test_a_batch_is_truncated_as_a_whole(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a", b"b"))
    append(log, values(b"c", b"d", b"e"))
    log.truncate_to(3)
    assert log.log_end_offset == 2
    assert [value for _, _, value in content(log)] == [b"a", b"b"]
    log.truncate_to(50)
    assert log.log_end_offset == 2
    log.abandon()


@pytest.mark.parametrize("offset", [0, 7, 1000])
def test_a_reset_log_begins_anew(tmp_path, offset):
    log = segmented(tmp_path)
    log.reset_to(offset)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (offset, offset, offset)
    assert append(log, values(b"v"), epoch=5) == offset
    log.abandon()
    log = open_log(tmp_path)
    assert content(log) == [(offset, b"k", b"v")]
    log.abandon()


@pytest.mark.parametrize("flushing", [False, True])
def test_a_reset_log_knows_no_producer(tmp_path, flushing):
    """The sequences that it knew are older than its new start: the next batch there seemed out of order."""
    log = open_log(tmp_path)

    def batch(n):
        return values(b"v", producer_id=7, producer_epoch=0, base_sequence=n)

    append(log, batch(0))
    log.roll()
    job = log.flushing.begin()
    if not flushing:
        job.run()
        log.flushing.finish(job)
    log.reset_to(100)
    if flushing:
        job.run()
        log.flushing.finish(job)
    assert log.append_as_leader(batch(5), 0, NOW_MS).base_offset == 100
    log.truncate_to(100)
    assert log.append_as_leader(batch(9), 0, NOW_MS).base_offset == 100
    log.abandon()


def test_truncating_below_the_start_resets(tmp_path):
    log = segmented(tmp_path)
    log.retention.delete_before(6)
    log.truncate_to(4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    log.abandon()


def test_readers_do_not_remember_what_is_gone(tmp_path):
    log = open_log(tmp_path)
    for number in range(4):
        append(log, values(b"%d" % number))
    for number in range(4):
        log.read(number, 1)
    log.truncate_to(1)
    for number in range(3):
        append(log, values(b"longer than before %d" % number))
    found = [log.read(number, 1) for number in range(4)]
    assert b"".join(found) == all_bytes(log)
    log.abandon()


def test_truncation_forgets_no_producer(tmp_path):
    """The next retention took all of them for silent since 1970; a repeat sent then was written twice."""
    log = open_log(tmp_path)
    batches = [values(b"v", producer_id=7, producer_epoch=0, base_sequence=n) for n in range(3)]
    for batch in batches:
        append(log, batch, commit=False)
    log.truncate_to(2)
    log.retention.apply(NOW_MS + 1000)
    assert log.append_as_leader(batches[1], 0, NOW_MS).duplicate
    assert log.append_as_leader(batches[2], 0, NOW_MS).base_offset == 2
    log.retention.apply(NOW_MS + 24 * HOUR + 1)
    assert not log.append_as_leader(batches[1], 0, NOW_MS).duplicate, "silent for producer.id.expiration.ms"
    log.abandon()


def test_a_segment_deleted_while_a_flush_reaches_it_is_no_failed_flush(tmp_path):
    gone = []

    class DeletesFirst(FileWriter):
        def fsync_file(self, path):
            gone.extend(log.retention.apply(NOW_MS + 4 * HOUR))
            super().fsync_file(path)

    log = segmented(tmp_path, count=5, retention_ms=str(HOUR), writer=DeletesFirst())
    log.flush()
    assert gone
    assert (log.failure, log.recovery_point) == (None, 5)
    log.abandon()
