"""A classic member of a consumer group asks for its assignment, is heard and commits in its generation."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.topics import Topic
from tests.support.classic_members import SESSION_MS, Classic, MixedDriver, assigned, mixed
from tests.support.consumer_groups import FOO, beat_request


def of_policy(policy: str, **fields: object) -> MixedDriver:
    """C1 and C2 alone in a consumer group that does not go back; C1 has 0-2, C2 3-5, at 6."""
    driver = MixedDriver(Classic("C1", "0-2"), Classic("C2", "3-5"), policy=policy, **fields)  # type: ignore[arg-type]
    driver.beat("A e0 R names= own=[]")
    driver.beat("A e-1")
    return driver


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
