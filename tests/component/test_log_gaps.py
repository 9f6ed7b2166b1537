"""Segments that do not follow each other: a crash has cut the one before, or compaction has left nothing there."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.partition_log import PartitionLog
from actors.log.segment import Segment
from tests.support.log_helpers import (
    COMPACT,
    NOW_MS,
    FullDisk,
    append,
    clean,
    content,
    open_log,
    put,
    values,
)

SMALL = {"segment_bytes": "250"}
SIZE = len(values(b"v" * 20))


def segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def shorten(folder: Path, base: int, batches: int) -> None:
    """Leave a segment only so many of its batches, as a loss of power may."""
    os.truncate(folder / f"{base:020d}.log", batches * SIZE)


def five_segments(folder: Path, flushed: int = 0) -> None:
    """Nine batches of a record each, two in a segment, after a crash."""
    log = open_log(folder, **SMALL)
    for number in range(9):
        append(log, values(b"v" * 20))
        if number + 1 == flushed:
            log.flush()
    assert segments(folder) == [0, 2, 4, 6, 8]
    log.abandon()


@pytest.mark.parametrize(("base", "batches"), [(0, 0), (0, 1), (2, 0), (2, 1), (6, 0), (6, 1)])
def test_a_closed_segment_that_lost_whole_batches_is_where_the_log_ends(
    tmp_path: Path, base: int, batches: int
) -> None:
    five_segments(tmp_path)
    assert not (tmp_path / "log.checkpoint").exists(), "nothing was flushed"
    shorten(tmp_path, base, batches)
    log = open_log(tmp_path, **SMALL)
    assert log.log_end_offset == base + batches
    assert segments(tmp_path) == list(range(0, base + 1, 2))
    assert append(log, values(b"next")) == base + batches
    assert [offset for offset, _, _ in content(log)] == list(range(base + batches + 1))
    log.abandon()


def test_segments_that_follow_a_cut_are_gone_for_good_before_anything_is_appended(tmp_path: Path) -> None:
    class Noting(FullDisk):
        left: list[int] | None = None

        def fsync_directory(self, path: Path) -> None:
            super().fsync_directory(path)
            self.left = segments(path)

    five_segments(tmp_path)
    shorten(tmp_path, 2, 1)
    disk = Noting()
    log = open_log(tmp_path, writer=disk, **SMALL)
    assert disk.left == [0, 2]
    log.abandon()


def test_where_no_power_was_lost_nothing_is_cut(tmp_path: Path) -> None:
    five_segments(tmp_path)
    shorten(tmp_path, 2, 1)
    log = open_log(tmp_path, power_lost=False, **SMALL)
    assert (log.log_end_offset, segments(tmp_path)) == (9, [0, 2, 4, 6, 8])
    log.abandon()


def test_a_segment_that_is_gone_altogether_is_where_the_log_ends(tmp_path: Path) -> None:
    five_segments(tmp_path)
    (tmp_path / f"{4:020d}.log").unlink()
    log = open_log(tmp_path, **SMALL)
    assert (log.log_end_offset, segments(tmp_path)) == (4, [0, 2])
    log.abandon()


def test_what_was_flushed_stays_whatever_its_segments_are(tmp_path: Path) -> None:
    five_segments(tmp_path, flushed=6)
    shorten(tmp_path, 2, 1)  # no crash does that
    log = open_log(tmp_path, **SMALL)
    assert (log.log_end_offset, segments(tmp_path)) == (9, [0, 2, 4, 6, 8])
    log.abandon()


def test_what_follows_damage_at_a_segments_end_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    for _ in range(3):
        append(log, values(b"v" * 20))
    log.flush()
    for _ in range(2):
        append(log, values(b"v" * 20))
    log.abandon()
    with (tmp_path / f"{2:020d}.log").open("r+b") as file:
        file.seek(SIZE - 1)
        file.write(b"\0")
    log = open_log(tmp_path, **SMALL)
    assert (log.log_end_offset, segments(tmp_path)) == (5, [0, 2, 4])
    log.abandon()


# --- gaps that are no loss ---


def by_compaction(log: PartitionLog) -> None:
    """Compaction leaves every third record, in several segments."""
    for number in range(30):
        append(log, values(b"v" * 40, key=b"%d" % (number if number % 3 == 0 else -1)), epoch=number)
    clean(log)
    ends = [segment.last_batch() for segment in log.segments.closed()]
    assert any(end.last_offset + 1 < base for end, base in zip(ends, log.segments.bases()[1:], strict=True) if end)


def by_skipping(log: PartitionLog) -> None:
    put(log, (b"key", b"v"))
    log.skip_to(40)


def by_skipping_twice(log: PartitionLog) -> None:
    by_skipping(log)
    log.skip_to(80)


def by_a_leader_with_gaps(log: PartitionLog) -> None:
    """A segment is full, and the leader's next batch is much further on."""
    for number in range(3):
        batch = values(b"v" * 200, base_offset=number * 1000, leader_epoch=0)
        log.append_as_follower(batch, NOW_MS)


def by_a_leader_with_gaps_that_are_too_wide(log: PartitionLog) -> None:
    for number in range(3):
        batch = values(b"v", base_offset=number * 5_000_000_000, leader_epoch=0)
        log.append_as_follower(batch, NOW_MS)


def by_truncating_where_nothing_is(log: PartitionLog) -> None:
    by_skipping(log)
    put(log, (b"key", b"v"))
    log.truncate_to(40)
    log.truncate_to(20)
    log.skip_to(60)


GAPS = [
    by_compaction,
    by_skipping,
    by_skipping_twice,
    by_a_leader_with_gaps,
    by_a_leader_with_gaps_that_are_too_wide,
    by_truncating_where_nothing_is,
]


def lose_power(folder: Path) -> None:
    """The small files that are not written durably are gone."""
    (folder / "log.checkpoint").unlink(missing_ok=True)


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("make", GAPS)
def test_a_gap_that_is_no_loss_cuts_no_log(tmp_path: Path, make: Callable[[PartitionLog], None], power: bool) -> None:
    log = open_log(tmp_path, **COMPACT)
    make(log)
    append(log, values(b"last"), log.leader_epoch)
    before, end = content(log), log.log_end_offset
    for _ in range(2):
        log.abandon()
        if power:
            lose_power(tmp_path)
        log = open_log(tmp_path, **COMPACT)
        assert (content(log), log.log_end_offset) == (before, end)
    log.abandon()


@pytest.mark.parametrize("make", GAPS)
def test_after_a_gap_that_is_no_loss_another_is_found(tmp_path: Path, make: Callable[[PartitionLog], None]) -> None:
    log = open_log(tmp_path, **COMPACT)
    make(log)
    log.roll()
    first = log.log_end_offset
    append(log, values(b"kept"), log.leader_epoch)
    size = log.segments.active.size_bytes
    append(log, values(b"lost"), log.leader_epoch)
    log.roll()
    append(log, values(b"lost too"), log.leader_epoch)
    log.abandon()
    os.truncate(tmp_path / f"{first:020d}.log", size)
    lose_power(tmp_path)
    log = open_log(tmp_path, **COMPACT)
    assert log.log_end_offset == first + 1
    assert content(log)[-1] == (first, b"k", b"kept")
    log.abandon()


def end_after_a_loss(folder: Path, log: PartitionLog) -> int:
    """Where a log of one batch ends that gets four more, of which a loss of power takes that at offset 3."""
    for _ in range(4):
        append(log, values(b"v" * 20))
    log.abandon()
    assert segments(folder) == [0, 2, 4]
    shorten(folder, 2, 1)
    lose_power(folder)
    log = open_log(folder, **SMALL)
    log.abandon()
    return log.log_end_offset


def test_a_loss_is_found_where_a_gap_was_before_the_log_was_truncated(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    append(log, values(b"v" * 20))
    log.skip_to(40)
    append(log, values(b"v" * 20))
    log.truncate_to(1)
    assert end_after_a_loss(tmp_path, log) == 3


@pytest.mark.parametrize("content_of_file", [None, b"garbage", b"{}", b"[]", b'{"version": 2, "pairs": []}'])
@pytest.mark.parametrize("make", GAPS)
def test_gaps_of_an_earlier_build_cut_no_log(
    tmp_path: Path, make: Callable[[PartitionLog], None], content_of_file: bytes | None
) -> None:
    """It does not say where they are. From the end of such a log on they are known."""
    log = open_log(tmp_path, **COMPACT)
    make(log)
    append(log, values(b"v"), log.leader_epoch)
    before, end = content(log), log.log_end_offset
    log.abandon()
    path = tmp_path / "segment-gaps"
    path.unlink() if content_of_file is None else path.write_bytes(content_of_file)
    lose_power(tmp_path)
    log = open_log(tmp_path, **COMPACT)
    assert (content(log), log.log_end_offset) == (before, end)
    append(log, values(b"kept"), log.leader_epoch)
    log.roll()
    size = log.segments.active.size_bytes
    append(log, values(b"lost"), log.leader_epoch)
    log.roll()
    append(log, values(b"lost too"), log.leader_epoch)
    log.abandon()
    os.truncate(tmp_path / f"{end + 1:020d}.log", size)
    log = open_log(tmp_path, **COMPACT)
    assert log.log_end_offset == end + 1
    log.abandon()


def by_compacting(log: PartitionLog) -> None:
    clean(log)


def by_jumping(log: PartitionLog) -> None:
    log.append_as_follower(values(b"v", base_offset=5_000_000_000, leader_epoch=99), NOW_MS)


@pytest.mark.parametrize("make", [by_compacting, lambda log: log.skip_to(70), by_jumping])
def test_a_log_that_cannot_write_down_where_a_gap_is_makes_none(
    tmp_path: Path, make: Callable[[PartitionLog], object]
) -> None:
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk, **COMPACT)
    for number in range(30):
        append(log, values(b"v" * 40, key=b"%d" % (number if number % 3 == 0 else -1)), epoch=number)
    log.roll()
    log.flush()
    before, names = content(log), segments(tmp_path)
    disk.file_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError, match="cannot write the gaps"):
        make(log)
    assert (content(log), log.log_end_offset, segments(tmp_path)) == (before, 30, names)
    assert not list(tmp_path.glob("*.cleaned"))
    disk.file_error = None
    make(log)
    append(log, values(b"last"), epoch=100)
    before, end = content(log), log.log_end_offset
    log.abandon()
    lose_power(tmp_path)
    log = open_log(tmp_path, **COMPACT)
    assert (content(log), log.log_end_offset) == (before, end)
    log.abandon()


def test_a_loss_before_a_gap_is_found(tmp_path: Path) -> None:
    five_segments(tmp_path)
    log = open_log(tmp_path, power_lost=False, **SMALL)
    log.skip_to(40)
    append(log, values(b"v"))
    log.abandon()
    shorten(tmp_path, 2, 1)
    log = open_log(tmp_path, **SMALL)
    assert log.log_end_offset == 3
    log.abandon()


@pytest.mark.parametrize("end", [30, 50])
@pytest.mark.parametrize("power_lost", [True, False])
def test_a_log_truncated_into_a_gap_within_a_segment_keeps_what_follows(
    tmp_path: Path, end: int, power_lost: bool
) -> None:
    log = open_log(tmp_path, **SMALL)
    for offset in (0, 50):
        log.append_as_follower(values(b"v", base_offset=offset, leader_epoch=0), NOW_MS)
    log.truncate_to(end)
    log.roll()
    append(log, values(b"next"))
    assert (segments(tmp_path), log.log_end_offset) == ([0, end], end + 1)
    log.abandon()
    lose_power(tmp_path)
    log = open_log(tmp_path, power_lost=power_lost, **SMALL)
    assert [offset for offset, _, _ in content(log)] == [0, end]
    log.abandon()


def test_a_log_that_cannot_write_down_that_its_end_is_in_a_gap_takes_no_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk, **SMALL)
    for offset in (0, 50):
        log.append_as_follower(values(b"v", base_offset=offset, leader_epoch=0), NOW_MS)
    write = disk.write_atomically

    def write_others(path: Path, data: bytes, *, durable: bool = True) -> None:
        if path.name == "segment-gaps":
            raise OSError(28, "No space left on device")
        write(path, data, durable=durable)

    monkeypatch.setattr(disk, "write_atomically", write_others)
    with pytest.raises(StorageError, match="cannot write the gaps"):
        log.truncate_to(50)
    with pytest.raises(StorageError, match=r"takes no appends: .*cannot write the gaps"):
        append(log, values(b"next"))
    monkeypatch.undo()
    job = log.repairs.begin(NOW_MS)
    assert job is not None
    job.run()
    log.repairs.finish(job)
    assert append(log, values(b"next")) == 1
    log.abandon()


@pytest.mark.parametrize("what", ["write_atomically", "fsync_directory"])
def test_a_log_whose_end_has_moved_takes_no_appends_if_that_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    disk = FullDisk()
    log = open_log(tmp_path, writer=disk, **SMALL)
    for offset, epoch in ((0, 0), (50, 0), (51, 1)):
        log.append_as_follower(values(b"v", base_offset=offset, leader_epoch=epoch), NOW_MS)
    log.truncate_to(51)
    done, calls = getattr(disk, what), []

    def fail_after_the_first(path: Path, *arguments: object, **named: object) -> None:
        calls.append(path)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        done(path, *arguments, **named)

    monkeypatch.setattr(disk, what, fail_after_the_first)
    with pytest.raises(StorageError, match="No space left"):
        log.truncate_to(50)
    with pytest.raises(StorageError, match="takes no appends"):
        append(log, values(b"next"), 2)
    log.abandon()


def test_segments_that_are_truncated_go_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in between leaves no hole, which the disk would not have made."""
    five_segments(tmp_path)
    log = open_log(tmp_path, power_lost=False, **SMALL)
    renamed: list[str] = []
    rename = Path.rename

    def note(path: Path, target: Path) -> Path:
        if path.suffix == ".log":
            renamed.append(path.stem)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", note)
    log.truncate_to(3)
    assert [int(each) for each in renamed] == [8, 6, 4]
    log.abandon()


def test_a_loss_before_the_start_of_the_log_is_none(tmp_path: Path) -> None:
    five_segments(tmp_path)
    log = open_log(tmp_path, power_lost=False, **SMALL)
    log.advance_high_watermark(9)
    log.retention.delete_before(5)
    log.abandon()
    shorten(tmp_path, 2, 1)
    log = open_log(tmp_path, **SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (5, 9)
    log.abandon()
    shorten(tmp_path, 4, 1)
    log = open_log(tmp_path, **SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    log.abandon()


def test_a_log_of_an_earlier_build_opens_on_a_full_disk(tmp_path: Path) -> None:
    five_segments(tmp_path)
    (tmp_path / "segment-gaps").unlink()
    disk = FullDisk()
    disk.file_error = OSError(28, "No space left on device")
    log = open_log(tmp_path, writer=disk, **SMALL)
    assert log.log_end_offset == 9
    log.abandon()
    assert not (tmp_path / "segment-gaps").exists()


def test_a_gap_that_could_not_be_made_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, **SMALL)
    append(log, values(b"v" * 20))

    def refuse(segment: Segment) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "open_for_append", refuse)
        with pytest.raises(StorageError, match="Too many open files"):
            log.skip_to(40)
    assert end_after_a_loss(tmp_path, log) == 3


def test_a_log_that_lost_its_end_forgets_gaps_behind_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    append(log, values(b"v" * 20))
    log.skip_to(40)
    append(log, values(b"v" * 20))
    log.abandon()
    (tmp_path / f"{40:020d}.log").unlink()
    log = open_log(tmp_path, **SMALL)
    assert end_after_a_loss(tmp_path, log) == 3


def test_many_gaps_are_forgotten_once_all_before_them_is_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    for number in range(20):
        log.skip_to(log.log_end_offset + 10)
        append(log, values(b"v"))
        if number == 17:
            log.flush()
    found = json.loads((tmp_path / "segment-gaps").read_bytes())
    assert (found["settled_to"], found["pairs"]) == (198, [[198, 208], [209, 219]])
    log.abandon()


def test_a_full_segment_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    log = open_log(tmp_path, **COMPACT)
    by_a_leader_with_gaps(log)
    assert segments(tmp_path) == [0, 1, 1001]
    assert [offset for offset, _, _ in content(log)] == [0, 1000, 2000]
    log.abandon()


# --- whatever has been done to a log ---

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([0, 0, 0, 1, 30, 5_000_000_000])),
    st.tuples(st.just("truncate"), st.integers(0, 100)),
    st.tuples(st.just("skip"), st.integers(1, 50)),
    st.tuples(st.just("reset"), st.integers(0, 50)),
    st.tuples(st.sampled_from(["roll", "flush", "compact", "reopen", "retain"]), st.just(0)),
)


def do(log: PartitionLog, step: str, number: int) -> None:
    end = log.log_end_offset
    if step == "append":
        batch = values(b"v" * 100, key=b"%d" % (end % 3), base_offset=end + number, leader_epoch=0)
        log.append_as_follower(batch, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
    elif step == "truncate":
        log.truncate_to(log.log_start_offset + (end - log.log_start_offset) * number // 100)
    elif step == "skip":
        log.skip_to(end + number)
    elif step == "reset":
        log.reset_to(number)
    elif step == "compact":
        clean(log)
    elif step == "retain":
        log.advance_start(log.log_start_offset + 1)
        remove_files(log.retention.apply(NOW_MS))
    elif step in ("roll", "flush"):
        getattr(log, step)()


def since(log: PartitionLog, start: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records from an offset on: a batch may begin before it."""
    return [each for each in content(log) if each[0] >= start]


@given(steps=st.lists(STEPS, max_size=25))
@settings(max_examples=300)
def test_a_loss_of_power_that_takes_no_segment_takes_no_record(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = open_log(folder, **COMPACT)
    for step, number in [*steps, ("reopen", 0)]:
        if step == "reopen":
            start = log.log_start_offset
            before = since(log, start)
            log.abandon()
            lose_power(folder)
            log = open_log(folder, **COMPACT)
            assert since(log, start) == before, "only what was before the start may be there again"
        do(log, step, number)
    log.abandon()
    shutil.rmtree(folder)
