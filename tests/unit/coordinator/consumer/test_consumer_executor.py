"""Requests for a group whose records are under way wait, and go into one write."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.records import CurrentAssignment, GroupEpoch, MemberRecord
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.values import Current, MemberMetadata
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.records import encode
from tests.support.consumer_groups import GROUP, T1, ConsumerDriver, Slow, beat_request, shown_answer

UNIFORM = ConsumerSettings(assignors=("uniform",))
NO_INTERVAL = ConsumerSettings(assignment_interval_ms=0)


def answers(driver: ConsumerDriver, tokens: list[int]) -> list[str]:
    """The answers to these, in short; `-` where there is none yet."""
    return ["-" if driver.answer(token) is None else shown_answer(driver.answer(token)) for token in tokens]


@pytest.mark.conformance("K-B-22", "K-B-23")
def test_joins_that_wait_are_written_together_each_seeing_those_before_it() -> None:
    driver = ConsumerDriver(settings=NO_INTERVAL)
    driver.holds = True
    tokens = [driver.beat_later(f"{member} e0 join") for member in "ABC"]
    assert len(driver.held) == 1
    driver.append()
    driver.commit()
    assert answers(driver, tokens) == ["e2 asg 0-5", "-", "-"]
    driver.turn()
    assert len(driver.held) == 1, "both of the others"
    assert len([key for key in driver.held[0].keys if key[:2] == b"\0\5"]) == 2
    driver.holds = False
    driver.turn()
    assert answers(driver, tokens) == ["e2 asg 0-5", "e3 asg -", "e4 asg -"]
    assert driver.stands() == "4/4 Reconciling"


def test_a_heartbeat_that_changes_nothing_waits_for_what_is_under_way_and_other_groups_do_not() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.join("Z", group_id="other")
    driver.advance(1_100)
    driver.holds = True
    tokens = [driver.beat_later("B e0 join"), driver.beat_later("A e2"), driver.beat_later("Z e2", "other")]
    assert answers(driver, tokens) == ["-", "-", "e2"]
    driver.holds = False
    driver.turn()
    assert answers(driver, tokens) == ["e3 asg -", "e2 asg 0-2", "e2"]


def test_what_is_refused_because_of_what_is_under_way_waits_for_that() -> None:
    driver = ConsumerDriver(settings=NO_INTERVAL)
    driver.join("A", "B")
    driver.holds = True
    tokens = [driver.beat_later(text) for text in ("C e0 join", "B e-1", "B e3")]
    driver.append()
    driver.commit()
    driver.turn()
    assert answers(driver, tokens) == ["e4 asg -", "-", "-"]
    driver.refuse(19)
    assert answers(driver, tokens) == ["e4 asg -", "15", "15"], "it was never removed"
    driver.holds = False
    assert driver.told("B e3") == "e3 asg 3-4"


@pytest.mark.conformance("K-A-46")
@pytest.mark.parametrize(("error", "told"), [(19, 15), (6, 16), (56, 16), (10, -1), (18, -1)])
def test_what_the_log_refuses_changes_nothing(error: int, told: int) -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.advance(1_100)
    driver.holds = True
    token = driver.beat_later("B e0 join")
    driver.refuse(error)
    assert driver.answer(token).error_code == told
    driver.holds = False
    assert driver.stands() == "2/2 Stable"
    assert driver.told("B e2") == "25"
    assert driver.told("B e0 join") == "e3 asg -"


def test_who_waits_too_long_is_told_and_is_not_expelled_for_it() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.advance(1_100)
    driver.holds = True
    tokens = [driver.beat_later("C e0 join"), driver.beat_later("A e3")]
    driver.advance(4_999)
    assert answers(driver, tokens) == ["-", "-"]
    driver.advance(1)
    assert answers(driver, tokens) == ["15", "15"]
    for _ in range(4):
        driver.advance(20_000)
        assert driver.told("A e3") == "15"
        assert driver.told("D e0 join") == "15"
    at = len(driver.log)
    driver.holds = False
    driver.turn()
    written = driver.written(at)
    assert written[0] == "5(C)", "its join was under way all the time"
    assert [record for record in written if record.startswith("x5")] == ["x5(B)", "x5(C)"], "they were not heard"
    assert set(driver.committed().metadata) == {"A"}
    assert driver.told("D e3") == "25", "it was refused before anything was done"
    assert driver.told("A e3") == "e6 asg 0-5"


@pytest.mark.conformance("K-A-49", "K-A-54")
@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("A e3", True),
        ("A e0 join", True),
        ("A e2 own=0-2", True),
        ("A e2", False),
        ("A e2 own=0-3", False),
        ("A e4", False),
        ("A e3 as=i", False),
        ("A e3 regex=(", False),
        ("A e-1", False),
        ("S e0 join as=s", False),
        ("S e-2 as=s", False),
    ],
)
def test_a_heartbeat_that_would_be_refused_is_no_sign_of_life_while_nothing_commits(text: str, stays: bool) -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.beat("S e0 join as=s")
    driver.advance(1_100)
    driver.holds = True
    driver.beat_later("C e0 join")
    driver.advance(30_000)
    assert driver.told(text) == "15"
    driver.advance(20_000)
    driver.holds = False
    driver.turn()
    assert (text.split(" ")[0] in driver.committed().metadata) is stays


def test_a_shard_that_is_unloaded_refuses_what_waits() -> None:
    driver = ConsumerDriver()
    driver.holds = True
    tokens = [driver.beat_later(f"{member} e0 join") for member in "ABC"]
    driver.held.clear()
    driver.fail_over()
    assert answers(driver, tokens) == ["16"] * 3
    assert driver.stands() == ""


def test_what_waits_is_not_written_together_if_it_becomes_too_much() -> None:
    driver = ConsumerDriver(config=CoordinatorConfig(max_message_bytes=2_000))
    driver.holds = True
    tokens = [driver.beat_later(f"{number:03}{'x' * 100} e0 join") for number in range(9)]
    sizes = []
    while driver.held:
        sizes.append(len(driver.held[0].keys))
        driver.append()
        driver.commit()
        driver.turn()
    assert len(sizes) > 3
    assert all(answer.startswith("e") for answer in answers(driver, tokens))
    assert len(driver.committed().metadata) == 9


def test_others_are_served_while_a_target_is_computed() -> None:
    driver = ConsumerDriver(assignors=(Slow(),), settings=UNIFORM)
    for group_id in (GROUP, "other"):
        driver.beat_later("A e0 join", group_id)
        driver.advance(1_100)
    tokens = [driver.beat_later("B e0 join"), driver.beat_later("A e2"), driver.beat_later("A e2", "other")]
    assert answers(driver, tokens) == ["-", "-", "e2"]
    driver.advance(4)
    assert answers(driver, tokens) == ["-", "-", "e2"]
    driver.advance(1)
    assert answers(driver, tokens) == ["e3 asg -", "e2 asg 0-2", "e2"]


def test_so_many_heartbeats_that_wait_are_not_answered_in_one_turn() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.join("Z", group_id="other")
    driver.advance(1_100)
    driver.holds = True
    driver.beat_later("B e0 join")
    tokens = [driver.beat_later("A e2 own=0-5") for _ in range(1_000)]
    driver.holds = False
    counts = []
    while not counts or counts[-1] < len(tokens):
        driver.jump(1)
        counts.append(sum(driver.answer(token) is not None for token in tokens))
        assert driver.told("Z e2", "other") == "e2"
    assert counts[0] < len(tokens)
    assert driver.told("A e2") == "e2"


@pytest.mark.conformance("K-B-23")
def test_so_many_joins_that_wait_are_not_written_in_one_turn() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(assignment_interval_ms=15_000))
    driver.holds = True
    tokens = [driver.beat_later(f"m{number} e0 join") for number in range(400)]
    sizes = []
    while driver.held:
        sizes.append(sum(key[:2] == b"\0\5" for key in driver.held[0].keys))
        driver.append()
        driver.commit()
        driver.jump(1)
    assert sizes[0] == 1, "the first one came alone"
    assert sum(sizes) == 400
    assert max(sizes) < 250
    assert all(answer.startswith("e2") for answer in answers(driver, tokens))
    assert len(driver.committed().metadata) == 400


def _with_members(count: int, partitions: int) -> ConsumerDriver:
    """So many members are in the log, without a target."""
    member = MemberMetadata("c", "/127.0.0.1", names=frozenset({"foo"}), rebalance_timeout_ms=1_000)
    members = [MemberRecord(GROUP, f"m{number:04}", member) for number in range(count)]
    current = [CurrentAssignment(GROUP, each.member_id, Current(1, 0)) for each in members]
    log = encode([*members, *current, GroupEpoch(GROUP, 2, 0)])
    return ConsumerDriver(Topic(T1, "foo", partitions), log=log, settings=ConsumerSettings(session_timeout_ms=900_000))


@pytest.mark.conformance("K-B-20", "K-B-23")
def test_each_part_of_a_large_computation_makes_room_for_others() -> None:
    driver = _with_members(3_000, 6_000)
    driver.beat_later("Z e0 join", "other")
    driver.advance(50)
    driver.holds = True
    token = driver.beat_later("m0000 e1")
    waits = driver.beat_later("m0001 e1")
    turns = 0
    while not driver.held:
        driver.jump(1)
        turns += 1
    assert turns >= 3 + 6 + 3 + 6, "what the assignor gets, its work, the targets, and their bytes"
    assert sum(key[:2] == b"\0\7" for key in driver.held[0].keys) == 3_000, "it is one write"
    driver.append()
    driver.commit()
    assert shown_answer(driver.answer(token)) == "e3 asg 0-1"
    assert not driver.held, "after so much the group goes on in the next turn"
    driver.jump(1)
    driver.release()
    assert shown_answer(driver.answer(waits)) == "e3 asg 2-3"
    assert driver.told("Z e2", "other") == "e2"


@pytest.mark.conformance("K-B-35", "K-B-36")
def test_a_member_with_very_many_partitions_takes_several_turns_for_a_step() -> None:
    driver = ConsumerDriver(Topic(T1, "foo", 6_000))
    token = driver.beat_later("A e0 join")
    assert driver.answer(token) is None
    driver.advance(50)
    assert shown_answer(driver.answer(token)) == "e2 asg 0-5999"
    driver.advance(1_100)
    driver.beat_later("B e0 join")
    driver.advance(50)
    token = driver.beat_later("A e2")
    assert driver.answer(token) is None
    driver.advance(50)
    assert shown_answer(driver.answer(token)) == "e2 asg 0-2999"
    driver.beat_later("A e2 own=0-2999")
    driver.advance(50)
    driver.beat_later("B e3")
    driver.advance(50)
    assert driver.stands() == "3/3 Stable"
    assert driver.member("B") == "e3/p3 STABLE 3000-5999@3 | -"


def test_a_computation_that_is_under_way_is_dropped_with_its_shard() -> None:
    driver = ConsumerDriver(assignors=(Slow(),), settings=UNIFORM)
    token = driver.ask(beat_request("A e0 join"))
    driver.fail_over()
    assert answers(driver, [token]) == ["16"]
    driver.advance(100)
    assert driver.stands() == ""


@pytest.mark.parametrize("stage", ["is computed", "is written", "waits"])
def test_a_group_is_not_deleted_while_somebody_joins(stage: str) -> None:
    settings = ConsumerSettings(assignors=("uniform",), session_timeout_ms=10_000_000)
    driver = ConsumerDriver(assignors=(Slow(),), settings=settings)
    driver.beat_later("A e0 join")
    driver.advance(10)
    driver.beat("A e-1")
    driver.holds = True
    if stage == "waits":
        driver.beat_later("C e0 join")
        driver.advance(5)
    token = driver.beat_later("B e0 join")
    if stage != "is computed":
        driver.advance(5)
        assert driver.held, "it is written"
    at = len(driver.log)
    assert driver.answer(driver.delete_group(GROUP)).results == ((GROUP, 68),)
    driver.advance(700_000)
    assert driver.answer(token).error_code == 15, "nobody waits so long"
    driver.holds = False
    driver.turn()
    assert list(driver.committed().metadata) == ["C" if stage == "waits" else "B"]
    assert not any(record.startswith("x") for record in driver.written(at)), "no run of expiry has deleted it"


def test_a_client_that_has_gone_is_not_answered_and_joins_all_the_same() -> None:
    driver = ConsumerDriver()
    driver.holds = True
    token = driver.beat_later("A e0 join")
    driver.shard.drop(lambda each: each == token)
    driver.holds = False
    driver.turn()
    assert driver.answer(token) is None
    assert driver.stands() == "2/2 Stable"


def test_a_refused_heartbeat_of_a_large_member_leaves_nothing_behind_for_those_after_it() -> None:
    """B would take the place of A, but its expression is refused. D, which is written with it, must not see B there."""
    driver = ConsumerDriver(Topic(T1, "foo", 6_000), settings=NO_INTERVAL)
    for text in ("A e0 join as=i-a", "A e-2 as=i-a"):
        driver.beat_later(text)
        driver.advance(100)
    driver.holds = True
    tokens = [driver.beat_later("C e0 R names=bar own=[]")]
    driver.advance(100)
    tokens.append(driver.beat_later("B e0 R names=foo regex=foo( own=[] as=i-a"))
    tokens.append(driver.beat_later("D e0 join"))
    driver.holds = False
    driver.turn()
    driver.advance(100)
    assert [driver.answer(token).error_code for token in tokens] == [0, 128, 0]
    state = driver.committed()
    assert set(state.metadata) == {"A", "C", "D"}
    assert set(state.targets) == {"A", "C", "D"}
    assert sum(map(len, state.targets["A"].values())) == 3_000
