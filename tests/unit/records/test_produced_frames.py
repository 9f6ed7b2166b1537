"""Frames and records that producers may send and some clients cannot read. Random batches found them."""

import struct

import pytest

from actors.log.admission import Admitted, admit, one_batch
from actors.records.checks import Limits, largest_timestamp
from actors.records.compression import CODEC_IDS, unpack
from actors.records.errors import CorruptBatchError, LogError
from actors.records.summary import LONG_MAX, LONG_MIN
from tests.support.log_helpers import config
from tests.support.raw_batches import LOG_APPEND_TIME, NOW, batch, pack, record, records

ANY = Limits(keyed=False, oldest=LONG_MIN, latest=LONG_MAX, headers=1000)
PLAIN = b"some records"
YEAR_ONE = -62_135_596_800_000


def decided(data: bytes, **settings: str) -> Admitted:
    topic = config(**settings)
    return admit(one_batch(data, topic), topic, NOW)


def code_of(data: bytes, **settings: str) -> int:
    """The error code of a producer's answer; 0 if the batch is taken."""
    try:
        decided(data, **settings)
    except LogError as error:
        return error.error_code
    return 0


def test_snappy_of_several_streams_is_read_whole_and_written_anew():
    streams = pack("snappy", b"first") + pack("snappy", b"") + pack("snappy", b" and second")
    assert unpack(CODEC_IDS["snappy"], streams) == (b"first and second", False)
    payload = records(30)
    both = pack("snappy", payload[:100]) + pack("snappy", payload[100:])
    assert bytes(decided(batch(payload, 30, "snappy", packed=both)).payload) == pack("snappy", payload)


def test_snappy_whose_header_states_versions_that_kafka_python_does_not_know_is_written_anew():
    packed = pack("snappy", PLAIN)
    odd = packed[:8] + struct.pack(">ii", 0, 0) + packed[16:]
    assert unpack(CODEC_IDS["snappy"], packed).is_one_frame
    assert unpack(CODEC_IDS["snappy"], odd) == (PLAIN, False)
    payload = records(3)
    odd = pack("snappy", payload)[:8] + bytes(8) + pack("snappy", payload)[16:]
    assert bytes(decided(batch(payload, 3, "snappy", packed=odd)).payload) == pack("snappy", payload)


@pytest.mark.parametrize("cut", [1, 3, 8, 12, 15])
def test_snappy_that_ends_inside_a_header_or_a_length_is_damaged(cut):
    packed = pack("snappy", PLAIN)
    with pytest.raises(CorruptBatchError, match="snappy data ends inside a"):
        unpack(CODEC_IDS["snappy"], packed + packed[:cut])


@pytest.mark.parametrize("junk", [b"x", b"junk", b"\x04\x22\x4d\x18", b"seventeen bytes!!"])
@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_bytes_behind_a_frame_are_named_as_such(codec, junk):
    with pytest.raises(CorruptBatchError, match=f"the {codec} data is followed by bytes that are no more of it"):
        unpack(CODEC_IDS[codec], pack(codec, PLAIN) + junk)


@pytest.mark.parametrize("count", [1, 24, 25, 300])
@pytest.mark.parametrize("attributes", [128, 255])
def test_attributes_that_some_clients_take_for_a_longer_number_are_refused(attributes, count):
    for fine in (0, 1, 127):
        assert largest_timestamp(records(count, attributes=fine), count, NOW, ANY) == NOW
    last = record(count, b"k", b"v", attributes=attributes)
    with pytest.raises(CorruptBatchError, match="attributes above 127"):
        largest_timestamp(records(count) + last, count + 1, NOW, ANY)


@pytest.mark.parametrize("count", [2, 30])
@pytest.mark.parametrize("time", [-2, YEAR_ONE])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_records_of_negative_times_are_kept_but_not_compressed_anew(kind, time, count):
    data = batch(records(count, [*[0] * (count - 1), time - NOW]), count, "gzip")
    for kept in ("producer", "gzip"):
        assert code_of(data, compression_type=kept, message_timestamp_type=kind) == 0
    for other in ("uncompressed", "zstd"):
        assert code_of(data, compression_type=other, message_timestamp_type=kind) == 32


@pytest.mark.parametrize("other", ["producer", "uncompressed", "zstd"])
def test_records_without_a_time_are_compressed_anew(other):
    assert code_of(batch(records(2, [0, -1 - NOW]), 2, "gzip"), compression_type=other) == 0


@pytest.mark.parametrize("producer", [-2, -(2**63)])
def test_a_producer_id_below_the_one_that_means_none_is_refused(producer):
    assert code_of(batch(records(2), 2)) == 0
    for epoch, sequence in ((-1, -1), (0, 0), (-1, 7)):
        assert code_of(batch(records(2), 2, producer=(producer, epoch, sequence))) == 87


@pytest.mark.parametrize(("time", "code"), [(NOW, 0), (0, 0), (-2, 0), (YEAR_ONE, 0), (-1, 32), (2**63 - 1, 32)])
def test_a_batch_that_says_log_append_time_is_judged_by_its_time_as_in_kafka(time, code):
    data = batch(records(2), 2, max_time=time, attributes=LOG_APPEND_TIME)
    assert code_of(data) == code
    assert code_of(data, message_timestamp_type="LogAppendTime") == 32
