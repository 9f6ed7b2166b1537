"""Classic members of consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and commits."""

from __future__ import annotations

from uuid import UUID

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.consumer.membership import new_member_id
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from tests.support.classic_members import REBALANCE_MS, SESSION_MS, Classic, MixedDriver, assigned, join_request
from tests.support.consumer_groups import BAR, FOO, GROUP, beat_request


def mixed(**fields: object) -> MixedDriver:
    """C1 (classic, static as i-1) has 0-2 and A has 3-5, all stable at 6."""
    driver = MixedDriver(Classic("C1", "0-5", group_instance_id="i-1"), **fields)  # type: ignore[arg-type]
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.classic("C1 join") == "g6"
    assert driver.classic("C1 sync g6") == "0-2"
    assert driver.told("A e6") == "e6 asg 3-5"
    driver.advance(1_100)
    return driver


def of_policy(policy: str, **fields: object) -> MixedDriver:
    """C1 and C2 alone in a consumer group that does not go back; C1 has 0-2, C2 3-5, at 6."""
    driver = MixedDriver(Classic("C1", "0-2"), Classic("C2", "3-5"), policy=policy, **fields)  # type: ignore[arg-type]
    driver.beat("A e0 R names= own=[]")
    driver.beat("A e-1")
    return driver


# -- JoinGroup


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


# -- SyncGroup


@pytest.mark.conformance("K-E-20", "K-E-21", "K-E-22", "K-E-23")
def test_who_asks_for_its_assignment_has_to_be_a_classic_member_in_its_generation() -> None:
    driver = mixed()
    assert driver.classic("D sync g6") == "25"
    assert driver.classic("C1 sync g6 as=i-2") == "25"
    assert driver.classic("A sync g6 as=i-1") == "82"
    assert driver.classic("A sync g6") == "25", "a member of the new protocol"
    assert [driver.classic(f"C1 sync g{each}") for each in (5, 7)] == ["22", "22"]
    assert driver.classic("C1 sync g6 type=connect") == "23"
    assert driver.classic("C1 sync g6 by=sticky") == "23"
    assert driver.classic("C1 sync g6 v=4") == "0-2", "which need not say them"


@pytest.mark.conformance("K-E-24")
def test_an_assignment_that_is_old_is_not_given_out() -> None:
    driver = mixed()
    driver.told("B e0 join")
    assert driver.classic("C1 sync g6") == "27"


@pytest.mark.conformance("K-E-24", "K-E-26", "K-E-45")
def test_classic_members_go_by_the_assignment_epoch() -> None:
    driver = mixed()
    driver.told("B e0 join")
    driver.classic("C1 join")
    assert driver.told("D e0 join") == "e7 asg -", "the interval is not over"
    assert driver.stands() == "8/7 Assigning"
    assert driver.classic("C1 beat g7") == "0"
    assert driver.classic("C1 sync g7") == "0-1"
    driver.advance(1_100)
    driver.told("A e6")
    assert driver.stands() == "8/8 Reconciling"
    assert driver.classic("C1 beat g7") == "27"


@pytest.mark.conformance("K-E-25")
@pytest.mark.parametrize("version", [0, 1, 2, 3, 7])
def test_an_assignment_is_told_in_the_version_that_the_member_speaks(version: int) -> None:
    driver = mixed()
    driver.classic(f"C1 join embedded={version}")
    answer = driver.answer(driver.ask_classic("C1 sync g6"))
    assert answer.assignment == assigned("0-2", version=min(version, 3))
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_an_assignment_that_a_member_sends_is_not_looked_at() -> None:
    driver = mixed()
    assert driver.classic("C1 lead g6 0-5") == "0-2"
    assert driver.member("C1").endswith("0-2@5 | -")


# -- Heartbeat


@pytest.mark.conformance("K-E-20", "K-E-21", "K-E-22", "K-E-26")
def test_who_is_heard_has_to_be_a_classic_member_in_its_generation() -> None:
    driver = mixed()
    for busy in (False, True):
        driver.holds = busy
        tokens = [
            driver.ask_classic(each)
            for each in ("D beat g6", "C1 beat g6 as=i-2", "A beat g6 as=i-1", "A beat g6", "C1 beat g5", "C1 beat g6")
        ]
        if not busy:
            driver.ask(beat_request("B e0 join"))
        driver.release()
        assert [driver.shown_classic(driver.answer(each)) for each in tokens][:5] == ["25", "25", "82", "25", "22"]


@pytest.mark.conformance("K-E-26", "K-E-27")
def test_who_waits_for_what_others_hold_is_told_to_join_when_all_of_it_is_free() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.advance(1_100)
    assert driver.classic("D join") == "g3"
    assert driver.classic("D sync g3") == "-"
    assert driver.classic("D beat g3") == "0", "it would gain nothing"
    driver.told("A e2")
    assert driver.classic("D beat g3") == "0"
    driver.told("A e2 own=0-2")
    assert driver.classic("D beat g3") == "27"
    assert driver.classic("D join") == "g3"
    assert driver.classic("D sync g3") == "3-5"
    assert driver.classic("D beat g3") == "0"


@pytest.mark.conformance("K-E-26")
def test_a_heartbeat_is_a_sign_of_life_also_if_it_is_told_to_join() -> None:
    driver = mixed()
    driver.told("B e0 join")
    for _ in range(4):
        driver.advance(SESSION_MS - 2_000)
        assert driver.classic("C1 beat g6") == "27"
    driver.advance(SESSION_MS + 1_000)
    assert driver.classic("C1 beat g6") == "25"


@pytest.mark.conformance("K-A-49")
def test_a_refused_heartbeat_of_a_classic_member_is_no_sign_of_life() -> None:
    driver = mixed()
    driver.advance(SESSION_MS - 1_200)
    assert driver.classic("C1 beat g5") == "22"
    assert "C1" in driver.committed().metadata
    driver.advance(1_000)
    assert "C1" not in driver.committed().metadata


def test_a_classic_member_is_not_expelled_because_nothing_commits() -> None:
    driver = mixed()
    driver.holds = True
    driver.ask(beat_request("B e0 join"))
    driver.advance(6_000)
    token = driver.ask_classic("C1 beat g6")
    assert driver.shown_classic(driver.answer(token)) == "15"
    driver.advance(SESSION_MS - 1_000)
    driver.holds = False
    driver.release()
    assert "C1" in driver.committed().metadata


@pytest.mark.conformance("K-E-45", "K-E-26")
def test_in_a_group_of_classic_members_alone_their_heartbeats_have_the_target_computed() -> None:
    driver = of_policy("upgrade")
    assert driver.type_of() == "consumer Assigning"
    driver.classic("C1 join")
    driver.classic("C2 join")
    driver.advance(1_100)
    driver.classic("C1 leave")
    assert driver.stands().endswith("Assigning")
    driver.advance(1_100)
    at = len(driver.log)
    generation = driver.committed().current_of("C2").epoch
    assert driver.classic(f"C2 beat g{generation}") == "27"
    epoch = driver.committed().group_epoch
    assert driver.written(at) == ["7(C2: 0-5)", f"6({epoch})"]
    assert driver.classic("C2 join") == f"g{epoch}"
    assert driver.classic(f"C2 sync g{epoch}") == "0-5", "all of it has an owner"
    assert driver.classic(f"C2 beat g{epoch}") == "0"
    assert driver.stands().endswith("Stable")


@pytest.mark.conformance("K-E-45", "K-B-122")
def test_in_a_group_of_classic_members_alone_the_interval_holds_too() -> None:
    driver = of_policy("upgrade")
    driver.classic("C1 join")
    driver.classic("C2 join")
    driver.classic("C1 leave")
    generation = driver.committed().current_of("C2").epoch
    assert driver.classic(f"C2 beat g{generation}") == "0"
    driver.advance(1_100)
    assert driver.classic(f"C2 beat g{generation}") == "27"


def test_in_a_group_of_classic_members_alone_their_heartbeats_notice_topics() -> None:
    driver = of_policy("upgrade")
    driver.classic("C1 join")
    driver.classic("C2 join")
    driver.advance(1_100)
    generation = driver.committed().current_of("C2").epoch
    assert driver.classic(f"C2 beat g{generation}") == "0"
    driver.set_topics(Topic(FOO.topic_id, "foo", 8))
    assert driver.classic(f"C2 beat g{generation}") == "27"
    assert driver.committed().group_epoch == driver.committed().assignment_epoch


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


@pytest.mark.conformance("K-E-15")
def test_a_join_that_was_not_written_is_refused() -> None:
    driver = mixed()
    driver.holds = True
    token = driver.ask_classic("D join")
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    assert "D" not in driver.consumer().members
    assert driver.stands() == "6/6 Stable"


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


# -- commits


@pytest.mark.conformance("K-E-31", "K-D-05", "K-D-15")
def test_a_classic_member_commits_and_fetches_by_its_generation() -> None:
    driver = mixed()
    assert driver.commits("C1", 6, "0", version=8) == [0]
    assert driver.commits("C1", 5, "0", version=8) == [0], "it has held it since"
    assert driver.commits("C1", 5, "3") == [22]
    assert driver.commits("C1", 7, "0") == [22]
    driver.told("B e0 join")
    driver.classic("C1 join own=0-2")
    assert driver.commits("C1", 6, "2") == [0], "while it has to give it back"


# -- while the shard is not ready


def test_until_topics_are_known_classic_members_are_answered_as_while_the_shard_loads() -> None:
    driver = mixed()
    driver.shard.unload()
    driver.shard.start_loading(1, driver.now)
    driver.shard.load(driver.log)
    driver.shard.finish_loading(driver.now, len(driver.log))
    assert driver.classic("C1 beat g6") == "0"
    assert driver.classic("C1 sync g6") == "27"
    assert driver.classic("C1 join") == "14"
    assert driver.answer(driver.ask_classic("C1 leave")).error_code == 15


def test_a_group_that_is_being_deleted_takes_no_classic_member() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.beat("A e-1")
    driver.holds = True
    driver.delete_group(GROUP)
    assert driver.classic("'' join v=3") == "15"
