"""The heartbeats that a group refuses, and the order of its checks."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import HeartbeatRequest, LeaveGroupRequest, LeavingMember
from actors.coordinator.consumer.records import CurrentAssignment
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.values import Current, MemberState
from actors.coordinator.records import encode
from tests.support.consumer_groups import GROUP, T1, ConsumerDriver, given
from tests.support.coordination import Client, stable_group


def two() -> ConsumerDriver:
    """A and B, stable at epoch 3."""
    driver = ConsumerDriver()
    driver.join("A", "B")
    return driver


@pytest.mark.conformance("K-A-33", "K-A-50")
@pytest.mark.parametrize("text", ["A e1", "A e-1", "A e-2 as=i-a"])
def test_who_does_not_join_needs_a_group(text: str) -> None:
    driver = ConsumerDriver()
    assert driver.told(text) == "69"
    assert driver.stands() == ""


@pytest.mark.conformance("K-A-34", "K-A-50")
@pytest.mark.parametrize("text", ["A e1", "A e-1"])
def test_who_does_not_join_is_not_in_a_classic_group(text: str) -> None:
    driver = ConsumerDriver()
    driver.commit_offset(GROUP, 1)
    assert driver.told(text) == "69"
    assert driver.offset(GROUP) == 1


@pytest.mark.conformance("K-A-35")
def test_nobody_joins_a_classic_group_that_has_members() -> None:
    driver = ConsumerDriver()
    stable_group(driver, Client(driver, "c"))
    assert driver.told("A e0 join", group_id="g") == "69"
    assert driver.state("g") == "Stable"


@pytest.mark.conformance("K-E-20", "K-E-21")
def test_members_of_the_classic_protocol_are_refused_if_they_are_none_of_the_group() -> None:
    driver = two()
    assert driver.call(HeartbeatRequest(GROUP, 3, "A", None)).error_code == 25
    assert driver.call(LeaveGroupRequest(GROUP, (LeavingMember("C", None),))).members[0].error_code == 25
    assert driver.stands() == "3/3 Stable"


@pytest.mark.conformance("K-A-36")
def test_a_full_group_refuses_whom_it_does_not_know() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(max_size=2))
    driver.beat("A e0 join as=i-a")
    driver.join("B")
    assert driver.told("C e0 join") == "81"
    assert driver.told("C e7") == "81", "before it is looked for"
    assert driver.told("B e9") == "110"
    assert driver.told("C e0 join as=i-a") == "111", "its instance id is known"
    assert driver.told("C e3 as=i-a") == "82"


@pytest.mark.conformance("K-A-37", "K-A-38", "K-A-39")
def test_who_is_not_known_is_told_so() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join as=i-a")
    assert driver.told("B e2") == "25"
    assert driver.told("A e2 as=i-b") == "25"
    assert driver.told("B e2 as=i-a") == "82"
    assert driver.told("A e2 as=i-a") == "e2"


@pytest.mark.conformance("K-A-40", "K-A-78", "K-B-50")
def test_an_instance_id_in_use_is_not_given_away() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join as=i-a")
    assert driver.told("B e0 join as=i-a") == "111"
    assert driver.told("A e0 join as=i-a") == "111"
    assert driver.told("A e0 join") == "e2 asg 0-5", "without it, it is a join as any other"
    assert driver.committed().instances == {"i-a": "A"}


@pytest.mark.conformance("K-A-41", "K-A-42")
def test_an_epoch_is_that_of_the_member_or_the_one_before_if_it_has_nothing_else() -> None:
    driver = two()  # A is at e3/p2 and has 0-2
    assert driver.told("A e4") == "110"
    assert driver.told("A e2") == "110"
    assert driver.told("A e2 own=0-3") == "110"
    assert driver.told("A e2 own=T3:0") == "110"
    assert driver.told("A e2 own=0-2") == "e3"
    assert driver.told("A e2 own=[]") == "e3"
    assert driver.told("A e1 own=[]") == "110"


@pytest.mark.conformance("K-A-44", "K-B-33", "K-B-34")
def test_a_member_in_an_unknown_state_has_to_say_that_it_holds_nothing() -> None:
    driver = two()
    later = Current(3, 2, MemberState.UNKNOWN, {T1: {0: 2, 1: 2, 2: 2}})
    driver.log += encode([CurrentAssignment(GROUP, "A", later)])
    driver.fail_over()
    at = len(driver.log)
    assert driver.told("A e3 names=bar") == "110"
    assert driver.told("A e3 own=0") == "110"
    assert driver.log[at:] == []
    assert driver.told("A e3 own=[]") == "e3"
    assert driver.member("A") == "e3/p3 STABLE 0-2@2 | -"


@pytest.mark.conformance("K-A-47", "K-A-77")
def test_a_member_may_join_again_at_any_time() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.advance(1_100)
    driver.beat("B e0 join")
    driver.beat("A e2")
    assert driver.member("A") == "e2/p2 UNREVOKED 0-2@2 | 3-5@2"
    again = given(driver, "A e0 join")
    assert again == ("e3 asg 0-2", ("8(A: e3/p2 STABLE 0-2@2 | -)",)), "it has given back what was pending"
    assert given(driver, "A e0 join") == ("e3 asg 0-2", ()), "nothing has changed"
    driver.advance(1_100)
    assert given(driver, "A e0 R names=foo,bar own=[]").records[:2] == ("5(A)", "3(4)")


@pytest.mark.conformance("K-A-48")
def test_a_static_member_need_not_send_its_instance_id() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join as=i-a")
    assert given(driver, "A e2") == ("e2", ())
    assert driver.committed().instances == {"i-a": "A"}


@pytest.mark.conformance("K-A-82")
def test_an_instance_id_is_learned_from_a_join_alone() -> None:
    driver = two()
    assert driver.told("A e3 as=i-a") == "25"
    assert given(driver, "A e0 join as=i-a") == ("e3 asg 0-2", ("5(A)",))
    assert driver.told("A e3 as=i-b") == "25"
    assert given(driver, "A e0 join as=i-b") == ("e3 asg 0-2", ("5(A)",))
    assert driver.committed().instances == {"i-b": "A"}, "the former one is free"
    assert driver.told("B e0 join as=i-a") == "e3 asg 3-5"


@pytest.mark.conformance("K-A-49")
@pytest.mark.parametrize("text", ["A e9", "A e3 by=nobody", "A e3 as=i-x"])
def test_a_refused_heartbeat_is_no_sign_of_life(text: str) -> None:
    driver = two()
    driver.advance(30_000)
    driver.beat("B e3")
    assert int(driver.told(text)) in (25, 110, 112)
    at = len(driver.log)
    driver.advance(15_000)
    assert driver.written(at)[:3] == ["x8(A)", "x7(A)", "x5(A)"]


@pytest.mark.conformance("K-A-51", "K-A-52")
def test_who_leaves_has_to_be_a_member() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join as=i-a")
    assert driver.told("B e-1") == "25"
    assert driver.told("A e-1 as=i-b") == "25"
    assert driver.told("B e-1 as=i-a") == "82"
    assert driver.told("B e-2 as=i-a") == "82"


@pytest.mark.conformance("K-A-53", "K-A-54", "K-A-55")
def test_a_leave_is_answered_with_its_epoch_and_nothing_else() -> None:
    driver = two()
    answer = driver.beat("B e-1")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "B", -1)
    assert (answer.heartbeat_interval_ms, answer.assignment) == (0, None)
    driver.beat("S e0 join as=i-s")
    assert driver.told("S e-2 as=i-s") == "e-2"
    assert driver.committed().instances == {"i-s": "S"}
    assert driver.told("S e-1 as=i-s") == "e-1"
    assert driver.committed().instances == {}


@pytest.mark.conformance("K-A-12")
def test_a_refusal_says_why_and_nothing_else() -> None:
    answer = two().beat("A e9")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (110, None, 0)
    assert (answer.heartbeat_interval_ms, answer.assignment) == (0, None)
    assert answer.error_message
