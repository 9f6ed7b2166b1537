"""Transactional offsets, as a log that Kafka wrote may hold them: statements C-14 and C-15."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.records import GroupDeleted
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.messages import FetchedOffset
from actors.coordinator.groups.offset_records import OffsetAndMetadata, OffsetsDeleted
from actors.coordinator.records import Record, encode
from tests.support.coordination import START_WALL_MS, Driver
from tests.support.coordination_groups import DAY, MINUTELY, wait
from tests.support.offset_rows import offsets_put


def with_transaction(*then: tuple[str, object]) -> Driver:
    """A shard whose log has an offset of 1, a pending offset of 2 of producer 7, and `then`."""
    driver = Driver(loaded=False)
    shard = driver.shard
    shard.start_loading(0)
    shard.load(put(1))
    shard.load_transactional(7, put(2))
    for what, value in then:
        if what == "plain":
            shard.load(put(value))
        else:
            shard.load_marker(7, committed=what == "commit")
    shard.finish_loading(driver.now, 0)
    return driver


def put(offset: object) -> list[Record]:
    assert isinstance(offset, int)
    return encode([offsets_put("g", (("orders", 0), OffsetAndMetadata(offset, -1, "", START_WALL_MS)))])


@pytest.mark.conformance("C-14")
def test_a_pending_transactional_offset() -> None:
    driver = with_transaction()
    assert driver.fetch("g", ("orders", 0)) == (FetchedOffset("orders", 0, 1),)
    stable = (FetchedOffset("orders", 0, -1, -1, "", 88), FetchedOffset("orders", 1))
    assert driver.fetch("g", ("orders", 0), ("orders", 1), stable=True) == stable
    assert driver.fetch("g", stable=True) == stable[:1]


@pytest.mark.conformance("C-15")
@pytest.mark.parametrize(
    ("then", "offset"),
    [
        ([("commit", None)], 2),
        ([("abort", None)], 1),
        ([("plain", 3), ("commit", None)], 3),
        ([("plain", 3), ("abort", None)], 3),
        ([("commit", None), ("plain", 3)], 3),
    ],
)
def test_a_transaction_that_ends(then: list[tuple[str, object]], offset: int) -> None:
    driver = with_transaction(*then)
    assert driver.fetch("g", ("orders", 0), stable=True) == (FetchedOffset("orders", 0, offset),)


@pytest.mark.conformance("C-15")
def test_of_two_transactions_the_later_record_wins() -> None:
    for first, second in ((7, 8), (8, 7)):
        driver = Driver(loaded=False)
        driver.shard.start_loading(0)
        driver.shard.load_transactional(7, put(2))
        driver.shard.load_transactional(8, put(3))
        driver.shard.load_marker(first, committed=True)
        driver.shard.load_marker(second, committed=True)
        driver.shard.finish_loading(driver.now, 0)
        assert driver.offset("g") == 3


def test_an_open_transaction_keeps_its_group() -> None:
    driver = Driver(MINUTELY, loaded=False)
    driver.shard.start_loading(0)
    driver.shard.load_transactional(7, put(2))
    driver.shard.finish_loading(driver.now, 0)
    wait(driver, 30 * DAY)
    assert driver.state() == "Empty"
    driver.delete_group("g")
    assert driver.group_or_none() is None
    assert [GROUP_RECORDS.decode(*record) for record in driver.log] == [
        OffsetsDeleted("g", [("orders", 0)]),
        GroupDeleted("g"),
    ]
