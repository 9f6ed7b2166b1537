"""The offsets of a deleted topic: statement C-23."""

from __future__ import annotations

import pytest

from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest
from actors.coordinator.groups.offset_records import OffsetsDeleted, decode_offset_value
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)
from tests.support.offset_rows import naive_replay


@pytest.mark.conformance("C-23")
def test_offsets_of_a_deleted_topic_go_from_all_groups() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a", protocols=(("range", subscription("gone")),)))
    a.commit(1, topic="gone"), a.commit(2, topic="kept")
    driver.commit_offset("simple", 3, topic="gone")
    before = len(driver.log)
    assert driver.call(DeleteTopicOffsetsRequest(frozenset({"gone"}))).error_code == 0
    said = [GROUP_RECORDS.decode(*record) for record in driver.log[before:]]
    assert [change for change in said if isinstance(change, OffsetsDeleted)] == [
        OffsetsDeleted("g", [("gone", 0)]),
        OffsetsDeleted("simple", [("gone", 0)]),
    ]
    assert [driver.offset("g", "gone"), driver.offset("simple", "gone"), driver.offset("g", "kept")] == [-1, -1, 2]
    assert driver.call(DeleteTopicOffsetsRequest(frozenset({"gone"}))).error_code == 0
    assert len(driver.log) == before + len(said)


def topic_gone(driver: Driver) -> int:
    return driver.ask(DeleteTopicOffsetsRequest(frozenset({"gone"})))


def with_offsets_of_a_topic(groups: int, **config: int) -> Driver:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, **config))
    for n in range(groups):
        driver.commit_offset(f"g{n}", 7, topic="gone"), driver.commit_offset(f"g{n}", 8, topic="kept")
    return driver


def test_a_topics_deletion_looks_at_a_share_of_the_offsets_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million at once took a second: the broker took the shard for dead and killed it."""
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 2)
    driver = with_offsets_of_a_topic(4)
    token = topic_gone(driver)
    assert driver.answer(token) is None
    left = [n for n in range(4) if driver.offset(f"g{n}", "gone") == 7]
    assert len(left) == 3
    driver.advance(100)
    assert driver.answer(token).error_code == 0
    assert [driver.offset(f"g{n}", "gone") for n in range(4)] == [-1] * 4
    assert [driver.offset(f"g{n}", "kept") for n in range(4)] == [8] * 4
    assert driver.shard.coordinator.metrics.offset_deletions == 4


def test_a_new_topic_of_the_same_name_keeps_what_is_committed_while_the_old_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)
    driver = with_offsets_of_a_topic(3)
    token = topic_gone(driver)
    driver.commit_offset("g2", 1, topic="gone")
    driver.commit_offset("new", 2, topic="gone")
    driver.advance(100)
    assert driver.answer(token).error_code == 0
    assert [driver.offset(group, "gone") for group in ("g0", "g1", "g2", "new")] == [-1, -1, 1, 2]
    loaded = naive_replay(driver.log).get("g2")
    assert loaded is not None
    assert decode_offset_value(loaded.offsets.get(("gone", 0)) or b"").offset == 1


def test_offsets_of_a_deleted_topic_that_are_on_their_way_go_as_well() -> None:
    driver = with_offsets_of_a_topic(1)
    driver.holds = True
    driver.commit_offset("g0", 9, topic="gone"), driver.commit_offset("first", 9, topic="gone")
    token = topic_gone(driver)
    driver.holds = False
    driver.release()
    driver.turn()
    assert driver.answer(token).error_code == 0
    assert [driver.offset("g0", "gone"), driver.offset("first", "gone")] == [-1, -1]
    assert [driver.state("first"), driver.fetch("first")] == ["Empty", ()]


def test_the_tombstones_of_a_large_group_are_spread_over_appends_the_log_takes() -> None:
    """One append of all of them is larger than max.message.bytes: refused, and the offsets stayed for ever."""
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_message_bytes=2_000))
    for partition in range(50):
        driver.commit_offset("g", 7, topic="gone", partition=partition)
    driver.holds = True
    token = topic_gone(driver)
    sizes = [sum(24 + len(key) + len(value or b"") for key, value in append.records) for append in driver.held]
    assert len(sizes) > 1
    assert max(sizes) + 61 <= 2_000
    driver.holds = False
    driver.release()
    assert driver.answer(token).error_code == 0
    assert driver.fetch("g") == ()


def test_a_refused_deletion_of_a_topics_offsets_is_answered_once_all_is_decided() -> None:
    driver = with_offsets_of_a_topic(2)
    driver.holds = True
    token = topic_gone(driver)
    driver.refuse(19)
    assert driver.answer(token).error_code != 0
    assert driver.offset("g0", "gone") == 7


def test_a_shard_that_is_unloaded_while_a_topic_goes_answers_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)
    driver = with_offsets_of_a_topic(3)
    token = topic_gone(driver)
    old = driver.fail_over()
    assert driver.answer(token).error_code == 16
    assert old.next_deadline() is None
