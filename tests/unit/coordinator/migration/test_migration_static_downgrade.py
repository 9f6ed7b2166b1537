"""A consumer group whose last member of the new protocol comes back as a classic one becomes a classic group."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from tests.support.classic_members import Classic, MixedDriver
from tests.support.consumer_groups import BAR, FOO

PREPARING = "classic PreparingRebalance"


def of_a_static_member(**fields: object) -> MixedDriver:
    """C1 has 0-2, A 3-5; A is static as i-a. All are stable at 6."""
    driver = MixedDriver(Classic("C1", "0-5"), **fields)  # type: ignore[arg-type]
    assert driver.told("A e0 join as=i-a") == "e6 asg -"
    driver.classic("C1 join")
    driver.classic("C1 sync g6")
    assert driver.told("A e6") == "e6 asg 3-5"
    driver.advance(1_100)
    return driver


@pytest.mark.conformance("K-E-33", "K-E-36", "K-E-13")
def test_the_last_member_comes_back_as_a_classic_one_and_the_group_rebalances_under_a_leader() -> None:
    """In Kafka nobody rebalances, and nobody leads: partitions that are added have no owner."""
    driver = of_a_static_member()
    at = len(driver.log)
    token = driver.ask_classic("'' join as=i-a")
    assert driver.answer(token) is None
    assert driver.type_of() == PREPARING
    (made,) = driver.classic_group().members.keys() - {"C1"}
    written = driver.written(at)
    assert written[:6] == ["x8(A)", "x7(A)", "x5(A)", f"5({made})", f"7({made}: 3-5)", written[5]]
    assert written[-1] == f"2(6 leader C1, C1: 0-2, {made}: 3-5)"
    assert driver.classic("C1 beat g6") == "27"
    assert driver.classic("C1 join") == "g7"
    answer = driver.answer(token)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 7, "range")
    assert (answer.member_id, answer.leader) == (made, "C1")


@pytest.mark.conformance("K-E-36")
def test_so_it_does_after_a_failover() -> None:
    driver = of_a_static_member()
    driver.ask_classic("'' join as=i-a")
    driver.fail_over()
    assert driver.type_of() == PREPARING
    assert driver.classic("C1 beat g6") == "27"


@pytest.mark.conformance("K-E-33", "K-E-36")
def test_the_others_join_again_if_one_still_holds_what_is_anothers() -> None:
    driver = of_a_static_member()
    driver.told("B e0 join")
    driver.told("B e-1")
    token = driver.ask_classic("'' join as=i-a")
    assert driver.type_of() == PREPARING
    assert driver.answer(token) is None
    assert driver.classic("C1 beat g8") == "27"
    assert driver.classic("C1 join") == "g9"
    answer = driver.answer(token)
    assert (answer.error_code, answer.generation_id) == (0, 9)
    assert set(driver.classic_group().members) == {"C1", answer.member_id}


@pytest.mark.conformance("K-E-33")
def test_a_lone_member_that_comes_back_as_a_classic_one_has_a_classic_group() -> None:
    driver = MixedDriver()
    assert driver.told("A e0 join as=i-a") == "e2 asg 0-5"
    answer = driver.answer(driver.ask_classic("'' join as=i-a"))
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 3, answer.member_id)
    assert driver.type_of() == "classic CompletingRebalance"


@pytest.mark.conformance("K-E-33", "K-E-34")
def test_not_if_the_policy_forbids_it() -> None:
    driver = of_a_static_member(policy="upgrade")
    answer = driver.answer(driver.ask_classic("'' join as=i-a"))
    assert (answer.error_code, answer.generation_id) == (0, 6)
    assert driver.type_of() == "consumer Stable"
    assert driver.classic(f"{answer.member_id} sync g6 as=i-a") == "3-5"


@pytest.mark.conformance("K-E-33")
def test_not_if_another_of_the_new_protocol_is_there() -> None:
    driver = of_a_static_member()
    driver.told("B e0 join")
    driver.ask_classic("'' join as=i-a")
    assert driver.type_of().startswith("consumer")


def test_nor_if_one_classic_member_replaces_another() -> None:
    driver = MixedDriver(Classic("C1", "0-5", group_instance_id="i-1"))
    driver.told("A e0 join")
    driver.set_settings(ConsumerSettings(migration_policy="upgrade"))
    driver.told("A e-1")
    driver.set_settings(ConsumerSettings())
    assert driver.answer(driver.ask_classic("'' join as=i-1")).error_code == 0
    assert driver.type_of().startswith("consumer")


def test_people_are_told_of_a_member_that_has_come_back_as_a_classic_one() -> None:
    for names in ("foo", "foo,bar"):
        driver = MixedDriver(topics=(FOO, BAR))
        driver.beat("A e0 join as=i-a")
        log = driver.shard.coordinator.rebalances
        log.take_over()
        driver.advance(1_100)
        answer = driver.answer(driver.ask_classic(f"'' join as=i-a names={names}"))
        told = [each.view() for each in log.take_over()[0]]
        assert [(each.replaced, each.came, each.members) for each in told] == [(("A",), (answer.member_id,), 1)]
        driver.classic(f"{answer.member_id} lead g{answer.generation_id} as=i-a 0-5")
        told = [each.view() for each in log.take_over()[0]]
        assert [(each.group_type, each.reason, each.replaced, each.came) for each in told] == [
            ("classic", "static member replaced", (), ())
        ]
        assert log.running == {}
