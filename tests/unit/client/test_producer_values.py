"""The headers and times that programs give a producer, and the batches that are built of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.errors import SerializationError
from actors.client.producer.accumulator import Batch, Identity
from actors.client.producer.bulk import rows_of
from actors.client.producer.values import headers_of, time_of
from actors.client.records import TopicPartition
from actors.records.batch import read_header
from actors.records.compression import CODEC_NAMES
from actors.records.growing import GrowingBatch
from actors.records.reading import Headers
from actors.records.rows import name_of
from actors.records.sealing import seal
from tests.support.read_records import read_records

T0 = TopicPartition("t", 0)
NOW = 1_700_000_000_000
NAME = b"\xff\xfe"

Given = tuple[Headers, int]


def built(records: list[Given], codec: int = 0) -> bytes:
    """A batch of records with these headers and times, as a producer sends it."""
    batch = Batch(T0, GrowingBatch(codec), 0)
    for number, (headers, at) in enumerate(records):
        before = batch.size
        assert batch.records.append(b"k", b"%d" % number, headers_of(headers)[0], at) == number
        assert batch.size > before
    batch.close(Identity(7, 0))
    return bytes(batch.records.data or b"")


def read(data: bytes) -> list[tuple[bytes | None, Headers, int]]:
    return [(each.value, list(each.headers), each.timestamp) for each in read_records(data, verify_crc=True)]


def test_a_first_record_without_a_time_did_not_take_that_of_the_next() -> None:
    assert [at for _, _, at in read(built([([], -1), ([], NOW)]))] == [-1, NOW]


def test_the_name_of_a_header_was_text_or_nothing() -> None:
    assert read(built([([(NAME, b"v"), ("a", None)], NOW)])) == [(b"0", [(NAME, b"v"), ("a", None)], NOW)]


@pytest.mark.parametrize("codec", CODEC_NAMES, ids=CODEC_NAMES.get)
def test_a_batch_goes_on_behind_a_record_that_the_compiled_builder_does_not_take(codec: int) -> None:
    usual: Given = [("h", b"1")], NOW
    records: list[Given] = [usual, usual, ([("h", b"1"), (NAME, b"")], NOW + 5), ([], -1), usual, ([], -7)]
    data = built(records, codec)
    assert read(data) == [(b"%d" % n, headers, at) for n, (headers, at) in enumerate(records)]
    header = read_header(data)
    assert (header.codec, header.record_count, header.last_offset_delta) == (codec, 6, 5)
    assert (header.first_timestamp, header.max_timestamp) == (NOW, NOW + 5)
    assert (header.producer_id, header.base_sequence) == (7, 0)


NAMES = st.one_of(st.text(max_size=5), st.binary(max_size=5))
TIMES = st.one_of(st.sampled_from((-1, 0, -2, NOW, -(2**63), 2**63 - 1)), st.integers(-(2**63), 2**63 - 1))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=4)), max_size=3)


def as_read(headers: Headers) -> Headers:
    return [(name if isinstance(name, str) else name_of(name), value) for name, value in headers]


@given(st.lists(st.tuples(HEADERS, TIMES), min_size=1, max_size=8), st.sampled_from((0, 4)))
def test_each_record_is_read_as_it_was_given(records: list[Given], codec: int) -> None:
    data = built(records, codec)
    assert [(headers, at) for _, headers, at in read(data)] == [(as_read(headers), at) for headers, at in records]
    assert read_header(data).max_timestamp == max(-1, *(at for _, at in records))


@given(st.lists(st.tuples(HEADERS, TIMES), min_size=1, max_size=8))
def test_each_row_is_read_as_it_was_given(records: list[Given]) -> None:
    columns = {
        "value": pa.array([b"v"] * len(records)),
        "headers": pa.array(
            [[(name.encode() if isinstance(name, str) else name, value) for name, value in h] for h, _ in records],
            pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
        ),
        "timestamp": pa.array([at for _, at in records], pa.int64()),
    }
    rows = rows_of(pa.RecordBatch.from_pydict(columns), NOW)
    (sealed,) = seal(rows, pa.array([0] * len(records), pa.int32()).to_numpy(), 1 << 20, 0)
    found = read(bytes(sealed.data))
    assert [(headers, at) for _, headers, at in found] == [(as_read(headers), at) for headers, at in records]
    assert read_header(sealed.data).max_timestamp == max(-1, *(at for _, at in records))


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ("ab", "the headers are 'ab', not a list"),
        (b"ab", "the headers are b'ab', not a list"),
        (5, "the headers are 5, not a list"),
        (["ab"], "a header is 'ab', not a pair"),
        ([("a", b"1", b"2")], r"a header is \('a', b'1', b'2'\), not a pair"),
        ({"ab": b"1"}, "a header is 'ab', not a pair"),
        ([None], "a header is None, not a pair"),
        ([(None, b"1")], r"the name of the header \(None, b'1'\) is of type NoneType, not str or bytes"),
        ([(1, b"1")], r"the name of the header \(1, b'1'\) is of type int"),
        ([("a", "1")], r"the value of the header \('a', '1'\) is of type str, not bytes or None"),
        ([("a", 1)], r"the value of the header \('a', 1\) is of type int"),
        ([("\ud800", b"1")], "is no text that UTF-8 has"),
    ],
)
def test_a_wrong_header_is_an_error_that_names_it(headers: Any, told: str) -> None:
    with pytest.raises(SerializationError, match=told):
        headers_of(headers)


def test_what_holds_bytes_is_a_name_or_a_value_too() -> None:
    odd = [[bytearray(NAME), memoryview(b"v")], ("é", bytearray(b"w")), (b"text", None)]
    headers, size = headers_of(iter(odd))
    assert headers == [(NAME, b"v"), ("é", b"w"), ("text", None)]
    assert size >= sum(len(name) + len(value or b"") for name, value in headers)


@pytest.mark.parametrize("wrong", [2**63, -(2**63) - 1, 1.5, "5", None])
def test_a_time_that_is_no_number_of_64_bits_is_an_error_that_names_it(wrong: Any) -> None:
    with pytest.raises(SerializationError, match="timestamp_ms is "):
        time_of(wrong)


def rows_with(headers: Any) -> Any:
    return rows_of(pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), "headers": headers}), NOW)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (pa.array(["a"]), "column 'headers' is string, must be a list"),
        (pa.array([["a"]]), "a header is 'a', not a pair"),
        (pa.array([[{"key": 1, "value": b"v"}]]), "the name of the header"),
        (pa.array([[{"key": "a", "value": "v"}]]), "the value of the header"),
        (pa.array([[{"name": "a", "value": b"v"}]]), "a header has the fields name, value"),
        (pa.array([[{"key": None, "value": b"v"}]]), "the name of the header"),
    ],
)
def test_a_wrong_column_of_headers_is_an_error_that_names_it(headers: Any, told: str) -> None:
    with pytest.raises(SerializationError, match=told):
        rows_with(headers)


def test_a_column_of_headers_may_be_a_map() -> None:
    column = pa.array([[("a", b"1")]], pa.map_(pa.string(), pa.binary()))
    assert (
        rows_with(column).extra.to_pylist() == rows_with(pa.array([[{"key": b"a", "value": b"1"}]])).extra.to_pylist()
    )
