"""Reading: which batches, how many, up to where; offsets by timestamp and by epoch."""

import os
import random
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.log.epochs import LeaderEpochs
from actors.log.errors import FetchOffsetOutOfRange, StorageError
from actors.log.files import REAL_WRITER
from actors.log.reading import Extent
from actors.records.batch import iter_batches
from actors.records.building import build_batch
from tests.support.log_helpers import (
    NOW_MS,
    all_bytes,
    append,
    content,
    max_timestamp,
    offset_for_timestamp,
    open_log,
    values,
)
from tests.support.read_records import read_records


def many(path, batches, rng, **options):
    """A log of `batches` batches of 1 to 5 records of mixed sizes."""
    log = open_log(path, segment_bytes="100000", index_interval_bytes="1000", **options)
    for number in range(batches):
        items = [rng.randbytes(rng.choice((0, 10, 100, 600))) for _ in range(rng.randint(1, 5))]
        append(log, values(*items, timestamp_ms=NOW_MS + number * 10))
    return log


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    log = many(tmp_path_factory.mktemp("log"), 10_000, random.Random(5))
    assert len(log.segments) > 20
    yield log
    log.abandon()


def bounds(data):
    return [(header.base_offset, header.last_offset) for _, _, header in iter_batches(data)]


@pytest.fixture(scope="module")
def layout(big):
    """(base offset, last offset, size) of every batch of the big log, by walking it all."""
    data = all_bytes(big)
    found = [(header.base_offset, header.last_offset, end - start) for start, end, header in iter_batches(data)]
    assert len(found) == 10_000
    return found


def test_bytes_from_an_offset_are_told_to_an_entry_of_the_index(big, layout):
    total = sum(size for _, _, size in layout)
    assert big.bytes_from(0) == total
    assert big.bytes_from(big.log_end_offset) == 0
    passed = 0
    for base, last, size in layout[:-1]:
        passed += size
        assert 0 <= big.bytes_from(last + 1) - (total - passed) < 1000 + 5 * 700 + 100, base


def expected_first(layout, offset):
    return layout[bisect_right(layout, (offset, 1 << 62, 0)) - 1]


@pytest.mark.parametrize("max_bytes", [1, 700, 5_000, 50_000, 1 << 20])
def test_a_sequential_reader_sees_everything_once(big, layout, max_bytes):
    offset, seen = 0, []
    while offset < big.log_end_offset:
        data = big.read(offset, max_bytes)
        found = bounds(data)
        assert found[0][0] == offset, "sequential reads begin at batch boundaries"
        assert len(data) <= max_bytes or len(found) == 1
        seen += found
        offset = found[-1][1] + 1
    assert seen == [(base, last) for base, last, _ in layout]


def test_any_offset_is_found(big, layout):
    rng = random.Random(6)
    for _ in range(3000):
        offset, max_bytes = rng.randrange(big.log_end_offset), rng.choice((1, 300, 3000, 30_000))
        data = big.read(offset, max_bytes)
        base, last, size = expected_first(layout, offset)
        assert bounds(data)[0] == (base, last)
        assert len(data) <= max(max_bytes, size)
        extent = big.locate(offset, max_bytes)
        assert extent.read() == data
        assert extent.next_offset == bounds(data)[-1][1] + 1


def test_as_much_as_fits_is_read(big, layout):
    rng = random.Random(7)
    for _ in range(300):
        offset, max_bytes = rng.randrange(big.log_end_offset), 20_000
        data = big.read(offset, max_bytes)
        following = bounds(data)[-1][1] + 1
        segment_ends_here = following in big.segments.bases() or following == big.log_end_offset
        assert segment_ends_here or len(data) + expected_first(layout, following)[2] > max_bytes


def test_without_at_least_one_batch_a_small_read_is_empty(big, layout):
    base, _, size = layout[100]
    assert big.read(base, size - 1, min_one_batch=False) == b""
    assert len(big.read(base, size, min_one_batch=False)) == size
    assert len(big.read(base, size - 1)) == size


@pytest.mark.parametrize("max_bytes", [1, 2_000, 1 << 20])
def test_no_read_passes_its_end(big, layout, max_bytes):
    rng = random.Random(8)
    for _ in range(500):
        end = rng.randrange(1, big.log_end_offset)
        offset = max(0, end - rng.randrange(40))
        found = bounds(big.read(offset, max_bytes, end))
        assert all(last < end for _, last in found)
        _, last, _ = expected_first(layout, offset)
        assert bool(found) == (last < end and offset < end)


def test_the_watermark_is_the_end_of_reads(tmp_path):
    log = open_log(tmp_path)
    for number in range(5):
        append(log, values(b"%d" % number), commit=False)
    assert log.read(0, 1 << 20) == b""
    for watermark in range(1, 6):
        assert log.advance_high_watermark(watermark)
        assert bounds(log.read(0, 1 << 20)) == [(number, number) for number in range(watermark)]
        assert log.read(watermark, 1 << 20) == b""
    assert not log.advance_high_watermark(3), "it never goes back"
    assert not log.advance_high_watermark(99), "nor past the log end"
    assert log.high_watermark == 5
    log.abandon()


def test_a_reader_that_waits_at_the_end_gets_what_comes(tmp_path):
    log = open_log(tmp_path, segment_bytes="500")
    for number in range(50):
        assert log.read(number, 100) == b""
        append(log, values(b"%d" % number))
        assert log.read(number, 100) == values(b"%d" % number, base_offset=number, leader_epoch=0)
    log.abandon()


def test_offsets_outside_the_log(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a", b"b", b"c"))
    log.retention.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(FetchOffsetOutOfRange) as caught:
            log.read(offset, 100)
        assert caught.value.error_code == 1
    assert bounds(log.read(1, 100)) == [(0, 2)]
    assert log.read(3, 100) == b""
    log.abandon()


def test_an_extent_outlives_a_roll_and_its_file(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    extent, other = log.locate(0, 100), log.locate(0, 100)
    path = log.segments.active.path
    log.roll()
    assert extent.read() == values(b"a", base_offset=0, leader_epoch=0)
    path.rename(tmp_path / "another")
    path.write_bytes(b"what a compaction has put in its place")
    assert other.read() == values(b"a", base_offset=0, leader_epoch=0)
    log.abandon()


def test_an_extent_that_is_not_all_there_is_an_error(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    extent = log.locate(0, 100)
    os.truncate(log.segments.active.path, len(extent) - 1)
    with pytest.raises(StorageError):
        extent.read()
    log.abandon()


def test_an_extent_of_records_that_were_cut_off_meanwhile_is_an_error_whatever_stands_there_now(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    append(log, values(b"b"))
    extent = log.locate(0, 1000)
    log.truncate_to(1)
    append(log, values(b"another"))
    with pytest.raises(StorageError):
        extent.read()
    log.abandon()


def test_an_extent_is_read_in_pieces(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    append(log, values(b"b"))
    whole = log.read(0, 1000)
    extent = log.locate(0, 1000)
    pieces = []
    while len(extent):
        pieces.append(extent.read(50))
    assert b"".join(pieces) == whole
    assert {len(piece) for piece in pieces[:-1]} == {50}
    assert extent.read(50) == b""
    log.abandon()


def test_only_more_than_may_be_read_at_once_is_left_to_be_read_later(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    whole = log.read(0, 1000)
    assert log.read_or_locate(0, 1000, len(whole)) == whole
    extent = log.read_or_locate(0, 1000, len(whole) - 1)
    assert isinstance(extent, Extent)
    assert extent.read() == whole
    assert log.read_or_locate(1, 1000, 0) == b""
    log.abandon()


def test_extents_share_their_file_and_keep_it_open_until_they_have_been_read_or_nobody_will(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"a"))
    open_files = os.listdir("/proc/self/fd")
    read, kept = log.locate(0, 100), log.locate(0, 100)
    assert len(os.listdir("/proc/self/fd")) == len(open_files) + 1
    read.read()
    assert len(os.listdir("/proc/self/fd")) == len(open_files) + 1
    del kept
    assert len(os.listdir("/proc/self/fd")) == len(open_files)
    log.abandon()


# -- timestamps


def test_offset_for_timestamp_equals_a_scan(big):
    records = list(read_records(all_bytes(big)))
    rng = random.Random(9)
    for _ in range(300):
        target = NOW_MS + rng.randrange(-5, 100_020)
        first = next(((each.offset, each.timestamp) for each in records if each.timestamp >= target), None)
        assert offset_for_timestamp(big, target) == first
    assert max_timestamp(big) == (
        next(each.offset for each in records if each.timestamp == records[-1].timestamp),
        records[-1].timestamp,
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=25), st.booleans())
def test_timestamps_in_any_order(tmp_path_factory, times, reopen):
    path = tmp_path_factory.mktemp("log")
    log = open_log(path, segment_bytes="400", index_interval_bytes="0", segment_ms="1000000000000000")
    for batch in times:
        append(log, build_batch([(b"k", b"v", None, time) for time in batch], compression="gzip"))
    if reopen:
        log.close()
        log = open_log(path, clean=True, segment_bytes="400", index_interval_bytes="0")
    flat = [time for batch in times for time in batch]
    for target in range(32):
        wanted = next(((offset, time) for offset, time in enumerate(flat) if time >= target), None)
        assert offset_for_timestamp(log, target) == wanted
    assert max_timestamp(log) == (flat.index(max(flat)), max(flat))
    log.abandon()


def test_timestamps_keep_to_the_visible_part(tmp_path):
    log = open_log(tmp_path)
    for time in (10, 20, 30):
        append(log, values(b"v", timestamp_ms=time), commit=False)
    assert offset_for_timestamp(log, 5) is None
    assert max_timestamp(log) is None
    log.advance_high_watermark(2)
    log.retention.delete_before(1)
    assert offset_for_timestamp(log, 5) == (1, 20)
    assert offset_for_timestamp(log, 25) is None
    assert offset_for_timestamp(log, 25, max_offset=3) == (2, 30)
    assert max_timestamp(log, 3) == (2, 30)
    log.abandon()


def test_records_without_timestamps(tmp_path):
    log = open_log(tmp_path)
    append(log, values(b"v", timestamp_ms=-1))
    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp(log) == (0, -1), "as Kafka answers"
    log.abandon()


# -- epochs


def test_end_offset_for_epoch(tmp_path):
    log = open_log(tmp_path)
    assert log.leader_epoch == -1
    assert log.end_offset_for_epoch(0) == (-1, -1)
    for epoch in (2, 2, 5, 8):
        append(log, values(b"v"), epoch=epoch)
    answers = [log.end_offset_for_epoch(epoch) for epoch in range(-1, 10)]
    assert answers == [
        (-1, -1),
        (0, 0),
        (1, 0),
        (2, 2),
        (2, 2),
        (2, 2),
        (5, 3),
        (5, 3),
        (5, 3),
        (8, 4),
        (-1, -1),
    ]
    assert [log.epoch_at(offset) for offset in range(5)] == [2, 2, 5, 8, 8]
    log.abandon()


def test_an_epoch_that_wrote_nothing_gives_way(tmp_path):
    epochs = LeaderEpochs(tmp_path / "epochs")
    epochs.assign(1, 0)
    epochs.assign(2, 10)
    epochs.assign(3, 10)
    epochs.assign(2, 50)
    assert epochs.entries() == [(1, 0), (3, 10)]
    epochs.save(REAL_WRITER)
    again = LeaderEpochs(tmp_path / "epochs")
    assert again.load()
    assert again.entries() == epochs.entries()
    again.truncate_start(12)
    assert again.entries() == [(3, 12)]
    again.truncate_end(12)
    assert again.entries() == []


def test_extents_cover_the_log(big):
    found = [pair for extent in big.extents(50_000) for pair in bounds(extent.read())]
    assert found == bounds(all_bytes(big))
    assert len(content(big)) == big.log_end_offset
