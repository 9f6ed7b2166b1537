"""Records as columns, both ways: what `columnar` reads and `bulk` writes is what the record codec makes of it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client import TopicPartition
from actors.client.consumer.arrow_batches import Columns
from actors.client.consumer.columnar import HEADERS, read_columns
from actors.client.errors import CorruptMessageError, SerializationError
from actors.client.producer.bulk import rows_of
from actors.client.producer.partitioning import murmur2_of, partitions_for_keys
from actors.records.batch import crc_matches, iter_batches
from actors.records.building import build_batch, build_sparse_batch
from actors.records.reading import batch_records
from actors.records.sealing import seal
from placement.hashing import murmur2, partition_for_key
from tests.support.log_helpers import appended_at

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
T = 1_700_000_000_000
T0 = TopicPartition("t", 0)

small = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
record = st.tuples(small, small, headers, st.integers(T - 10**6, T + 10**6))


def whole(*batches: bytes | bytearray) -> list[Any]:
    data = b"".join(bytes(each) for each in batches)
    return [(memoryview(data)[start:end], header) for start, end, header in iter_batches(data)]


def told(columns: Any) -> list[tuple[Any, ...]]:
    """(offset, timestamp, key, value, headers) of each record."""
    many = columns.headers.to_pylist() if columns.headers is not None else [None] * len(columns)
    found = [[(each["key"], each["value"]) for each in some or []] for some in many]
    times, places = columns.timestamps.tolist(), columns.offsets.tolist()
    return list(zip(places, times, columns.keys.to_pylist(), columns.values.to_pylist(), found, strict=True))


@given(st.lists(st.lists(record, min_size=1, max_size=150), max_size=3), st.sampled_from(CODECS))
def test_columns_hold_what_the_record_reader_reads(batches, codec):
    made = [build_batch([(k, v, h, t) for k, v, h, t in some], 1000 * n, codec) for n, some in enumerate(batches)]
    columns = read_columns(T0, whole(*made), with_headers=True)
    expected = [
        (r.offset, r.timestamp, r.key, r.value, r.headers)
        for batch, header in whole(*made)
        for r in batch_records(batch, header)
    ]
    assert told(columns) == expected


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, 700, 9_000])
@pytest.mark.parametrize("sizes", [(100,), (10, 20), (0, 3, 200, 9_000)])
def test_runs_of_equal_records_and_mixed_ones_are_found(count, sizes):
    values = [bytes(sizes[(n // 90) % len(sizes)]) for n in range(count)]
    columns = read_columns(T0, whole(build_batch([(b"k", value, None, T + n) for n, value in enumerate(values)], 7)))
    assert columns.values.to_pylist() == values
    assert columns.offsets.tolist() == list(range(7, 7 + count))
    assert columns.timestamps.tolist() == list(range(T, T + count))


def test_gaps_of_a_compacted_batch_stay():
    records = [(delta, b"k%d" % delta, b"v", None, T) for delta in (0, 3, 90_000)]
    columns = read_columns(T0, whole(build_sparse_batch(records, base_offset=10)))
    assert columns.offsets.tolist() == [10, 13, 90_010]


def test_log_append_time_is_told_with_its_type():
    plain = build_batch([(None, b"a", None, T), (None, b"b", None, T + 5)])
    appended = appended_at(plain, T + 999)
    columns = read_columns(T0, whole(plain, appended))
    assert columns.timestamps.tolist() == [T, T + 5, T + 999, T + 999]
    assert columns.timestamp_types.tolist() == [0, 0, 1, 1]


def test_records_without_headers_have_null_there():
    columns = read_columns(
        T0, whole(build_batch([(None, b"a", None, T), (None, b"b", [("h", None)], T)])), with_headers=True
    )
    assert columns.headers.to_pylist() == [None, [{"key": "h", "value": None}]]
    assert columns.headers.type == HEADERS


def test_no_batches_are_no_rows():
    columns = read_columns(T0, [], with_headers=True)
    assert len(columns) == 0
    assert columns.keys.type == pa.binary()


@given(st.lists(record, min_size=1, max_size=40), st.data())
def test_damaged_records_raise_or_are_read_but_nothing_else(records, data):
    """Checksums are looked at elsewhere, so any byte may be wrong here."""
    batch = bytearray(build_batch(records))
    place = data.draw(st.integers(61, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255))
    ((start, end, header),) = iter_batches(batch)
    try:
        columns = read_columns(T0, [(memoryview(batch)[start:end], header)], with_headers=True)
    except CorruptMessageError:
        return
    assert len(columns) == len(records)
    assert sum(len(v or b"") for v in columns.values.to_pylist()) < 2**31


@pytest.mark.parametrize("cut", [1, 3, 30])
def test_a_batch_that_lies_about_its_records_is_corrupt(cut):
    ((_, _, header),) = iter_batches(batch := build_batch([(b"k", b"v" * 20, None, T)] * 3))
    for wrong in (
        (memoryview(batch)[:-cut], header),
        (memoryview(batch), header._replace(record_count=2)),
        (memoryview(batch), header._replace(record_count=2**31)),
    ):
        with pytest.raises(CorruptMessageError):
            read_columns(T0, [wrong])


# --- writing --------------------------------------------------------------------------------------------------------


def arrow(records: list[tuple[Any, ...]]) -> pa.RecordBatch:
    rows = [[{"key": k, "value": v} for k, v in h] if h else None for _, _, h, _ in records]
    columns = {
        "key": pa.array([r[0] for r in records], pa.binary()),
        "value": pa.array([r[1] for r in records], pa.binary()),
        "headers": pa.array(rows, HEADERS),
        "timestamp": pa.array([r[3] for r in records], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


@given(st.lists(record, max_size=120), st.integers(1, 4), st.sampled_from([61, 300, 5_000, 10**6]), st.integers(0, 4))
def test_sealed_batches_hold_the_rows_of_each_partition_in_order(records, partitions, limit, codec):
    places = np.array([random.Random(n).randrange(partitions) for n in range(len(records))], np.int32)
    found: dict[int, list[Any]] = {n: [] for n in range(partitions)}
    for sealed in seal(rows_of(arrow(records), T), places, limit, codec):
        ((start, end, header),) = iter_batches(sealed.data)
        assert (start, end) == (0, len(sealed.data))
        assert crc_matches(bytes(sealed.data), header.crc)
        read = list(batch_records(bytes(sealed.data), header))
        assert [r.offset for r in read] == list(range(sealed.count))
        assert header.max_timestamp == max(r.timestamp for r in read)
        assert codec or sealed.count == 1 or len(sealed.data) <= limit
        found[sealed.partition] += [(r.key, r.value, r.headers, r.timestamp) for r in read]
    for number, got in found.items():
        assert got == [record for record, place in zip(records, places.tolist(), strict=True) if place == number]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
)
def test_text_and_bytes_of_every_kind_can_be_values(kind):
    column = pa.array(["a", None, "ü"], pa.string()).cast(kind)
    rows = rows_of(pa.RecordBatch.from_pydict({"value": column}), T)
    assert rows.values.to_pylist() == [b"a", None, "ü".encode()]
    assert rows.keys.null_count == 3
    assert rows.timestamps.tolist() == [T] * 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": [b"k"]}, "'value'"),
        ({"value": [1]}, "'value' is int64"),
        ({"value": [b"v"], "key": [1.5]}, "'key' is double"),
        ({"value": [b"v"], "timestamp": ["now"]}, "'timestamp' is string"),
    ],
)
def test_columns_that_are_no_records_are_named(columns, said):
    with pytest.raises(SerializationError, match=said):
        rows_of(pa.RecordBatch.from_pydict(columns), T)


# --- the partitioner ------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50)), st.integers(0, 5))
def test_a_column_of_keys_hashes_as_each_key_does(keys, skipped):
    array = pa.array(keys, pa.binary()).slice(skipped)
    assert murmur2_of(array).tolist() == [murmur2(key) for key in keys[skipped:]]


@given(st.lists(st.binary(max_size=50)), st.integers(1, 200))
def test_a_column_of_keys_goes_where_kafkas_partitioner_sends_them(keys, count):
    found = partitions_for_keys(pa.array(keys, pa.binary()), count).tolist()
    assert found == [partition_for_key(key, count) for key in keys]


# --- gathered for poll_arrow ----------------------------------------------------------------------------------------

TP, OTHER = TopicPartition("t", 0), TopicPartition("u", 3)


@pytest.mark.parametrize("sizes", [(3,), (1500,), (3, 1500, 2, 1, 1200, 7), (1500, 1500)])
@pytest.mark.parametrize("with_headers", [False, True])
def test_small_and_large_batches_keep_their_order(sizes, with_headers):
    columns = Columns(with_headers)
    expected = []
    for n, size in enumerate(sizes):
        tp = (TP, OTHER)[n // 2 % 2]
        records = [(b"k%d" % i, b"v" * (i % 50), [("h", b"1")] if i % 3 else None, T + i) for i in range(size)]
        ((batch, header),) = whole(build_batch(records, 1000 * n))
        columns.add(tp, [(batch, header)], 1000 * n + 2)
        for i, (key, value, some, at) in enumerate(records[2:], 2):
            told = [{"key": k, "value": v} for k, v in some or []]
            expected.append((tp.topic, tp.partition, 1000 * n + i, at, key, value, told))
    batch = columns.batch()
    assert len(columns) == batch.num_rows == len(expected)
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    got = [
        (r["topic"], r["partition"], r["offset"], at, r["key"], r["value"], r.get("headers", []))
        for r, at in zip(batch.to_pylist(), times, strict=True)
    ]
    assert got == [row if with_headers else (*row[:6], []) for row in expected]


@pytest.mark.parametrize("count", [10, 1500])
def test_a_batch_that_cannot_be_read_adds_nothing(count):
    columns = Columns()
    ((good, header),) = whole(build_batch([(None, b"v", None, T)] * count))
    columns.add(TP, [(good, header)], 0)
    with pytest.raises(CorruptMessageError):
        columns.add(TP, [(good, header), (good[:-3], header)], 0)
    assert len(columns) == columns.batch().num_rows == count


def test_nothing_gathered_is_an_empty_batch_with_all_columns():
    batch = Columns(with_headers=True).batch()
    assert batch.num_rows == 0
    assert batch.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
