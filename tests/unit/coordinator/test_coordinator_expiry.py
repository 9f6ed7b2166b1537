"""Offsets that nobody needs any more, and their groups: statements C-16 to C-22 and C-24."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.records import GroupDeleted
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.offset_records import OffsetsDeleted, decode_offset_value
from tests.support.coordination import Client, Driver, stable_group
from tests.support.coordination_groups import DAY, HOUR, MINUTE, MINUTELY, error_of, wait


def emptied(driver: Driver) -> None:
    """A consumer group with an offset, Empty since now."""
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1), a.commit(2, topic="other")
    driver.leave("g", (a.member_id, None))
    assert driver.state() == "Empty"


@pytest.mark.conformance("C-16")
def test_an_empty_group_expires_after_seven_days() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    wait(driver, 7 * DAY - 1)
    assert driver.offset("g") == 1
    before = len(driver.log)
    driver.advance(MINUTE)
    changes = [GROUP_RECORDS.decode(*record) for record in driver.log[before:]]
    assert changes[-1] == GroupDeleted("g")
    assert all(isinstance(change, OffsetsDeleted) for change in changes[:-1])
    assert len(changes) == 3
    assert driver.group_or_none() is None
    assert driver.shard.coordinator.metrics.offset_expirations == 2
    assert driver.shard.coordinator.metrics.group_expirations == 1


def test_expiry_looks_at_a_share_of_the_offsets_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million in one turn took over a second: the broker took the shard for dead and killed it."""
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 2)
    driver = Driver(MINUTELY)
    for name in ("a", "b", "c", "d"):
        driver.commit_offset(name, 7)
    wait(driver, 8 * DAY)
    assert len(driver.list_groups()) == 3
    driver.advance(1000)
    assert driver.list_groups() == ()


def test_expiry_runs_first_after_one_interval() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, timestamp=0)
    driver.advance(599_999)
    assert driver.offset("g") == 1
    driver.advance(1)
    assert driver.offset("g") == -1


def kept_alive(driver: Driver, ms: int) -> Client:
    """A stable group subscribed to orders, with offsets of orders and gone that are `ms` old."""
    (a,) = stable_group(driver, Client(driver, "a", session_ms=MINUTE * 2))
    a.commit(1, topic="orders"), a.commit(2, topic="gone")
    wait(driver, ms)
    return a


@pytest.mark.conformance("C-17")
def test_a_subscribed_topic_never_expires() -> None:
    driver = Driver(MINUTELY)
    kept_alive(driver, 30 * DAY)
    assert driver.state() == "Stable"
    assert driver.offset("g", "orders") == 1


@pytest.mark.conformance("C-18")
def test_a_topic_no_longer_subscribed_expires() -> None:
    driver = Driver(MINUTELY)
    kept_alive(driver, 8 * DAY)
    assert [driver.offset("g", "gone"), driver.offset("g", "orders")] == [-1, 1]
    assert driver.state() == "Stable"


@pytest.mark.conformance("C-19")
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_expires_during_a_rebalance(state: str) -> None:
    driver = Driver(MINUTELY)
    a = Client(driver, "a", session_ms=10 * MINUTE, rebalance_ms=10 * MINUTE)
    b = Client(driver, "b", session_ms=10 * MINUTE, rebalance_ms=10 * MINUTE)
    stable_group(driver, a, b)
    a.commit(2, topic="gone")
    a.ask_join()
    if state == "CompletingRebalance":
        b.ask_join()
    assert driver.state() == state
    wait(driver, 30 * DAY)
    assert driver.state() == state
    assert driver.offset("g", "gone") == 2


def test_nothing_expires_where_topics_are_unknown_or_the_type_is_another() -> None:
    driver = Driver(MINUTELY)
    for group_id, kind in (("unreadable", "consumer"), ("connect", "connect")):
        client = Client(driver, "a", group_id=group_id, protocol_type=kind, protocols=(("x", b"\x00"),))
        client.session_ms = 2 * MINUTE
        (a,) = stable_group(driver, client)
        a.commit(1)
    wait(driver, 30 * DAY)
    assert [driver.offset("unreadable"), driver.offset("connect")] == [1, 1]


@pytest.mark.conformance("C-20")
def test_a_simple_group_loses_old_offsets_only() -> None:
    driver = Driver(MINUTELY)
    driver.commit_offset("g", 1, partition=0, timestamp=driver.now.wall_ms - 8 * DAY)
    driver.commit_offset("g", 2, partition=1)
    driver.advance(MINUTE)
    assert [driver.offset("g", partition=p) for p in (0, 1)] == [-1, 2]
    assert driver.state() == "Empty"


@pytest.mark.conformance("C-21")
def test_an_explicit_retention_overrides_the_seven_days() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    token = driver.commit_offset("g", 9, version=2, retention=MINUTE)
    assert error_of(driver, token) == 0
    wait(driver, 2 * MINUTE)
    assert driver.offset("g") == -1
    assert driver.offset("g", "other") == 2


def test_a_retention_beyond_all_time() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 9, version=2, retention=2**63 - 1)) == 0
    assert decode_offset_value(driver.log[-1].value or b"").expire_timestamp_ms == 2**63 - 1


@pytest.mark.conformance("C-22")
def test_an_empty_group_without_offsets_goes_at_the_next_run() -> None:
    driver = Driver(MINUTELY)
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    driver.advance(MINUTE)
    assert driver.group_or_none() is None
    assert GROUP_RECORDS.decode(*driver.log[-1]) == GroupDeleted("g")


def test_a_group_that_is_being_joined_does_not_expire() -> None:
    driver = Driver(MINUTELY)
    Client(driver, "a", session_ms=2 * MINUTE).ask_join()
    driver.advance(MINUTE)
    assert driver.state() == "Empty"


def test_a_refused_expiry_is_tried_again() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    driver.holds = True
    wait(driver, 8 * DAY)
    assert driver.state() == "Dead"
    driver.refuse(19)
    assert driver.state() == "Empty"
    assert driver.offset("g") == 1
    driver.holds = False
    driver.advance(MINUTE)
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-24")
def test_an_admin_commit_does_not_restart_the_clock() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    wait(driver, 7 * DAY - HOUR)
    assert error_of(driver, driver.commit_offset("g", 9)) == 0
    wait(driver, 2 * HOUR)
    assert driver.group_or_none() is None
    assert driver.offset("g") == -1
