"""Groups without members become groups of the other type when somebody joins by the other protocol."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.groups.messages import ListedGroup, OffsetDeleteRequest
from tests.support.consumer_groups import GROUP, ConsumerDriver
from tests.support.coordination import Client, stable_group

WENT = ["x6", "x4", "x3", "2"]
"""The records by which an empty consumer group becomes an empty classic one."""


def empty_consumer_group() -> ConsumerDriver:
    """A consumer group that has had a member, and has an offset."""
    driver = ConsumerDriver()
    driver.join("A")
    driver.beat("A e-1")
    driver.commit_offset(GROUP, 7)
    return driver


def classic_client(driver: ConsumerDriver, name: str = "c", **fields: str) -> Client:
    return Client(driver, name, group_id=GROUP, **fields)  # type: ignore[arg-type]


def listed(driver: ConsumerDriver) -> list[tuple[str, str]]:
    return [(each.group_type, each.group_state) for each in driver.list_groups()]


@pytest.mark.conformance("K-E-01", "K-D-29")
def test_a_join_group_to_an_empty_consumer_group_makes_it_a_classic_group() -> None:
    driver = empty_consumer_group()
    at = len(driver.log)
    client = classic_client(driver)
    stable_group(driver, client)
    assert driver.written(at) == [*WENT, "2"], "the group, then its assignment"
    assert listed(driver) == [("classic", "Stable")]
    assert driver.offset(GROUP) == 7
    assert client.commit(8) == 0
    driver.fail_over()
    assert (listed(driver), driver.offset(GROUP)) == ([("classic", "Stable")], 8)
    assert client.heartbeat() == 0


@pytest.mark.conformance("K-E-01")
@pytest.mark.parametrize("version", [3, 5, 9])
@pytest.mark.parametrize("instance", [None, "i-1"])
def test_whoever_may_begin_a_classic_group_may_begin_it_there(version: int, instance: str | None) -> None:
    driver = empty_consumer_group()
    client = Client(driver, "c", group_id=GROUP, version=version, instance=instance)
    stable_group(driver, client)
    assert client.generation == 1, "it begins anew"
    assert driver.offset(GROUP) == 7


def test_an_empty_group_that_a_new_member_was_only_given_an_id_for_is_classic() -> None:
    driver = empty_consumer_group()
    at = len(driver.log)
    client = classic_client(driver)
    token = client.ask_join()
    assert driver.answer(token).error_code == 79
    assert driver.written(at) == WENT
    assert listed(driver) == [("classic", "Empty")]


@pytest.mark.parametrize("fields", [{"member_id": "c-1"}, {"protocol_type": ""}, {"protocols": ()}])
def test_a_join_that_no_empty_group_takes_leaves_a_consumer_group_as_it_was(fields: dict[str, object]) -> None:
    driver = empty_consumer_group()
    at = len(driver.log)
    answer = driver.answer(classic_client(driver).ask_join(**fields))
    assert answer.error_code == (25 if "member_id" in fields else 23)
    assert driver.written(at) == []
    assert listed(driver) == [("consumer", "Empty")]


def test_an_empty_consumer_group_stays_if_the_classic_one_was_not_written() -> None:
    driver = empty_consumer_group()
    before = list(driver.log)
    driver.holds = True
    client = classic_client(driver)
    token = client.ask_join()
    assert driver.answer(token) is None
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    driver.holds = False
    assert (driver.log, listed(driver)) == (before, [("consumer", "Empty")])
    stable_group(driver, client)
    assert listed(driver) == [("classic", "Stable")]


def test_who_waits_no_longer_is_told_and_the_group_is_classic_once_it_is_written() -> None:
    driver = empty_consumer_group()
    driver.holds = True
    token = classic_client(driver).ask_join()
    driver.advance(6_000)
    assert driver.answer(token).error_code == 15
    driver.release()
    assert listed(driver) == [("classic", "Empty")]
    driver.holds = False
    stable_group(driver, classic_client(driver))


def test_all_who_come_meanwhile_are_answered_by_the_classic_group() -> None:
    driver = empty_consumer_group()
    driver.holds = True
    first, second = classic_client(driver, "c"), classic_client(driver, "d")
    tokens = first.ask_join(), second.ask_join()
    late = driver.beat_later("B e1")
    assert [driver.answer(token) for token in (*tokens, late)] == [None] * 3
    driver.release()
    assert [driver.answer(token).error_code for token in tokens] == [79, 79]
    assert driver.answer(late).error_code == 69


def test_of_two_who_join_by_different_protocols_the_first_one_decides() -> None:
    driver = empty_consumer_group()
    driver.holds = True
    token, client = driver.beat_later("B e0 join"), classic_client(driver)
    client.ask_join()
    driver.release()
    assert driver.answer(token).error_code == 0
    assert listed(driver)[0][0] == "consumer"


def test_a_client_that_has_gone_is_not_asked_again() -> None:
    driver = empty_consumer_group()
    driver.holds = True
    token = classic_client(driver).ask_join()
    driver.shard.drop(lambda each: each == token)
    driver.release()
    driver.turn()
    assert driver.answer(token) is None
    assert listed(driver) == [("classic", "Empty")]


@pytest.mark.conformance("K-B-05", "K-E-01")
def test_an_id_that_was_given_out_does_not_keep_an_empty_group_classic() -> None:
    driver = ConsumerDriver()
    driver.commit_offset(GROUP, 7)
    client = classic_client(driver)
    client.ask_join()
    assert driver.told("A e0 join") == "e2 asg 0-5"
    assert listed(driver) == [("consumer", "Stable")]
    driver.advance(20_000)
    driver.beat("A e2")
    assert (driver.stands(), driver.offset(GROUP)) == ("2/2 Stable", 7), "the id's time is over"


@pytest.mark.conformance("K-E-01", "K-B-05", "K-D-29", "K-B-07")
def test_a_group_goes_from_type_to_type_and_keeps_its_offsets() -> None:
    driver = empty_consumer_group()
    for _ in range(3):
        client = classic_client(driver)
        stable_group(driver, client)
        assert client.generation == 1
        driver.call(LeaveGroupRequest(GROUP, (LeavingMember(client.member_id, None),)))
        assert listed(driver) == [("classic", "Empty")]
        driver.fail_over()
        driver.advance(1_100)
        assert driver.told("A e0 join") == "e2 asg 0-5"
        assert driver.told("A e-1") == "e-1"
        driver.fail_over()
        assert listed(driver) == [("consumer", "Empty")]
    assert driver.offset(GROUP) == 7


@pytest.mark.conformance("K-E-40", "K-E-43", "K-D-26", "K-D-27")
def test_tools_see_the_type_that_a_group_has_now() -> None:
    driver = empty_consumer_group()
    assert driver.described().error_code == 0
    assert (driver.describe(GROUP).error_code, driver.describe(GROUP).group_state) == (0, "Dead")
    client = classic_client(driver)
    stable_group(driver, client)
    assert driver.described().error_code == 69
    assert driver.describe(GROUP).group_state == "Stable"
    assert driver.list_groups(types=("classic",)) == (ListedGroup(GROUP, "consumer", "Stable", "classic"),)
    assert driver.call(OffsetDeleteRequest(GROUP, (("orders", 0),))).partitions == (("orders", 0, 86),)
    driver.call(LeaveGroupRequest(GROUP, (LeavingMember(client.member_id, None),)))
    assert driver.answer(driver.delete_group(GROUP)).results == ((GROUP, 0),)
    assert (driver.list_groups(), driver.offset(GROUP)) == ((), -1)
    driver.fail_over()
    assert driver.list_groups() == ()


def test_expressions_of_a_consumer_group_end_with_it() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 R names= regex=fo+ own=[]")
    driver.resolve()
    driver.beat("A e-1")
    stable_group(driver, classic_client(driver))
    assert driver.told("B e0 join", "other") == "e2 asg 0-5"
    driver.resolve()
    assert listed(driver)[0] == ("classic", "Stable")
