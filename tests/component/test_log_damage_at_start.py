"""A start keeps what is sound in a log whose bytes have changed on the disk, and cuts what a crash has torn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.log.damage import DamagedBatchError
from actors.records.batch import iter_batches
from tests.support.damaged_log import EPOCH, after, at_once, files, flip, made, opened, read_on, until_damaged
from tests.support.log_helpers import NOW_MS, all_bytes, append, open_log, values

PLAIN = [values(b"value %d" % number) for number in range(6)]
SIX = [values(b"value %d" % number, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(6)]


def flushed(path: Path, *batches: bytes) -> bytes:
    """A log of these batches in one segment without an entry of the index, all on disk; its bytes."""
    log = open_log(path)
    for batch in batches:
        append(log, batch)
    data = all_bytes(log)
    log.close()
    return data


def spans(data: bytes) -> list[tuple[int, int]]:
    """Begin and end of each batch."""
    return [(begin, end) for begin, end, _ in iter_batches(data)]


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_start_cuts_no_sound_batch_behind_one_that_was_flushed_and_is_damaged(
    tmp_path: Path, was_clean: bool, victim: int
) -> None:
    """One flipped bit in a batch's header cost all batches behind it, and nobody else may have a copy of them."""
    whole = flushed(tmp_path / "whole", *SIX)
    bounds = spans(whole)
    begin, end = bounds[victim]
    positions = [each for each in range(end - begin) if each not in EPOCH]
    for number, position in enumerate(positions):
        folder = tmp_path / f"{position}"
        shutil.copytree(tmp_path / "whole", folder)
        flip(files(folder)[0], begin + position, number % 8)
        log = open_log(folder, clean=was_clean)
        assert (log.log_end_offset, log.size_bytes) == (6, len(whole)), position
        assert after(log, victim + 1) == whole[end:], position
        assert until_damaged(read_on(log, at_once)) == whole[:begin], position
        ((_, damage),) = log.damages
        assert (damage.position, damage.end) == (begin, end), position
        assert (damage.first_offset, damage.last_offset) == (victim, victim), position
        assert append(log, values(b"next")) == 6
        log.abandon()
        shutil.rmtree(folder)


def two_of_six_unflushed(folder: Path) -> tuple[Path, list[tuple[int, int]]]:
    """The file of a log after a crash, of which four batches were flushed, and where each batch begins and ends."""
    log = open_log(folder)
    for batch in SIX[:4]:
        append(log, batch)
    log.flush()
    for batch in SIX[4:]:
        append(log, batch)
    bounds = spans(all_bytes(log))
    log.abandon()
    (file,) = files(folder)
    return file, bounds


@pytest.mark.parametrize("position", [4, 7, 8, 11, 16, 20])
def test_what_a_crash_has_torn_is_cut_and_damage_before_it_is_kept(tmp_path: Path, position: int) -> None:
    file, bounds = two_of_six_unflushed(tmp_path)
    flip(file, bounds[1][0] + position)
    flip(file, bounds[4][0] + 16)
    log = open_log(tmp_path)
    assert (log.log_end_offset, log.size_bytes) == (4, bounds[3][1])
    assert len(after(log, 2)) == bounds[3][1] - bounds[1][1]
    log.abandon()


def test_damage_that_reaches_into_what_was_not_flushed_is_cut(tmp_path: Path) -> None:
    """A crash may have written the pages of later batches, and not of earlier ones."""
    file, bounds = two_of_six_unflushed(tmp_path)
    for number in (3, 4):
        flip(file, bounds[number][0] + 16)
    log = open_log(tmp_path)
    assert (log.log_end_offset, log.size_bytes) == (3, bounds[2][1])
    log.abandon()


def test_two_damaged_batches_in_a_row_are_one_damage(tmp_path: Path) -> None:
    whole = flushed(tmp_path, *SIX)
    bounds = spans(whole)
    for number in (2, 3):
        flip(files(tmp_path)[0], bounds[number][0] + 8)
    log = open_log(tmp_path, clean=True)
    assert (log.log_end_offset, after(log, 4)) == (6, whole[bounds[4][0] :])
    log.abandon()


def test_batches_within_a_record_are_not_taken_for_the_next_batch(tmp_path: Path) -> None:
    forged = values(b"forged", base_offset=4, leader_epoch=0)
    whole = flushed(tmp_path, *PLAIN[:2], values(forged * 2), *PLAIN[3:])
    bounds = spans(whole)
    flip(files(tmp_path)[0], bounds[2][0] + 8)
    log = open_log(tmp_path, clean=True)
    assert (log.log_end_offset, after(log, 3)) == (6, whole[bounds[3][0] :])
    log.abandon()


@pytest.mark.parametrize("segment", [0, -1])
def test_indexes_are_made_again_past_a_damaged_header(tmp_path: Path, segment: int) -> None:
    whole = made(tmp_path)
    layout = {header.base_offset: (begin, end) for begin, end, header in iter_batches(whole)}
    file = files(tmp_path)[segment]
    first = int(file.stem)
    victim = min(offset for offset in layout if offset > first)
    following = min(offset for offset in layout if offset > victim)
    flip(file, layout[victim][0] - layout[first][0] + 16)
    file.with_suffix(".index").unlink()
    log = opened(tmp_path, segment_bytes="3000", index_interval_bytes="500")
    assert after(log, following) == whole[layout[following][0] :]
    with pytest.raises(DamagedBatchError):
        log.read_with_end(victim, 700)
    log.abandon()


TAILS = [bytes(200), b"\xff" * 200, values(b"torn", base_offset=6)[:-1], values(b"torn", base_offset=6)[:30]]
"""Bytes that a crash may leave behind the last whole batch: pages never written, garbage, a part of a batch."""


@pytest.mark.parametrize("tail", TAILS)
def test_a_torn_end_says_nothing_of_a_gap_before_the_last_whole_batch(tmp_path: Path, tail: bytes) -> None:
    """A new replica's log has the gaps of its leader's compaction, also in the segment that it writes to."""
    log = open_log(tmp_path)
    for base in (0, 5):
        log.append_as_follower(values(b"value", base_offset=base, leader_epoch=0), NOW_MS)
    log.flush()
    whole = all_bytes(log)
    log.abandon()
    (file,) = files(tmp_path)
    file.write_bytes(whole + tail)
    log = open_log(tmp_path)
    assert (log.log_end_offset, all_bytes(log)) == (6, whole)
    log.abandon()


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("victim", [3, 4])
def test_damage_right_before_the_flushed_end_does_not_go_with_what_a_crash_has_torn(
    tmp_path: Path, victim: int, tail: bytes
) -> None:
    whole = flushed(tmp_path, *SIX)
    bounds = spans(whole)
    (file,) = files(tmp_path)
    file.write_bytes(whole + tail)
    flip(file, bounds[victim][0] + 16)
    log = open_log(tmp_path)
    assert (log.log_end_offset, log.size_bytes) == (6, len(whole))
    assert after(log, victim + 1) == whole[bounds[victim][1] :]
    log.abandon()


@pytest.mark.parametrize("position", [4, 16, 20])
def test_a_sound_batch_between_two_damaged_ones_is_kept(tmp_path: Path, position: int) -> None:
    whole = flushed(tmp_path, *SIX)
    bounds = spans(whole)
    (file,) = files(tmp_path)
    for victim in (1, 3):
        flip(file, bounds[victim][0] + position)
    log = open_log(tmp_path)
    assert log.log_end_offset == 6
    assert after(log, 4) == whole[bounds[4][0] :]
    assert log.read_with_end(2, 1)[0] == whole[slice(*bounds[2])]
    log.abandon()


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("position", [8, 9, 16])
def test_no_read_skips_the_damaged_end_of_a_closed_segment_whose_indexes_are_gone(
    tmp_path: Path, was_clean: bool, position: int
) -> None:
    whole = made(tmp_path)
    first, second = files(tmp_path)[:2]
    begin, _, header = list(iter_batches(first.read_bytes()))[-1]
    flip(first, begin + position)
    first.with_suffix(".index").unlink()
    log = open_log(tmp_path, clean=was_clean, segment_bytes="3000", index_interval_bytes="500")
    assert until_damaged(read_on(log, at_once)) == whole[:begin]
    with pytest.raises(DamagedBatchError):
        log.read_with_end(header.base_offset, 1 << 20)
    assert after(log, int(second.stem)) == whole[first.stat().st_size :]
    log.abandon()
