"""Compaction keeps to the byte what it keeps, and leaves what cannot be read where it is."""

from __future__ import annotations

import pytest

from actors.log.compaction import compact
from actors.log.files import REAL_WRITER, remove_files
from actors.records.batch import iter_batches, read_header
from actors.records.bounds import PLAIN_BYTES_MAX, RECORDS_MAX
from tests.support.bad_batches import BAD_PAYLOADS
from tests.support.log_helpers import (
    all_bytes,
    append,
    clean,
    max_timestamp,
    open_log,
)
from tests.support.raw_batches import CODECS, NOW, batch, batches_in, record, records, records_in, zstd_bomb
from tests.support.read_records import read_records

OLDEST = NOW - (2**63 - 1)
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "100000"}
NAMES_OF_BYTES = [(b"\xff\xfe", b"x"), (b"", None), ("é".encode(), b"")]
TIMES = {
    "-1 first": [-1, NOW, NOW + 1],
    "-1 in the middle": [NOW, -1, NOW + 1],
    "-1 alone": [-1, -1, -1],
    "before 1970": [-5, -62_135_596_800_000, -2],
    "the newest first": [NOW + 9, NOW, NOW - 9],
    "as far apart as can be": [OLDEST, NOW, -1],
}


def three(name: bytes, times: list[int], codec: str, size: int, base: int, **fields) -> bytes:
    """A batch whose first record has a key of its own, and whose others have one that all batches have."""
    keys = [b"own " + name, b"all", b"all too"]
    payload = b"".join(
        record(n, keys[n], bytes(size), NAMES_OF_BYTES, times[n] - base, attributes=n + 1) for n in range(3)
    )
    return batch(payload, 3, codec, first_time=base, max_time=max(-1, *times), **fields)


def keeps(log) -> None:
    """Compact, and compare what is left with the last records of each key."""
    before = records_in(all_bytes(log))
    last = {each.key: each for each in before}
    clean(log)
    after = records_in(all_bytes(log))
    assert after == sorted(last.values(), key=lambda each: each.offset)
    ours = [(each.offset, each.timestamp, each.key) for each in read_records(all_bytes(log), verify_crc=True)]
    assert ours == [(each.offset, each.time, each.key) for each in after]
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("how", ["merged", "rebuilt", "rebuilt of a producer"])
def test_compaction_keeps_times_header_names_and_attributes(tmp_path, how, kind, codec):
    times = TIMES[kind]
    log = open_log(tmp_path, **COMPACTED)
    for number in range(4):
        size = 30_000 if how == "rebuilt" else 10
        producer = (7, 0, number * 3) if how == "rebuilt of a producer" else (-1, -1, -1)
        data = three(b"%d" % number, times, codec, size, times[number % 2], producer=producer)
        append(log, data)
    keeps(log)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", TIMES)
def test_compaction_leaves_untouched_batches_as_they_are(tmp_path, kind, codec):
    log = open_log(tmp_path, **COMPACTED)
    for number in range(3):
        payload = b"".join(
            record(n, b"%d %d" % (number, n), b"v", NAMES_OF_BYTES, time - TIMES[kind][0], attributes=9)
            for n, time in enumerate(TIMES[kind])
        )
        append(log, batch(payload, 3, codec, first_time=TIMES[kind][0], producer=(number, 0, 0)))
    before = all_bytes(log)
    clean(log)
    assert all_bytes(log) == before
    log.abandon()


def test_batches_too_far_apart_in_time_are_not_merged(tmp_path):
    log = open_log(tmp_path, **COMPACTED)
    for number, time in enumerate([OLDEST, NOW, OLDEST]):
        append(log, batch(record(0, b"%d" % number, time=1), 1, first_time=time))
    keeps(log)


@pytest.mark.parametrize("codec", CODECS)
def test_the_largest_timestamp_is_that_of_the_records_that_stay(tmp_path, codec):
    log = open_log(tmp_path, **COMPACTED)
    for number in range(3):
        payload = b"".join([record(0, b"own %d" % number, time=number), record(1, b"all", time=100 - number)])
        append(log, batch(payload, 2, codec, producer=(1, 0, number * 2)))
    clean(log)
    assert [header.max_time for header, _ in batches_in(all_bytes(log))] == [NOW, NOW + 1, NOW + 98]
    assert max_timestamp(log) == (5, NOW + 98)
    log.abandon()


# -- batches that cannot be read, as they lie in older logs

UNREADABLE = {
    **{
        f"{kind}, {count} records, {codec}": lambda kind=kind, count=count, codec=codec: batch(
            BAD_PAYLOADS[kind](count), count, codec
        )
        for kind in BAD_PAYLOADS
        for count, codec in ((3, "none"), (3, "zstd"), (40, "none"), (40, "gzip"))
    },
    **{
        f"no frame of {codec}": lambda codec=codec: batch(b"", 3, codec, packed=b"\x01garbage")
        for codec in CODECS
        if codec != "none"
    },
    "a time beyond 64 bits": lambda: batch(records(3, [0, 0, 9]), 3, first_time=2**63 - 5, max_time=NOW),
    "more bytes than any batch may have": lambda: batch(b"", 1, "zstd", packed=zstd_bomb(PLAIN_BYTES_MAX + 1)),
    "gigabytes": lambda: batch(b"", 1, "zstd", packed=zstd_bomb(3 << 30, states_size=True)),
    "more records than any batch may have": lambda: batch(b"", RECORDS_MAX + 1, "zstd", packed=b"x"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_batch_that_cannot_be_read_stays_and_stops_only_itself(tmp_path, kind):
    """The keys of its readable records, k0 and so on, replace no earlier records: those may be all that is left."""
    log = open_log(tmp_path, **COMPACTED)
    bad = UNREADABLE[kind]()
    append(log, batch(records(3), 3))
    append(log, batch(record(0, b"other", b"old"), 1))
    begin = append(log, bad, internal=True)
    append(log, batch(record(0, b"other", b"new"), 1))
    append(log, batch(record(0, b"last"), 1))
    plan = log.cleaning.plan(NOW, force=True)
    result = compact(plan, REAL_WRITER)
    remove_files(log.cleaning.swap(result, NOW))
    assert result.unreadable == (begin,)
    data, end = all_bytes(log), begin + read_header(bad).record_count
    ((start, stop),) = [place for *place, header in iter_batches(data) if header.base_offset == begin]
    assert data[start + 21 : stop] == bad[21:]
    assert [(each.offset, each.key) for each in records_in(data[:start])] == [(0, b"k0"), (1, b"k1"), (2, b"k2")]
    assert [(each.offset, each.value) for each in records_in(data[stop:])] == [(end, b"new"), (end + 1, b"v")]
    follower = open_log(tmp_path / "follower", **COMPACTED)
    follower.append_as_follower(data, NOW)
    assert all_bytes(follower) == data
    for each in (log, follower):
        each.abandon()
