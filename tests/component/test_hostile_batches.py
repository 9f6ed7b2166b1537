"""Stored batches of a few kilobytes that hold megabytes: they cost who reads them an error, or a little at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import Consumer
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import CorruptMessageError
from actors.client.records import OffsetRange
from actors.monitor.looks import time_of
from actors.records.bounds import STORED
from tests.support.bombs import zeros
from tests.support.client_broker import ScriptedBroker
from tests.support.consuming import T0, consumer

TOO_LARGE = zeros(STORED.plain_bytes)
LARGE_BYTES = STORED.plain_bytes // 2 + 100
LARGE = zeros(LARGE_BYTES)


@pytest.fixture
def kafka(kafka: ScriptedBroker) -> ScriptedBroker:
    kafka.topic("t")
    return kafka


def polled(reader: Consumer) -> list[int]:
    return [len(r.value) for some in reader.poll(200).values() for r in some]


def polled_as_columns(reader: Consumer) -> list[int]:
    return [len(value.as_py()) for value in reader.poll_arrow(200).column("value")]


def iterated(reader: Consumer) -> list[int]:
    return [len(next(reader).value)]


Read = Callable[[Consumer], list[int]]
each_way = pytest.mark.parametrize("read", [polled, polled_as_columns, iterated])


def until_error(read: Read, reader: Consumer) -> tuple[list[int], CorruptMessageError]:
    found: list[int] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            found += read(reader)
        except CorruptMessageError as error:
            return found, error
    raise AssertionError(f"no error after {len(found)} records")


@each_way
@pytest.mark.parametrize("before", [1, 600])
def test_a_batch_that_holds_too_much_is_an_error_that_says_where_it_is(
    kafka: ScriptedBroker, read: Read, before: int
) -> None:
    assert len(TOO_LARGE) < 5_000
    kafka.append("t", 0, *[b"good"] * before)
    kafka.append_batch(T0, TOO_LARGE)
    kafka.append("t", 0, b"behind")
    with consumer(kafka) as reader:
        reader.assign([T0])
        found, error = until_error(read, reader)
        assert found == [4] * before
        assert str(error).startswith(f"t-0 at offset {before}: zstd data expands to more than")
        assert reader.position(T0) == before
        reader.seek(T0, before + 1)
        assert read(reader) == [6]


@each_way
def test_a_header_that_claims_too_many_records_is_an_error_that_says_where_it_is(
    kafka: ScriptedBroker, read: Read
) -> None:
    kafka.append_batch(T0, zeros(10, record_count=STORED.records + 1))
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert str(until_error(read, reader)[1]).startswith("t-0 at offset 0: a batch of 4194305 records, at most")


@pytest.mark.parametrize("read", [polled, polled_as_columns])
def test_one_poll_unpacked_every_large_batch_of_a_fetch(kafka: ScriptedBroker, read: Read) -> None:
    for _ in range(5):
        kafka.append_batch(T0, LARGE)
    with consumer(kafka) as reader:
        reader.assign([T0])
        found: list[list[int]] = []
        deadline = time.monotonic() + 60
        while sum(map(len, found)) < 5:
            assert time.monotonic() < deadline
            found += [sizes] if (sizes := read(reader)) else []
        assert found == [[LARGE_BYTES] * 2, [LARGE_BYTES] * 2, [LARGE_BYTES]]


def in_ranges(kafka: ScriptedBroker, until: int) -> Iterator[Any]:
    with RangeReader(kafka.bootstrap_servers, headers=True) as reader:
        yield from reader.read([OffsetRange("t", 0, 0, until)])


def test_a_range_has_an_error_that_says_where_the_batch_is(kafka: ScriptedBroker) -> None:
    kafka.append("t", 0, b"good")
    kafka.append_batch(T0, TOO_LARGE)
    coming = in_ranges(kafka, 2)
    assert next(coming).column("value").to_pylist() == [b"good"], "what is before it is read"
    with pytest.raises(CorruptMessageError, match="t-0 at offset 1: zstd data expands to more than"):
        next(coming)


def test_a_range_unpacked_every_large_batch_of_a_fetch_at_once(kafka: ScriptedBroker) -> None:
    for _ in range(4):
        kafka.append_batch(T0, LARGE)
    assert [[len(value.as_py()) for value in rows.column("value")] for rows in in_ranges(kafka, 4)] == [
        [LARGE_BYTES]
    ] * 4


def test_the_monitor_unpacked_a_batch_to_its_end_for_the_time_of_one_record() -> None:
    """For a batch that holds more than 4 MiB or 64 Ki records, the header has to suffice."""
    for bomb in (
        zeros(STORED.plain_bytes, 40, 1000, 2000, record_count=11),
        zeros(4 << 20, 40, 1000, 2000, record_count=11),
        zeros(9, 40, 1000, 2000, record_count=(64 << 10) + 1),
    ):
        assert time_of(bomb, 40) == 1000
        assert 1000 <= (time_of(bomb, 45) or 0) <= 1500
    assert time_of(zeros(STORED.plain_bytes, 40, 1000, 2000), 41) is None
    assert time_of(zeros(3 << 20, 40, 1000, 2000), 40) == 1000, "this one is read"
