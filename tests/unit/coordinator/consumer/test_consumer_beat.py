"""The changes of a heartbeat: members, epochs, targets, answers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import NoReturn

import pytest

from actors.coordinator.assignors.assignor import GroupSpec
from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.consumer.settings import ConsumerSettings
from tests.support.consumer_groups import BAR, FOO, FOOBAR, GROUP, T1, ConsumerDriver, beat_request, given
from tests.support.coordination import Client, stable_group

NO_INTERVAL = ConsumerSettings(assignment_interval_ms=0)


def one(text: str = "A e0 join") -> ConsumerDriver:
    """A alone, a second ago."""
    driver = ConsumerDriver(FOO, FOOBAR, BAR)
    assert driver.beat(text).error_code == 0
    driver.advance(1_100)
    return driver


# -- groups


@pytest.mark.conformance("K-B-01", "K-B-06", "K-B-07")
def test_a_groups_epochs_start_at_one_and_never_go_back() -> None:
    driver = one()
    assert driver.stands() == "2/2 Stable"
    driver.beat("A e-1")
    assert driver.stands() == "3/3 Empty"
    driver.advance(1_100)
    assert driver.told("A e0 join") == "e4 asg 0-5"
    driver.beat("A e-1")
    driver.delete_group(GROUP)
    assert driver.stands() == ""
    assert driver.told("A e0 join") == "e2 asg 0-5", "a new group starts anew"


@pytest.mark.conformance("K-B-02", "K-B-03")
def test_states_follow_from_members_and_epochs() -> None:
    driver = one()
    assert driver.stands() == "2/2 Stable"
    driver.beat("B e0 join")
    assert driver.stands() == "3/3 Reconciling"
    driver.settle()
    driver.beat("B e-1")
    assert driver.stands() == "4/3 Assigning"
    driver.beat("A e-1")
    assert driver.stands() == "5/5 Empty"


@pytest.mark.conformance("K-B-04", "K-A-46")
def test_a_group_whose_first_record_is_not_written_leaves_nothing() -> None:
    driver = ConsumerDriver()
    driver.holds = True
    token = driver.ask(beat_request("A e0 join"))
    assert driver.answer(token) is None
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    assert (driver.stands(), driver.list_groups()) == ("", ())


@pytest.mark.conformance("K-B-05", "K-D-29")
@pytest.mark.parametrize("has_had_members", [False, True])
def test_an_empty_classic_group_is_replaced_and_keeps_its_offsets(has_had_members: bool) -> None:
    driver = ConsumerDriver()
    if has_had_members:
        _classic_group_that_is_over(driver)
    driver.commit_offset(GROUP, 7)
    at = len(driver.log)
    assert driver.told("A e0 join") == "e2 asg 0-5"
    assert driver.written(at)[:3] == ["x2", "5(A)", "3(2)"]
    assert driver.offset(GROUP) == 7
    driver.fail_over()
    assert (driver.stands(), driver.offset(GROUP)) == ("2/2 Stable", 7)


def _classic_group_that_is_over(driver: ConsumerDriver) -> None:
    client = Client(driver, "c", group_id=GROUP)
    stable_group(driver, client)
    assert driver.call(LeaveGroupRequest(GROUP, (LeavingMember(client.member_id, None),))).error_code == 0


@pytest.mark.conformance("K-B-05", "K-B-04")
def test_a_classic_group_is_back_if_the_one_in_its_place_was_not_written() -> None:
    driver = ConsumerDriver()
    driver.commit_offset(GROUP, 7)
    driver.holds = True
    token = driver.ask(beat_request("A e0 join"))
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    driver.holds = False
    assert [each.group_type for each in driver.list_groups()] == ["classic"]
    assert driver.told("A e0 join") == "e2 asg 0-5"


@pytest.mark.conformance("K-B-08", "K-C-29", "K-C-58")
def test_a_first_member_without_names_raises_no_epoch() -> None:
    driver = ConsumerDriver()
    assert given(driver, "A e0 R names= own=[]") == ("e1 asg -", ("5(A)", "8(A: e1/p0 STABLE - | -)"))
    assert driver.stands() == "1/1 Stable"
    driver.fail_over()
    assert driver.stands() == "1/1 Stable"
    assert driver.told("A e1") == "e1"
    assert given(driver, "A e1 names=foo").records[:2] == ("5(A)", "3(2)")


@pytest.mark.conformance("K-B-08", "K-B-71")
def test_names_of_topics_that_do_not_exist_raise_the_epoch() -> None:
    driver = ConsumerDriver()
    assert given(driver, "A e0 R names=later own=[]").records == (
        *("5(A)", "3(2)", "7(A: -)", "6(2)", "8(A: e2/p0 STABLE - | -)"),
    )


# -- members


@pytest.mark.conformance("K-B-09", "K-A-08", "K-B-16")
def test_what_a_heartbeat_does_not_say_stays() -> None:
    driver = one("A e0 join as=i-a rack=r1 by=range regex=")
    before = driver.committed().metadata["A"]
    assert (before.instance_id, before.rack_id, before.assignor, before.regex) == ("i-a", "r1", "range", "")
    assert given(driver, "A e2") == ("e2", ())
    assert driver.committed().metadata["A"] == before
    driver.beat("A e2 names=")
    assert driver.committed().metadata["A"].names == frozenset()


@pytest.mark.conformance("K-A-09", "K-B-25", "K-C-34")
@pytest.mark.parametrize("text", ["A e2 client=d", "A e2 rack=r2", "A e2 R"])
def test_other_attributes_are_kept_and_raise_nothing(text: str) -> None:
    driver = one("A e0 names=foo own=[] R")
    if text == "A e2 R":
        driver.call(replace(beat_request("A e2"), rebalance_timeout_ms=7))
        at = len(driver.log)
        driver.told(text)
        assert driver.written(at) == ["5(A)"]
    else:
        assert given(driver, text) == ("e2", ("5(A)",))
    assert driver.stands() == "2/2 Stable"


@pytest.mark.conformance("K-B-11", "K-A-77")
def test_a_member_keeps_its_id_over_all_its_joins() -> None:
    driver = one()
    assert driver.beat("A e0 join").member_id == "A", "it is a member"
    driver.beat("B e0 join")
    assert driver.told("A e9") == "110"
    assert driver.beat("A e0 join").member_id == "A", "it was fenced"
    driver.beat("A e-1")
    assert driver.beat("A e0 join").member_id == "A", "it had left"
    driver.advance(40_000)
    assert driver.told(f"B e{driver.committed().current_of('B').epoch}").startswith("e")
    driver.advance(6_000)
    assert driver.told("A e2") == "25"
    assert driver.beat("A e0 join").member_id == "A", "it had been removed"
    driver.fail_over()
    assert driver.beat("A e0 join").member_id == "A"
    assert set(driver.committed().metadata) == {"A", "B"}


@pytest.mark.conformance("K-B-12", "K-B-14", "K-B-15")
def test_assigned_and_pending_partitions_have_an_owner_and_all_others_are_free() -> None:
    driver = one()
    driver.beat("B e0 join")
    driver.beat("A e2")
    assert driver.member("A") == "e2/p2 UNREVOKED 0-2@2 | 3-5@2"
    assert dict(driver.committed().owners) == {(T1, each): "A" for each in range(6)}
    driver.beat("A e2 own=0-2")
    assert dict(driver.committed().owners) == {(T1, each): "A" for each in range(3)}


@pytest.mark.conformance("K-B-133")
def test_a_partition_that_comes_back_to_its_owner_gets_a_new_assignment_epoch() -> None:
    driver = one()
    driver.beat("B e0 join")
    driver.beat("A e2")
    driver.beat("A e2 own=0-2")
    driver.beat("B e-1")
    driver.advance(1_100)
    driver.beat("A e3")
    assert driver.member("A") == "e4/p3 STABLE 0-2@2 3-5@4 | -"


# -- the group's epoch


@pytest.mark.conformance("K-B-18", "K-B-25", "K-C-34")
def test_a_wish_raises_the_epoch_if_another_assignor_wins() -> None:
    driver = one()
    assert given(driver, "A e2 by=range").records[:2] == ("5(A)", "3(3)")
    driver.settle()
    driver.advance(1_100)
    assert given(driver, "B e0 join by=uniform").records[:2] == ("5(B)", "3(4)"), "a tie goes to the first"
    driver.settle()
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.settle()
    epoch = driver.committed().current_of("C").epoch
    assert given(driver, f"C e{epoch} by=uniform") == (f"e{epoch}", ("5(C)",))


@pytest.mark.conformance("K-B-84", "K-A-64")
def test_an_assignor_that_is_configured_no_more_has_no_votes() -> None:
    driver = one("A e0 join by=uniform")
    driver.set_settings(ConsumerSettings(assignors=("range",)))
    assert driver.described().assignor == "range"
    assert given(driver, "A e2") == ("e2", ()), "a change of the default alone raises nothing"


@pytest.mark.conformance("K-B-19", "K-C-02")
def test_the_epochs_record_has_the_hash_of_the_topics() -> None:
    driver = one()
    assert driver.committed().metadata_hash == 3513085387391295763
    driver.beat("A e2 names=foo,foobar")
    assert driver.committed().metadata_hash == -7755850188680865452


@pytest.mark.conformance("K-B-22", "K-B-26", "K-C-31")
def test_a_heartbeat_that_changes_nothing_writes_nothing_and_is_a_sign_of_life() -> None:
    driver = one()
    for _ in range(4):
        driver.advance(43_000)
        assert given(driver, "A e2") == ("e2", ())


@pytest.mark.conformance("K-B-22")
def test_an_answer_waits_until_the_records_have_committed() -> None:
    driver = ConsumerDriver()
    driver.holds = True
    token = driver.ask(beat_request("A e0 join"))
    driver.append()
    assert driver.answer(token) is None
    driver.commit()
    assert driver.answer(token).member_epoch == 2


@pytest.mark.conformance("K-B-27")
def test_a_member_that_brings_no_names_starts_with_nothing_at_the_groups_epoch() -> None:
    driver = one()
    assert given(driver, "B e0 R names= own=[]") == ("e2 asg -", ("5(B)", "8(B: e2/p0 STABLE - | -)"))
    assert "B" not in driver.committed().targets
    assert given(driver, "A e2 names=foo,bar").records[2:5] == ("7(A: 0-5 T3:0)", "7(B: -)", "6(3)")


# -- targets


class Failing:
    """An assignor that raises."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> NoReturn:
        raise RuntimeError("no")

    def steps(self, group: GroupSpec) -> Generator[None, None, NoReturn]:
        yield from ()
        self.assign(group)
        raise AssertionError


@pytest.mark.conformance("K-A-45")
def test_an_assignor_that_fails_leaves_nothing_of_the_heartbeat() -> None:
    driver = ConsumerDriver(assignors=(Failing(),), settings=ConsumerSettings(assignors=("uniform",)))
    assert driver.told("A e0 join") == "-1"
    assert (driver.stands(), driver.log) == ("", [])
    assert driver.told("A e0 R names= own=[]") == "e1 asg -"
    at = len(driver.log)
    assert driver.told("A e1 names=foo") == "-1"
    assert driver.log[at:] == []


@pytest.mark.conformance("K-B-20", "K-C-64")
def test_a_computation_writes_its_epoch_though_no_target_changes() -> None:
    driver = one()
    driver.beat("B e0 R names= own=[]")
    driver.advance(1_100)
    driver.beat("A e2 names=foo,later")
    driver.advance(1_100)
    assert given(driver, "A e3 names=foo").records == ("5(A)", "3(4)", "6(4)", "8(A: e4/p3 STABLE 0-5@2 | -)")


@pytest.mark.conformance("K-B-85")
def test_an_assignor_gets_previous_targets_and_not_what_members_hold() -> None:
    seen: list[GroupSpec] = []

    class Watching(Failing):
        def steps(self, group: GroupSpec) -> Generator[None, None, object]:  # type: ignore[override]
            yield from ()
            seen.append(group)
            share = {T1: frozenset(range(6 // len(group.members)))}
            return {member_id: share if index == 0 else {} for index, member_id in enumerate(group.members)}

    settings = ConsumerSettings(assignors=("uniform",), assignment_interval_ms=0)
    driver = ConsumerDriver(FOO, FOOBAR, assignors=(Watching(),), settings=settings)  # type: ignore[arg-type]
    driver.beat("A e0 join rack=r1 as=i-a")
    driver.beat("B e0 join")
    driver.beat("C e0 R names=foo,none own=[]")
    spec = seen[-1]
    assert (spec.partitions, spec.homogeneous) == ({T1: 6}, False)
    assert (spec.members["A"].rack, spec.members["A"].instance_id) == ("r1", "i-a")
    assert spec.members["A"].assigned == {T1: frozenset({0, 1, 2})}, "while it holds all six"
    assert spec.members["C"].topics == frozenset({T1})


@pytest.mark.conformance("K-B-86")
@pytest.mark.parametrize(
    ("second", "homogeneous"),
    [
        ("B e0 join", True),
        ("B e0 R names=foo,bar own=[]", False),
        ("B e0 R names= own=[]", False),
        ("B e0 R names=foo regex=fo.* own=[]", False),
    ],
)
def test_members_subscribe_to_the_same_or_not(second: str, homogeneous: bool) -> None:
    driver = one()
    driver.beat(second)
    assert driver.committed().is_homogeneous is homogeneous


# -- answers


@pytest.mark.conformance("K-A-13")
def test_an_answer_has_the_interval_of_the_moment() -> None:
    driver = one()
    assert driver.beat("A e2").heartbeat_interval_ms == 5_000
    driver.set_settings(ConsumerSettings(heartbeat_interval_ms=7_000))
    assert driver.beat("A e2").heartbeat_interval_ms == 7_000
    driver.set_settings(ConsumerSettings(overrides={GROUP: {"heartbeat_interval_ms": 9_000}}))
    assert driver.beat("A e2").heartbeat_interval_ms == 9_000


@pytest.mark.conformance("K-A-10", "K-A-11", "K-A-15")
@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("A e2 R names=foo own=0-5", True),
        ("A e2 R regex= own=0-5", True),
        ("A e2 names=foo own=0-5", False),
        ("A e2 R own=0-5", False),
        ("A e2 R names=foo", False),
        ("A e2", False),
    ],
)
def test_who_says_everything_is_told_everything(text: str, is_told: bool) -> None:
    driver = one()
    assert driver.told(text) == ("e2 asg 0-5" if is_told else "e2")


@pytest.mark.conformance("K-A-14", "K-A-16", "K-A-06")
def test_an_assignment_is_all_that_a_member_may_use_and_nothing_that_others_have() -> None:
    driver = one()
    answer = driver.beat("B e0 join")
    assert answer.assignment == {}, "present, and empty"
    assert driver.beat("A e2").assignment == {T1: frozenset({0, 1, 2})}
    driver.beat("A e2 own=0-2")
    assert driver.beat("B e3").assignment == {T1: frozenset({3, 4, 5})}
