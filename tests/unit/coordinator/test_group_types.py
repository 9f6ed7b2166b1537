"""A second type of group goes through all that a shard does for groups, and none of it knows the type."""

from __future__ import annotations

from typing import Any

import pytest

from actors.coordinator.classic.messages import HeartbeatRequest, LeaveGroupRequest, LeavingMember, SyncGroupRequest
from actors.coordinator.classic.type import Classic
from actors.coordinator.group_types import group_shard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.group import IllegalTransitionError
from actors.coordinator.groups.history import PlainRebalance, RebalancedGroup, RebalanceLog
from actors.coordinator.groups.messages import MaySleepRequest, MaySleepResponse
from actors.coordinator.groups.reports import WHOLE
from actors.coordinator.records import RecordType, RecordTypes
from actors.coordinator.turn import Now
from tests.support.coordination import Client, Driver, stable_group
from tests.support.tiny_groups import SESSION_MS, TYPES, Beat, DescribeTiny, Enter, Leave, Tiny, TinyMember

DAY_MS = 86_400_000


def tiny(*members: str, group_id: str = "s", driver: Driver | None = None) -> Driver:
    """A driver with a tiny group of these members."""
    driver = driver or Driver(types=TYPES)
    for member in members:
        assert driver.call(Enter(group_id, member)).error_code == 0
    return driver


def members(driver: Driver, group_id: str = "s") -> tuple[str, ...]:
    found: tuple[str, ...] = driver.call(DescribeTiny(group_id)).members
    return found


def commit(driver: Driver, member: str, offset: int = 1) -> int:
    token = driver.commit_offset("s", offset, generation=0, member_id=member)
    error: int = driver.answer(token).error_codes[0]
    return error


def test_it_is_loaded_with_its_members_and_offsets() -> None:
    driver = tiny("a", "b")
    assert commit(driver, "a", 7) == 0
    driver.call(Leave("s", "b"))
    driver.fail_over()
    assert members(driver) == ("a",)
    assert driver.call(DescribeTiny("s")).epoch == 2
    assert driver.offset("s") == 7
    driver.advance(SESSION_MS)
    assert members(driver) == (), "a loaded member has one session to be heard"


def test_answers_wait_for_the_log_and_nothing_is_left_of_what_it_refuses() -> None:
    driver = Driver(types=TYPES)
    driver.holds = True
    token = driver.ask(Enter("s", "a"))
    assert (driver.answer(token), driver.shard.coordinator.parked()["enter"]) == (None, 1)
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    assert driver.list_groups() == ()
    assert driver.call(DescribeTiny("s")).error_code == 69


def test_its_members_are_expelled_unless_they_are_heard_and_a_late_turn_gives_them_time_back() -> None:
    driver = tiny("a", "b")
    driver.advance(SESSION_MS - 1)
    assert driver.call(Beat("s", "a")).error_code == 0
    driver.advance(1)
    assert members(driver) == ("a",)
    driver.jump(SESSION_MS + 5_000)
    assert members(driver) == ("a",), "this process stood still"


def test_it_is_listed_with_its_type() -> None:
    driver = tiny("a")
    stable_group(driver, Client(driver, "c"))
    rows = {(each.group_id, each.group_type, each.group_state) for each in driver.list_groups()}
    assert rows == {("s", "tiny", "Open"), ("g", "classic", "Stable")}
    assert [each.group_id for each in driver.list_groups(types=("Tiny",))] == ["s"]
    assert [each.group_id for each in driver.list_groups(states=("open",))] == ["s"]
    assert driver.shard.coordinator.group_counts() == {"Open": 1, "Stable": 1}
    assert driver.shard.coordinator.group_counts_by_type() == {"tiny": {"Open": 1}, "classic": {"Stable": 1}}
    status = driver.shard.coordinator.group_status("s", driver.now)
    assert status is not None
    assert (status.state, status.epoch, status.awaited_members) == ("Open", 1, ())
    assert (status.group_type, status.members) == ("tiny", 1)


def test_its_rebalances_are_told_with_what_all_types_tell() -> None:
    driver = tiny("a", "b")
    driver.call(Leave("s", "a"))
    driver.advance(SESSION_MS)
    told = [each.view() for each in driver.shard.coordinator.rebalances.take_over()[0]]
    assert [(each.reason, each.member_id, each.members, each.epoch) for each in told] == [
        ("member entered", "a", 1, 1),
        ("member entered", "b", 2, 2),
        ("member left", "a", 1, 2),
        ("member expelled", "b", 0, 2),
    ]
    assert [(each.came, each.left, each.expelled) for each in told] == [
        (("a",), (), ()),
        (("b",), (), ()),
        ((), ("a",), ()),
        ((), (), ("b",)),
    ]
    assert {(each.group_type, each.group_id, each.state, each.epoch_name) for each in told} == {
        ("tiny", "s", "Open", "epoch")
    }
    assert [[phase.name for phase in each.phases] for each in told] == [["rebalance"]] * 4


def test_a_rebalance_without_phases_waits_for_members_and_ends_once() -> None:
    log, about = RebalanceLog(), RebalancedGroup("tiny", "s", 3, "Open")
    first = PlainRebalance(about, "why", "a", TinyMember("a", client_id="c"), Now(0, 100))
    log.begin(first)
    first.wait_ended(TinyMember("b"), Now(40, 140))
    first.wait_ended(TinyMember("c"), Now(70, 170))
    log.came("s", TinyMember("d"))
    assert first.view().phases == ((WHOLE, 100, None),)
    log.went("s", TinyMember("e"), expelled=False)
    log.begin(PlainRebalance(about, "next", "e", None, Now(80, 180)), cause_is_there=False)
    log.complete("s", Now(90, 190))
    (broken, next_), _ = log.take_over()
    assert [(each.member_id, each.phase, each.ms) for each in broken.view().waited] == [
        ("c", WHOLE, 70),
        ("b", WHOLE, 40),
    ]
    assert (broken.view().came, broken.view().ended_ms, next_.view().ended_ms) == (("d",), None, 190)
    with pytest.raises(IllegalTransitionError):
        first.complete(Now(99, 199))


def test_describe_groups_shows_a_group_that_does_not_exist() -> None:
    described = tiny("a").describe("s")
    assert (described.error_code, described.group_state, described.members) == (0, "Dead", ())


def test_it_is_deleted_when_it_is_empty() -> None:
    driver = tiny("a")
    commit(driver, "a")
    assert driver.answer(driver.delete_group("s")).results == (("s", 68),)
    driver.call(Leave("s", "a"))
    assert driver.answer(driver.delete_group("s")).results == (("s", 0),)
    driver.fail_over()
    assert driver.list_groups() == ()
    assert driver.offset("s") == -1


def test_one_whose_tombstone_could_not_be_written_is_there_again() -> None:
    driver = tiny("a")
    driver.call(Leave("s", "a"))
    driver.holds = True
    token = driver.delete_group("s")
    assert driver.call(Beat("s", "a")).error_code == 15, "it is being deleted"
    driver.refuse(19)
    assert driver.answer(token).results == (("s", 15),)
    assert [each.group_state for each in driver.list_groups()] == ["Empty"]


def test_it_expires_with_its_offsets_when_nobody_is_in_it() -> None:
    driver = tiny("a")
    commit(driver, "a")
    for _ in range(8 * DAY_MS // 3_600_000):
        driver.call(Beat("s", "a"))
        driver.jump(3_600_000)
        driver.call(Beat("s", "a"))
    assert driver.offset("s") == 1, "a member is there"
    driver.call(Leave("s", "a"))
    driver.advance(8 * DAY_MS)
    assert driver.offset("s") == -1
    assert driver.list_groups() == ()


def test_offsets_of_topics_that_its_members_read_are_not_deleted_by_a_request() -> None:
    driver = tiny("a")
    commit(driver, "a")
    assert driver.delete_offsets("s", ("orders", 0)).partitions == (("orders", 0, 86),)
    driver.call(Leave("s", "a"))
    assert driver.delete_offsets("s", ("orders", 0)).partitions == (("orders", 0, 0),)
    assert [each.group_id for each in driver.list_groups()] == ["s"], "its record keeps it"


def test_a_shard_sleeps_only_while_it_has_no_members() -> None:
    driver = tiny("a")

    def asked() -> MaySleepResponse:
        token = driver.ask(MaySleepRequest())
        driver.advance(100)
        answer: MaySleepResponse = driver.answer(token)
        return answer

    commit(driver, "a")
    assert asked().busy == "group s is Open"
    driver.call(Leave("s", "a"))
    answer = asked()
    assert (answer.busy, answer.topics) == ("", ("orders",))
    assert [(each.group_id, each.group_type, each.group_state) for each in answer.groups] == [("s", "tiny", "Empty")]


@pytest.mark.conformance("K-E-29")
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (HeartbeatRequest("s", 0, "a"), 25),
        (SyncGroupRequest("s", 0, "a", api_version=4), 25),
        (LeaveGroupRequest("s", (LeavingMember("a"),), 2), 25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_classic_request_to_it_gets_the_error_of_an_unknown_member(request_: Any, error: int) -> None:
    assert tiny("a").call(request_).error_code == error


@pytest.mark.conformance("K-E-29")
def test_a_classic_member_cannot_join_it_nor_can_its_members_enter_a_classic_group() -> None:
    driver = tiny("a")
    token = Client(driver, "c", group_id="s").ask_join()
    assert driver.answer(token).error_code == 23
    stable_group(driver, Client(driver, "c"))
    assert driver.call(Enter("g", "a")).error_code == 23


def test_while_the_shard_loads_each_type_answers_in_its_own_way() -> None:
    driver = Driver(types=TYPES, loaded=False)
    driver.shard.start_loading(0)
    assert driver.call(Beat("s", "a")).error_code == 0
    assert driver.call(Enter("s", "a")).error_code == 14


def test_a_shard_that_does_not_know_the_type_counts_its_records_and_keeps_the_offsets() -> None:
    driver = tiny("a")
    commit(driver, "a", 5)
    older = Driver(log=driver.log)
    assert older.offset("s") == 5
    assert older.shard.metrics.unknown_records == 2


def test_a_record_of_it_that_cannot_be_read_fails_the_load() -> None:
    driver = tiny("a")
    bad = [(key, b"?" if key[:2] == b"\0\x66" else value) for key, value in driver.log]
    shard = Driver(log=bad, types=TYPES).shard
    assert (str(shard.state), shard.failure) == ("Failed", "member a has the value b'?'")


def test_two_types_cannot_have_the_same_records_or_requests() -> None:
    record = RecordType(7, lambda key, value: None)
    with pytest.raises(ValueError, match="two record types have the number 7"):
        RecordTypes([record, record])
    with pytest.raises(ValueError, match="two record types have the number 101"):
        group_shard(CoordinatorConfig(), str, (Classic(), Tiny(), Tiny()))
    with pytest.raises(ValueError, match=r"two types of groups answer .*Enter"):
        group_shard(CoordinatorConfig(), str, (Tiny(), TinyWithoutRecords()))


class TinyWithoutRecords(Tiny):
    name = "other"
    record_types = ()
