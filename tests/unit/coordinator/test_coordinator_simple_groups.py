"""Groups that are used for their offsets only: they live until they are deleted or expire, offsets or none."""

from __future__ import annotations

import pytest

from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, OffsetDeleteRequest
from tests.support.coordination import Client, Driver, stable_group
from tests.support.offset_rows import naive_replay

CHECK_MS = 20_000
CONFIG = CoordinatorConfig(
    group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=CHECK_MS, max_message_bytes=2_000
)
ORDERS = ("orders", 0)


def emptied(driver: Driver, how: str) -> None:
    """The simple group "g", whose only offset has been deleted."""
    driver.commit_offset("g", 1)
    if how == "offset deleted":
        assert driver.delete_offsets("g", ORDERS).partitions == ((*ORDERS, 0),)
    else:
        assert driver.call(DeleteTopicOffsetsRequest(frozenset({"orders"}))).error_code == 0
    assert driver.fetch("g") == ()


@pytest.mark.parametrize("how", ["offset deleted", "topic deleted"])
@pytest.mark.parametrize("moved", [False, True], ids=["", "after failover"])
def test_a_group_whose_last_offset_was_deleted_can_be_deleted(how: str, moved: bool) -> None:
    driver = Driver(CONFIG)
    emptied(driver, how)
    if moved:
        driver.fail_over()
    assert driver.describe("g").group_state == "Empty"
    assert [(g.group_id, g.protocol_type) for g in driver.list_groups()] == [("g", "")]
    assert driver.delete_offsets("g", ORDERS).error_code == 0
    assert driver.answer(driver.delete_group("g")).results == (("g", 0),)
    assert driver.answer(driver.delete_group("g")).results == (("g", 69),)
    assert driver.list_groups() == ()
    assert list(naive_replay(driver.log).items()) == []


@pytest.mark.parametrize("moved", [False, True], ids=["", "after failover"])
def test_a_group_without_offsets_goes_at_the_next_check(moved: bool) -> None:
    driver = Driver(CONFIG)
    emptied(driver, "offset deleted")
    if moved:
        driver.fail_over()
    driver.advance(CHECK_MS)
    assert driver.group_or_none() is None
    assert list(naive_replay(driver.log).items()) == []
    assert driver.shard.coordinator.metrics.group_expirations == 1


def test_a_group_without_offsets_takes_commits_and_members_as_before() -> None:
    driver = Driver(CONFIG)
    emptied(driver, "offset deleted")
    driver.commit_offset("g", 2)
    assert driver.offset("g") == 2
    stable_group(driver, Client(driver, "a"))
    driver.fail_over()
    assert driver.describe("g").group_state == "Stable"


def test_a_group_with_a_record_is_not_given_another() -> None:
    driver = Driver(CONFIG)
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1), driver.leave("g", (a.member_id, None))
    before = len(driver.log)
    assert driver.delete_offsets("g", ORDERS).error_code == 0
    assert len(driver.log) == before + 1


def test_a_group_that_is_being_deleted_is_not_brought_back_by_the_end_of_a_topic() -> None:
    driver = Driver(CONFIG)
    driver.commit_offset("g", 1)
    driver.holds = True
    deleted = driver.delete_group("g")
    topic = driver.ask(DeleteTopicOffsetsRequest(frozenset({"orders"})))
    driver.release()
    assert [driver.answer(deleted).results, driver.answer(topic).error_code] == [(("g", 0),), 0]
    assert list(naive_replay(driver.log).items()) == []
    assert driver.group_or_none() is None


def test_a_deletion_that_is_refused_leaves_the_group_and_its_offset() -> None:
    driver = Driver(CONFIG)
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.ask(OffsetDeleteRequest("g", (ORDERS,)))
    driver.refuse(19)
    assert driver.answer(token).error_code != 0
    driver.holds = False
    driver.turn()
    assert driver.offset("g") == 1
    assert driver.answer(driver.delete_group("g")).results == (("g", 0),)
