"""Records to batches and back, with times before 1970 and names of any bytes; records that move keep what they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.records.batch import read_header
from actors.records.building import build_batch, build_sparse_batch, encode_record, moved, without_records_before
from actors.records.compression import CODEC_IDS
from actors.records.reading import batch_records, name_of
from actors.records.rows import read_headers, read_rows
from tests.support.raw_batches import CODECS, Raw, batch, record, records, records_in

any_bytes = st.none() | st.binary(max_size=40)
names = st.binary(max_size=5) | st.text(max_size=5)
headers = st.lists(st.tuples(names, any_bytes), max_size=3)
times = st.integers(-(2**62), 2**62 - 1)
built = st.lists(st.tuples(any_bytes, any_bytes, headers, times), min_size=1, max_size=40)
offsets = st.integers(0, 2**62)


def as_bytes(given_: list) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple((name.encode() if isinstance(name, str) else name, value) for name, value in given_)


@given(built, st.sampled_from(list(CODECS)), offsets)
def test_records_of_any_time_and_any_names_survive(given_, codec, base):
    data = build_batch(given_, base_offset=base, compression=codec)
    header = read_header(data)
    assert header.max_timestamp == max(-1, *(time for *_, time in given_))
    expected = [
        Raw(base + number, time, 0, key, value, as_bytes(some))
        for number, (key, value, some, time) in enumerate(given_)
    ]
    assert records_in(data) == expected
    found = [
        (each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in batch_records(data, header)
    ]
    assert found == [
        (each.offset, each.time, each.key, each.value, [(name_of(name), value) for name, value in each.headers])
        for each in expected
    ]


@given(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1), any_bytes, any_bytes, headers)
def test_a_record_is_written_as_others_write_it(offset, time, key, value, given_):
    assert encode_record(offset, time, key, value, given_) == record(offset, key, value, as_bytes(given_), time)


@given(
    st.lists(st.tuples(any_bytes, any_bytes, headers, times, st.integers(0, 255)), min_size=1, max_size=30),
    st.integers(-(2**20), 2**20),
    times,
)
def test_a_record_that_moves_keeps_key_value_headers_and_attributes(given_, offset_shift, time_shift):
    payload = b"".join(
        record(2**20 + number, key, value, as_bytes(some), time, attributes=attributes)
        for number, (key, value, some, time, attributes) in enumerate(given_)
    )
    rows = list(read_rows(payload, len(given_)))
    again = b"".join(moved(payload, row, offset_shift, time_shift) for row in rows)
    assert again == b"".join(
        record(2**20 + number + offset_shift, key, value, as_bytes(some), time + time_shift, attributes=attributes)
        for number, (key, value, some, time, attributes) in enumerate(given_)
    )
    for row, (_, _, some, _, _) in zip(read_rows(again, len(given_)), given_, strict=True):
        assert tuple(read_headers(again, row.header_start, row.header_count)) == as_bytes(some)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [4, 60])
def test_the_rest_of_a_batch_keeps_its_records_to_the_byte(codec, count):
    names_of_bytes = [(b"\xff", b"1"), (b"", None)]
    payload = records(count, [-1 - 10**12, *range(1, count)], headers=names_of_bytes, attributes=7)
    data = batch(payload, count, codec, base_offset=100, first_time=10**12, max_time=10**12 + count - 1)
    whole = records_in(data)
    for first in range(100, 100 + count):
        rest = without_records_before(data, read_header(data), first)
        assert rest is not None
        assert records_in(rest) == whole[first - 100 :]
        assert read_header(rest).base_offset == first
    assert without_records_before(data, read_header(data), 100 + count) is None


@pytest.mark.parametrize("codec", CODECS)
def test_gaps_between_offsets_stay(codec):
    given_ = [(number, b"k", b"%d" % number, [(b"\xfe", None)], -5 - number) for number in (2, 7, 90)]
    data = build_sparse_batch(given_, base_offset=1000, codec=CODEC_IDS[codec], last_offset_delta=99)
    assert read_header(data).last_offset == 1099
    assert records_in(data) == [
        Raw(1000 + number, time, 0, key, value, tuple(some)) for number, key, value, some, time in given_
    ]
