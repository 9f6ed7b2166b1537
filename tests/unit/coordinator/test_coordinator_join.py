"""The door of a group: ids, the first rebalance, protocols, what is refused, and how many members there may be.

Statements B-01 to B-10, B-19 to B-27 and B-42 to B-45.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from actors.coordinator.classic.messages import LeaveGroupRequest, LeavingMember
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.config import CoordinatorConfig
from tests.support.coordination import (
    NO_DELAY,
    Client,
    Driver,
    form,
    stable_group,
)
from tests.support.coordination_groups import DELAY, preparing, trio

FIRST = UUID(int=1)

# -- coming into being


@pytest.mark.conformance("B-01")
def test_first_join_of_an_old_client_is_parked_and_leads() -> None:
    driver = Driver(DELAY)
    a = Client(driver, "a", version=3)
    a.ask_join()
    assert a.join_answer is None
    assert driver.state() == "PreparingRebalance"
    assert driver.group().leader_id == f"a-{FIRST}"


@pytest.mark.conformance("B-02")
def test_first_join_is_given_an_id_and_the_group_is_recorded() -> None:
    driver = Driver()
    a = Client(driver, "a")
    response = driver.answer(a.ask_join())
    assert (response.error_code, response.member_id) == (79, f"a-{FIRST}")
    assert response.generation_id == -1
    assert driver.state() == "Empty"
    assert driver.group().members == {}
    (record,) = driver.log
    change = GROUP_RECORDS.decode(*record)
    assert isinstance(change, GroupPut)
    assert (change.metadata.generation_id, change.metadata.protocol_type) == (0, "")
    assert (change.metadata.protocol_name, change.metadata.members) == (None, ())


@pytest.mark.conformance("B-03")
def test_join_with_the_given_id_is_admitted_and_parked() -> None:
    driver = Driver(DELAY)
    a = Client(driver, "a").join()
    assert a.join_answer is None
    assert list(driver.group().members) == [f"a-{FIRST}"]
    assert not driver.group().pending_joins


@pytest.mark.conformance("B-04")
def test_pending_id_is_forgotten_after_its_session() -> None:
    driver = Driver()
    a = Client(driver, "a", session_ms=10_000)
    a.member_id = driver.answer(a.ask_join()).member_id
    driver.advance(9_999)
    assert driver.group().pending_joins
    driver.advance(1)
    assert not driver.group().pending_joins
    assert driver.answer(a.ask_join()).error_code == 25


def pending_joins(driver: Driver, pending: Client) -> None:
    pending.join()


def pending_leaves(driver: Driver, pending: Client) -> None:
    entry = LeavingMember(pending.member_id)
    assert driver.call(LeaveGroupRequest("g", (entry,))).members[0].error_code == 0


def pending_expires(driver: Driver, pending: Client) -> None:
    driver.advance(pending.session_ms)


@pytest.mark.conformance("B-05", "B-74")
@pytest.mark.parametrize("end", [pending_joins, pending_leaves, pending_expires])
def test_a_pending_id_holds_the_rebalance_up(end: Callable[[Driver, Client], None]) -> None:
    driver = Driver()
    a, b, c, d = preparing(driver)
    e = Client(driver, "e")
    e.member_id = driver.answer(e.ask_join()).member_id
    for client in (a, b, c):
        client.join()
    assert a.join_answer is None
    assert driver.state() == "PreparingRebalance"
    end(driver, e)
    assert a.joined().generation_id == d.joined().generation_id == 3


# -- the first rebalance


@pytest.mark.conformance("B-06", "B-07", "B-08", "B-09")
@pytest.mark.parametrize(
    ("delay", "rebalance", "joins", "completes"),
    [
        (3_000, 10_000, [0], 3_000),
        (3_000, 10_000, [0, 1_000], 6_000),
        (3_000, 10_000, [0, 1_000, 4_000, 7_000], 10_000),
        (3_000, 4_000, [0, 1_000], 4_000),
        (3_000, 1_000, [0, 500], 3_000),
        (3_000, 1_000, [0], 3_000),
    ],
)
@pytest.mark.parametrize("emptied_at", [0, 5], ids=["new", "emptied"])
def test_initial_delay(delay: int, rebalance: int, joins: list[int], completes: int, emptied_at: int) -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=delay))
    if emptied_at:
        empty_at(driver, emptied_at)
    start = driver.now.monotonic_ms
    clients = []
    for at in joins:
        driver.advance(start + at - driver.now.monotonic_ms)
        clients.append(Client(driver, f"c{at}", rebalance_ms=rebalance).join())
    driver.advance(start + completes - 1 - driver.now.monotonic_ms)
    assert all(client.join_answer is None for client in clients)
    driver.advance(1)
    assert {client.joined().generation_id for client in clients} == {emptied_at + 1}


def empty_at(driver: Driver, generation: int) -> None:
    """The group has had a member, and is without one in this generation."""
    last = Client(driver, "last").join()
    driver.advance(3_000)
    while driver.group().generation_id < generation - 1:
        form(driver, [last])
        last.join()
    form(driver, [last])
    driver.leave("g", (last.member_id, None))
    assert (driver.state(), driver.group().generation_id) == ("Empty", generation)


def test_no_initial_delay_completes_at_once() -> None:
    driver = Driver(NO_DELAY)
    assert Client(driver, "a").join().joined().generation_id == 1


@pytest.mark.conformance("B-10")
def test_initial_delay_does_not_end_early_because_all_are_there() -> None:
    driver = Driver(DELAY)
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    assert driver.group().all_joined
    driver.advance(2_999)
    assert a.join_answer is None
    assert b.join_answer is None


@pytest.mark.conformance("B-10")
@pytest.mark.parametrize("emptied_at", [0, 5], ids=["new", "emptied"])
@pytest.mark.parametrize("instances", [(None, None, None), ("i", "j", "k")], ids=["dynamic", "static"])
def test_initial_delay_ends_when_all_announced_members_have_come(
    emptied_at: int, instances: tuple[str | None, ...]
) -> None:
    driver = Driver(DELAY)
    if emptied_at:
        empty_at(driver, emptied_at)
    clients = [Client(driver, f"c{n}", instance=instance) for n, instance in enumerate(instances)]
    for client in clients:
        assert all(earlier.join_answer is None or earlier.join_answer.error_code == 79 for earlier in clients[:-1])
        answer = driver.answer(client.ask_join(expected_members=3))
        if answer is not None and answer.error_code == 79:
            client.member_id = answer.member_id
            client.ask_join(expected_members=3)
    assert {client.joined().generation_id for client in clients} == {emptied_at + 1}


def test_the_greatest_number_of_announced_members_counts() -> None:
    driver = Driver(DELAY)
    clients = [Client(driver, name, instance=name) for name in "abc"]
    for client, expected in zip(clients, (3, 1, 0), strict=True):
        client.ask_join(expected_members=expected)
        assert (clients[0].join_answer is None) is (client is not clients[-1])
    assert {client.joined().generation_id for client in clients} == {1}


def test_fewer_than_announced_wait_for_the_initial_delay_and_no_longer() -> None:
    driver = Driver(DELAY)
    client = Client(driver, "a", instance="i")
    client.ask_join(expected_members=2)
    driver.advance(2_999)
    assert client.join_answer is None
    driver.advance(1)
    assert client.joined().generation_id == 1
    assert driver.group().roster.expected == 0, "what was announced counts for the first generation alone"


def test_expiry_of_a_pending_id_may_end_the_initial_delay() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=30_000))
    a = Client(driver, "a").join()
    Client(driver, "b", session_ms=6_000).ask_join()
    driver.advance(6_000)
    assert a.joined().generation_id == 1


# -- protocols


@pytest.mark.conformance("B-19", "B-20")
@pytest.mark.parametrize(
    ("lists", "chosen"),
    [(["ab", "ba", "b"], "b"), (["ab", "ab", "ba"], "a"), (["ba", "ab", "ba"], "b"), (["abc", "cb", "bc"], "b")],
)
def test_protocol_selection(lists: list[str], chosen: str) -> None:
    driver = Driver(DELAY)
    clients = [
        Client(driver, f"c{n}", protocols=tuple((name, b"") for name in names)).join() for n, names in enumerate(lists)
    ]
    driver.advance(60_000)
    assert {client.joined().protocol_name for client in clients} == {chosen}


@pytest.mark.conformance("B-21")
def test_a_joiner_without_a_common_protocol_is_refused() -> None:
    driver = Driver()
    trio(driver)
    answer = driver.answer(Client(driver, "d", protocols=(("roundrobin", b""),)).ask_join())
    assert (answer.error_code, answer.member_id) == (23, "")
    assert driver.state() == "Stable"


@pytest.mark.conformance("B-22")
@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
@pytest.mark.parametrize("exists", [True, False])
def test_no_protocols_are_refused_by_an_empty_group(changes: dict[str, object], exists: bool) -> None:
    driver = Driver()
    if exists:
        driver.commit_offset("g", 1)
    assert driver.answer(Client(driver, "a").ask_join(**changes)).error_code == 23
    assert (driver.group_or_none() is not None) is exists


@pytest.mark.conformance("B-23")
def test_another_protocol_type_needs_an_empty_group() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    connect = Client(driver, "k", protocol_type="connect")
    assert driver.answer(connect.ask_join()).error_code == 23
    driver.leave("g", (a.member_id, None))
    assert driver.state() == "Empty"
    assert driver.group().protocol_type == "consumer"
    assert connect.join().joined().protocol_type == "connect"
    assert driver.group().protocol_type == "connect"


@pytest.mark.conformance("B-24")
def test_a_lone_member_cannot_switch_to_a_disjoint_list() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    assert driver.answer(a.ask_join(protocols=(("sticky", b""),))).error_code == 23
    assert driver.state() == "Stable"


# -- what is refused at the door


NARROW = CoordinatorConfig(
    group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100, group_max_session_timeout_ms=200
)
BOUNDS = [(NO_DELAY, 6_000, 1_800_000), (NARROW, 100, 200)]


@pytest.mark.conformance("B-25")
@pytest.mark.parametrize(("config", "least", "most"), BOUNDS, ids=["defaults", "configured"])
@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_session_timeout_bounds(config: CoordinatorConfig, least: int, most: int, version: int) -> None:
    for session in (least, most):
        driver = Driver(config)
        (member,) = stable_group(driver, Client(driver, session_ms=session, version=version))
        driver.advance(session - 1)
        assert member.heartbeat() == 0, "it is taken, and it is the session the member gets"
        driver.advance(session)
        assert driver.group().members == {}
    for session in (least - 1, most + 1, 0, -1):
        driver = Driver(config)
        refused = Client(driver, session_ms=session, version=version)
        answer = driver.answer(refused.ask_join())
        assert (answer.error_code, answer.member_id, answer.generation_id) == (26, "", -1)
        assert driver.group_or_none() is None
        assert driver.log == []


@pytest.mark.conformance("B-25")
@pytest.mark.parametrize("session", [5_999, 1_800_001])
def test_session_timeout_bounds_hold_for_members_too(session: int) -> None:
    driver = Driver()
    _, b, _ = trio(driver)
    answer = driver.answer(b.ask_join(session_timeout_ms=session))
    assert (answer.error_code, answer.member_id) == (26, b.member_id)
    assert driver.state() == "Stable"
    assert b.heartbeat() == 0
    driver.advance(b.session_ms - 1)
    assert len(driver.group().members) == 3, "each has the session it had"


@pytest.mark.conformance("B-26")
@pytest.mark.parametrize("group_id", ["", None])
def test_no_group_id(group_id: str | None) -> None:
    driver = Driver()
    assert driver.answer(Client(driver).ask_join(group_id=group_id)).error_code == 24


def test_names_too_long_for_a_record() -> None:
    driver = Driver()
    assert driver.answer(Client(driver).ask_join(group_id="g" * 32_768)).error_code == 42
    assert driver.answer(Client(driver, group_id="g" * 32_767).ask_join()).error_code == 79


@pytest.mark.parametrize(("bytes_", "error"), [(32_730, 79), (32_731, 42), (32_767, 42)])
def test_a_client_id_that_makes_a_member_id_too_long_for_an_answer(bytes_: int, error: int) -> None:
    driver = Driver()
    answer = driver.answer(Client(driver).ask_join(client_id="c" * bytes_))
    assert answer.error_code == error
    assert len(answer.member_id) <= 32_767


def test_an_instance_id_that_makes_a_member_id_too_long_for_a_record() -> None:
    driver = Driver()
    assert driver.answer(Client(driver, instance="i" * 32_731).ask_join()).error_code == 42
    stable_group(driver, Client(driver, instance="i" * 32_730))


@pytest.mark.conformance("B-27")
def test_a_member_id_in_a_missing_group() -> None:
    driver = Driver()
    answer = driver.answer(Client(driver).ask_join(member_id="ghost"))
    assert (answer.error_code, answer.member_id) == (25, "ghost")
    assert driver.group_or_none() is None


# -- group.max.size


@pytest.mark.conformance("B-42")
def test_more_clients_than_the_group_takes() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=3_000, group_max_size=10))
    clients = [Client(driver, f"c{n}") for n in range(11)]
    given = [driver.answer(client.ask_join()) for client in clients]
    assert [answer.error_code for answer in given] == [79] * 11
    for client, answer in zip(clients, given, strict=True):
        client.member_id = answer.member_id
        client.ask_join()
    last = clients.pop().join_answer
    assert last is not None
    assert (last.error_code, last.member_id) == (81, "")
    driver.advance(10_000)
    assert {client.joined().generation_id for client in clients} == {1}


@pytest.mark.conformance("B-43")
def test_a_loaded_group_above_the_size_shrinks() -> None:
    driver = Driver()
    clients = stable_group(driver, *(Client(driver, f"c{n:02}") for n in range(12)))
    driver.fail_over(CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=10))
    assert driver.state() == "PreparingRebalance"
    for client in clients:
        client.ask_join()
    answers = [client.join_answer for client in clients]
    assert [answer.error_code if answer else None for answer in answers] == [0] * 10 + [81] * 2
    assert len(driver.group().members) == 10


@pytest.mark.conformance("B-44")
def test_a_full_stable_group() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=3))
    _, b, _ = trio(driver)
    assert driver.answer(b.ask_join()).error_code == 0
    for member_id in ("", "ghost"):
        assert driver.answer(Client(driver).ask_join(member_id=member_id)).error_code == 81


def test_a_returning_static_member_finds_its_place_in_a_full_group() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=2))
    stable_group(driver, Client(driver, "a"), Client(driver, "b", instance="i"))
    assert driver.answer(Client(driver, "b", instance="i").ask_join()).error_code == 0
    assert driver.answer(Client(driver, "c", instance="j").ask_join()).error_code == 81


@pytest.mark.conformance("B-45")
def test_turning_the_last_awaited_member_away_completes_the_rebalance() -> None:
    driver = Driver()
    a, b, c = trio(driver)
    driver.fail_over(CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=2))
    b.ask_join(), a.ask_join()
    assert a.join_answer is None
    assert driver.answer(c.ask_join()).error_code == 81
    assert a.joined().generation_id == b.joined().generation_id == 3
    assert set(driver.group().members) == {a.member_id, b.member_id}
