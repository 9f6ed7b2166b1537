"""Targets are computed once in an interval at most, and nothing wakes up when it ends."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from tests.support.consumer_groups import BAR, FOO, GROUP, ConsumerDriver, Slow, given, shown


def two(**settings: int) -> ConsumerDriver:
    """A has all, and B came 400 ms later."""
    driver = ConsumerDriver(FOO, BAR, settings=ConsumerSettings(**settings))  # type: ignore[arg-type]
    driver.beat("A e0 join")
    driver.advance(400)
    driver.beat("B e0 join")
    return driver


@pytest.mark.conformance("K-B-122", "K-B-20")
@pytest.mark.parametrize(("ms", "stands"), [(599, "3/2 Assigning"), (600, "3/3 Reconciling")])
def test_the_first_heartbeat_at_the_end_of_the_interval_computes(ms: int, stands: str) -> None:
    driver = two()
    driver.advance(ms)
    driver.beat("A e2")
    assert driver.stands() == stands


@pytest.mark.conformance("K-B-122")
def test_the_interval_is_that_of_the_group_and_read_with_each_heartbeat() -> None:
    driver = two(assignment_interval_ms=10_000)
    driver.advance(5_000)
    driver.beat("A e2")
    assert driver.stands() == "3/2 Assigning"
    driver.set_settings(ConsumerSettings(overrides={GROUP: {"assignment_interval_ms": 5_000}}))
    driver.beat("A e2")
    assert driver.stands() == "3/3 Reconciling"


@pytest.mark.conformance("K-B-123")
def test_the_time_of_the_last_computation_survives_a_load() -> None:
    driver = two()
    driver.fail_over()
    assert driver.committed().assignment_timestamp_ms == driver.now.wall_ms - 400
    driver.advance(599)
    driver.beat("A e2")
    assert driver.stands() == "3/2 Assigning"
    driver.advance(1)
    driver.beat("A e2")
    assert driver.stands() == "3/3 Reconciling"


@pytest.mark.conformance("K-B-122")
@pytest.mark.parametrize("fails_over", [False, True], ids=["set back", "of another machine"])
def test_an_interval_that_began_by_a_clock_that_was_ahead_is_over(fails_over: bool) -> None:
    driver = two()
    if fails_over:
        driver.fail_over()
    driver.now = driver.now._replace(wall_ms=driver.now.wall_ms - 3_600_000)
    driver.beat("A e2")
    assert driver.stands() == "3/3 Reconciling"
    assert driver.committed().assignment_timestamp_ms == driver.now.wall_ms


@pytest.mark.conformance("K-B-123")
def test_the_interval_counts_from_the_end_of_a_computation_that_took_its_time() -> None:
    driver = ConsumerDriver(assignors=(Slow(),), settings=ConsumerSettings(assignors=("uniform",)))
    began_ms = driver.now.wall_ms
    driver.beat_later("A e0 join")
    for _ in range(5):
        driver.jump(200)
    assert driver.committed().assignment_timestamp_ms == driver.now.wall_ms == began_ms + 1_000
    driver.beat("B e0 join")
    driver.advance(999)
    driver.beat("B e2")
    assert driver.stands() == "3/2 Assigning"


@pytest.mark.conformance("K-B-124")
def test_a_group_that_was_empty_computes_at_once() -> None:
    driver = two()
    driver.beat("B e-1")
    driver.beat("A e-1")
    assert driver.committed().assignment_timestamp_ms == 0
    assert driver.told("C e0 join") == "e6 asg 0-5"


@pytest.mark.conformance("K-B-125", "K-B-27", "K-B-24")
def test_within_the_interval_all_else_goes_on() -> None:
    driver = two()
    assert driver.member("B") == "e2/p0 STABLE - | -"
    assert given(driver, "A e2 names=bar").records == (
        "5(A)",
        "3(4)",
        "8(A: e2/p2 UNREVOKED - | 0-5@2)",
    )
    assert driver.stands() == "4/2 Assigning"


@pytest.mark.conformance("K-B-126")
def test_several_changes_lead_to_one_computation() -> None:
    driver = two()
    driver.beat("C e0 join")
    driver.beat("B e-1")
    assert driver.stands() == "5/2 Assigning"
    driver.advance(1_000)
    driver.beat("A e2")
    assert driver.stands() == "5/5 Reconciling"


@pytest.mark.conformance("K-B-127", "K-B-20")
def test_nothing_happens_when_the_interval_ends() -> None:
    driver = two()
    at = len(driver.log)
    driver.advance(20_000)
    assert (driver.written(at), driver.stands()) == ([], "3/2 Assigning")


@pytest.mark.conformance("K-B-128")
def test_what_a_removed_member_had_is_nobodys_until_the_computation() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.beat("B e-1")
    driver.beat("A e3")
    assert driver.stands() == "5/4 Assigning"
    assert {member_id: shown(target) for member_id, target in driver.committed().targets.items()} == {
        "A": "0-1",
        "C": "2,5",
    }
    assert {partition for _, partition in driver.committed().owners} == {0, 1, 2}, "3 and 4 are free, and 5 for C"
    assert driver.told("C e4") == "e4 asg 5"
    driver.advance(1_100)
    assert driver.told("C e4 own=5") == "e5 asg 4-5"
    assert {shown(target) for target in driver.committed().targets.values()} == {"0-1,3", "2,4-5"}


@pytest.mark.conformance("K-B-130")
def test_without_an_interval_each_change_has_its_target_at_once() -> None:
    driver = two(assignment_interval_ms=0)
    assert driver.stands() == "3/3 Reconciling"
    assert driver.told("C e0 join") == "e4 asg -"
    assert driver.stands() == "4/4 Reconciling"
