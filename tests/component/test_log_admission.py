"""A log refuses every wrong batch behind a right checksum, and takes all records of a right one."""

from __future__ import annotations

import pytest

from actors.log.admission import Admitted, admit, admit_at_once, one_batch
from actors.records.errors import LogError
from tests.support.bad_batches import BAD_BATCHES
from tests.support.log_helpers import (
    all_bytes,
    append,
    config,
    max_timestamp,
    offset_for_timestamp,
    open_log,
    refused,
)
from tests.support.raw_batches import (
    CODECS,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NOW,
    Raw,
    batch,
    batches_in,
    record,
    records,
    records_in,
)

COUNTS = (3, 24, 25, 300)
"""Up to 24 records are read one by one, more by columns."""
MINUTE, DAY = 60_000, 86_400_000
GO_ZERO_TIME = -62_135_596_800_000


def stored(tmp_path, data: bytes, now_ms: int = NOW, **settings: str):
    """Header and payload of a batch as the log has it."""
    log = open_log(tmp_path, **settings)
    append(log, data, now_ms=now_ms)
    ((header, packed),) = batches_in(all_bytes(log))
    log.abandon()
    return header, packed


# -- what is wrong


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_behind_a_right_checksum_is_an_invalid_record(tmp_path, kind, codec):
    log = open_log(tmp_path)
    append(log, batch(records(2), 2))
    for count in COUNTS:
        refused(log, BAD_BATCHES[kind](count, codec), 87)
    assert append(log, batch(records(30), 30, codec)) == 2
    assert len(records_in(all_bytes(log))) == 32
    log.abandon()


@pytest.mark.parametrize("settings", [{"compression_type": "zstd"}, {"message_timestamp_type": "LogAppendTime"}])
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_is_an_invalid_record_whatever_the_topics_settings(tmp_path, kind, settings):
    log = open_log(tmp_path, **settings)
    for count in COUNTS:
        refused(log, BAD_BATCHES[kind](count, "gzip"), 87)
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_is_an_invalid_record_on_the_loop_too(kind, codec):
    for count in COUNTS:
        with pytest.raises(LogError) as caught:
            decided(BAD_BATCHES[kind](count, codec))
        assert caught.value.error_code == 87


def decided(data: bytes) -> Admitted:
    """Admit a batch by `admit_at_once`, or by `admit` where that declines."""
    produced = one_batch(data, config())
    return admit_at_once(produced, config(), NOW) or admit(produced, config(), NOW)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_wrong_checksum_is_a_corrupt_message(tmp_path, count, codec):
    log = open_log(tmp_path)
    refused(log, batch(records(count), count, codec, crc_off_by=1), 2)
    refused(log, batch(b"", count, codec, packed=b"garbage", crc_off_by=1), 2)
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_right_batch_is_stored_as_it_came(tmp_path, count, codec):
    payload = records(count, headers=[(b"h", b"1"), (b"\xff\xfe", None), (b"", b"")], attributes=3)
    data = batch(payload, count, codec, leader_epoch=77)
    header, packed = stored(tmp_path, data)
    ((sent, sent_packed),) = batches_in(data)
    assert (header, packed) == (sent, sent_packed)


# -- times


def times_of(kind: str, count: int) -> list[int]:
    """Times of records, the largest of which is in the middle."""
    times = [NOW - MINUTE + number for number in range(count)]
    match kind:
        case "ordinary":
            times[count // 2] = NOW + 7
        case "some without time":
            times[::2] = [-1] * len(times[::2])
            times[1] = NOW + 7
        case "some at Go's zero time":
            times[::2] = [GO_ZERO_TIME] * len(times[::2])
            times[1] = NOW + 7
        case "none with a time":
            times = [-1] * count
        case "all at Go's zero time":
            times = [GO_ZERO_TIME] * count
    return times


LARGEST = {
    "ordinary": NOW + 7,
    "some without time": NOW + 7,
    "some at Go's zero time": NOW + 7,
    "none with a time": -1,
    "all at Go's zero time": -1,
}
WORDS = {"true": None, "-1": -1, "too large": NOW + 9 * DAY, "too small": NOW - 9 * DAY, "beyond reason": 2**63 - 1}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_largest_timestamp_is_worked_out_whatever_the_header_says(tmp_path, codec, kind, word):
    for count in COUNTS:
        times = times_of(kind, count)
        for base in (times[0], NOW):
            said = LARGEST[kind] if WORDS[word] is None else WORDS[word]
            payload = records(count, [time - base for time in times])
            data = batch(payload, count, codec, first_time=base, max_time=said)
            header, packed = stored(tmp_path / f"{count}-{base}", data)
            assert header.max_time == LARGEST[kind]
            assert packed == next(batches_in(data))[1], "records stay what they were"


def test_a_header_without_a_timestamp_hides_no_record_from_lookups_by_time(tmp_path):
    log = open_log(tmp_path)
    for time in (NOW, NOW + 5):
        append(log, batch(records(3, [0, 1, 2]), 3, first_time=time, max_time=-1))
    assert offset_for_timestamp(log, NOW + 2) == (2, NOW + 2)
    assert offset_for_timestamp(log, NOW + 6) == (4, NOW + 6)
    assert max_timestamp(log) == (5, NOW + 7)
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("said", [-1, NOW, NOW + 9 * DAY])
def test_no_header_hides_a_record_nine_days_ahead(tmp_path, said, count, codec):
    log = open_log(tmp_path)
    bad = count - 2
    times = [9 * DAY if number == bad else 0 for number in range(count)]
    error = refused(log, batch(records(count, times), count, codec, max_time=said), 32)
    assert [index for index, _ in error.record_errors] == [bad]
    assert "message.timestamp.after.max.ms" in error.record_errors[0][1]
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_record_too_old_is_named(tmp_path, count, codec):
    log = open_log(tmp_path, message_timestamp_before_max_ms="1000")
    times = [0, -1001, -1000] + [0] * (count - 3)
    error = refused(log, batch(records(count, times), count, codec), 32)
    assert [index for index, _ in error.record_errors] == [1]
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", COUNTS)
def test_keyless_records_of_a_compacted_topic_are_named(tmp_path, count, codec):
    log = open_log(tmp_path, cleanup_policy="compact")
    keys = [None if number in (1, count - 1) else b"k" for number in range(count)]
    payload = b"".join(record(number, key) for number, key in enumerate(keys))
    error = refused(log, batch(payload, count, codec), 87)
    assert [index for index, _ in error.record_errors] == [1, count - 1]
    log.abandon()


# -- bits that are not a producer's


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bits", [LOG_APPEND_TIME, DELETE_HORIZON, 0x80, 0x4000, LOG_APPEND_TIME | DELETE_HORIZON])
def test_bits_that_no_producer_sets_are_stripped(tmp_path, bits, codec):
    data = batch(records(30, range(30)), 30, codec, attributes=bits)
    header, packed = stored(tmp_path, data)
    assert (header.attributes, header.max_time) == (CODECS[codec], NOW + 29)
    assert packed == next(batches_in(data))[1]


@pytest.mark.parametrize("codec", CODECS)
def test_a_producer_does_not_set_log_append_time_where_the_topic_does(tmp_path, codec):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    refused(log, batch(records(3), 3, codec, attributes=LOG_APPEND_TIME), 32)
    log.abandon()


@pytest.mark.parametrize("said", [-1, NOW + 9 * DAY])
def test_a_time_of_append_that_is_out_of_range_is_refused(tmp_path, said):
    log = open_log(tmp_path)
    refused(log, batch(records(3), 3, attributes=LOG_APPEND_TIME, max_time=said), 32)
    log.abandon()


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_takes_records_of_any_time(tmp_path, codec):
    data = batch(records(30, [9 * DAY] * 30), 30, codec, attributes=DELETE_HORIZON)
    header, _ = stored(tmp_path, data, now_ms=NOW + 5, message_timestamp_type="LogAppendTime")
    assert (header.attributes, header.max_time) == (CODECS[codec] | LOG_APPEND_TIME, NOW + 5)


# -- another codec


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompression_keeps_each_record_to_the_byte(tmp_path, target, source):
    count = 40
    headers = [(b"\xff", b"x"), (b"", None)]
    payload = records(count, [-1 - NOW, *range(1, count)], headers=headers, attributes=5)
    log = open_log(tmp_path, compression_type=target)
    append(log, batch(payload, count, source, max_time=-1))
    ((header, _),) = batches_in(all_bytes(log))
    assert header.codec == ("none" if target == "uncompressed" else target)
    times = [-1, *(NOW + number for number in range(1, count))]
    assert records_in(all_bytes(log)) == [
        Raw(number, times[number], 5, b"k%d" % number, b"value %d" % number, tuple(headers)) for number in range(count)
    ]
    log.abandon()
