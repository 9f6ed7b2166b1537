"""Opening a log after a clean stop, after a crash, and after damage of each kind."""

import shutil

import pytest

from actors.log.errors import StorageError
from actors.log.files import REAL_WRITER
from actors.log.partition_log import PartitionLog
from tests.support.log_helpers import (
    NOW_MS,
    all_bytes,
    append,
    config,
    content,
    offset_for_timestamp,
    open_log,
    values,
)

BATCHES = [values(b"one"), values(b"two", b"three"), values(b"four", compression="lz4"), values(b"five" * 5)]
ENDS = [1, 3, 4, 5]


def filled(path, **settings):
    log = open_log(path, **settings)
    for number, batch in enumerate(BATCHES):
        append(log, batch, epoch=number)
    return log


def log_file(path):
    return path / f"{0:020d}.log"


def test_nothing_is_lost_by_a_clean_stop(tmp_path):
    log = filled(tmp_path)
    before = all_bytes(log), log.high_watermark, log.epoch_entries()
    log.close()
    log = open_log(tmp_path, clean=True)
    assert (all_bytes(log), log.high_watermark, log.epoch_entries()) == before
    assert log.recovery_point == log.log_end_offset == 5
    log.abandon()


def test_nothing_whole_is_lost_by_a_crash(tmp_path):
    log = filled(tmp_path)
    before = all_bytes(log), log.epoch_entries()
    log.abandon()
    log = open_log(tmp_path)
    assert (all_bytes(log), log.epoch_entries()) == before
    assert log.high_watermark == 0, "nothing had checkpointed it"
    log.abandon()


@pytest.mark.parametrize("clean", [False, True])
def test_a_torn_last_batch_is_cut_wherever_it_was_torn(tmp_path, clean):
    log = filled(tmp_path / "whole")
    sizes = [len(batch) for batch in BATCHES]
    log.close()
    for length in range(sum(sizes[:-1]), sum(sizes)):
        torn = tmp_path / f"torn{length}"
        shutil.copytree(tmp_path / "whole", torn)
        with log_file(torn).open("r+b") as file:
            file.truncate(length)
        log = open_log(torn, clean=clean)
        assert log.log_end_offset == 4
        assert log.high_watermark == 4
        assert log_file(torn).stat().st_size == sum(sizes[:-1])
        assert append(log, values(b"again"), epoch=9) == 4
        assert [value for _, _, value in content(log)] == [b"one", b"two", b"three", b"four", b"again"]
        log.abandon()
        shutil.rmtree(torn)


def test_garbage_after_the_last_batch_is_cut(tmp_path):
    log = filled(tmp_path)
    log.abandon()
    size = log_file(tmp_path).stat().st_size
    for garbage in (b"\0", bytes(100), b"\xff" * 100, BATCHES[0][:40], BATCHES[0]):
        with log_file(tmp_path).open("ab") as file:
            file.write(garbage)
        log = open_log(tmp_path)
        assert log.log_end_offset == 5
        assert log_file(tmp_path).stat().st_size == size
        log.abandon()


# Base offset and leader epoch (bytes 0-7 and 12-15) are outside the checksum: Kafka's format.
COVERED = [*range(8, 12), *range(16, len(BATCHES[-1]))]


@pytest.mark.parametrize("victim", [1, 3])
def test_a_flipped_bit_cuts_its_batch_and_what_follows(tmp_path, victim):
    log = filled(tmp_path)
    log.abandon()
    whole = log_file(tmp_path).read_bytes()
    start = sum(map(len, BATCHES[:victim]))
    for number, position in enumerate(each for each in COVERED if each < len(BATCHES[victim])):
        damaged = bytearray(whole)
        damaged[start + position] ^= 1 << number % 8
        log_file(tmp_path).write_bytes(damaged)
        log = open_log(tmp_path)
        assert log.log_end_offset == ENDS[victim - 1]
        assert log_file(tmp_path).stat().st_size == start
        log.abandon()


def test_offsets_that_go_back_end_the_log(tmp_path):
    log = filled(tmp_path)
    log.abandon()
    with log_file(tmp_path).open("r+b") as file:
        file.seek(len(BATCHES[0]))
        file.write(bytes(8))
    log = open_log(tmp_path)
    assert log.log_end_offset == 1
    log.abandon()


def test_a_cut_in_the_middle_drops_the_segments_after_it(tmp_path):
    log = open_log(tmp_path, segment_bytes="250")
    for _ in range(9):
        append(log, values(b"v" * 20))
    assert len(log.segments) == 5
    log.abandon()
    second = tmp_path / f"{2:020d}.log"
    second.write_bytes(second.read_bytes()[:-1])
    log = open_log(tmp_path, segment_bytes="250")
    assert log.log_end_offset == 3
    assert sorted(path.name for path in tmp_path.glob("*.log")) == [f"{0:020d}.log", f"{2:020d}.log"]
    assert append(log, values(b"next")) == 3
    log.abandon()


def test_what_was_flushed_is_not_read_again(tmp_path, monkeypatch):
    from actors.log.segment import Segment

    log = open_log(tmp_path, segment_bytes="250")
    for _ in range(9):
        append(log, values(b"v" * 20))
    log.flush()
    log.abandon()
    read = []
    rebuild = Segment.rebuild
    monkeypatch.setattr(
        Segment, "rebuild", lambda self, *a, **k: (read.append(self.base_offset), rebuild(self, *a, **k))[1]
    )
    log = open_log(tmp_path, segment_bytes="250")
    assert read == [8], "only the active segment"
    assert log.log_end_offset == 9
    log.abandon()


@pytest.mark.parametrize("far", [3_000_000_000, 5_000_000_000])
def test_a_log_whose_first_record_is_far_from_its_start_is_not_cut(tmp_path, far):
    log = open_log(tmp_path)
    for number in range(3):
        log.append_as_follower(values(b"v", base_offset=far + number, leader_epoch=0), NOW_MS)
    before = content(log)
    assert [offset for offset, _, _ in before] == [far, far + 1, far + 2]
    log.abandon()
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (0, far + 3, before)
    log.close()
    log = open_log(tmp_path, clean=True)
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (0, far + 3, before)
    log.abandon()


def test_a_closed_segment_made_again_keeps_its_largest_timestamp(tmp_path):
    settings = {"segment_bytes": "2000", "index_interval_bytes": "1000"}
    log = open_log(tmp_path, **settings)
    number = 0
    while len(log.segments) < 2:
        append(log, values(b"v", timestamp_ms=NOW_MS + number))
        number += 1
    newest = number - 2
    log.abandon()
    open_log(tmp_path, **settings).close()
    log = open_log(tmp_path, clean=True, **settings)
    assert log.segments.closed()[0].max_timestamp == NOW_MS + newest
    assert offset_for_timestamp(log, NOW_MS + newest, log.log_end_offset) == (newest, NOW_MS + newest)
    log.abandon()


@pytest.mark.parametrize("damage", ["missing", "odd size", "beyond the file", "descending"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("clean", [False, True])
def test_indexes_are_made_again(tmp_path, damage, suffix, clean):
    settings = {"segment_bytes": "2000", "index_interval_bytes": "100"}
    log = open_log(tmp_path, **settings)
    for number in range(60):
        append(log, values(b"v%03d" % number, timestamp_ms=NOW_MS + number))
    before = content(log)
    log.close()
    for path in tmp_path.glob(f"*.{suffix}"):
        data = path.read_bytes()
        entry = 8 if suffix == "index" else 12
        if damage == "missing":
            path.unlink()
        elif damage == "odd size":
            path.write_bytes(data + b"x")
        elif damage == "descending":
            path.write_bytes(data[-entry:] + data[:entry])
        else:
            path.write_bytes(data + b"\x7f" * entry)
    log = open_log(tmp_path, clean=clean, **settings)
    log.advance_high_watermark(60)
    assert content(log) == before
    for number in range(60):
        assert log.read(number, 1) == values(
            b"v%03d" % number, base_offset=number, leader_epoch=0, timestamp_ms=NOW_MS + number
        )
        assert offset_for_timestamp(log, NOW_MS + number) == (number, NOW_MS + number)
    log.abandon()


@pytest.mark.parametrize("content_of_file", [None, b"", b"garbage", b"0\n1\n5 5\n6 6\n"])
def test_leader_epochs_are_found_in_the_batches_again(tmp_path, content_of_file):
    log = filled(tmp_path)
    log.close()
    path = tmp_path / "leader-epoch-checkpoint"
    path.unlink() if content_of_file is None else path.write_bytes(content_of_file)
    log = open_log(tmp_path, clean=True)
    assert log.epoch_entries() == [(0, 0), (1, 1), (2, 3), (3, 4)]
    log.abandon()


@pytest.mark.parametrize("content_of_file", [None, b"", b"{}", b"[1]", b'{"version": 9, "cleanings": []}'])
def test_a_lost_checkpoint_costs_only_time(tmp_path, content_of_file):
    log = filled(tmp_path)
    before = all_bytes(log)
    log.close()
    path = tmp_path / "log.checkpoint"
    path.unlink() if content_of_file is None else path.write_bytes(content_of_file)
    log = open_log(tmp_path)
    assert all_bytes(log) == before
    assert log.log_start_offset == 0
    log.abandon()


def test_an_epoch_no_file_knows_yet_is_found_in_its_batches_wherever_the_log_is_flushed(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"), epoch=1)
    log.flush()
    log.assign_leader_epoch(4)
    append(log, values(b"b"), epoch=4)
    log.abandon()
    log = open_log(tmp_path)
    assert log.epoch_entries() == [(1, 0), (4, 1)]
    log.assign_leader_epoch(5)
    append(log, values(b"c"), epoch=5)
    log.flush()
    log.abandon()
    log = open_log(tmp_path)
    assert (log.epoch_entries(), log.recovery_point) == ([(1, 0), (4, 1), (5, 2)], 3)
    log.abandon()


def test_epochs_of_cut_batches_are_forgotten(tmp_path):
    log = filled(tmp_path)
    log.write_checkpoint()
    log.abandon()
    with log_file(tmp_path).open("r+b") as file:
        file.truncate(len(BATCHES[0]) + len(BATCHES[1]) + 5)
    log = open_log(tmp_path)
    assert log.epoch_entries() == [(0, 0), (1, 1), (2, 3)], "epoch 2 may still begin where the log now ends"
    assert log.end_offset_for_epoch(1) == (1, 3)
    log.abandon()


def test_the_start_survives(tmp_path):
    log = filled(tmp_path)
    log.retention.delete_before(3)
    log.abandon()
    log = open_log(tmp_path)
    assert log.log_start_offset == 3
    assert log.high_watermark == 5, "the deletion wrote it down"
    assert log.epoch_entries() == [(2, 3), (3, 4)]
    log.abandon()


def test_a_log_that_lost_everything_begins_at_its_start(tmp_path):
    log = filled(tmp_path)
    log.retention.delete_before(4)
    log.abandon()
    log_file(tmp_path).write_bytes(b"")
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert append(log, BATCHES[0], epoch=9) == 4
    log.abandon()
    assert open_reads(tmp_path) == [(4, b"k", b"one")]


def open_reads(path):
    log = open_log(path)
    found = content(log)
    log.abandon()
    return found


def test_leftovers_are_removed(tmp_path):
    log = filled(tmp_path)
    log.close()
    leftovers = [f"{7:020d}.log.deleted", "log.checkpoint.tmp", f"{9:020d}.index", f"{0:020d}.log.cleaned"]
    for name in leftovers:
        (tmp_path / name).write_bytes(b"x")
    log = open_log(tmp_path, clean=True)
    assert not [name for name in leftovers if (tmp_path / name).exists()]
    assert log.log_end_offset == 5
    log.abandon()


def test_a_folder_that_cannot_be_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file"):
        PartitionLog.open(tmp_path / "file", config(), REAL_WRITER, clean_shutdown=True, now_ms=NOW_MS)


def test_closing_twice_is_nothing(tmp_path):
    log = filled(tmp_path)
    log.close()
    log.close()
    with pytest.raises(StorageError):
        append(log, BATCHES[0])
