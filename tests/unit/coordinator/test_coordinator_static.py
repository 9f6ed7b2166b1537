"""Static members (KIP-345): statements B-80 to B-90."""

from __future__ import annotations

import pytest

from actors.coordinator.groups.config import CoordinatorConfig
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)


def pair(driver: Driver) -> list[Client]:
    """A stable group: a, dynamic, leads; s is static."""
    return stable_group(driver, Client(driver, "a"), Client(driver, "s", instance="i"))


def next_incarnation(client: Client, **changes: object) -> Client:
    heir = Client(client.driver, client.name, instance=client.instance, protocols=client.protocols)
    heir.version = client.version
    heir.ask_join(**changes)
    return heir


def restart_held_up(driver: Driver) -> tuple[Client, Client, Client]:
    """The pair and the heir of the static one; the log keeps the heir's record back."""
    a, s = pair(driver)
    driver.holds = True
    return a, s, next_incarnation(s)


@pytest.mark.conformance("B-80")
def test_a_follower_restarts_without_a_rebalance() -> None:
    driver = Driver()
    a, s = pair(driver)
    heir = next_incarnation(s)
    answer = heir.joined()
    assert (answer.generation_id, answer.leader, answer.members) == (s.generation, a.member_id, ())
    assert heir.member_id not in ("", s.member_id)
    assert heir.member_id.startswith("i-")
    heir.ask_sync()
    assert heir.synced() == b"s"
    assert a.heartbeat() == 0
    assert driver.state() == "Stable"


@pytest.mark.conformance("B-80")
def test_the_answer_waits_for_the_record_and_the_old_id_is_good_until_then() -> None:
    driver = Driver()
    _, s, heir = restart_held_up(driver)
    assert heir.join_answer is None
    assert s.heartbeat() == 0
    driver.release()
    assert heir.joined().generation_id == s.generation
    assert s.heartbeat() == 82


def static_leader(driver: Driver, version: int) -> tuple[Client, Client]:
    leader = Client(driver, "s", instance="i", version=version)
    _, b = stable_group(driver, leader, Client(driver, "b"))
    return leader, b


@pytest.mark.conformance("B-81")
def test_a_leader_restarts_v9() -> None:
    driver = Driver()
    leader, b = static_leader(driver, 9)
    heir = next_incarnation(leader)
    answer = heir.joined()
    assert answer.skip_assignment
    assert answer.leader == heir.member_id == driver.group().leader_id
    assert {m.member_id for m in answer.members} == {heir.member_id, b.member_id}
    heir.ask_sync()
    assert heir.synced() == b"s"


@pytest.mark.conformance("B-82")
def test_a_leader_restarts_v8() -> None:
    driver = Driver()
    leader, _ = static_leader(driver, 8)
    heir = next_incarnation(leader)
    answer = heir.joined()
    assert not answer.skip_assignment
    assert (answer.leader, answer.members) == (leader.member_id, ())
    assert driver.group().leader_id == heir.member_id
    heir.ask_sync()
    assert heir.synced() == b"s"


@pytest.mark.conformance("B-83")
def test_the_old_incarnation_is_fenced() -> None:
    driver = Driver()
    _, s = pair(driver)
    next_incarnation(s)
    assert s.heartbeat() == 82
    assert driver.answer(s.ask_sync()).error_code == 82
    assert s.commit() == 82
    assert driver.leave("g", (s.member_id, "i")).members[0].error_code == 82
    assert driver.answer(s.ask_join()).error_code == 82


@pytest.mark.conformance("B-84")
def test_what_the_old_incarnation_has_parked_is_fenced() -> None:
    driver = Driver()
    a, s = pair(driver)
    Client(driver, "c").join()
    parked = s.ask_join()
    heir = next_incarnation(s)
    assert (driver.answer(parked).error_code, driver.answer(parked).member_id) == (82, s.member_id)
    assert heir.join_answer is None

    driver = Driver()
    a, s = pair(driver)
    a.ask_join(), s.ask_join()
    a.joined(), s.joined()
    assert driver.state() == "CompletingRebalance"
    parked = s.ask_sync()
    next_incarnation(s)
    assert driver.answer(parked).error_code == 82


@pytest.mark.conformance("B-85")
def test_a_restart_while_completing_rebalances() -> None:
    driver = Driver()
    a, s = pair(driver)
    a.ask_join(), s.ask_join()
    a.joined(), s.joined()
    heir = next_incarnation(s)
    assert heir.join_answer is None
    assert driver.state() == "PreparingRebalance"
    assert a.heartbeat() == 27


@pytest.mark.conformance("B-85")
def test_a_restart_while_completing_sends_those_who_wait_back() -> None:
    driver = Driver()
    leader, b = static_leader(driver, 9)
    leader.ask_join(), b.ask_join()
    leader.joined(), b.joined()
    parked = b.ask_sync()
    next_incarnation(leader)
    assert driver.answer(parked).error_code == 27
    assert driver.state() == "PreparingRebalance"


@pytest.mark.conformance("B-86")
def test_a_restart_that_changes_the_protocol_rebalances() -> None:
    driver = Driver()
    both = (("range", subscription("orders")), ("sticky", subscription("orders")))
    a, s = Client(driver, "a", protocols=both), Client(driver, "s", instance="i", protocols=both)
    stable_group(driver, a, s)
    heir = next_incarnation(s, protocols=both[1:])
    assert heir.join_answer is None
    assert driver.state() == "PreparingRebalance"
    a.ask_join()
    assert a.joined().protocol_name == "sticky"
    assert heir.joined().generation_id == a.generation
    assert s.heartbeat() == 82


@pytest.mark.conformance("B-87")
def test_a_restart_whose_record_cannot_be_written() -> None:
    driver = Driver()
    _, s, heir = restart_held_up(driver)
    driver.refuse(19)
    assert heir.join_answer is not None
    assert (heir.join_answer.error_code, heir.join_answer.member_id) == (15, "")
    assert s.heartbeat() == 0
    driver.holds = False
    assert next_incarnation(s).joined().generation_id == s.generation


def test_a_restart_replicated_too_late_still_takes_place() -> None:
    driver = Driver()
    _, s, heir = restart_held_up(driver)
    driver.append()
    driver.advance(5_000)
    assert heir.join_answer is not None
    assert heir.join_answer.error_code == 15
    again = next_incarnation(s)  # waits for what is to become of the first
    assert again.join_answer is None
    driver.commit()
    assert s.heartbeat() == 82
    driver.turn()
    driver.release()
    assert again.joined().generation_id == s.generation
    assert driver.group().roster.by_instance["i"] == again.member_id


def test_two_restarts_at_once_leave_log_and_memory_agreed() -> None:
    driver = Driver()
    clients = [Client(driver, "a"), Client(driver, "s", instance="i"), Client(driver, "t", instance="j")]
    _, s, t = stable_group(driver, *clients)
    driver.holds = True
    heirs = [next_incarnation(s), next_incarnation(t), next_incarnation(s)]
    driver.holds = False
    driver.turn()
    driver.turn()
    assert [heir.joined().generation_id for heir in heirs] == [s.generation] * 3
    persisted = driver.durable.get("g")
    assert persisted is not None
    assert persisted.persisted is not None
    assert {m.member_id for m in persisted.persisted.members} == set(driver.group().members)


def test_a_restart_overtaken_by_a_rebalance_joins_it() -> None:
    driver = Driver()
    a, s, heir = restart_held_up(driver)
    driver.append()
    a.ask_join()
    assert driver.state() == "PreparingRebalance"
    driver.commit()
    assert heir.joined().generation_id == s.generation + 1 == a.joined().generation_id
    assert s.heartbeat() == 82


@pytest.mark.conformance("B-88")
def test_an_absent_static_member_keeps_its_place() -> None:
    driver = Driver()
    a, s = (
        Client(driver, "a", rebalance_ms=8_000, session_ms=30_000),
        Client(driver, "s", instance="i", rebalance_ms=8_000),
    )
    stable_group(driver, a, s)
    a.ask_join()
    driver.advance(8_000)
    assert a.joined().generation_id == 3
    assert set(driver.group().members) == {a.member_id, s.member_id}
    assert s.member_id in driver.group().pending_sync
    driver.advance(7_999)
    assert s.member_id in driver.group().members
    driver.advance(1)  # the sync timer
    assert s.member_id not in driver.group().members


@pytest.mark.conformance("B-88")
def test_an_absent_static_member_is_removed_when_its_session_ends() -> None:
    driver = Driver()
    a, s = (Client(driver, n, instance=i, rebalance_ms=8_000) for n, i in [("a", None), ("s", "i")])
    s.session_ms, a.session_ms = 6_500, 30_000
    stable_group(driver, a, s)
    a.ask_join()
    driver.advance(6_499)
    assert s.member_id in driver.group().members
    driver.advance(1)
    assert s.member_id not in driver.group().members
    assert a.joined().generation_id == 3


@pytest.mark.conformance("B-89")
def test_only_absent_static_members_remain() -> None:
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
    driver = Driver(config)
    s, t = (Client(driver, n, instance=n, rebalance_ms=3_000, session_ms=20_000) for n in "st")
    a = Client(driver, "a", rebalance_ms=3_000, session_ms=20_000)
    stable_group(driver, s, t, a)
    driver.leave("g", (a.member_id, None))
    due = driver.group().join_timer.due_ms
    driver.advance(3_000)
    assert driver.state() == "PreparingRebalance"
    assert set(driver.group().members) == {s.member_id, t.member_id}
    assert driver.group().join_timer.due_ms == (due or 0) + 3_000
    driver.advance(17_000)
    assert driver.state() == "Empty"


@pytest.mark.conformance("B-90")
def test_an_unknown_instance_with_a_member_id() -> None:
    driver = Driver()
    _, s = pair(driver)
    assert driver.answer(s.ask_join(group_instance_id="unknown")).error_code == 25


def test_a_known_static_member_rejoins_as_any_other() -> None:
    driver = Driver()
    _, s = pair(driver)
    assert driver.answer(s.ask_join()).error_code == 0
    assert driver.state() == "Stable"


def test_a_pending_id_with_an_instance_id_is_illegal() -> None:
    driver = Driver()
    pending = driver.answer(Client(driver).ask_join()).member_id
    assert driver.answer(Client(driver, instance="i").ask_join(member_id=pending)).error_code == -1
