"""Static members go for a while and come back, under any id."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from tests.support.consumer_groups import BAR, FOO, REBALANCE_MS, SESSION_MS, ConsumerDriver, given

BACK = (
    "x8(S1)",
    "x7(S1)",
    "x5(S1)",
    "5(S2)",
    "7(S2: 0-2)",
    "8(S2: e0/p0 STABLE 0-2@0 | -)",
    "8(S2: e3/p0 STABLE 0-2@0 | -)",
)


def away(**settings: int) -> ConsumerDriver:
    """S1, which is static and has 0-2, is away; B has 3-5."""
    driver = ConsumerDriver(FOO, BAR, settings=ConsumerSettings(**settings))  # type: ignore[arg-type]
    driver.beat("S1 e0 join as=i-s")
    driver.join("B")
    assert given(driver, "S1 e-2 as=i-s") == ("e-2", ("8(S1: e-2/p2 STABLE 0-2@0 | -)",))
    return driver


@pytest.mark.conformance("K-B-43")
def test_a_static_member_that_leaves_for_good_frees_its_instance_id() -> None:
    driver = away()
    assert given(driver, "S1 e-1 as=i-s").records == ("x8(S1)", "x7(S1)", "x5(S1)", "3(4)")
    assert driver.committed().instances == {}


@pytest.mark.conformance("K-B-44", "K-B-03", "K-C-40")
def test_one_that_is_away_keeps_what_it_has_and_the_group_is_not_stable() -> None:
    driver = away()
    assert driver.stands() == "3/3 Reconciling"
    assert driver.member("S1") == "e-2/p2 STABLE 0-2@0 | -"


@pytest.mark.conformance("K-B-44")
def test_what_one_that_goes_away_had_to_give_back_becomes_free() -> None:
    driver = ConsumerDriver()
    driver.beat("S e0 join as=i-s")
    driver.advance(1_100)
    driver.beat("B e0 join")
    driver.beat("S e2")
    assert driver.member("S") == "e2/p2 UNREVOKED 0-2@2 | 3-5@2"
    assert given(driver, "S e-2 as=i-s").records == ("8(S: e-2/p2 UNREVOKED 0-2@0 | -)",)
    assert driver.told("B e3") == "e3 asg 3-5"
    driver.advance(20_000)
    driver.beat("B e3")
    assert given(driver, "S e0 join as=i-s").records[-1] == "8(S: e3/p0 STABLE 0-2@0 | -)"


@pytest.mark.conformance("K-B-44", "K-B-54")
def test_one_that_is_away_has_to_be_back_before_the_session_ends_that_its_last_heartbeat_began() -> None:
    driver = ConsumerDriver()
    driver.beat("S e0 join as=i-s")
    driver.advance(30_000)
    driver.beat("S e-2 as=i-s")
    driver.advance(SESSION_MS - 30_000 - 1)
    assert driver.stands() == "2/2 Reconciling"
    at = len(driver.log)
    driver.advance(1)
    assert driver.written(at) == ["x8(S)", "x7(S)", "x5(S)", "3(3)", "6(3,0)"]


@pytest.mark.conformance("K-B-44")
def test_a_rebalance_timer_ends_in_vain_for_one_that_went_away() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(session_timeout_ms=1_000_000))
    driver.beat("S e0 join as=i-s")
    driver.advance(1_100)
    driver.beat("B e0 join")
    driver.beat("S e2")
    assert driver.consumer().awaited == ("S",)
    driver.advance(REBALANCE_MS - 10)
    driver.holds = True
    driver.beat_later("S e-2 as=i-s")
    driver.advance(10)
    driver.holds = False
    driver.turn()
    assert driver.member("S") == "e-2/p2 UNREVOKED 0-2@0 | -", "the timer ended before that had committed"
    assert driver.consumer().awaited == ()
    at = len(driver.log)
    driver.advance(REBALANCE_MS)
    assert driver.written(at) == []


@pytest.mark.conformance("K-B-45", "K-B-46", "K-C-41", "K-B-13")
def test_one_that_comes_back_has_its_partitions_and_no_epoch_rises() -> None:
    driver = away()
    assert driver.told("B e3") == "e3", "what it has is not free meanwhile"
    assert given(driver, "S2 e0 join as=i-s") == ("e3 asg 0-2", BACK)
    assert driver.stands() == "3/3 Stable"
    assert driver.committed().instances == {"i-s": "S2"}


@pytest.mark.conformance("K-B-45")
def test_it_may_come_back_under_its_former_id() -> None:
    driver = away()
    expected = tuple(each.replace("S2", "S1") for each in BACK)
    assert given(driver, "S1 e0 join as=i-s") == ("e3 asg 0-2", expected)
    driver.advance(30_000)
    assert driver.told("S1 e3 as=i-s") == "e3"
    driver.beat("B e3")
    driver.advance(30_000)
    assert driver.told("S1 e3 as=i-s") == "e3", "its session goes on"


@pytest.mark.conformance("K-B-45", "K-B-48")
def test_its_former_id_is_gone() -> None:
    driver = away()
    driver.beat("S2 e0 join as=i-s rack=r9")
    assert driver.told("S1 e3") == "25"
    assert driver.told("S1 e3 as=i-s") == "82"
    assert driver.committed().metadata["S2"].rack_id == "r9"


@pytest.mark.conformance("K-B-47")
def test_one_that_comes_back_with_other_topics_inherits_its_target() -> None:
    driver = away()
    driver.advance(1_100)
    came = given(driver, "S2 e0 R names=foo,bar own=[] as=i-s")
    assert came.records[6:] == (
        "5(S2)",
        "3(4)",
        "7(S2: 0-2 T3:0)",
        "6(4)",
        "8(S2: e4/p0 STABLE 0-2@0 T3:0@4 | -)",
    )


@pytest.mark.conformance("K-B-47", "K-B-125")
def test_one_that_comes_back_with_other_topics_within_the_interval_waits() -> None:
    driver = ConsumerDriver(FOO, BAR)
    driver.beat("S1 e0 R names=foo,bar own=[] as=i-s")
    driver.beat("S1 e-2 as=i-s")
    came = given(driver, "S2 e0 R names=foo own=[] as=i-s")
    assert came == (
        "e2 asg 0-5",
        (
            *("x8(S1)", "x7(S1)", "x5(S1)", "5(S2)", "7(S2: 0-5 T3:0)"),
            *("8(S2: e0/p0 STABLE 0-5@0 T3:0@0 | -)", "5(S2)", "3(3)", "8(S2: e2/p0 STABLE 0-5@0 | -)"),
        ),
    )
    assert driver.stands() == "3/2 Assigning"


@pytest.mark.conformance("K-B-49", "K-A-36")
def test_one_that_comes_back_is_let_into_a_full_group() -> None:
    driver = away(max_size=2)
    assert driver.told("C e0 join") == "81"
    assert driver.told("S2 e0 join as=i-s") == "e3 asg 0-2"


@pytest.mark.conformance("K-B-51", "K-B-86")
def test_one_that_comes_back_does_not_count_twice() -> None:
    driver = away()
    driver.advance(1_100)
    driver.beat("S2 e0 join as=i-s")
    state = driver.committed()
    assert (state.names, len(state.metadata), state.is_homogeneous) == ({"foo": 2}, 2, True)
