"""Five stories told from beginning to end, with the times at which things happen."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.config import CoordinatorConfig
from tests.support.coordination import Client, Driver, subscription

DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=3_000)


class Story:
    """Members A and B, both S=10000 and R=60000, and a clock counted from 0."""

    def __init__(self) -> None:
        self.driver = Driver(DELAY)
        self.start = self.driver.now.monotonic_ms
        self.a = Client(self.driver, "A")
        self.b = Client(self.driver, "B")

    def at(self, ms: int) -> None:
        self.driver.advance(self.start + ms - self.driver.now.monotonic_ms)

    def due(self, member: Client) -> int:
        due_ms = self.driver.group().members[member.member_id].session.due_ms
        assert due_ms is not None
        return due_ms - self.start

    def first_two_members(self) -> None:
        """Trace 1."""
        driver, a, b, group = self.driver, self.a, self.b, self.driver.group
        answer = driver.answer(a.ask_join())
        assert answer.error_code == 79
        a.member_id = answer.member_id
        assert (driver.state(), list(group().pending_joins)) == ("Empty", [a.member_id])
        assert isinstance(GROUP_RECORDS.decode(*driver.log[-1]), GroupPut)
        self.at(5)
        a.ask_join()
        assert (driver.state(), group().generation_id) == ("PreparingRebalance", 0)
        assert group().leader_id == a.member_id
        delay = group().initial_delay
        assert delay is not None
        assert delay.left_ms == 57_000
        self.at(900)
        b.join()
        assert delay.member_came
        self.at(3_005)
        assert a.join_answer is None
        assert driver.shard.next_deadline() == self.start + 6_005
        self.at(6_004)
        assert b.join_answer is None
        self.at(6_005)
        a.joined(), b.joined()
        assert (a.joined().generation_id, a.joined().leader) == (1, a.member_id)
        assert [m.member_id for m in a.joined().members] == [a.member_id, b.member_id]
        assert (b.joined().generation_id, b.joined().leader, b.joined().members) == (1, a.member_id, ())
        assert group().pending_sync == {a.member_id, b.member_id}
        assert group().sync_timer.due_ms == self.start + 66_005
        self.at(6_010)
        b.ask_sync()
        assert group().pending_sync == {a.member_id}
        self.at(6_020)
        driver.holds = True
        a.ask_sync({a.member_id: b"x", b.member_id: b"y"})
        assert driver.state() == "CompletingRebalance"
        self.at(6_030)
        driver.holds = False
        driver.release()
        assert [a.synced(), b.synced()] == [b"x", b"y"]
        assert driver.state() == "Stable"
        assert [self.due(a), self.due(b)] == [16_030, 16_030]


def test_the_first_two_members() -> None:
    story = Story()
    story.first_two_members()
    assert story.driver.describe("g").group_state == "Stable"


@pytest.mark.conformance("B-11", "B-16", "C-05", "C-06")
def test_a_newcomer_in_a_stable_group() -> None:
    story = Story()
    story.first_two_members()
    driver, a, b = story.driver, story.a, story.b
    c = Client(driver, "C")
    story.at(8_000)
    c.join()
    assert (driver.state(), driver.group().generation_id) == ("PreparingRebalance", 1)
    assert driver.group().join_timer.due_ms == story.start + 68_000
    story.at(9_000)
    assert (a.heartbeat(), a.commit(5)) == (27, 0)
    assert story.due(a) == 19_000
    story.at(9_010)
    a.ask_join()
    assert a.join_answer is None
    story.at(9_500)
    assert b.heartbeat() == 27
    b.ask_join()
    assert (b.joined().generation_id, b.joined().leader) == (2, a.member_id)
    assert len(a.joined().members) == 3
    story.at(9_501)
    assert [b.commit(generation=1), b.commit(generation=2), b.heartbeat(2)] == [22, 27, 0]


@pytest.mark.conformance("B-66")
def test_a_crash() -> None:
    story = Story()
    story.first_two_members()
    driver, a, b = story.driver, story.a, story.b
    story.at(10_000)
    assert b.heartbeat() == 0
    for t in (13_000, 16_000, 19_000):
        story.at(t)
        assert a.heartbeat() == 0
    story.at(19_999)
    assert driver.state() == "Stable"
    story.at(20_000)
    assert driver.state() == "PreparingRebalance"
    assert a.heartbeat() == 27
    a.ask_join()
    assert [m.member_id for m in a.joined().members] == [a.member_id]
    assert a.joined().generation_id == 2


@pytest.mark.conformance("B-80", "B-83")
def test_a_static_restart() -> None:
    story = Story()
    driver = story.driver
    story.b.instance = "I1"
    story.first_two_members()
    history = len(driver.group().history)
    story.at(20_000 - 4_000)
    story.a.heartbeat()
    heir = Client(driver, "B", instance="I1")
    heir.ask_join()
    assert heir.joined().generation_id == 1
    assert heir.member_id != story.b.member_id
    heir.ask_sync()
    assert heir.synced() == b"y"
    assert len(driver.group().history) == history
    assert story.a.heartbeat() == 0
    assert story.b.heartbeat() == 82


@pytest.mark.conformance("D-05")
def test_a_failover_in_mid_rebalance() -> None:
    story = Story()
    story.first_two_members()
    driver, a, b = story.driver, story.a, story.b
    Client(driver, "C").join()
    a.ask_join(), b.ask_join(protocols=(("range", subscription("more")),))
    a.joined(), b.joined()
    Client(driver, "D").join()
    a.ask_join(), b.ask_join()
    assert driver.state() == "PreparingRebalance"
    driver.fail_over()
    assert [x.join_answer.error_code for x in (a, b) if x.join_answer] == [16, 16]
    assert (driver.state(), driver.group().generation_id) == ("Stable", 1)
    a.ask_join()
    assert driver.state() == "PreparingRebalance"
    assert b.heartbeat(1) == 27
