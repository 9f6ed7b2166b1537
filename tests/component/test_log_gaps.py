"""Segments that do not follow each other: a crash has cut the one before, or compaction has left nothing there."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.partition_log import PartitionLog
from tests.support.log_helpers import (
    COMPACT,
    NOW_MS,
    FullDisk,
    all_bytes,
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


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize(("base", "batches"), [(0, 0), (0, 1), (2, 0), (2, 1), (6, 0), (6, 1)])
def test_a_closed_segment_that_lost_whole_batches_is_where_the_log_ends(
    tmp_path: Path, checkpoint: bool, base: int, batches: int
) -> None:
    five_segments(tmp_path)
    assert not (tmp_path / "log.checkpoint").exists(), "nothing was flushed"
    if checkpoint:
        log = open_log(tmp_path, **SMALL)
        log.write_checkpoint()
        log.abandon()
    shorten(tmp_path, base, batches)
    log = open_log(tmp_path, **SMALL)
    assert log.log_end_offset == base + batches
    assert segments(tmp_path) == list(range(0, base + 1, 2))
    assert append(log, values(b"next")) == base + batches
    assert [offset for offset, _, _ in content(log)] == list(range(base + batches + 1))
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


class Power(FullDisk):
    """A disk that remembers the newest checkpoint that a loss of power cannot take."""

    durable: bytes | None = None

    def write_atomically(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        super().write_atomically(path, data, durable=durable)
        if path.name == "log.checkpoint" and durable:
            self.durable = data


def lose_power(folder: Path, disk: Power) -> None:
    """Of the checkpoints, only what is durable is left."""
    path = folder / "log.checkpoint"
    if disk.durable is None:
        remove_files([path])
    else:
        path.write_bytes(disk.durable)


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("make", GAPS)
def test_a_gap_that_is_no_loss_cuts_no_log(tmp_path: Path, make: Callable[[PartitionLog], None], power: bool) -> None:
    disk = Power()
    log = open_log(tmp_path, writer=disk, **COMPACT)
    make(log)
    append(log, values(b"last"), log.leader_epoch)
    before, end = content(log), log.log_end_offset
    for _ in range(2):
        log.abandon()
        if power:
            lose_power(tmp_path, disk)
        log = open_log(tmp_path, writer=disk, **COMPACT)
        assert (content(log), log.log_end_offset) == (before, end)
    log.abandon()


@pytest.mark.parametrize("make", GAPS)
def test_after_a_gap_that_is_no_loss_another_is_found(tmp_path: Path, make: Callable[[PartitionLog], None]) -> None:
    disk = Power()
    log = open_log(tmp_path, writer=disk, **COMPACT)
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
    lose_power(tmp_path, disk)
    log = open_log(tmp_path, writer=disk, **COMPACT)
    assert log.log_end_offset == first + 1
    assert content(log)[-1] == (first, b"k", b"kept")
    log.abandon()


def test_a_loss_is_found_where_a_gap_was_before_the_log_was_truncated(tmp_path: Path) -> None:
    disk = Power()
    log = open_log(tmp_path, writer=disk, **SMALL)
    append(log, values(b"v" * 20))
    log.skip_to(40)
    append(log, values(b"v" * 20))
    log.truncate_to(1)
    for _ in range(4):
        append(log, values(b"v" * 20))
    log.abandon()
    assert segments(tmp_path) == [0, 2, 4]
    shorten(tmp_path, 2, 1)
    lose_power(tmp_path, disk)
    log = open_log(tmp_path, writer=disk, **SMALL)
    assert log.log_end_offset == 3
    log.abandon()


@pytest.mark.parametrize("make", GAPS)
def test_gaps_of_an_earlier_build_cut_no_log(tmp_path: Path, make: Callable[[PartitionLog], None]) -> None:
    """Its checkpoint does not say where they are. From the end of such a log on they are known."""
    log = open_log(tmp_path, **COMPACT)
    make(log)
    log.write_checkpoint(durable=True)
    path = tmp_path / "log.checkpoint"
    log.abandon()
    fields = json.loads(path.read_bytes())
    del fields["contiguous_from"]
    path.write_text(json.dumps({**fields, "recovery_point": 0}))
    with_gaps = open_log(tmp_path, **COMPACT)
    assert all_bytes(with_gaps) == all_bytes(log)
    assert with_gaps.checkpoint.contiguous_from == with_gaps.log_end_offset == log.log_end_offset
    with_gaps.abandon()


def test_a_log_that_cannot_write_down_where_a_gap_is_makes_none(tmp_path: Path) -> None:
    disk = Power()
    log = open_log(tmp_path, writer=disk, **COMPACT)
    put(log, (b"key", b"v"))
    disk.file_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError, match="cannot write the checkpoint"):
        log.skip_to(40)
    assert (log.log_end_offset, segments(tmp_path)) == (1, [0])
    disk.file_error = None
    log.skip_to(40)
    assert (log.log_end_offset, segments(tmp_path)) == (40, [0, 40])
    log.abandon()


def test_a_full_segment_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    log = open_log(tmp_path, **COMPACT)
    by_a_leader_with_gaps(log)
    assert segments(tmp_path) == [0, 1, 1001]
    assert [offset for offset, _, _ in content(log)] == [0, 1000, 2000]
    log.abandon()
