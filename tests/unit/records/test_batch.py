"""Record batches against two other implementations, and against damage."""

import contextlib
import struct
import warnings

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given
from hypothesis import strategies as st

from actors.records import compression
from actors.records.batch import (
    HEADER_BYTES,
    LZ4,
    MAX_SEQUENCE,
    SNAPPY,
    ZSTD,
    BatchHeader,
    assembled,
    crc_matches,
    read_header,
    split_batches,
    stamp,
)
from actors.records.building import build_batch, build_keyed_batch, recompressed, without_records_before
from actors.records.errors import CorruptBatchError, LogError
from actors.records.reading import iter_key_values, payload_of
from tests.support.examples import examples
from tests.support.log_helpers import NOW_MS, appended_at, values
from tests.support.read_records import read_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its import uses importlib.resources' old functions
    from kafka.record import MemoryRecords as PyRecords
    from kafka.record import MemoryRecordsBuilder

CODECS = sorted(compression.CODEC_IDS)
RECORDS = [
    (b"k1", b"v1" * 500, [("h", b"x"), ("none", None), ("é", b"")], NOW_MS),
    (None, b"v2", None, NOW_MS - 5),
    (b"k3", None, [], NOW_MS + 70_000),
    (b"", b"", None, NOW_MS),
]
AS_READ = [(key, value, list(headers or []), time) for key, value, headers, time in RECORDS]


def read(data: bytes) -> list[tuple]:
    return [(each.key, each.value, list(each.headers), each.timestamp) for each in read_records(data)]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_built_is_read_back(codec):
    batch = build_batch(RECORDS, base_offset=41, compression=codec, leader_epoch=7)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (41, 44, 45)
    assert (header.leader_epoch, header.record_count, header.codec) == (7, 4, compression.CODEC_IDS[codec])
    assert header.size_bytes == len(batch)
    assert crc_matches(batch, header.crc)
    assert read(batch) == AS_READ
    assert [each.offset for each in read_records(batch)] == [41, 42, 43, 44]
    assert list(iter_key_values(batch)) == [(key, value) for key, value, _, _ in RECORDS]


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_ours(codec):
    batch = AioRecords(build_batch(RECORDS, base_offset=9, compression=codec)).next_batch()
    assert batch.validate_crc()
    found = [(each.key, each.value, list(each.headers), each.timestamp) for each in batch]
    assert found == AS_READ


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "snappy"])
def test_kafka_python_reads_ours(codec):
    records = [each for each in RECORDS if each[2] is None or ("none", None) not in each[2]]
    batch = PyRecords(build_batch(records, base_offset=9, compression=codec)).next_batch()
    assert batch.validate_crc()
    assert [(each.offset, each.key, each.value, each.timestamp) for each in batch] == [
        (9 + number, key, value, time) for number, (key, value, _, time) in enumerate(records)
    ]


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "snappy"])
def test_we_read_kafka_pythons(codec):
    builder = MemoryRecordsBuilder(2, compression.CODEC_IDS[codec], 1 << 20)
    for key, value, headers, time in RECORDS:
        builder.append(time, key, value, headers or [])
    builder.close()
    data = bytes(builder.buffer())
    assert crc_matches(data, read_header(data).crc)
    assert read(data) == AS_READ


def with_payload(batch: bytes, codec: int, payload: bytes) -> bytes:
    header = read_header(batch)
    fields = header._replace(attributes=codec, length=HEADER_BYTES - 12 + len(payload))
    return struct.pack(">qiibIhiqqqhiI", *fields) + payload


@pytest.mark.parametrize("framing", ["raw", "xerial"])
def test_snappy_is_read_with_and_without_xerial_framing(framing):
    import cramjam
    from aiokafka.codec import snappy_encode

    plain = build_batch(RECORDS * 500)
    payload = plain[HEADER_BYTES:]
    packed = bytes(cramjam.snappy.compress_raw(payload)) if framing == "raw" else snappy_encode(payload)
    assert read(with_payload(plain, SNAPPY, packed)) == AS_READ * 500


def test_zstd_and_lz4_frames_without_a_content_size_are_read():
    import lz4.frame
    import zstandard

    plain = build_batch(RECORDS * 500)
    payload = plain[HEADER_BYTES:]
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    zstd = packer.compress(payload) + packer.flush()
    lz4_frame = lz4.frame.compress(payload, store_size=False, content_checksum=True, block_linked=False)
    assert read(with_payload(plain, ZSTD, zstd)) == AS_READ * 500
    assert read(with_payload(plain, LZ4, lz4_frame)) == AS_READ * 500


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_decompression_is_bounded(codec):
    bomb = compression.compress(codec, bytes(10_000_000))
    assert len(compression.decompress(codec, bomb)) == 10_000_000
    with pytest.raises(CorruptBatchError):
        compression.decompress(codec, bomb, 1_000_000)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_cut_compressed_data_is_corrupt(codec):
    plain = build_batch(RECORDS * 500)
    packed = compression.compress(codec, plain[HEADER_BYTES:])
    cut = with_payload(plain, codec, packed[: len(packed) // 2])
    with pytest.raises(CorruptBatchError):
        list(read_records(cut))


def test_an_unknown_codec_is_refused():
    with pytest.raises(LogError) as caught:
        build_batch(RECORDS, compression="brotli")
    assert caught.value.error_code == 76
    with pytest.raises(LogError):
        compression.decompress(5, b"x")


def test_columns_give_the_batch_their_records_give():
    keys, values = [b"k1", b"", b"k3" * 100], [b"v1", None, b"v3" * 100]
    expected = build_batch([(key, value, (), NOW_MS) for key, value in zip(keys, values, strict=True)])
    assert build_keyed_batch(keys, values, NOW_MS) == expected
    with pytest.raises(ValueError, match="as many keys as values"):
        build_keyed_batch(keys, values[:2], NOW_MS)
    with pytest.raises(ValueError, match="at least one record"):
        build_keyed_batch([], [], NOW_MS)


def test_a_batch_needs_a_record():
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_flags_and_producer_fields():
    batch = build_batch(
        RECORDS[:2],
        producer_id=9,
        producer_epoch=3,
        base_sequence=MAX_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, MAX_SEQUENCE)
    assert header.last_sequence == 0, "sequences wrap"
    assert header.is_transactional
    assert header.is_control
    assert crc_matches(batch, header.crc)
    assert list(read_records(batch)) == []
    assert list(iter_key_values(batch)) == []


def test_a_partial_last_batch_is_ignored():
    batch = build_batch(RECORDS)
    for cut in range(len(batch)):
        data = batch + batch[:cut]
        assert len(split_batches(data)) == 1
        assert len(list(read_records(data))) == 4
        assert len(list(iter_key_values(data))) == 4


def test_stamping_leaves_the_checksum_alone():
    batch = bytearray(build_batch(RECORDS))
    stamp(batch, 1234, 56)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1234, 56)
    assert crc_matches(batch, header.crc)


def test_log_append_time_dates_every_record():
    batch = build_batch(RECORDS)
    stamped = appended_at(batch, 77)
    header = read_header(stamped)
    assert header.is_log_append_time
    assert crc_matches(stamped, header.crc)
    assert {each.timestamp for each in read_records(stamped)} == {77}


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_recompression_keeps_the_records(source, target):
    batch = build_batch(RECORDS, base_offset=5, compression=source)
    plain = payload_of(batch, read_header(batch))
    again = assembled(*recompressed(read_header(batch), plain, compression.CODEC_IDS[target]))
    header = read_header(again)
    assert header.codec == compression.CODEC_IDS[target]
    assert crc_matches(again, header.crc)
    assert read(bytes(again)) == AS_READ


def test_the_rest_of_a_merged_batch():
    batch = build_batch(RECORDS, base_offset=10, leader_epoch=2)
    rest = without_records_before(batch, read_header(batch), 12)
    header = read_header(rest)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (12, 13, 2)
    assert [(each.offset, each.key) for each in read_records(rest, verify_crc=True)] == [(12, b"k3"), (13, b"")]
    assert without_records_before(batch, read_header(batch), 14) is None


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_no_batch_can_have_is_corrupt(length):
    batch = bytearray(build_batch(RECORDS))
    struct.pack_into(">i", batch, 8, length)
    for reader in (split_batches, read_records, iter_key_values):
        with pytest.raises(CorruptBatchError):
            list(reader(bytes(batch) + build_batch(RECORDS)))


def test_a_wrong_checksum_is_found():
    batch = bytearray(build_batch(RECORDS))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        list(read_records(batch, verify_crc=True))


def test_compressed_and_plain_batches_mix():
    parts = [values(b"a"), values(b"b", compression="zstd"), values(b"c", is_control=True), values(b"d")]
    data = b"".join(parts)
    assert [value for _, value in iter_key_values(data)] == [b"a", b"b", b"d"]
    assert [each.value for each in read_records(memoryview(data))] == [b"a", b"b", b"d"]
    assert list(iter_key_values(bytearray(data))) == list(iter_key_values(data))


@examples(300)
@given(st.data())
def test_damaged_records_raise_and_never_crash(data):
    codec = data.draw(st.sampled_from(CODECS))
    batch = bytearray(build_batch(RECORDS, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES - 4, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    for reader in (read_records, iter_key_values):
        with contextlib.suppress(LogError):
            list(reader(bytes(batch)))


optional_bytes = st.none() | st.binary(max_size=40)
record = st.tuples(
    optional_bytes,
    optional_bytes,
    st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3),
    st.integers(0, 2**62),
)


@examples(150)
@given(st.lists(record, min_size=1, max_size=8), st.sampled_from(CODECS), st.integers(0, 2**62))
def test_any_records_survive(records, codec, base_offset):
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    assert read(batch) == [(key, value, headers, time) for key, value, headers, time in records]
    header = read_header(batch)
    assert header.max_timestamp == max(each[3] for each in records)
    assert isinstance(header, BatchHeader)
