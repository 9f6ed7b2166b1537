"""Groups that go to the other type and back before their members have noticed; and shards that are loaded meanwhile."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.migration.embedded import owning, read_subscription
from actors.coordinator.records import CorruptRecordError
from tests.support.classic_members import Classic, MixedDriver, subscribed
from tests.support.consumer_groups import GROUP

PREPARING = "classic PreparingRebalance"
FAILOVERS = pytest.mark.parametrize("fails_over", [False, True])


def moved_on(driver: MixedDriver, *, fails_over: bool) -> MixedDriver:
    if fails_over:
        driver.fail_over()
    return driver


@pytest.mark.conformance("K-B-14", "K-E-35")
@FAILOVERS
def test_a_member_that_has_not_heard_of_two_migrations_still_has_what_it_had(*, fails_over: bool) -> None:
    """An instance comes, ends, and comes again, all between two heartbeats of C1, which uses 0-5."""
    driver = MixedDriver(Classic("C1", "0-5"))
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.told("A e-1") == "e-1"
    moved_on(driver, fails_over=fails_over)
    assert driver.told("B e0 join") == "e7 asg -", "all of it is in use"
    moved_on(driver, fails_over=fails_over)
    assert driver.told("B e7") == "e7"
    assert driver.classic("C1 beat g5") == "22", "which makes it give up everything"
    assert driver.classic("C1 join") == "g7"
    assert driver.classic("C1 sync g7") == "0-2"
    assert driver.told("B e7") == "e7 asg 3-5"


@pytest.mark.conformance("K-B-14", "K-E-35")
@FAILOVERS
def test_what_one_member_has_is_not_given_to_the_other_one_whose_target_it_is(*, fails_over: bool) -> None:
    """C2 waits for 3-5, which C1 has not given back, when the group goes to and fro."""
    driver = MixedDriver(Classic("C1", "0-5", subscription=subscribed(own="0-5")))
    driver.told("A e0 R names= own=[]")
    driver.advance(1_100)
    assert driver.classic("C2 join") == "g6"
    assert driver.classic("C2 sync g6") == "-"
    driver.told("A e-1")
    assert driver.written(0)[-1] == "2(6 leader C1, C1: 0-2, C2: 3-5)"
    moved_on(driver, fails_over=fails_over)
    driver.told("B e0 R names= own=[]")
    assert driver.member("C1").endswith("0-5@6 | -")
    assert driver.member("C2").endswith("- | -")
    assert driver.classic("C2 join") == f"g{driver.committed().assignment_epoch}"
    assert driver.classic(f"C2 sync g{driver.committed().assignment_epoch}") == "-"


@pytest.mark.conformance("K-E-36")
def test_a_group_that_was_downgraded_rebalances_after_a_failover_too() -> None:
    """Else the partitions of the member that left would have no owner for ever: no other has a reason to join again."""
    driver = MixedDriver(Classic("C1", "0-2"), Classic("C2", "3-5"))
    driver.told("A e0 join")
    for each, share in (("C1", "0-1"), ("C2", "3-4")):
        assert driver.classic(f"{each} join") == "g6"
        assert driver.classic(f"{each} sync g6") == share
    assert driver.told("A e6") == "e6 asg 2,5"
    driver.told("A e-1")
    for _ in range(2):
        driver.fail_over()
        assert driver.type_of() == PREPARING
        assert [driver.classic(f"{each} beat g6") for each in ("C1", "C2")] == ["27", "27"]
    tokens = [driver.ask_classic(f"{each} join") for each in ("C1", "C2")]
    assert [driver.answer(each).generation_id for each in tokens] == [7, 7]
    assert driver.classic("C1 lead g7 0-5") == "0-5"
    driver.fail_over()
    assert driver.type_of() == "classic Stable", "once is enough"


@pytest.mark.conformance("K-E-36", "K-B-14")
def test_after_a_failover_nobody_is_assigned_what_another_has_not_given_back() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.told("A e0 R names= own=[]")
    driver.advance(1_100)
    assert driver.classic("C2 join") == "g6"
    driver.told("A e-1")
    driver.fail_over()
    assert driver.classic("C2 sync g6") == "27", "its target has 3-5, and C1 uses that"
    assert driver.answer(driver.ask_classic("C2 join")) is None


@pytest.mark.conformance("K-E-36")
def test_a_member_that_comes_back_as_a_classic_one_has_the_others_rebalance_after_a_failover_too() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    assert driver.told("A e0 join as=i-a") == "e6 asg -"
    driver.ask_classic("'' join as=i-a")
    assert driver.type_of() == PREPARING
    driver.fail_over()
    assert driver.type_of() == PREPARING


def test_a_downgraded_group_that_nobody_joins_again_becomes_empty_after_a_failover() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.told("A e0 join")
    driver.told("A e-1")
    driver.fail_over()
    driver.advance(60_000)
    assert driver.type_of() == "classic Empty"
    driver.fail_over()
    assert driver.type_of() == "classic Empty"


def test_a_member_says_what_it_has_in_the_record_of_a_downgraded_group() -> None:
    driver = MixedDriver(Classic("C1", "0-5", subscription=subscribed(version=0, data=b"x")))
    driver.told("A e0 join")
    driver.told("A e-1")
    change = GROUP_RECORDS.decode(*driver.log[-1])
    assert isinstance(change, GroupPut)
    assert change.group_id == GROUP
    assert read_subscription(change.metadata.members[0].subscription).owned == {"foo": frozenset(range(6))}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 7])
def test_a_subscription_that_says_what_is_owned_says_all_else_as_before(version: int) -> None:
    rack = "r1" if version >= 3 else None
    before = subscribed(("foo", "bar"), "0-2", version=version, rack=rack, data=b"mine")
    assert owning(before, {"foo": frozenset({4})}) == subscribed(
        ("foo", "bar"), "4", version=max(version, 1), rack=rack, data=b"mine"
    )
    with pytest.raises(CorruptRecordError):
        owning(before[:9], {})
