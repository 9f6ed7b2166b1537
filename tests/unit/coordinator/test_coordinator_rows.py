"""A refused join leaves nothing behind, a refused write leaves a usable group, and a later joiner moves no deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.coordinator.errors import Error
from tests.support.coordination import (
    Client,
    Driver,
    form,
    stable_group,
)

# Long sessions, so that only the deadline of the join phase ends anything.
PATIENT_MS = 600_000
REBALANCE_MS = 60_000

ILLEGAL: list[tuple[dict[str, Any], int]] = [
    ({"session_timeout_ms": 5_999}, Error.INVALID_SESSION_TIMEOUT),
    ({"session_timeout_ms": 1_800_001}, Error.INVALID_SESSION_TIMEOUT),
    ({"protocols": ()}, Error.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": ""}, Error.INCONSISTENT_GROUP_PROTOCOL),
    ({"member_id": "nobody-knows-it"}, Error.UNKNOWN_MEMBER_ID),
    ({"client_id": "c" * 32_767}, Error.INVALID_REQUEST),
]
FOREIGN: list[tuple[dict[str, Any], int]] = [
    ({"protocols": (("roundrobin", b""),)}, Error.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": "connect"}, Error.INCONSISTENT_GROUP_PROTOCOL),
]


def empty(driver: Driver) -> None:
    driver.commit_offset("g", 1)


def preparing(driver: Driver) -> None:
    stable(driver)
    Client(driver, "b").join()


def completing(driver: Driver) -> None:
    Client(driver, "a").join()
    driver.advance(1)


def stable(driver: Driver) -> None:
    stable_group(driver, Client(driver, "a"))


def nothing_is_there(driver: Driver) -> bool:
    """No group, no record, and no timer but the sweep's, which every shard has."""
    return (driver.list_groups(), driver.log, driver.shard.next_deadline()) == ((), [], Driver().shard.next_deadline())


def seen(driver: Driver) -> Any:
    """All that a join could touch: the log, the clock's next call, and the group with its members."""
    group = driver.group()
    members = [(m.member_id, m.protocols, m.parked_join, m.parked_sync) for m in group.members.values()]
    return (
        len(driver.log),
        driver.shard.next_deadline(),
        (group.state, group.generation_id, group.leader_id, group.protocol_type, group.protocol_name),
        (members, list(group.pending_joins), list(group.history), group.roster.awaiting_join),
        driver.describe("g"),
    )


# --- S3-09: parameters and state are checked before anything is touched ---


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("group_id", ["", None])
def test_a_join_without_a_group_id_makes_no_group(group_id: str | None, version: int) -> None:
    driver = Driver()
    assert driver.answer(Client(driver, version=version).ask_join(group_id=group_id)).error_code == 24
    assert nothing_is_there(driver)


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(("changes", "error"), ILLEGAL)
def test_a_refused_join_makes_no_group(changes: dict[str, Any], error: int, version: int) -> None:
    driver = Driver()
    assert driver.answer(Client(driver, version=version).ask_join(**changes)).error_code == error
    assert driver.group_or_none() is None
    assert nothing_is_there(driver)
    assert driver.describe("g").group_state == "Dead"


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    ("reach", "changes", "error"),
    [(reach, *illegal) for reach in (empty, preparing, completing, stable) for illegal in ILLEGAL]
    + [(reach, *foreign) for reach in (preparing, completing, stable) for foreign in FOREIGN],
)
def test_a_refused_join_leaves_a_group_as_it_was(
    reach: Callable[[Driver], None], changes: dict[str, Any], error: int, version: int
) -> None:
    driver = Driver()
    reach(driver)
    before = seen(driver)
    assert driver.answer(Client(driver, "late", version=version).ask_join(**changes)).error_code == error
    assert seen(driver) == before


# --- S3-17: a rebalance that is being prepared is not begun again ---


@pytest.mark.parametrize("rebalance_ms", [1_000, REBALANCE_MS, 10 * REBALANCE_MS])
def test_a_later_joiner_does_not_move_the_deadline_of_the_join_phase(rebalance_ms: int) -> None:
    driver = Driver()
    a, b, c = (Client(driver, name, session_ms=PATIENT_MS, rebalance_ms=REBALANCE_MS) for name in "abc")
    stable_group(driver, a, b)
    begun = driver.shard.coordinator.metrics.rebalances_completed
    c.join()  # begins a rebalance; a and b never join again
    driver.advance(REBALANCE_MS // 2)
    late = Client(driver, "late", session_ms=PATIENT_MS, rebalance_ms=rebalance_ms).join()
    driver.advance(REBALANCE_MS // 2 - 1)
    assert driver.state() == "PreparingRebalance"
    assert (c.join_answer, late.join_answer) == (None, None)
    driver.advance(1)
    form(driver, [c, late])
    assert set(driver.group().members) == {c.member_id, late.member_id}
    assert driver.shard.coordinator.metrics.rebalances_completed == begun + 1
    assert [event.member_id for event in driver.group().history][-1] == c.member_id
    driver.advance(REBALANCE_MS)
    assert driver.state() == "Stable"  # no second timer is left over
    assert c.generation == late.generation == driver.group().generation_id


def test_a_member_that_joins_again_does_not_move_the_deadline_either() -> None:
    driver = Driver()
    a, b, c = (Client(driver, name, session_ms=PATIENT_MS, rebalance_ms=REBALANCE_MS) for name in "abc")
    stable_group(driver, a, b)
    c.join()
    driver.advance(REBALANCE_MS - 1)
    a.ask_join()
    c.ask_join()
    assert driver.state() == "PreparingRebalance"
    driver.advance(1)
    form(driver, [a, c])
    assert set(driver.group().members) == {a.member_id, c.member_id}


# --- S3-25: the record of a group that has emptied may fail; the group is Empty and usable ---


def expire(driver: Driver, a: Client) -> None:
    driver.advance(a.session_ms)


def leave(driver: Driver, a: Client) -> None:
    driver.leave("g", (a.member_id, None))


def refused(driver: Driver) -> None:
    driver.refuse(Error.COORDINATOR_NOT_AVAILABLE)


def overdue(driver: Driver) -> None:
    driver.advance(driver.config.offsets_commit_timeout_ms)
    driver.holds = False
    driver.turn()


@pytest.mark.parametrize("fail", [refused, overdue])
@pytest.mark.parametrize("go", [expire, leave])
def test_a_group_whose_emptied_record_fails_is_empty_and_usable(
    go: Callable[[Driver, Client], None], fail: Callable[[Driver], None]
) -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.holds = True
    go(driver, a)
    assert len(driver.held) == 1
    fail(driver)
    driver.holds = False
    assert (driver.state(), driver.group().members, driver.held) == ("Empty", {}, [])
    assert a.heartbeat() == Error.UNKNOWN_MEMBER_ID
    assert driver.answer(driver.commit_offset("g", 7)).error_codes == [0]
    (b,) = stable_group(driver, Client(driver, "b"))
    assert b.generation > a.generation + 1  # the emptied group was a generation of its own
    assert b.commit(8) == 0
    driver.fail_over()
    assert (driver.state(), list(driver.group().members)) == ("Stable", [b.member_id])
    assert b.heartbeat() == 0


def test_a_successor_without_the_emptied_record_expires_who_has_gone() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.holds = True
    leave(driver, a)
    refused(driver)
    driver.holds = False
    driver.fail_over()
    assert (driver.state(), list(driver.group().members)) == ("Stable", [a.member_id])
    driver.advance(a.session_ms)
    assert (driver.state(), driver.group().members) == ("Empty", {})
