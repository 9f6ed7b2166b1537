"""A classic group is upgraded in the middle of a rebalance or a write, and stays classic if that is not written."""

from __future__ import annotations

import pytest

from tests.support.classic_members import Classic, MixedDriver, assigned, join_request, subscribed
from tests.support.consumer_groups import GROUP, beat_request
from tests.support.coordination import Client, stable_group
from tests.unit.coordinator.migration.test_migration_upgrade import CLASSIC, one


def in_rebalance(driver: MixedDriver) -> tuple[Client, Client]:
    """Two members of a classic group: the first was stable, the second has just come."""
    first, second = (Client(driver, each, group_id=GROUP, protocols=RANGE) for each in "cd")
    stable_group(driver, first)
    second.join()
    return first, second


RANGE = (("range", subscribed()),)


@pytest.mark.conformance("K-E-02")
def test_who_waits_for_the_join_phase_waits_on_if_the_group_cannot_be_upgraded() -> None:
    driver = MixedDriver()
    _, second = in_rebalance(driver)
    assert driver.type_of() == "classic PreparingRebalance"
    # The first one's assignment cannot be read: it is the member's name.
    assert driver.told("A e0 join") == "69"
    assert second.join_answer is None, "it waits on"


@pytest.mark.conformance("K-E-03")
@pytest.mark.parametrize("phase", ["join", "sync"])
def test_parked_requests_are_answered_when_the_group_is_upgraded(phase: str) -> None:
    driver = one()
    waiting = Client(driver, "d", group_id=GROUP, protocols=RANGE).join()
    if phase == "sync":
        assert driver.classic("C1 join") == "g6"
        assert waiting.joined().generation_id == 6
        waiting.ask_sync()
    state = "PreparingRebalance" if phase == "join" else "CompletingRebalance"
    assert driver.type_of() == f"classic {state}"
    answer = driver.beat("A e0 join")
    assert answer.error_code == 0
    told = waiting.join_answer if phase == "join" else waiting.sync_answer
    assert told is not None
    assert told.error_code == 27
    assert driver.stands() == ("6/6 Reconciling" if phase == "join" else "7/7 Reconciling")
    assert set(driver.committed().metadata) == {"A", "C1", waiting.member_id}
    assert waiting.join().joined().generation_id == driver.committed().assignment_epoch


@pytest.mark.conformance("K-E-03", "K-E-04")
def test_a_group_in_its_first_join_phase_is_upgraded_at_the_first_epoch() -> None:
    driver = MixedDriver(config=MixedDriver().config.__class__())  # with an initial delay
    first = Client(driver, "c", group_id=GROUP, protocols=RANGE).join()
    assert driver.type_of() == "classic PreparingRebalance"
    assert driver.told("A e0 join") == "e2 asg 0-2"
    assert first.join_answer is not None
    assert first.join_answer.error_code == 27
    assert first.join().joined().generation_id == 2
    first.ask_sync()
    assert driver.answer(first.syncing).error_code == 0
    driver.advance(1_100)
    assert driver.stands() == "2/2 Stable"


@pytest.mark.conformance("K-E-48", "K-B-08")
def test_a_static_member_that_changes_its_protocol_in_the_first_join_phase_is_given_its_share() -> None:
    driver = MixedDriver(config=MixedDriver().config.__class__())
    Client(driver, "c", group_id=GROUP, protocols=RANGE, instance="i-1").join()
    assert driver.told("A e0 join as=i-1") == "e2 asg 0-5"
    assert driver.told("A e2") == "e2"


@pytest.mark.conformance("K-E-48", "K-E-05")
def test_who_upgrades_a_group_in_the_middle_of_a_rebalance_ends_what_that_was_for() -> None:
    """C2 has left. Its share would have no owner, for nothing else is new."""
    driver = MixedDriver(Classic("C1", "0-2", group_instance_id="i-1"), Classic("C2", "3-5"))
    driver.classic("C2 leave")
    assert driver.type_of() == "classic PreparingRebalance"
    assert driver.told("A e0 join as=i-1") == "e6 asg 0-5"
    assert driver.stands() == "6/6 Stable"


@pytest.mark.conformance("K-E-48")
def test_partitions_that_are_nobodys_get_an_owner_when_a_static_member_comes_back_by_the_new_protocol() -> None:
    """The partitions came while it was away. A classic leader would notice them; it is none any more."""
    driver = MixedDriver(Classic("C1", "0-1", group_instance_id="i-1"), Classic("C2", "2-4"))
    assert driver.told("A e0 join as=i-1") == "e6 asg 0-1,5"
    assert driver.classic("C2 beat g5") == "27"


@pytest.mark.conformance("K-E-48", "K-E-05")
def test_what_a_cooperative_member_gives_up_during_an_upgrade_gets_an_owner() -> None:
    members = Classic("C1", "0-2", subscription=subscribed(own="0-5")), Classic("C2", b"", group_instance_id="i-2")
    driver = MixedDriver(*members)
    assert driver.told("A e0 join as=i-2") == "e6 asg -"
    assert driver.classic("C1 join own=0-2") == "g6"
    assert driver.told("A e6") == "e6 asg 3-5"
    assert driver.stands() == "6/6 Stable"


def test_a_newcomer_need_not_support_the_protocol_that_the_others_have_selected() -> None:
    """Every member supports its protocol, so it may join; the group still uses `range`."""
    driver = MixedDriver(Classic("C1", "0-5"))
    both = (("range", subscribed()), ("sticky", subscribed()))
    driver.classic_group().roster.update(
        driver.classic_group().members["C1"], join_request("C1", {"by": "range,sticky"})
    )
    Client(driver, "d", group_id=GROUP, protocols=both[1:]).join()
    assert driver.type_of() == "classic PreparingRebalance"
    assert driver.told("A e0 join") == "e6 asg -"


def test_an_upgrade_waits_for_the_assignment_that_is_being_written() -> None:
    driver = MixedDriver()
    client = Client(driver, "c", group_id=GROUP, protocols=RANGE).join()
    client.joined()
    driver.holds = True
    client.ask_sync({client.member_id: assigned("0-5")})
    token = driver.beat_later("A e0 join")
    driver.turn()
    assert (driver.answer(token), client.sync_answer) == (None, None)
    driver.release()
    assert client.synced() == assigned("0-5")
    driver.turn()
    driver.release()
    assert driver.answer(token).error_code == 0
    assert driver.member(client.member_id) == "e1/p1 STABLE 0-5@1 | -"


def test_an_upgrade_that_waits_for_what_never_commits_is_refused() -> None:
    driver = MixedDriver()
    client = Client(driver, "c", group_id=GROUP, protocols=RANGE).join()
    client.joined()
    driver.holds = True
    client.ask_sync({client.member_id: assigned("0-5")})
    token = driver.beat_later("A e0 join")
    driver.advance(6_000)
    assert driver.answer(token).error_code == 15
    driver.release()
    assert driver.type_of().startswith("classic")


# -- the write


@pytest.mark.conformance("K-E-06")
def test_a_group_goes_on_as_if_nothing_had_been_if_its_upgrade_was_not_written() -> None:
    driver = one()
    waiting = Client(driver, "d", group_id=GROUP, protocols=RANGE).join()
    before = list(driver.log)
    driver.holds = True
    token = driver.beat_later("A e0 join")
    beat = driver.ask_classic("C1 beat g5")
    assert driver.answer(beat) is None, "its group is about to change"
    assert driver.type_of() == "classic PreparingRebalance", "but has not changed yet"
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    assert driver.shown_classic(driver.answer(beat)) == "27"
    driver.holds = False
    assert driver.log == before
    assert driver.classic("C1 join") == "g6"
    assert waiting.joined().generation_id == 6


@pytest.mark.conformance("K-E-07")
@pytest.mark.parametrize("error", [10, 18])
def test_a_group_whose_upgrade_is_too_large_for_the_log_stays_classic(error: int) -> None:
    """The joiner gets the error of a group that cannot be upgraded, not that of an unknown fault."""
    driver = one()
    before = list(driver.log)
    driver.holds = True
    token = driver.beat_later("A e0 join")
    beat = driver.ask_classic("C1 beat g5")
    driver.refuse(error)
    driver.holds = False
    answer = driver.answer(token)
    assert (answer.error_code, answer.member_epoch) == (69, 0)
    assert "large" in answer.error_message
    assert (driver.log, driver.type_of()) == (before, CLASSIC)
    assert driver.shown_classic(driver.answer(beat)) == "0", "it has noticed nothing"


@pytest.mark.conformance("K-E-06")
def test_the_sessions_of_a_group_whose_upgrade_was_not_written_run_on() -> None:
    driver = one()
    driver.advance(4_000)
    driver.holds = True
    driver.ask(beat_request("A e0 join"))
    driver.advance(1_000)
    driver.refuse(19)
    driver.holds = False
    driver.advance(4_900)
    assert driver.type_of() == CLASSIC
    driver.advance(200)
    assert driver.type_of() == "classic Empty", "it was not heard for its ten seconds"


def test_a_member_that_commits_during_an_upgrade_is_not_told_that_it_is_unknown() -> None:
    driver = one()
    driver.holds = True
    driver.ask(beat_request("A e0 join"))
    token = driver.commit_offset(GROUP, 9, topic="foo", generation=5, member_id="C1")
    driver.release()
    assert list(driver.answer(token).error_codes) == [0]
    assert driver.offset(GROUP, "foo") == 9
