"""A classic member of a consumer group is removed when its time is over, or leaves."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from tests.support.classic_members import REBALANCE_MS, MixedDriver, mixed
from tests.support.consumer_groups import GROUP, beat_request

# -- timers


@pytest.mark.conformance("K-E-30", "K-B-56")
def test_who_was_told_to_join_and_does_not_is_removed() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 beat g6") == "27"
    for _ in range(6):
        driver.advance(9_000)
        driver.told("A e6")
        assert driver.classic("C1 beat g6") == "27", "which gives it no more time"
    at = len(driver.log)
    driver.advance(7_000)
    assert driver.written(at)[:3] == ["x8(C1)", "x7(C1)", "x5(C1)"]


@pytest.mark.conformance("K-E-15", "K-B-56")
def test_who_joins_in_time_stays() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 beat g6") == "27"
    driver.advance(9_000)
    assert driver.classic("C1 join") == "g7"
    assert driver.classic("C1 sync g7") == "0-1"
    for _ in range(8):
        driver.advance(9_000)
        driver.told("A e6")
        driver.told("B e7")
        assert driver.classic("C1 beat g7") == "0"


@pytest.mark.conformance("K-E-24", "K-B-56")
def test_who_was_told_so_by_a_sync_has_as_long() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 sync g6") == "27"
    timers = driver.consumer().members["C1"]
    assert timers.rebalance.due_ms == driver.now.monotonic_ms + REBALANCE_MS
    assert driver.consumer().awaited == ("C1",)


@pytest.mark.conformance("K-E-30", "K-B-57", "K-E-15")
def test_who_joins_and_never_asks_for_its_assignment_is_removed() -> None:
    driver = mixed()
    assert driver.classic("C1 join rebalance=20000") == "g6"
    for _ in range(2):
        driver.advance(9_000)
        assert driver.classic("C1 beat g6") == "0"
    driver.advance(2_100)
    assert "C1" not in driver.committed().metadata


@pytest.mark.conformance("K-E-25", "K-B-57")
def test_who_asks_for_it_stays() -> None:
    driver = mixed()
    assert driver.classic("C1 join rebalance=20000") == "g6"
    driver.advance(9_000)
    assert driver.classic("C1 sync g6") == "0-2"
    for _ in range(4):
        driver.advance(9_000)
        driver.told("A e6")
        assert driver.classic("C1 beat g6") == "0"


@pytest.mark.conformance("K-E-15", "K-B-54")
def test_a_session_lasts_as_long_as_the_member_has_said_last() -> None:
    driver = mixed()
    assert driver.classic("C1 join session=30000") == "g6"
    assert driver.classic("C1 sync g6") == "0-2"
    driver.advance(29_000)
    assert driver.classic("C1 beat g6") == "0"
    driver.told("A e6")
    driver.advance(29_900)
    assert "C1" in driver.committed().metadata
    driver.advance(200)
    assert "C1" not in driver.committed().metadata


@pytest.mark.conformance("K-E-30", "K-B-55")
def test_a_classic_member_has_no_rebalance_timer() -> None:
    driver = mixed()
    driver.told("B e0 join")
    driver.classic("C1 join own=0-2")
    assert driver.member("C1").split()[1] == "UNREVOKED"
    assert driver.consumer().members["C1"].rebalance.due_ms is None


@pytest.mark.conformance("K-B-57")
def test_a_member_that_changes_its_protocol_need_not_ask_for_its_assignment_any_more() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.advance(1_100)
    assert driver.classic("C1 join rebalance=20000") == "g3"
    assert driver.beat("C1 e0 join").error_code == 0
    driver.advance(21_000)
    assert set(driver.committed().metadata) == {"A", "C1"}


def test_a_removal_of_a_classic_member_that_was_not_written_is_tried_again() -> None:
    driver = mixed()
    driver.told("B e0 join")
    driver.classic("C1 join rebalance=5000")
    driver.holds = True
    driver.advance(5_100)
    driver.refuse(19)
    assert "C1" in driver.committed().metadata
    driver.holds = False
    driver.advance(1_100)
    assert "C1" not in driver.committed().metadata


def test_a_removal_is_off_if_the_member_came_while_it_waited() -> None:
    driver = mixed()
    driver.told("B e0 join")
    driver.classic("C1 join rebalance=4000")
    driver.holds = True
    driver.ask(beat_request("D e0 join"))
    driver.advance(3_990)
    token = driver.ask_classic("C1 sync g7")
    driver.advance(100)
    assert driver.answer(token) is None, "its time is over, and it waits for what is under way"
    driver.release()
    driver.holds = False
    driver.turn()
    assert driver.shown_classic(driver.answer(token)) == "0-1"
    driver.advance(1_100)
    assert "C1" in driver.committed().metadata


# -- LeaveGroup


@pytest.mark.conformance("K-E-28", "K-B-52")
def test_those_who_leave_together_raise_the_epoch_once() -> None:
    driver = mixed()
    driver.told("B e0 join")
    at = len(driver.log)
    entries = (
        LeavingMember("", "i-1"),
        LeavingMember("B", None, "enough"),
        LeavingMember("nobody", None),
        LeavingMember("A", "i-1"),
        LeavingMember("", "i-9"),
        LeavingMember("", None),
    )
    answer = driver.call(LeaveGroupRequest(GROUP, entries))
    assert [int(each.error_code) for each in answer.members] == [0, 0, 25, 82, 25, 25]
    assert [(each.member_id, each.group_instance_id) for each in answer.members][:2] == [("", "i-1"), ("B", None)]
    assert driver.written(at) == [*("x8(C1)", "x7(C1)", "x5(C1)", "x8(B)", "x7(B)", "x5(B)"), "3(8)"]


@pytest.mark.conformance("K-E-28")
def test_if_nobody_can_leave_nothing_happens() -> None:
    driver = mixed()
    at = len(driver.log)
    answer = driver.call(LeaveGroupRequest(GROUP, (LeavingMember("nobody", None), LeavingMember("A", "i-1"))))
    assert [int(each.error_code) for each in answer.members] == [25, 82]
    assert (driver.written(at), driver.stands()) == ([], "6/6 Stable")


@pytest.mark.conformance("K-E-28")
def test_a_leave_of_an_old_version_has_one_error() -> None:
    driver = mixed()
    assert driver.call(LeaveGroupRequest(GROUP, (LeavingMember("nobody"),), api_version=2)).error_code == 25
    assert driver.call(LeaveGroupRequest(GROUP, (LeavingMember("C1"),), api_version=2)).error_code == 0
    assert set(driver.committed().metadata) == {"A"}


@pytest.mark.conformance("K-E-28")
def test_a_member_of_the_new_protocol_is_removed_by_a_leave_too() -> None:
    driver = mixed()
    driver.join("B")
    assert driver.classic("B leave") == "0"
    assert set(driver.committed().metadata) == {"A", "C1"}
