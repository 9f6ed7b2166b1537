"""Members are removed in the end: how, when, and what becomes of what waits meanwhile."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.messages import NoteSettingsRequest, NoteTopicsRequest
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topics
from tests.support.consumer_groups import FOO, GROUP, REBALANCE_MS, SESSION_MS, ConsumerDriver, beat_request, given
from tests.support.coordination import Driver

LONG = ConsumerSettings(session_timeout_ms=10_000_000)


def revoking(settings: ConsumerSettings | None = None) -> ConsumerDriver:
    """A was just told to give 3-5 back, for which B waits."""
    driver = ConsumerDriver(settings=settings)
    driver.beat("A e0 join")
    driver.advance(1_100)
    driver.beat("B e0 join")
    driver.beat("A e2")
    return driver


@pytest.mark.conformance("K-B-52", "K-B-53", "K-C-39", "K-A-54")
def test_a_removal_is_one_batch_and_raises_the_epoch() -> None:
    driver = revoking()
    assert given(driver, "B e-1").records == ("x8(B)", "x7(B)", "x5(B)", "3(4)")
    assert driver.stands() == "4/3 Assigning", "no target is computed"
    assert given(driver, "A e-1").records == ("x8(A)", "x7(A)", "x5(A)", "3(5)", "6(5,0)")
    assert driver.stands() == "5/5 Empty"


@pytest.mark.conformance("K-B-52")
def test_a_removal_cancels_the_timers_of_who_is_removed() -> None:
    driver = revoking(LONG)
    driver.beat("A e-1")
    driver.beat("A e0 join")
    at = len(driver.log)
    driver.advance(REBALANCE_MS + 1)
    assert driver.written(at) == []


@pytest.mark.conformance("K-B-54", "K-B-59")
def test_a_session_is_as_long_as_the_settings_said_when_it_began() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join")
    driver.set_settings(ConsumerSettings(session_timeout_ms=50_000))
    driver.advance(SESSION_MS - 1)
    assert driver.told("A e2") == "e2"
    driver.advance(49_999)
    assert driver.stands() == "2/2 Stable"
    driver.advance(1)
    assert driver.stands() == "3/3 Empty"
    assert driver.shard.coordinator.metrics.members_expired == 1


@pytest.mark.conformance("K-B-54", "K-B-116")
def test_a_group_may_have_a_session_timeout_of_its_own() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(overrides={GROUP: {"session_timeout_ms": 55_000}}))
    driver.beat("A e0 join")
    driver.beat("A e0 join", "other")
    driver.advance(54_999)
    assert (driver.stands(), driver.stands("other")) == ("2/2 Stable", "3/3 Empty")
    driver.advance(1)
    assert driver.stands() == "3/3 Empty"


@pytest.mark.conformance("K-B-114")
@pytest.mark.parametrize(("value", "used"), [(1, 45_000), (50_000, 50_000), (1_000_000, 60_000)])
def test_a_value_outside_the_bounds_is_moved_to_the_nearest(value: int, used: int) -> None:
    settings = ConsumerSettings(overrides={GROUP: {"session_timeout_ms": value}})
    assert settings.of_group(GROUP).session_timeout_ms == used
    assert settings.of_group("other").session_timeout_ms == 45_000
    assert settings.of_group(GROUP).heartbeat_interval_ms == 5_000


@pytest.mark.conformance("K-B-55", "K-B-58")
def test_who_gives_nothing_back_is_removed_and_not_who_waits() -> None:
    driver = revoking(LONG)
    driver.advance(REBALANCE_MS - 1)
    driver.beat("A e2")
    at = len(driver.log)
    driver.advance(1)
    assert driver.written(at) == ["x8(A)", "x7(A)", "x5(A)", "3(4)"]
    driver.advance(REBALANCE_MS)
    assert list(driver.committed().metadata) == ["B"]


@pytest.mark.conformance("K-B-55", "K-B-30")
def test_a_heartbeat_that_gives_nothing_back_does_not_give_more_time() -> None:
    driver = revoking(LONG)
    for _ in range(10):
        driver.advance(REBALANCE_MS // 10 - 1)
        driver.beat("A e2")
    driver.advance(10)
    assert list(driver.committed().metadata) == ["B"]


@pytest.mark.conformance("K-B-55")
def test_who_gives_back_and_has_to_give_more_has_all_the_time_again() -> None:
    driver = revoking(LONG)
    driver.advance(REBALANCE_MS - 1)
    driver.beat("C e0 join")
    assert given(driver, "A e2 own=0-2") == ("e2 asg 0-1", ("8(A: e2/p2 UNREVOKED 0-1@2 | 2@2)",))
    driver.advance(REBALANCE_MS - 1)
    assert "A" in driver.committed().metadata
    driver.advance(1)
    assert "A" not in driver.committed().metadata


@pytest.mark.conformance("K-B-55")
def test_who_has_given_back_is_left_alone() -> None:
    driver = revoking(LONG)
    driver.beat("A e2 own=0-2")
    driver.advance(REBALANCE_MS * 2)
    assert set(driver.committed().metadata) == {"A", "B"}


@pytest.mark.conformance("K-B-60")
def test_times_count_from_when_a_heartbeat_was_handled() -> None:
    driver = revoking(LONG)
    driver.beat("A e2 own=0-2")
    driver.beat("B e3")
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.holds = True
    driver.ask(beat_request("A e3"))
    driver.advance(3_000)
    driver.holds = False
    driver.turn()
    assert driver.member("A").startswith("e3/p3 UNREVOKED")
    driver.advance(REBALANCE_MS - 3_001)
    assert "A" in driver.committed().metadata
    driver.advance(1)
    assert "A" not in driver.committed().metadata


@pytest.mark.conformance("K-B-61")
def test_a_commit_is_no_sign_of_life() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join")
    driver.advance(SESSION_MS - 1)
    assert driver.commits("A", 2, "0") == [0]
    driver.advance(1)
    assert driver.stands() == "3/3 Empty"


@pytest.mark.conformance("K-B-62", "K-C-59")
def test_after_a_load_all_have_all_the_time_again() -> None:
    driver = revoking()
    driver.advance(SESSION_MS - 1)
    driver.fail_over()
    driver.advance(SESSION_MS - 1)
    assert set(driver.committed().metadata) == {"A", "B"}
    driver.advance(1)
    assert driver.stands().endswith("Empty")
    driver = revoking(LONG)
    driver.advance(REBALANCE_MS - 1)
    driver.fail_over()
    driver.advance(REBALANCE_MS - 1)
    assert set(driver.committed().metadata) == {"A", "B"}
    driver.advance(1)
    assert set(driver.committed().metadata) == {"B"}


@pytest.mark.conformance("K-B-62")
@pytest.mark.parametrize("session_ms", [45_000, 60_000])
def test_sessions_after_a_load_are_as_long_as_the_settings_say_that_are_told_before_topics(session_ms: int) -> None:
    before = revoking()
    driver = Driver(log=before.log)
    driver.call(NoteSettingsRequest(ConsumerSettings(session_timeout_ms=session_ms)))
    driver.call(NoteTopicsRequest(Topics((FOO,))))
    driver.advance(session_ms - 1)
    assert len(driver.log) == len(before.log)
    driver.advance(1)
    assert len(driver.log) > len(before.log)


@pytest.mark.conformance("K-B-63")
def test_who_was_removed_is_told_with_its_next_heartbeat() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.advance(40_000)
    driver.beat("A e3")
    driver.advance(5_000)
    assert driver.told("B e3") == "25"


@pytest.mark.conformance("K-B-24")
def test_after_a_removal_the_next_heartbeat_computes() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.beat("B e-1")
    driver.advance(20_000)
    assert driver.stands() == "4/3 Assigning"
    assert given(driver, "A e3").records[:2] == ("7(A: 0-5)", "6(4)")


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(("settings", "after_ms"), [(None, SESSION_MS), (LONG, REBALANCE_MS)])
def test_a_removal_whose_records_are_not_written_is_tried_again(
    settings: ConsumerSettings | None, after_ms: int, times: int
) -> None:
    driver = revoking(settings)
    driver.advance(after_ms - 1)
    if settings is None:
        driver.beat("B e3")
    driver.holds = True
    driver.advance(1)
    for _ in range(times):
        driver.refuse(19)
        assert not driver.held
        driver.advance(999)
        assert not driver.held, "a second later"
        driver.advance(1)
    driver.holds = False
    driver.turn()
    assert set(driver.committed().metadata) == {"B"}
    assert driver.shard.coordinator.metrics.members_expired == 1


@pytest.mark.parametrize(("settings", "after_ms"), [(None, SESSION_MS), (LONG, REBALANCE_MS)])
def test_a_removal_that_was_not_written_is_not_tried_again_for_one_that_has_moved_on(
    settings: ConsumerSettings | None, after_ms: int
) -> None:
    driver = revoking(settings)
    driver.advance(after_ms - 1)
    driver.beat("B e3")
    driver.holds = True
    driver.advance(1)
    driver.refuse(19)
    driver.holds = False
    driver.beat("A e2 own=0-2")
    driver.advance(5_000)
    assert set(driver.committed().metadata) == {"A", "B"}


def test_who_is_heard_while_the_end_of_its_session_waits_stays() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.advance(30_000)
    driver.beat("B e3")
    driver.advance(SESSION_MS - 30_000 - 1_101 - 1_100)
    driver.holds = True
    driver.ask(beat_request("B e3 rack=r1"))
    token = driver.ask(beat_request("A e3"))
    driver.advance(4_000)
    driver.holds = False
    driver.turn()
    assert driver.answer(token).member_epoch == 3
    assert "A" in driver.committed().metadata


@pytest.mark.conformance("K-B-55")
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_second_revocation_has_its_timer_though_that_of_the_first_ended_meanwhile(refused: int) -> None:
    driver = revoking(LONG)
    driver.advance(REBALANCE_MS - 10)
    driver.beat("C e0 join")
    driver.holds = True
    driver.beat_later("A e2 own=0-2")
    driver.beat_later("D e0 join")
    driver.advance(10)
    driver.append()
    driver.commit()
    driver.turn()
    assert driver.member("A") == "e2/p2 UNREVOKED 0-1@2 | 2@2"
    for _ in range(refused):
        driver.refuse(19)
        driver.beat_later("D e0 join")
    driver.holds = False
    driver.turn()
    driver.advance(REBALANCE_MS - 11)
    assert "A" in driver.committed().metadata
    driver.advance(1)
    assert "A" not in driver.committed().metadata


@pytest.mark.conformance("K-B-52", "K-B-54")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(("instance", "leave"), [("", "A e-1"), (" as=i", "A e-1 as=i"), (" as=i", "A e-2 as=i")])
def test_who_joins_again_while_the_end_of_its_former_session_waits_stays(
    instance: str, leave: str, refused: bool
) -> None:
    driver = ConsumerDriver()
    driver.beat(f"A e0 join{instance}")
    driver.beat("B e0 join")
    driver.advance(SESSION_MS - 10)
    driver.beat("B e2")
    driver.holds = True
    tokens = [driver.beat_later(leave), driver.beat_later(f"A e0 join{instance}")]
    driver.advance(10)
    if refused:
        driver.refuse(19)
    driver.holds = False
    driver.turn()
    left, joined = (driver.answer(token) for token in tokens)
    assert left.error_code == (15 if refused else 0)
    if joined.error_code == 0:
        driver.advance(SESSION_MS - 1)
        assert list(driver.committed().metadata) == ["A"]
        driver.advance(1)
    else:
        assert (joined.error_code, refused, instance) == (111, True, " as=i"), "it never left"
    assert driver.committed().metadata.keys() <= {"B"}


def test_a_process_that_stood_still_gives_members_the_time_back() -> None:
    driver = revoking()
    driver.jump(SESSION_MS + 5_000)
    assert set(driver.committed().metadata) == {"A", "B"}
