"""A shard gives its process back if it may, and tells its next expiry, its topics and its groups."""

from __future__ import annotations

import pytest

from actors.coordinator.groups.coordinator import GROUPS_ASLEEP_MAX
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, ListedGroup, MaySleepRequest, MaySleepResponse
from tests.support.coordination import START_WALL_MS, Client, Driver, stable_group
from tests.support.coordination_groups import DAY, trio, wait

NOTHING = MaySleepResponse()


def asked(driver: Driver) -> MaySleepResponse:
    token = driver.ask(MaySleepRequest())
    if driver.answer(token) is None:  # it waits for its own records
        driver.advance(100)
    answer = driver.answer(token)
    assert isinstance(answer, MaySleepResponse)
    return answer


def test_an_empty_shard_may_sleep_for_ever() -> None:
    assert asked(Driver()) == NOTHING


def test_a_shard_without_members_says_what_it_holds_and_what_expires_first() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1)
    driver.leave("g", (a.member_id, None))
    driver.commit_offset("simple", 7, topic="other", timestamp=START_WALL_MS - DAY)
    answer = asked(driver)
    assert not answer.busy
    assert answer.due_ms == START_WALL_MS + 6 * DAY
    assert answer.topics == ("orders", "other")
    assert set(answer.groups) == {ListedGroup("g", "consumer", "Empty"), ListedGroup("simple", "", "Empty")}
    assert answer.groups == driver.list_groups()


def test_what_is_due_then_has_not_expired_a_millisecond_before() -> None:
    driver = Driver()
    driver.commit_offset("g", 7)
    due_ms = asked(driver).due_ms
    assert due_ms is not None
    wait(driver, due_ms - driver.now.wall_ms - 1)
    assert asked(driver).due_ms == due_ms
    driver.advance(1)
    assert asked(driver) == NOTHING


def test_what_has_expired_goes_before_the_shard_sleeps() -> None:
    """Not at the end of the check interval: the shard would be asleep by then."""
    driver = Driver()
    driver.commit_offset("g", 7, timestamp=START_WALL_MS - 8 * DAY)
    driver.commit_offset("young", 7)
    driver.holds = True
    token = driver.ask(MaySleepRequest())
    driver.advance(1000)
    assert driver.answer(token) is None, "what has expired is being removed"
    driver.release()
    driver.advance(100)
    answer = driver.answer(token)
    assert (answer.busy, [group.group_id for group in answer.groups]) == ("", ["young"])


def test_a_group_that_all_members_have_left_and_that_has_no_offsets_goes_before_the_shard_sleeps() -> None:
    """It was removed when the shard was asked, which kept the shard busy for another idle time."""
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    assert asked(driver) == NOTHING
    assert driver.list_groups() == ()


def test_a_write_that_does_not_commit_is_not_waited_for_for_long() -> None:
    driver = Driver()
    driver.commit_offset("g", 7, timestamp=START_WALL_MS - 8 * DAY)
    driver.holds = True
    token = driver.ask(MaySleepRequest())
    driver.advance(3000)
    assert driver.answer(token).busy == "a write is under way"


def test_a_shard_whose_expiry_was_refused_stays_awake() -> None:
    driver = Driver()
    driver.commit_offset("g", 7, timestamp=START_WALL_MS - 8 * DAY)
    driver.holds = True
    token = driver.ask(MaySleepRequest())
    driver.refuse(19)
    driver.advance(3000)
    assert driver.answer(token).busy == "a write is under way", "it tries again"
    driver.refuse(19)
    assert driver.offset("g") == 7


def test_a_member_keeps_the_shard_awake() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    assert asked(driver).busy == "group g is Stable"
    a.commit(1)
    a.join()
    assert asked(driver).busy == "group g is PreparingRebalance"
    driver.leave("g", *((each.member_id, None) for each in (a, b, c)))
    assert not asked(driver).busy


def test_a_member_that_was_given_its_id_keeps_the_shard_awake() -> None:
    """KIP-394: it comes again with that id, which only this process knows."""
    driver = Driver()
    Client(driver, "a").ask_join(api_version=4)
    assert asked(driver).busy == "a member is about to join group g"


def test_a_write_that_has_not_committed_keeps_the_shard_awake() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 7)
    assert asked(driver).busy == "a write is under way"


def test_a_deletion_under_way_keeps_the_shard_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)
    driver = Driver()
    for name in ("a", "b", "c"):
        driver.commit_offset(name, 7)
    driver.ask(DeleteTopicOffsetsRequest(frozenset({"unknown"})))
    assert asked(driver).busy == "a request is under way"
    driver.advance(1000)
    token = driver.ask(MaySleepRequest())
    driver.advance(1000)
    assert not driver.answer(token).busy


def test_all_groups_are_looked_at_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)
    driver = Driver()
    for i, name in enumerate("abc"):
        driver.commit_offset(name, 7, timestamp=START_WALL_MS - i * DAY)
    one, other = driver.ask(MaySleepRequest()), driver.ask(MaySleepRequest())
    assert driver.answer(one) is None
    driver.advance(1000)
    assert driver.answer(one) == driver.answer(other)
    assert driver.answer(one).due_ms == START_WALL_MS + 5 * DAY
    driver.commit_offset("a", 8)  # the check goes on as ever
    assert driver.shard.next_deadline() is not None


def test_more_groups_than_a_broker_lists_keep_the_shard_awake() -> None:
    driver = Driver()
    for i in range(GROUPS_ASLEEP_MAX):
        driver.commit_offset(f"g{i}", 7)
    answer = driver.ask(MaySleepRequest())
    driver.advance(1000)
    assert len(driver.answer(answer).groups) == GROUPS_ASLEEP_MAX
    driver.commit_offset("one more", 7)
    assert asked(driver).busy == f"it has more than {GROUPS_ASLEEP_MAX} groups"


def test_a_shard_that_does_not_serve_says_so() -> None:
    assert asked(Driver(loaded=False)).busy == "it does not serve"
