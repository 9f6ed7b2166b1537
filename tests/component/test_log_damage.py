"""Bytes of a log that have changed on the disk: no read gives them out, and each find is told."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from actors.log.damage import Damage, DamagedBatchError
from actors.log.errors import StorageError
from actors.log.files import REAL_WRITER
from actors.log.partition_log import PartitionLog
from actors.log.reading import Extent
from actors.records.batch import iter_batches
from tests.support.log_helpers import (
    NOW_MS,
    all_bytes,
    append,
    batch_bounds,
    clean,
    config,
    content,
    open_log,
    values,
)

EPOCH = range(12, 16)
"""The bytes of a batch's leader epoch. A lower one goes unnoticed: no checksum or neighbour tells."""


def made(path: Path, batches: int = 40, each: int = 100, **settings: str) -> bytes:
    """Make a log, close it in order, and return what is in it."""
    log = open_log(path, **{"segment_bytes": "3000", "index_interval_bytes": "500", **settings})
    rng = random.Random(7)
    for _ in range(batches):
        append(log, values(*(rng.randbytes(each) for _ in range(rng.randint(1, 3)))))
    data = all_bytes(log)
    log.close()
    return data


def opened(path: Path, found: list[Damage] | None = None, **settings: str) -> PartitionLog:
    """The log after a clean stop, of which nothing is known to be right."""
    told = found if found is not None else []
    return PartitionLog.open(
        path, config(**settings), REAL_WRITER, clean_shutdown=True, now_ms=NOW_MS, damaged=told.append
    )


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def flip(file: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


def at_once(log: PartitionLog, offset: int) -> tuple[bytes, int]:
    return log.read_with_end(offset, 700)


def in_pieces(log: PartitionLog, offset: int) -> tuple[bytes, int]:
    extent = log.locate(offset, 2000)
    assert extent is not None
    pieces = []
    try:
        while len(extent):
            pieces.append(extent.read(150))
    except DamagedBatchError:
        if not pieces:
            raise
    data = b"".join(pieces)
    batches = list(iter_batches(data))
    whole = batches[-1][1] if batches else 0
    return data[:whole], batches[-1][2].next_offset if batches else offset


READS = [at_once, in_pieces]


def read_on(log: PartitionLog, read: object) -> Iterator[bytes]:
    """Successive reads, from the start of the log until an error or its end."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, offset = read(log, offset)  # type: ignore[operator]
        yield data


def until_damaged(pieces: Iterator[bytes]) -> bytes:
    """The bytes before the first damaged batch. Fails if no batch is damaged."""
    got = b""
    try:
        for data in pieces:
            got += data
    except DamagedBatchError:
        return got
    raise AssertionError("nothing was found to be damaged")


@pytest.mark.parametrize("read", READS)
def test_no_flipped_bit_is_ever_given_out(tmp_path: Path, read: object) -> None:
    whole = made(tmp_path)
    layout = {}
    position = 0
    for file in files(tmp_path)[:-1]:  # in the last one the header of the last batch alone says where the log ends
        data = file.read_bytes()
        for start, end, header in iter_batches(data):
            layout[position + start] = (file, start, end, header)
        position += len(data)
    rng = random.Random(3)
    for _ in range(200):
        before, (file, start, end, header) = rng.choice(list(layout.items()))
        at = rng.choice([rng.randrange(61), rng.randrange(end - start)])
        if at in EPOCH:
            continue
        flip(file, start + at, bit := rng.randrange(8))
        found: list[Damage] = []
        log = opened(tmp_path, found, segment_bytes="3000", index_interval_bytes="500")
        got = until_damaged(read_on(log, read))
        assert got == whole[:before], f"bit {bit} of byte {at}"
        (damage,) = found
        assert (damage.path, damage.position, damage.first_offset) == (file, start, header.base_offset)
        assert damage.last_offset >= header.last_offset
        log.abandon()
        flip(file, start + at, bit)


@pytest.mark.parametrize("read", READS)
def test_what_follows_a_damaged_batch_can_be_read(tmp_path: Path, read: object) -> None:
    whole = made(tmp_path)
    file = files(tmp_path)[1]
    starts = [(start, header) for start, _, header in iter_batches(file.read_bytes())]
    start, header = starts[2]
    flip(file, start + 70)
    log = opened(tmp_path)
    with pytest.raises(DamagedBatchError) as caught:
        log.read(header.base_offset, 700)
    assert caught.value.damage.last_offset == header.last_offset
    with pytest.raises(DamagedBatchError):
        read(log, header.last_offset)  # type: ignore[operator]
    data, _ = read(log, header.next_offset)  # type: ignore[operator]
    assert data
    assert data in whole
    log.abandon()


@pytest.mark.parametrize("read", READS)
def test_what_follows_a_damaged_header_can_be_read(tmp_path: Path, read: object) -> None:
    made(tmp_path, segment_bytes="100000", index_interval_bytes="100000")
    (file,) = files(tmp_path)
    batches = list(iter_batches(file.read_bytes()))
    found: list[Damage] = []
    log = opened(tmp_path, found)
    flip(file, batches[5][0] + 2)
    log.segments.active.known.forget()
    for offset in range(batches[5][2].base_offset, batches[5][2].next_offset):
        with pytest.raises(DamagedBatchError):
            read(log, offset)  # type: ignore[operator]
    for _, _, header in batches[6:]:
        assert read(log, header.base_offset)[0]  # type: ignore[operator]
    assert len(found) == 1
    log.abandon()


def test_damage_goes_with_an_end_that_is_cut_off(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(3):
        append(log, values(b"value %d" % number))
    flip(log.segments.active.path, log.size_bytes - 1)
    log.segments.active.known.forget()
    with pytest.raises(DamagedBatchError):
        log.read_with_end(2, 1000)
    ((segment, damage),) = log.damages
    sound = log.read_with_end(1, 1)[0]
    log.truncate_to(1)
    for number in range(3):
        append(log, values(b"other %d" % number))
    after = segment.path.read_bytes()
    assert log.read_with_end(2, 1000)[0]
    assert log.mend(segment, damage, sound) is damage  # an answer that came late
    assert segment.path.read_bytes() == after
    log.close()


def test_a_cut_behind_a_damaged_header_leaves_no_hole(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes="1")
    for number in range(5):
        append(log, values(b"value %d" % number))
    size = log.size_bytes // 5
    flip(log.segments.active.path, 2 * size + 16)  # the magic of the third batch
    log.truncate_to(3)
    assert (log.log_end_offset, log.size_bytes) == (2, 2 * size)
    append(log, values(b"again"))
    assert [header.base_offset for _, _, header in iter_batches(all_bytes(log))] == [0, 1, 2]
    log.close()


def test_a_cut_takes_no_sound_batch_between_a_damaged_header_and_the_cut(tmp_path: Path) -> None:
    """They may have committed, and this replica is in sync: it must not lead without them."""
    log = open_log(tmp_path, index_interval_bytes="1")
    for number in range(5):
        append(log, values(b"value %d" % number))
    whole = all_bytes(log)
    size = log.size_bytes // 5
    flip(log.segments.active.path, size + 16)
    log.truncate_to(4)
    assert (log.log_end_offset, log.size_bytes) == (4, 4 * size)
    assert append(log, values(b"again")) == 4
    assert after(log, 2)[: 2 * size] == whole[2 * size : 4 * size]
    with pytest.raises(DamagedBatchError):
        log.read_with_end(1, 1)
    log.close()


def test_a_batch_within_which_the_log_begins_is_mended(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, values(b"a", b"b", b"c"))
    append(log, values(b"d"))
    log.advance_high_watermark(4)
    sound = log.read_with_end(0, 1)[0]
    log.advance_start(1)
    flip(log.segments.active.path, 70)
    log.segments.active.known.forget()
    with pytest.raises(DamagedBatchError):
        log.read_with_end(1, 1)
    ((segment, damage),) = log.damages
    assert log.mend(segment, damage, sound) is None
    assert log.read_with_end(1, 1)[0] == sound
    log.close()


def test_a_read_ends_before_a_batch_that_is_known_to_be_damaged(tmp_path: Path) -> None:
    made(tmp_path, segment_bytes="100000")
    (file,) = files(tmp_path)
    batches = list(iter_batches(file.read_bytes()))
    flip(file, batches[5][0] + 80)
    found: list[Damage] = []
    log = opened(tmp_path, found)
    extent = log.locate(0, 1 << 20)
    assert extent is not None
    assert extent.read(1 << 20) == file.read_bytes()[: batches[5][0]]
    with pytest.raises(DamagedBatchError):
        extent.read(1 << 20)
    whole = opened(tmp_path).locate(0, 1 << 20)
    assert whole is not None
    with pytest.raises(DamagedBatchError):  # a part must not pass for the whole
        whole.read()
    extent = log.locate(0, 1 << 20)
    assert extent is not None
    assert (len(extent), extent.next_offset) == (batches[5][0], batches[5][2].base_offset)
    assert len(found) == 1
    log.abandon()


def test_a_batch_longer_than_a_piece_is_checked_before_its_first_byte_leaves(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, values(os.urandom(10_000)))
    append(log, values(os.urandom(10_000)))
    log.close()
    (file,) = files(tmp_path)
    flip(file, file.stat().st_size - 1)
    log = opened(tmp_path)
    extent = log.locate(0, 1 << 20)
    assert extent is not None
    got = until_damaged(extent.read(1000) for _ in range(100))
    assert got == file.read_bytes()[: file.stat().st_size // 2]
    log.abandon()


def test_bytes_that_were_checked_are_not_checked_again_while_they_stay_in_memory(tmp_path: Path) -> None:
    made(tmp_path, segment_bytes="100000")
    (file,) = files(tmp_path)
    log = opened(tmp_path)
    segment = log.segments.active
    assert not segment.known.covers(0, 1)
    size = segment.size_bytes
    all_bytes(log)
    assert segment.known.covers(0, size)
    append(log, values(b"new"))
    assert segment.known.covers(0, segment.size_bytes)
    flip(file, 70)  # no reader can tell this from a change of the page in memory
    assert log.read(0, 10)
    log.abandon()


def test_bytes_that_have_left_the_memory_are_checked_again(tmp_path: Path) -> None:
    made(tmp_path, segment_bytes="2000000", each=10_000)
    (file,) = files(tmp_path)
    log = opened(tmp_path)
    all_bytes(log)
    flip(file, 70)
    fd = os.open(file, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        os.preadv(fd, (bytearray(1),), 0, os.RWF_NOWAIT)
        left = False
    except BlockingIOError:
        left = True
    except OSError:
        left = False
    os.close(fd)
    if not left:
        pytest.skip("this file system keeps all in memory, or cannot say what it has there")
    os.posix_fadvise(log.segments.active.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    with pytest.raises(DamagedBatchError):
        log.read(0, 1 << 20)
    log.abandon()


def test_after_an_eviction_in_the_middle_of_a_batch_reading_goes_on(tmp_path: Path) -> None:
    whole = made(tmp_path, segment_bytes="100000")
    log = opened(tmp_path)
    all_bytes(log)
    extent = log.locate(0, 1 << 20)
    assert extent is not None
    got = extent.read(150) + extent.read(333)
    log.segments.active.known.forget()
    while len(extent):
        got += extent.read(150)
    assert got == whole
    log.abandon()


def test_gaps_that_compaction_left_are_no_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy="compact", segment_bytes="200000", min_cleanable_dirty_ratio="0")
    for number in range(20):  # batches that are too large to be merged
        append(log, values(os.urandom(70_000), key=b"k" if number % 3 else b"k%d" % number))
    clean(log)
    before, bounds = content(log), batch_bounds(log)
    assert any(later[0] > earlier[1] + 1 for earlier, later in pairwise(bounds))
    log.close()
    found: list[Damage] = []
    log = opened(tmp_path, found, cleanup_policy="compact")
    assert content(log) == before
    assert not found
    log.abandon()


def test_compaction_gives_no_damaged_batch_a_checksum_that_is_right(tmp_path: Path) -> None:
    settings = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0"}
    log = open_log(tmp_path, **settings)
    for number in range(40):
        append(log, values(b"%02d" % number * 50, key=b"k%d" % number))
    log.close()
    file = files(tmp_path)[0]
    _, end, header = list(iter_batches(file.read_bytes()))[1]
    flip(file, end - 10)
    log = opened(tmp_path, **settings)
    clean(log)
    with pytest.raises(DamagedBatchError):
        log.read(header.base_offset, 1)
    log.abandon()


def test_a_file_that_has_lost_its_end_is_damaged_there(tmp_path: Path) -> None:
    made(tmp_path)
    file = files(tmp_path)[0]
    batches = list(iter_batches(file.read_bytes()))
    log = opened(tmp_path)
    os.truncate(file, batches[2][0])
    data, offset = log.read_with_end(0, 1 << 20)
    assert (len(data), offset) == (batches[2][0], batches[2][2].base_offset)
    with pytest.raises((DamagedBatchError, StorageError)):
        log.read(offset, 1 << 20)
    log.abandon()


def test_an_extent_whose_segment_is_gone_says_so(tmp_path: Path) -> None:
    made(tmp_path)
    log = opened(tmp_path)
    extent = log.locate(0, 1 << 20)
    assert isinstance(extent, Extent)
    flip(files(tmp_path)[0], 70)
    log.reset_to(500)
    with pytest.raises(StorageError):
        extent.read()
    log.abandon()


@pytest.mark.parametrize("read", READS)
def test_a_read_that_ends_with_a_batch_after_a_gap_finds_no_damage(tmp_path: Path, read: object) -> None:
    log = open_log(tmp_path, cleanup_policy="compact", segment_bytes="2000000", min_cleanable_dirty_ratio="0")
    for number in range(20):  # batches that are too large to be merged
        append(log, values(os.urandom(70_000), key=b"k" if number % 3 else b"k%d" % number))
    clean(log)
    whole = all_bytes(log)
    log.close()
    found: list[Damage] = []
    log = opened(tmp_path, found, cleanup_policy="compact")
    assert b"".join(read_on(log, read)) == whole
    assert not found
    log.abandon()


# --- opening ---

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


def after(log: PartitionLog, offset: int) -> bytes:
    """All bytes of a read from an offset to the log's end."""
    got = b""
    while offset < log.log_end_offset:
        data, offset = log.read_with_end(offset, 1 << 20)
        got += data
    return got


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
