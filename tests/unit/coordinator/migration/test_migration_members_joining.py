"""A classic member joins a consumer group."""

from __future__ import annotations

from uuid import UUID

import pytest

from actors.coordinator.consumer.membership import new_member_id
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from tests.support.classic_members import MixedDriver, join_request, mixed
from tests.support.consumer_groups import BAR, FOO, GROUP


@pytest.mark.conformance("K-E-46", "K-E-01")
def test_where_nothing_migrates_no_classic_member_joins_a_group_that_has_members() -> None:
    driver = mixed()
    driver.set_settings(ConsumerSettings(migration_policy="disabled"))
    at = len(driver.log)
    assert driver.classic("C1 join") == "23"
    assert driver.classic("'' join v=3") == "23"
    assert driver.classic("C1 beat g6") == "0", "those who are there stay, until they have to join"
    assert driver.classic("C1 sync g6") == "0-2"
    assert driver.written(at) == []
    driver.told("B e0 join")
    assert driver.classic("C1 beat g6") == "27"
    assert driver.classic("C1 join") == "23"


@pytest.mark.conformance("K-E-01")
@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade"])
def test_under_every_other_policy_a_classic_member_joins(policy: str) -> None:
    driver = MixedDriver(policy=policy)
    driver.join("A")
    driver.advance(1_100)
    assert driver.classic("D join") == "g3"


@pytest.mark.conformance("K-E-08", "K-B-49")
def test_a_full_group_takes_those_whom_it_knows_alone() -> None:
    driver = mixed()
    driver.set_settings(ConsumerSettings(max_size=2))
    assert driver.classic("D join") == "81"
    assert driver.classic("'' join v=3") == "81"
    assert driver.classic("'' join as=i-2") == "81"
    assert driver.classic("C1 join") == "g6"
    assert driver.classic("'' join as=i-1") == "g6", "it comes in its own place"


@pytest.mark.conformance("K-E-09")
@pytest.mark.parametrize("text", ["D join type=connect", "D join by=sticky", "D join by=", "C1 join type=connect"])
def test_protocols_have_to_go_with_those_of_the_others(text: str) -> None:
    driver = mixed()
    at = len(driver.log)
    assert driver.classic(text) == "23"
    assert driver.written(at) == []


@pytest.mark.conformance("K-E-09")
def test_a_subscription_has_to_be_readable() -> None:
    driver = mixed()
    request = join_request("D", {})
    broken = request.__class__(**{**_fields(request), "protocols": (("range", b"\0"),)})
    assert driver.call(broken).error_code == 23


def _fields(request: object) -> dict[str, object]:
    return {name: getattr(request, name) for name in type(request).__slots__}  # type: ignore[attr-defined]


@pytest.mark.conformance("K-E-09")
def test_a_protocol_has_to_be_supported_by_all_classic_members() -> None:
    driver = mixed()
    assert driver.classic("D join by=sticky,range") == "g7"
    assert driver.classic("E join by=sticky") == "23", "C1 does not know it"
    assert driver.classic("C1 join by=range,sticky") == "g7"
    assert driver.classic("E join by=sticky") == "g7"
    assert driver.classic("C1 join by=range") == "23", "E does not know it, and C1 itself counts"


@pytest.mark.conformance("K-E-09")
def test_the_first_classic_member_may_have_any_protocol() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.advance(1_100)
    assert driver.classic("D join by=whatever") == "g3"


@pytest.mark.conformance("K-E-10", "K-E-14")
def test_a_new_member_is_given_an_id_and_nothing_is_remembered_of_it() -> None:
    driver = mixed()
    at = len(driver.log)
    answer = driver.answer(driver.ask_classic("'' join"))
    assert (answer.error_code, bool(answer.member_id)) == (79, True)
    assert (driver.written(at), set(driver.committed().metadata)) == ([], {"A", "C1"})
    assert driver.classic(f"{answer.member_id} join") == "g7"
    assert answer.member_id in driver.committed().metadata


def test_an_id_that_is_made_begins_with_no_hyphen() -> None:
    """Or tools would take it for an option."""
    ids = iter((str(UUID(int=62 << 122)), str(UUID(int=0))))
    assert new_member_id(lambda: next(ids)) == "A" * 22


@pytest.mark.conformance("K-E-10", "K-E-11")
def test_an_old_client_is_let_in_without_one() -> None:
    driver = mixed()
    answer = driver.answer(driver.ask_classic("'' join v=3"))
    assert (answer.error_code, len(answer.member_id)) == (0, 22), "it has the form of those that clients make"
    assert answer.member_id in driver.committed().metadata


@pytest.mark.conformance("K-E-11")
def test_any_id_is_good_for_a_new_member_without_an_instance_id() -> None:
    driver = mixed()
    assert driver.classic("whatever join") == "g7"
    assert driver.classic(f"{'x' * 40_000} join") == "25", "if it fits a record's key"


@pytest.mark.conformance("K-E-11")
def test_who_was_expelled_and_still_has_partitions_hears_of_it_before_it_joins_again() -> None:
    """By 25 it gives them up. Under its old id it would read them until it syncs, while others have them."""
    driver = mixed()
    at = len(driver.log)
    assert driver.classic("gone join own=0") == "25"
    assert driver.written(at) == []
    assert driver.classic("gone join") == "g7"
    assert driver.classic("C1 join own=0") != "25", "who is a member says what it has"


@pytest.mark.conformance("K-E-11")
def test_a_static_member_that_has_an_id_has_to_be_known_by_it() -> None:
    driver = mixed()
    assert driver.classic("D join as=i-2") == "25"
    assert driver.classic("D join as=i-1") == "82"
    assert driver.classic("C1 join as=i-1") == "g6"
    answer = driver.answer(driver.ask_classic("'' join as=i-2"))
    assert (answer.error_code, len(answer.member_id)) == (0, 22), "it does not begin with the instance id"


@pytest.mark.conformance("K-E-14", "K-E-16")
def test_a_join_is_answered_at_once_and_without_a_leader() -> None:
    driver = mixed()
    driver.holds = True
    token = driver.ask_classic("D join by=range,sticky")
    assert driver.answer(token) is None
    driver.release()
    answer = driver.answer(token)
    assert (answer.error_code, answer.generation_id, answer.member_id) == (0, 7, "D")
    assert (answer.protocol_type, answer.protocol_name, answer.leader) == ("consumer", "range", "")
    assert (answer.members, answer.skip_assignment) == ((), False)


@pytest.mark.conformance("K-E-12", "K-C-34")
def test_what_a_classic_member_says_of_itself_is_kept() -> None:
    driver = mixed(topics=(FOO, BAR))
    at = len(driver.log)
    assert driver.classic("C1 join rack=r9 client=d session=7000 rebalance=8000 names=foo,bar") == "g7"
    member = driver.committed().metadata["C1"]
    assert (member.rack_id, member.client_id, member.rebalance_timeout_ms) == ("r9", "d", 8_000)
    assert member.classic is not None
    assert member.classic.session_timeout_ms == 7_000
    assert driver.written(at)[:2] == ["5(C1)", "3(7)"]
    driver.classic("C1 join names=foo,bar")
    assert driver.committed().metadata["C1"].rack_id == "r9", "a rack that is not said stays"


@pytest.mark.conformance("K-E-12", "K-E-13")
def test_a_static_member_that_comes_back_as_a_classic_one_has_no_expression_and_keeps_its_assignor() -> None:
    driver = MixedDriver()
    driver.join("B")
    driver.advance(1_100)
    driver.beat("A e0 R names= regex=fo+ own=[] as=i-1 by=range")
    driver.resolve()
    driver.settle()
    driver.advance(1_100)
    at, before = len(driver.log), driver.committed().group_epoch
    answer = driver.answer(driver.ask_classic("'' join as=i-1"))
    member = driver.committed().metadata[answer.member_id]
    assert (member.regex, member.names, member.assignor) == ("", {"foo"}, "range")
    assert driver.written(at)[6:9] == [f"5({answer.member_id})", "x16(fo+)", f"3({before + 1})"]
    assert driver.told("A e3 as=i-1") == "82"


@pytest.mark.conformance("K-E-13", "K-B-50")
def test_across_protocols_a_static_member_is_replaced_without_having_left() -> None:
    driver = mixed()
    assert driver.told("B e0 join as=i-1") == "e6 asg 0-2"
    assert driver.told("B2 e0 join as=i-1") == "111", "as between two of the new protocol"
    answer = driver.answer(driver.ask_classic("'' join as=i-1"))
    assert (answer.error_code, answer.generation_id) == (0, 6)
    assert driver.classic(f"{answer.member_id} sync g6 as=i-1") == "0-2"
    again = driver.answer(driver.ask_classic("'' join as=i-1"))
    assert again.error_code == 0, "and as between two classic ones"
    assert driver.classic(f"{answer.member_id} beat g6 as=i-1") == "82"
    assert driver.stands() == "6/6 Stable", "nothing has moved"


@pytest.mark.conformance("K-E-17")
def test_a_member_that_has_given_up_everything_holds_nobody_up() -> None:
    driver = mixed()
    assert driver.told("B e0 join") == "e7 asg -"
    assert driver.classic("C1 join own=[]") == "g7"
    assert driver.told("B e7") == "e7 asg 2"


@pytest.mark.conformance("K-E-12", "K-E-17")
def test_a_subscription_of_the_first_version_says_nothing_of_what_is_owned() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 join own=0-2 embedded=0") == "g7"
    assert driver.member("C1").endswith("| -")


@pytest.mark.conformance("K-E-18")
def test_a_member_that_keeps_what_it_can_is_given_its_old_generation_until_it_has_given_back_the_rest() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 join own=0-2") == "g6"
    assert driver.classic("C1 beat g6") == "27"
    assert driver.classic("C1 sync g6") == "0-1", "without what it has to give back"
    assert driver.told("B e7") == "e7"
    assert driver.classic("C1 join own=0-1") == "g7"
    assert driver.told("B e7") == "e7 asg 2"


@pytest.mark.conformance("K-E-19")
def test_a_member_that_joins_again_raises_nothing_unless_something_has_changed() -> None:
    driver = mixed()
    at = len(driver.log)
    assert driver.classic("C1 join") == "g6"
    assert (driver.written(at), driver.stands()) == ([], "6/6 Stable")
    driver.set_topics(Topic(FOO.topic_id, "foo", 8))
    assert driver.classic("C1 join own=0-2") == "g7"
    assert driver.stands() == "7/7 Reconciling"


@pytest.mark.conformance("K-B-24", "K-B-127")
def test_a_join_computes_a_target_when_the_interval_is_over() -> None:
    driver = mixed()
    assert driver.told("B e0 join") == "e7 asg -"
    assert driver.classic("D join") == "g7"
    assert driver.stands() == "8/7 Assigning"
    driver.advance(1_000)
    assert driver.classic("D join") == "g8"
    assert driver.stands() == "8/8 Reconciling"


@pytest.mark.conformance("K-E-15")
def test_a_join_that_was_not_written_is_refused() -> None:
    driver = mixed()
    driver.holds = True
    token = driver.ask_classic("D join")
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    assert "D" not in driver.consumer().members
    assert driver.stands() == "6/6 Stable"


def test_a_group_that_is_being_deleted_takes_no_classic_member() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.beat("A e-1")
    driver.holds = True
    driver.delete_group(GROUP)
    assert driver.classic("'' join v=3") == "15"
