"""No read gives out bytes of a log that have changed on the disk, and each find is told."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from actors.log.damage import Damage, DamagedBatchError
from actors.log.errors import StorageError
from actors.log.reading import Extent
from actors.records.batch import iter_batches
from tests.support.damaged_log import EPOCH, READS, after, files, flip, made, opened, read_on, until_damaged
from tests.support.log_helpers import all_bytes, append, batch_bounds, clean, content, open_log, values


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
    assert log.mending.mend(segment, damage, sound) is damage  # an answer that came late
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
    assert log.mending.mend(segment, damage, sound) is None
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
