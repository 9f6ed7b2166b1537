"""A log that takes no appends any more, and the repair that lets it go on without a restart."""

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest

from actors.log.compaction import cleaned, compact
from actors.log.errors import StorageError
from actors.log.files import REAL_WRITER
from actors.log.segment import Segment
from actors.records.errors import LogError
from tests.support.log_helpers import NOW_MS, FullDisk, append, content, open_log, values

ERROR = OSError(5, "Input/output error")


class Disk(FullDisk):
    """Notes what is written where."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, bytes]] = []

    def write(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        self.written.append((position, b"".join(buffers)))
        return super().write(fd, buffers, position)


def failed_log(path, disk, **settings):
    """A log with two durable records and two that an fsync refused."""
    log = open_log(path, writer=disk, **settings)
    for value in (b"a", b"b"):
        append(log, values(value))
    log.flush()
    for sequence, value in enumerate((b"c", b"d")):
        append(log, values(value, producer_id=7, producer_epoch=0, base_sequence=sequence), epoch=3)
    disk.fsync_error = ERROR
    with pytest.raises(StorageError):
        log.flush()
    assert log.failure is not None
    disk.written.clear()
    return log


def repair(log):
    job = log.repairs.begin(NOW_MS)
    assert job is not None
    job.run()
    return log.repairs.finish(job)


def test_a_failed_fsync_ends_when_the_disk_is_well_and_the_tail_is_written_again(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path, disk)
    size, durable = log.size_bytes, log.segments.active.find(2).position
    disk.fsync_error = None
    assert repair(log) == 0
    assert disk.written[0][0] == durable, "what was durable is left alone"
    assert sum(len(data) for _, data in disk.written) == size - durable, "all else is handed to the disk anew"
    assert (log.failure, log.recovery_point, log.high_watermark) == (None, 4, 4)
    assert append(log, values(b"e"), epoch=3) == 4
    assert [value for _, _, value in content(log)] == [b"a", b"b", b"c", b"d", b"e"]
    assert log.epoch_entries() == [(0, 0), (3, 2)]
    repeated = log.append_as_leader(values(b"d", producer_id=7, producer_epoch=0, base_sequence=1), 3, NOW_MS)
    assert (repeated.duplicate, repeated.base_offset) == (True, 3)
    log.close()
    log = open_log(tmp_path, clean=True)
    assert log.log_end_offset == 5
    log.abandon()


def test_a_disk_that_goes_on_failing_keeps_the_log_refused_and_readable(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path, disk)
    with pytest.raises(StorageError, match="Input/output error"):
        repair(log)
    with pytest.raises(LogError) as refused:
        append(log, values(b"e"))
    assert refused.value.error_code == 56
    assert (log.recovery_point, len(content(log))) == (2, 4)
    disk.fsync_error = None
    assert repair(log) == 0
    assert append(log, values(b"e"), epoch=3) == 4
    log.abandon()


def test_what_the_disk_has_lost_is_cut_off_and_not_taken_for_durable(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path, disk)
    lost = log.segments.active.find(3)
    fd = os.open(log.segments.active.path, os.O_RDWR)
    os.pwrite(fd, bytes(lost.size_bytes), lost.position)  # a page the kernel had dropped
    os.close(fd)
    disk.fsync_error = None
    assert repair(log) == 1
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (3, 3, 3)
    assert append(log, values(b"e"), epoch=4) == 3
    assert [value for _, _, value in content(log)] == [b"a", b"b", b"c", b"e"]
    log.abandon()


def test_segments_closed_since_the_last_flush_are_written_again_too(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path, disk, segment_bytes="70")
    assert len(log.segments) > 3
    disk.fsync_error = None
    assert repair(log) == 0
    assert len(disk.written) == 2, "one write for each of the two segments that were not durable"
    assert log.flushing.needed, "their indexes are not on disk yet"
    log.flush()
    assert not log.flushing.needed
    assert len(content(log)) == 4
    log.abandon()


def test_nothing_else_moves_files_while_a_log_is_being_repaired(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path, disk, segment_bytes="70", retention_ms="1")
    job = log.repairs.begin(NOW_MS)
    assert log.repairs.begin(NOW_MS) is None
    assert log.retention.apply(NOW_MS + 1000) == []
    with pytest.raises(StorageError, match="being repaired"):
        log.truncate_to(1)
    with pytest.raises(StorageError, match="being repaired"):
        log.reset_to(9)
    disk.fsync_error = None
    job.run()
    assert log.repairs.finish(job) == 0
    assert log.retention.apply(NOW_MS + 1000) != []
    log.abandon()


def test_a_log_deleted_during_its_repair_comes_back_in_no_form(tmp_path):
    disk = Disk()
    log = failed_log(tmp_path / "t-0", disk)
    job = log.repairs.begin(NOW_MS)
    log.abandon()
    (tmp_path / "t-0").rename(tmp_path / "t-0.delete")
    job.run()
    assert not (tmp_path / "t-0").exists()
    with pytest.raises(StorageError):
        log.repairs.finish(job)

    log = failed_log(tmp_path / "u-0", disk := Disk())
    disk.fsync_error = None
    job = log.repairs.begin(NOW_MS)
    job.run()
    log.abandon()
    assert log.repairs.finish(job) == 0
    assert log.failure is not None
    assert job.opened is None


def test_a_log_that_is_well_or_closed_has_nothing_to_repair(tmp_path):
    log = open_log(tmp_path)
    assert log.repairs.begin(NOW_MS) is None
    log.abandon()
    assert log.repairs.begin(NOW_MS) is None


def test_a_swap_of_compacted_segments_that_failed_midway_is_finished_by_the_repair(tmp_path):
    log = open_log(tmp_path, cleanup_policy="compact", segment_bytes="70")
    for value in (b"1", b"2", b"3"):
        append(log, values(value))
    log.flush()
    plan = log.cleaning.plan(NOW_MS, force=True)
    result = compact(plan, REAL_WRITER)
    in_the_way = tmp_path / "00000000000000000001.log.deleted"
    in_the_way.mkdir()
    with pytest.raises(StorageError):
        log.cleaning.swap(result, NOW_MS)
    in_the_way.rmdir()
    assert log.failure is not None
    assert repair(log) == 0
    assert content(log) == [(2, b"k", b"3")]
    assert append(log, values(b"4")) == 3
    log.abandon()


def test_a_compaction_that_a_failed_repair_has_swept_away_is_not_swapped_in(tmp_path):
    disk = Disk()
    log = open_log(tmp_path, writer=disk, cleanup_policy="compact", segment_bytes="200")
    for number in range(12):
        append(log, values(b"v", key=b"%d" % number))
    plan = log.cleaning.plan(NOW_MS, force=True)
    append(log, values(b"v", key=b"last"))
    before = content(log)
    result = compact(replace(plan, max_batch_bytes=0), REAL_WRITER)
    assert len(result.new_bases) > 2
    last = [cleaned(path) for path in Segment(tmp_path, result.new_bases[-1]).paths()]
    late = [(path, path.read_bytes()) for path in last]
    disk.fsync_error = ERROR
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError):
        repair(log)
    for path, data in late:  # the compaction was still writing
        path.write_bytes(data)
    assert log.cleaning.swap(result, NOW_MS) == []
    assert not list(tmp_path.glob("*.cleaned"))
    assert content(log) == before
    disk.fsync_error = None
    assert repair(log) == 0
    assert content(log) == before
    log.abandon()


@pytest.mark.parametrize("ending", ["repaired", "killed", "closed"])
def test_a_failed_fsync_whose_result_is_not_known_yet_is_one_for_the_next_flush_too(tmp_path, ending):
    disk = Disk()
    log = open_log(tmp_path, writer=disk, flush_messages="3")
    append(log, values(b"a"))
    append(log, values(b"b"))
    size = log.size_bytes
    job = log.flushing.begin()
    disk.fsync_error = ERROR
    job.run()
    disk.fsync_error = None  # it was told once
    if ending == "closed":  # and nobody takes the result
        with pytest.raises(StorageError):
            log.close()
    else:
        with pytest.raises(StorageError):
            append(log, values(b"c"))
    if ending == "repaired":
        with pytest.raises(StorageError):
            log.flushing.finish(job)
        disk.written.clear()
        assert repair(log) == 0
        assert disk.written[0][0] == 0
        assert len(disk.written[0][1]) > size, "all is handed to the disk anew"
        assert log.recovery_point == 3
        for _ in range(3):
            append(log, values(b"d"))
        assert log.recovery_point == 6
    log.abandon()
    if ending != "repaired":
        log = open_log(tmp_path)
        assert log.recovery_point == 0
        log.abandon()
