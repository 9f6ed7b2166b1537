"""A consumer group whose last member of the new protocol goes becomes a classic group."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.consumer.records import MemberRecord
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.values import ClassicMetadata, MemberMetadata
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.records import encode
from tests.support.classic_members import Classic, MixedDriver, subscribed
from tests.support.consumer_groups import GROUP, beat_request

PREPARING = "classic PreparingRebalance"


def mixed(*others: str, **fields: object) -> MixedDriver:
    """C1 (classic) has 0-2 and A has 3-5, all stable at 6; or C1 0-1, C2 3-4 and A 2,5."""
    members = (Classic("C1", "0-2"), Classic("C2", "3-5")) if others else (Classic("C1", "0-5"),)
    driver = MixedDriver(*members, **fields)  # type: ignore[arg-type]
    assert driver.told("A e0 join") == "e6 asg -"
    for member_id in ("C1", *others):
        assert driver.classic(f"{member_id} join") == "g6"
        assert driver.classic(f"{member_id} sync g6") != "27"
    assert driver.told("A e6") == ("e6 asg 2,5" if others else "e6 asg 3-5")
    driver.advance(1_100)
    assert driver.classic("C1 beat g6") == "0"
    return driver


@pytest.mark.conformance("K-E-01", "K-E-32", "K-E-35")
@pytest.mark.parametrize("policy", ["bidirectional", "downgrade", "upgrade", "disabled"])
def test_the_policy_decides_whether_a_group_goes_back(policy: str) -> None:
    driver = mixed()
    driver.set_settings(ConsumerSettings(migration_policy=policy))
    driver.told("A e-1")
    assert driver.type_of() == (PREPARING if policy in ("bidirectional", "downgrade") else "consumer Assigning")


# -- what makes it go back


@pytest.mark.conformance("K-E-32")
def test_the_end_of_the_last_members_session_downgrades() -> None:
    driver = mixed()
    for _ in range(5):
        driver.advance(9_000)
        driver.classic("C1 beat g6")
    assert driver.type_of() == PREPARING
    assert driver.classic("C1 beat g6") == "27"


@pytest.mark.conformance("K-E-32", "K-B-55")
def test_the_last_member_that_gives_nothing_back_in_time_downgrades() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.advance(1_100)
    assert driver.classic("C1 join") == "g3"
    assert driver.classic("C1 sync g3") == "-"
    for _ in range(33):
        driver.told("A e2")
        driver.classic("C1 beat g3")
        driver.advance(9_000)
    driver.told("A e2")
    driver.classic("C1 beat g3")
    driver.advance(6_000)
    assert driver.type_of() == PREPARING


@pytest.mark.conformance("K-E-32", "K-E-28")
def test_a_leave_of_the_last_member_and_a_classic_one_downgrades() -> None:
    driver = mixed("C2")
    at = len(driver.log)
    answer = driver.call(LeaveGroupRequest(GROUP, (LeavingMember("C1"), LeavingMember("A"))))
    assert [int(each.error_code) for each in answer.members] == [0, 0]
    assert driver.written(at)[-1] == "2(6 leader C2, C2: 3-4)"
    assert driver.type_of() == PREPARING


@pytest.mark.conformance("K-E-32")
def test_a_member_that_is_away_for_a_while_is_still_there() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.told("A e0 join as=i-a")
    assert driver.told("A e-2 as=i-a") == "e-2"
    assert driver.type_of().startswith("consumer")


@pytest.mark.conformance("K-E-32")
def test_a_group_that_is_left_by_all_does_not_become_a_classic_one() -> None:
    driver = mixed()
    driver.classic("C1 leave")
    driver.told("A e-1")
    assert driver.type_of() == "consumer Empty"


@pytest.mark.conformance("K-E-34")
def test_a_group_that_is_too_large_for_a_classic_one_stays_until_the_next_goes() -> None:
    driver = mixed("C2", config=CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=1))
    driver.told("A e-1")
    assert driver.type_of() == "consumer Assigning"
    driver.classic("C2 leave")
    assert driver.type_of() == PREPARING


@pytest.mark.conformance("K-E-34")
def test_a_group_whose_record_the_log_would_not_take_stays_and_its_dead_member_goes() -> None:
    """Its removal would be refused for ever, and what it has would have no owner."""
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_message_bytes=400)
    driver = mixed("C2", config=config)
    driver.classic("C2 beat g6")
    for _ in range(5):
        driver.advance(9_000)
        for each in ("C1", "C2"):
            driver.classic(f"{each} beat g6")
    assert set(driver.committed().metadata) == {"C1", "C2"}
    driver.classic("C1 beat g6")
    assert driver.stands() == "7/7 Reconciling", "and its share is divided"


@pytest.mark.conformance("K-E-34")
def test_under_another_policy_the_next_removal_is_the_next_chance() -> None:
    driver = mixed("C2")
    driver.set_settings(ConsumerSettings(migration_policy="upgrade"))
    driver.told("A e-1")
    assert driver.type_of() == "consumer Assigning"
    driver.set_settings(ConsumerSettings())
    driver.classic("C1 leave")
    assert driver.type_of() == PREPARING


# -- what it is then


@pytest.mark.conformance("K-E-35", "K-C-44", "K-D-29")
def test_the_group_is_what_its_members_targets_say() -> None:
    driver = mixed(topics=MixedDriver().topics)
    driver.classic("C1 join by=sticky,range session=7000 rebalance=8000 client=d")
    driver.commit_offset(GROUP, 9, topic="foo", generation=6, member_id="C1")
    driver.told("B e0 join")  # C1's target is 0-1 from now on, and it has 0-2
    driver.told("B e-1")
    driver.told("A e-1")
    group = driver.classic_group()
    record = driver.durable.get(GROUP).persisted  # type: ignore[union-attr]
    assert (record.protocol_type, record.generation_id) == ("consumer", 8)  # type: ignore[union-attr]
    assert (group.generation_id, group.protocol_name, group.leader_id) == (8, "sticky", "C1")
    member = group.members["C1"]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.client_id) == (7_000, 8_000, "d")
    assert [name for name, _ in member.protocols] == ["sticky", "range"], "the record has but one of them"
    assert driver.written(0)[-1] == "2(8 leader C1, C1: 0-1)"
    assert driver.offset(GROUP, "foo") == 9
    driver.fail_over()
    assert driver.type_of() == PREPARING
    assert driver.offset(GROUP, "foo") == 9


@pytest.mark.conformance("K-E-35")
def test_the_protocol_is_that_which_most_want_of_those_that_all_support() -> None:
    driver = mixed("C2")
    driver.classic("C1 join by=sticky,range")
    driver.classic("C2 join by=range,sticky")
    assert driver.classic("D join by=sticky,range") == "g7"
    driver.told("A e-1")
    assert driver.classic_group().protocol_name == "sticky"


@pytest.mark.conformance("K-E-36")
def test_sessions_are_those_of_the_members() -> None:
    driver = mixed()
    driver.classic("C1 join session=7000")
    driver.told("A e-1")
    driver.advance(6_900)
    assert driver.type_of() == PREPARING
    driver.advance(200)
    assert driver.type_of() == "classic Empty"


@pytest.mark.conformance("K-E-36", "K-E-47")
def test_all_members_join_again_and_are_assigned_by_their_leader() -> None:
    driver = mixed("C2")
    driver.told("A e-1")
    assert [driver.classic(f"{each} beat g6") for each in ("C1", "C2")] == ["27", "27"]
    tokens = [driver.ask_classic(f"{each} join") for each in ("C1", "C2")]
    assert [driver.answer(each).generation_id for each in tokens] == [7, 7]
    assert driver.answer(tokens[0]).leader == "C1"


@pytest.mark.conformance("K-E-37")
def test_a_group_of_which_something_cannot_be_read_stays_and_so_does_who_leaves() -> None:
    driver = mixed()
    broken = MemberMetadata(classic=ClassicMetadata(10_000, (("range", b"\1"),)))
    driver.log += encode([MemberRecord(GROUP, "C1", broken)])
    driver.fail_over()
    at = len(driver.log)
    assert driver.told("A e-1") == "69"
    assert driver.answer(driver.ask_classic("A leave")).error_code == 69
    assert driver.written(at) == []
    assert set(driver.committed().metadata) == {"A", "C1"}


def test_who_is_expelled_goes_all_the_same() -> None:
    driver = mixed()
    broken = MemberMetadata(classic=ClassicMetadata(60_000, (("range", b"\1"),)))
    driver.log += encode([MemberRecord(GROUP, "C1", broken)])
    driver.fail_over()
    driver.advance(30_000)
    driver.classic("C1 beat g6")
    driver.advance(16_000)
    assert set(driver.committed().metadata) == {"C1"}


def test_members_without_a_common_protocol_stay_in_a_consumer_group() -> None:
    driver = mixed("C2")
    other = MemberMetadata(names=frozenset({"foo"}), classic=ClassicMetadata(10_000, (("odd", subscribed()),)))
    driver.log += encode([MemberRecord(GROUP, "C2", other)])
    driver.fail_over()
    assert driver.told("A e-1") == "69"


def test_expressions_end_with_the_consumer_group() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.told("A e0 R names= regex=fo+ own=[]")
    driver.resolve()
    at = len(driver.log)
    driver.told("A e-1")
    assert "x16(fo+)" in driver.written(at)
    driver.fail_over()
    assert driver.type_of().startswith("classic")


# -- the write


def test_a_group_stays_as_it_is_if_its_downgrade_was_not_written() -> None:
    driver = mixed()
    before = list(driver.log)
    driver.holds = True
    token = driver.beat_later("A e-1")
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    driver.holds = False
    assert (driver.log, driver.stands()) == (before, "6/6 Stable")
    assert driver.told("A e6") == "e6"
    assert driver.classic("C1 beat g6") == "0"


def test_the_end_of_a_session_that_was_not_written_is_tried_again() -> None:
    driver = mixed()
    for _ in range(4):
        driver.advance(9_000)
        driver.classic("C1 beat g6")
    driver.holds = True
    driver.advance(9_000)
    driver.refuse(19)
    driver.holds = False
    driver.classic("C1 beat g6")
    driver.advance(2_000)
    assert driver.type_of() == PREPARING


def test_what_comes_while_it_is_written_is_answered_by_the_classic_group() -> None:
    driver = mixed("C2")
    driver.holds = True
    leave = driver.beat_later("A e-1")
    beat, late = driver.ask_classic("C1 beat g6"), driver.beat_later("A e6")
    join, gone = driver.ask_classic("C2 join"), driver.ask_classic("nobody leave")
    commit = driver.commit_offset(GROUP, 9, topic="foo", generation=6, member_id="C1")
    driver.release()
    driver.holds = False
    driver.turn()
    assert driver.answer(leave).error_code == 0
    assert driver.shown_classic(driver.answer(beat)) == "27"
    assert driver.answer(late).error_code == 69
    assert driver.answer(join) is None, "it waits for C1"
    assert driver.shown_classic(driver.answer(gone)) == "25"
    assert list(driver.answer(commit).error_codes) == [0]
    driver.classic("C1 join")
    assert driver.answer(join).generation_id == 7
    driver.fail_over()  # and nobody is answered twice


@pytest.mark.conformance("K-E-47")
def test_commits_while_it_is_written_are_those_of_the_classic_group() -> None:
    """As the log has it: they come after its record there, so the member that has left has committed its last."""
    driver = mixed("C2")
    driver.classic("C2 leave")
    driver.holds = True
    leave = driver.beat_later("A e-1")
    assert driver.commits("A", 6, "2") == [25]
    assert driver.commits("C1", 6, "0") == [22], "the group goes on at generation 7, as its members hear next"
    driver.refuse(19)
    driver.holds = False
    assert driver.answer(leave).error_code == 15
    assert driver.commits("A", 6, "2") == driver.commits("C1", 6, "0") == [0], "nothing has become of it"


def test_a_member_that_joins_while_it_is_written_upgrades_the_group_again() -> None:
    driver = mixed()
    driver.holds = True
    driver.ask(beat_request("A e-1"))
    token = driver.beat_later("B e0 join")
    driver.release()
    driver.holds = False
    driver.turn()
    assert driver.answer(token).error_code == 0
    assert (driver.type_of(), driver.stands()) == ("consumer Reconciling", "7/7 Reconciling")


def test_a_member_that_leaves_before_its_upgrade_has_committed_takes_it_back() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.holds = True
    tokens = driver.beat_later("A e0 join"), driver.beat_later("A e-1")
    driver.release()
    driver.holds = False
    driver.turn()
    assert [driver.answer(each).error_code for each in tokens] == [0, 0]
    assert driver.type_of() == PREPARING
    assert driver.classic("C1 join") == "g7"


def test_what_a_member_still_has_after_a_downgrade_is_nobodys_when_the_group_is_upgraded_again() -> None:
    """C1 has 0-2. Its target was 0-1, so the classic group's record says, but it has not heard of that yet."""
    driver = mixed()
    driver.told("B e0 join")
    for member_id in ("A", "B"):
        driver.told(f"{member_id} e-1")
    assert driver.written(0)[-1] == "2(8 leader C1, C1: 0-1)"
    assert driver.type_of() == PREPARING
    assert driver.told("A e0 join") == "e9 asg 3-5"
    assert driver.member("C1") == "e8/p8 STABLE 0-2@8 | -"


def test_a_group_goes_to_and_fro_and_no_member_is_lost() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    for _ in range(4):
        answer = driver.beat("A e0 join")
        assert answer.error_code == 0
        generation = driver.committed().assignment_epoch
        driver.fail_over()
        assert driver.classic("C1 join") == f"g{generation}"
        assert driver.classic(f"C1 sync g{generation}") == "0-2"
        assert driver.told(f"A e{generation}") == f"e{generation} asg 3-5"
        driver.fail_over()
        assert driver.told("A e-1") == "e-1"
        assert driver.classic("C1 join") == f"g{generation + 1}"
        assert driver.classic(f"C1 lead g{generation + 1} 0-5") == "0-5"
        driver.fail_over()
        assert driver.type_of() == "classic Stable"
        assert driver.classic(f"C1 beat g{generation + 1}") == "0"


# -- for people


def test_people_are_told_who_left_and_that_the_group_rebalances() -> None:
    driver = mixed()
    log = driver.shard.coordinator.rebalances
    log.take_over()
    driver.told("A e-1")
    assert driver.classic("C1 join") == "g7"
    driver.classic("C1 lead g7 0-5")
    told = [each.view() for each in log.take_over()[0]]
    assert [(each.group_type, each.reason, each.member_id, each.left) for each in told] == [
        ("classic", "member left", "A", ("A",))
    ]


def test_people_are_told_of_an_upgrade() -> None:
    driver = MixedDriver(Classic("C1", "0-5"))
    driver.classic("'' join v=3")
    log = driver.shard.coordinator.rebalances
    driver.told("A e0 join")
    told = [each.view() for each in log.take_over()[0]]
    assert [(each.group_type, each.ended_ms) for each in told] == [("classic", None)], "it led nowhere"
    assert log.running[GROUP].view().reason == "member joined"
