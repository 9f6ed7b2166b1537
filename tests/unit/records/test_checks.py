"""The checks of a produced batch's records, and their largest timestamp, one by one and by columns."""

from __future__ import annotations

import pytest

from actors.records.checks import MAX_NAMED, Limits, largest_timestamp
from actors.records.errors import CorruptBatchError, OverBoundsError, RefusedRecordsError
from actors.records.scan import FEW
from actors.records.summary import LONG_MAX, LONG_MIN
from tests.support.bad_batches import BAD_PAYLOADS
from tests.support.raw_batches import NOW, record, records

COUNTS = (3, FEW, FEW + 1, 500)
ANY = Limits(False, LONG_MIN, LONG_MAX, 1_000_000)


@pytest.mark.parametrize("kind", BAD_PAYLOADS)
@pytest.mark.parametrize("count", COUNTS)
def test_what_is_not_these_records_is_corrupt(kind, count):
    with pytest.raises(CorruptBatchError):
        largest_timestamp(BAD_PAYLOADS[kind](count), count, NOW, ANY)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("first", "times", "expected"),
    [
        (NOW, [0, 5, -5], NOW + 5),
        (NOW, [-5, -9, -7], NOW - 5),
        (NOW, [-1 - NOW] * 3, -1),
        (-1, [0, 0, 0], -1),
        (-1, [0, NOW + 1, 0], NOW),
        (NOW, [-NOW - 10**13] * 3, -1),
        (0, [0, -1, 0], 0),
        (LONG_MAX, [0, -1, -2], LONG_MAX),
        (LONG_MIN, [0, 1, 2], -1),
        (LONG_MIN, [0, LONG_MAX, 0], -1),
        (LONG_MAX, [LONG_MIN, LONG_MIN, LONG_MIN + 3], 2),
    ],
)
def test_the_largest_timestamp(first, times, expected, count):
    given = [*times, *[times[0]] * (count - 3)]
    assert largest_timestamp(records(count, given), count, first, ANY) == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize(("first", "beyond"), [(LONG_MAX, 1), (LONG_MIN, -1), (1, LONG_MAX), (-2, LONG_MIN)])
def test_a_timestamp_beyond_64_bits_is_corrupt(first, beyond, at, count):
    times = [0] * count
    times[at] = beyond
    with pytest.raises(CorruptBatchError, match="64 bits"):
        largest_timestamp(records(count, times), count, first, ANY)


@pytest.mark.parametrize("count", COUNTS)
def test_each_record_that_is_refused_is_named_with_its_reason(count):
    keys: list[bytes | None] = [b"k"] * count
    times = [0] * count
    keys[0], times[1], times[count - 1] = None, -11, 12
    payload = b"".join(record(n, key, time=time) for n, (key, time) in enumerate(zip(keys, times, strict=True)))
    with pytest.raises(RefusedRecordsError) as caught:
        largest_timestamp(payload, count, NOW, Limits(True, NOW - 10, NOW + 10, 0))
    assert caught.value.error_code == 32
    named = caught.value.record_errors
    assert [index for index, _ in named] == [0, 1, count - 1]
    for (_, text), word in zip(named, ["key", "before.max.ms", "after.max.ms"], strict=True):
        assert word in text
    assert f"3 of {count} records" in str(caught.value)


@pytest.mark.parametrize("count", COUNTS)
def test_records_without_a_time_are_in_no_range(count):
    limits = Limits(False, NOW - 10, NOW + 10, 0)
    assert largest_timestamp(records(count, [-1 - NOW] * count), count, NOW, limits) == -1
    mixed = [10, *[-1 - NOW] * (count - 1)]
    assert largest_timestamp(records(count, mixed), count, NOW, limits) == NOW + 10


@pytest.mark.parametrize("count", COUNTS)
def test_records_that_are_no_records_are_not_named(count):
    payload = record(0, None) + b"".join(record(n) for n in range(1, count))
    with pytest.raises(CorruptBatchError):
        largest_timestamp(payload[:-1], count, NOW, Limits(True, LONG_MIN, LONG_MAX, 0))


def test_not_every_one_of_millions_is_named():
    count = MAX_NAMED + 10
    with pytest.raises(RefusedRecordsError) as caught:
        largest_timestamp(b"".join(record(n, None) for n in range(count)), count, NOW, ANY._replace(keyed=True))
    assert len(caught.value.record_errors) == MAX_NAMED


@pytest.mark.parametrize("count", COUNTS)
def test_more_headers_than_all_records_may_have_are_over_bounds(count):
    payload = records(count, headers=[(b"a", None), (b"b", b"1")])
    assert largest_timestamp(payload, count, NOW, ANY._replace(headers=2 * count)) == NOW
    with pytest.raises(OverBoundsError):
        largest_timestamp(payload, count, NOW, ANY._replace(headers=2 * count - 1))
