"""Newcomers that have announced others, in a group that has members: they are taken up in one rebalance."""

from __future__ import annotations

import pytest

from actors.coordinator.groups.config import ANNOUNCED_WAIT_MS
from tests.support.coordination import Client, Driver, form, stable_group


def pair(driver: Driver) -> list[Client]:
    """A stable group of two static members, which announced no others."""
    return stable_group(driver, *(Client(driver, name, instance=name) for name in "ab"))


def newcomer(driver: Driver, name: str, announced: int) -> Client:
    client = Client(driver, name, instance=name)
    client.ask_join(expected_members=announced)
    return client


def test_members_that_are_quick_to_join_again_wait_for_all_newcomers() -> None:
    driver = Driver()
    members = pair(driver)
    generation = driver.group().generation_id
    c = newcomer(driver, "c", announced=4)
    for member in members:
        member.join()
    assert driver.group().all_joined
    assert c.join_answer is None
    d = newcomer(driver, "d", announced=4)
    assert {client.joined().generation_id for client in (*members, c, d)} == {generation + 1}


def test_one_that_does_not_come_is_waited_for_a_moment_only() -> None:
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced=4)
    driver.advance(500)
    for member in members:
        member.join()
    driver.advance(ANNOUNCED_WAIT_MS - 1)
    assert c.join_answer is None
    driver.advance(1)
    form(driver, (*members, c))


def test_the_wait_is_not_prolonged_by_one_that_comes() -> None:
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced=5)
    for member in members:
        member.join()
    driver.advance(ANNOUNCED_WAIT_MS - 1)
    d = newcomer(driver, "d", announced=5)
    driver.advance(1)
    form(driver, (*members, c, d))


def test_members_that_join_again_later_than_the_wait_are_waited_for_as_ever() -> None:
    driver = Driver()
    a, b = pair(driver)
    c = newcomer(driver, "c", announced=4)
    a.join()
    driver.advance(ANNOUNCED_WAIT_MS)
    b.heartbeat()
    assert c.join_answer is None
    b.join()
    driver.advance(ANNOUNCED_WAIT_MS)
    form(driver, (a, b, c))


def test_one_that_has_an_id_and_is_still_to_join_is_waited_for_beyond_the_moment() -> None:
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced=4)
    for member in members:
        member.join()
    d = Client(driver, "d")
    d.member_id = driver.answer(d.ask_join()).member_id
    driver.advance(ANNOUNCED_WAIT_MS)
    assert c.join_answer is None
    d.ask_join()
    form(driver, (*members, c, d))


def test_one_that_joins_beyond_the_moment_and_announces_others_does_not_begin_another_wait() -> None:
    """It would end with the rebalance timeout only: five minutes without an assignment for anybody."""
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced=5)
    for member in members:
        member.join()
    d = Client(driver, "d")
    d.member_id = driver.answer(d.ask_join()).member_id
    driver.advance(ANNOUNCED_WAIT_MS)
    d.ask_join(expected_members=5)
    form(driver, (*members, c, d))


@pytest.mark.parametrize("announced", [0, 1, 3])
def test_there_is_no_wait_where_all_have_come(announced: int) -> None:
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced)
    for member in members:
        member.join()
    form(driver, (*members, c))


def test_what_members_have_announced_once_does_not_count_in_later_rebalances() -> None:
    driver = Driver()
    members = pair(driver)
    c = newcomer(driver, "c", announced=4)
    for member in members:
        member.join()
    driver.advance(ANNOUNCED_WAIT_MS)
    form(driver, (*members, c))
    for client in (*members, c):
        client.ask_join(expected_members=4)
    form(driver, (*members, c))
