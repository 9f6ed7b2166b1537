"""Stored batches to records: names of headers may be any bytes, and damage is an error of the batch that has it."""

from __future__ import annotations

import contextlib
from itertools import islice

import pytest

from actors.records.batch import read_header
from actors.records.errors import CorruptBatchError, LogError
from actors.records.reading import batch_records, iter_key_values, payload_of
from tests.support.bad_batches import BAD_BATCHES
from tests.support.raw_batches import CODECS, LOG_APPEND_TIME, NOW, batch, record, records
from tests.support.read_records import read_records

NOT_UTF8 = [(b"\xff\xfe", b"1"), ("é".encode(), b""), (b"", None)]
AS_READ = [(b"\xff\xfe", b"1"), ("é", b""), ("", None)]
READERS = (
    lambda data: batch_records(data, read_header(data)),
    read_records,
    iter_key_values,
    lambda data: payload_of(data, read_header(data)),
)


def some_with_names_of_bytes(count: int, at: set[int]) -> bytes:
    """Records of which those with these numbers have headers whose names are not UTF-8."""
    return b"".join(
        record(number, b"k%d" % number, b"v", NOT_UTF8 if number in at else [], time=number) for number in range(count)
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [{0}, {1, 3}, {4}, set(range(40))])
def test_header_names_that_are_not_utf8_stay_bytes(codec, at):
    data = batch(some_with_names_of_bytes(40, at), 40, codec, base_offset=9)
    found = list(read_records(data, verify_crc=True))
    assert [(each.offset, each.key, each.timestamp) for each in found] == [
        (9 + number, b"k%d" % number, NOW + number) for number in range(40)
    ]
    assert [list(each.headers) for each in found] == [AS_READ if number in at else [] for number in range(40)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [{0}, {2}, {4}])
def test_header_names_that_are_not_utf8_stop_no_loading(codec, at):
    parts = [
        batch(records(3), 3),
        batch(some_with_names_of_bytes(5, at), 5, codec),
        batch(records(2), 2, attributes=0x20),
        batch(records(3), 3, codec),
        batch(some_with_names_of_bytes(5, at), 5),
    ]
    keys = [b"k%d" % number for count in (3, 5, 3, 5) for number in range(count)]
    for data in (b"".join(parts), memoryview(b"".join(parts))):
        assert [key for key, _ in iter_key_values(data)] == keys
        assert [each.key for each in read_records(data)] == keys


@pytest.mark.parametrize("codec", CODECS)
def test_the_time_of_append_is_that_of_every_record(codec):
    payload = some_with_names_of_bytes(30, {29})
    found = list(read_records(batch(payload, 30, codec, attributes=LOG_APPEND_TIME, max_time=77)))
    assert {(each.timestamp, each.timestamp_type) for each in found} == {(77, 1)}
    assert len(found) == 30


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_no_reader_of_stored_batches_crashes(kind, codec):
    for count in (3, 40):
        for reader in READERS:
            with contextlib.suppress(LogError):
                list(reader(BAD_BATCHES[kind](count, codec)))


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("kind", ["garbage instead of a frame", "compressed twice", "no records", "last record cut"])
def test_a_damaged_batch_is_corrupt_and_those_before_it_are_read(kind, codec):
    data = batch(records(2), 2) + BAD_BATCHES[kind](3, codec)
    for reader in (read_records, iter_key_values):
        found = iter(reader(data))
        assert len(list(islice(found, 2))) == 2
        with pytest.raises(CorruptBatchError):
            list(found)
