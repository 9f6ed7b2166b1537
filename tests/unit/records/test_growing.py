"""A batch that grows record by record: the same as one that is built at once, and numbered in place."""

from __future__ import annotations

import pytest

from actors.records.batch import HEADER_BYTES, crc_matches, fresh_header, number, read_header, write_header
from actors.records.building import build_batch, encode_record
from actors.records.compression import CODEC_NAMES
from actors.records.growing import GrowingBatch

NOW = 1_700_000_000_000
RECORDS = [(b"k", b"v%d" % n, [("h", b"1"), ("n", None)], NOW + n) for n in range(5)]


def grown(codec: int = 0) -> GrowingBatch:
    batch = GrowingBatch(codec)
    for index, record in enumerate(RECORDS):
        key, value, headers, at = record
        assert batch.append(key, value, list(headers), at) == index
    return batch


@pytest.mark.parametrize("codec", CODEC_NAMES, ids=CODEC_NAMES.get)
def test_it_is_the_batch_that_is_built_at_once(codec: int) -> None:
    batch, at_once = grown(codec), build_batch(RECORDS, compression=CODEC_NAMES[codec])
    mine, theirs = read_header(batch.build()), read_header(at_once)
    same = ("record_count", "last_offset_delta", "first_timestamp", "max_timestamp", "codec", "producer_id")
    assert [getattr(mine, name) for name in same] == [getattr(theirs, name) for name in same]
    if codec == 0:
        assert bytes(batch.build())[HEADER_BYTES:] == at_once[HEADER_BYTES:]


def test_a_batch_that_was_dropped_while_it_grew_is_not_open_any_more() -> None:
    batch = grown()
    batch.drop()
    assert batch.data is not None


def test_its_size_is_that_of_its_bytes_and_stays_when_they_are_dropped() -> None:
    batch = grown()
    assert (batch.count, batch.data) == (5, None)
    assert batch.size == len(batch.build())
    size = batch.size
    batch.drop()
    assert (batch.count, batch.size, batch.data) == (5, size, b"")
    assert batch.build() == b""


def test_a_number_is_written_in_place_with_the_checksum_that_is_right_then() -> None:
    data = grown().build()
    number(data, 7, 3, 11)
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert crc_matches(data, header.crc)


def test_a_header_is_written_before_its_payload_with_the_checksum_that_is_right_then() -> None:
    record = encode_record(0, 0, b"k", b"v", None)
    data = bytearray(HEADER_BYTES) + record
    write_header(data, fresh_header(0, 1, NOW, NOW, len(record)))
    assert bytes(data) == build_batch([(b"k", b"v", None, NOW)])
