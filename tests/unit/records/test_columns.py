"""Rows and columns are two readers of the same bytes: they find the same fields, and refuse the same payloads."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.records.bounds import RECORDS_MAX
from actors.records.columns import sliced
from actors.records.errors import CorruptBatchError, OverBoundsError
from actors.records.rows import Row, read_headers, read_rows
from actors.records.scan import FEW, rows_of
from tests.support.bad_batches import BAD_PAYLOADS
from tests.support.examples import examples
from tests.support.raw_batches import record, records, varint

any_bytes = st.none() | st.binary(max_size=70) | st.just(bytes(130))
names = st.binary(max_size=5)
fields = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    any_bytes,
    any_bytes,
    st.lists(st.tuples(names, any_bytes), max_size=4),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 255),
)
given_records = st.lists(fields, max_size=90)


def written(given: list) -> bytes:
    return b"".join(
        record(offset, key, value, headers, time, attributes=attributes)
        for offset, key, value, headers, time, attributes in given
    )


def by_columns(payload: bytes, count: int) -> list[Row]:
    """The rows of a payload, read by columns however few they are."""
    rows: list[Row] = []
    for _, columns in sliced(payload, count):
        columns.check_headers(payload)
        arrays = [getattr(columns, each.name).tolist() for each in dataclasses.fields(columns)]
        rows += map(Row._make, zip(*arrays, strict=True))
    return rows


def outcome(reader, payload: bytes, count: int) -> list[Row] | None:
    """The rows that a reader finds; None if it refuses."""
    try:
        return list(reader(payload, count))
    except CorruptBatchError:
        return None


def read_back(payload: bytes, row: Row) -> tuple:
    def of(start: int, size: int) -> bytes | None:
        return None if size < 0 else payload[start : start + size]

    headers = list(read_headers(payload, row.header_start, row.header_count))
    key, value = of(row.key_start, row.key_size), of(row.value_start, row.value_size)
    return row.offset_delta, key, value, headers, row.time_delta, row.attributes


@given(given_records)
def test_rows_and_columns_find_the_fields_that_were_written(given_):
    payload = written(given_)
    rows = list(read_rows(payload, len(given_)))
    assert [read_back(payload, row) for row in rows] == given_
    assert by_columns(payload, len(given_)) == rows
    assert list(rows_of(payload, len(given_))) == rows


mutations = st.lists(
    st.tuples(st.integers(0, 2**20), st.sampled_from(["set", "cut", "insert"]), st.integers(0, 255)),
    min_size=1,
    max_size=3,
)


@examples(300)
@given(given_records, mutations, st.integers(-1, 1))
def test_rows_and_columns_refuse_the_same_mutations(given_, changes, more):
    payload = bytearray(written(given_))
    for at, how, byte in changes:
        at %= len(payload) + 1
        payload[at : at + (how != "insert")] = b"" if how == "cut" else bytes([byte])
    count = max(0, len(given_) + more)
    assert outcome(read_rows, bytes(payload), count) == outcome(by_columns, bytes(payload), count)


@examples(300)
@given(st.binary(max_size=120), st.integers(0, 12))
def test_rows_and_columns_refuse_the_same_garbage(garbage, count):
    assert outcome(read_rows, garbage, count) == outcome(by_columns, garbage, count)


NO_PAYLOADS_OF_READERS = [kind for kind in BAD_PAYLOADS if not kind.startswith("deltas")]


@pytest.mark.parametrize("count", [3, FEW, FEW + 1, 3000])
@pytest.mark.parametrize("kind", NO_PAYLOADS_OF_READERS)
def test_both_refuse_what_is_no_payload(kind, count):
    payload = BAD_PAYLOADS[kind](count)
    for reader in (read_rows, by_columns):
        with pytest.raises(CorruptBatchError):
            list(reader(payload, count))


@pytest.mark.parametrize("count", [3, FEW, FEW + 1, 3000])
@pytest.mark.parametrize("extra", [-3, -1, 1, 2**31 - 1, 2**32 - 1 - 3000])
def test_both_refuse_another_count(count, extra):
    for reader in (read_rows, by_columns):
        with pytest.raises(CorruptBatchError):
            list(reader(records(count), count + extra))


@pytest.mark.parametrize("width", range(1, 6))
def test_a_length_may_be_written_with_up_to_five_bytes(width):
    payload = record(0, key_size=varint(1, width), header_count=varint(0, width))
    for size in {width, 5}:
        longer = varint(len(payload) - 1, size) + payload[1:]
        for count in (1, FEW + 1):
            rows = list(read_rows(longer * count, count))
            assert len(rows) == count
            assert by_columns(longer * count, count) == rows


@pytest.mark.parametrize("time", [0, -1, 2**31, 2**63 - 1, -(2**63)])
def test_a_time_may_be_written_with_up_to_ten_bytes(time):
    for width in {len(varint(time)), 10}:
        payload = record(0, time=varint(time, width))
        for count in (1, FEW + 1):
            assert {row.time_delta for row in read_rows(payload * count, count)} == {time}
            assert {row.time_delta for row in by_columns(payload * count, count)} == {time}


@pytest.mark.parametrize("lengths", [[40] * 5000, [40, 41] * 2500, [40] * 4999 + [300], [300] * 5000, [20_000] * 9])
def test_runs_of_records_of_one_length_and_of_others_are_found(lengths):
    payload = b"".join(record(number, None, bytes(length)) for number, length in enumerate(lengths))
    rows = by_columns(payload, len(lengths))
    assert rows == list(read_rows(payload, len(lengths)))
    assert [row.value_size for row in rows] == lengths


def test_rows_have_no_more_headers_together_than_they_may():
    payload = records(3, headers=[(b"a", None)] * 2)
    assert len(list(read_rows(payload, 3, headers=6))) == 3
    with pytest.raises(OverBoundsError):
        list(read_rows(payload, 3, headers=5))


def test_more_headers_than_any_batch_may_have_are_over_bounds_before_they_are_read():
    with pytest.raises(OverBoundsError):
        list(read_rows(record(0, header_count=RECORDS_MAX + 1), 1))


def test_a_large_slice_goes_on_where_the_last_one_ended():
    count = (1 << 16) + 10
    payload = b"".join(record(number) for number in range(count))
    assert [first for first, _ in sliced(payload, count)] == [0, 1 << 16]
    assert [row.offset_delta for row in rows_of(payload, count)] == list(range(count))
