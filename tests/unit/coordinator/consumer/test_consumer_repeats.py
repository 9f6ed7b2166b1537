"""A heartbeat that is repeated as the same object is carried out like one that is read anew each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.coordinator.consumer.settings import ConsumerSettings
from tests.support.consumer_groups import FOO, FOOBAR, GROUP, T1, ConsumerDriver, Topic, beat_request, shown_answer

MEMBERS = ("A", "B", "C")
SETTINGS = (
    ConsumerSettings(),
    ConsumerSettings(heartbeat_interval_ms=7_000),
    ConsumerSettings(session_timeout_ms=50_000, max_session_timeout_ms=60_000),
    ConsumerSettings(overrides={GROUP: {"heartbeat_interval_ms": 9_000}}),
)
TOPICS = ((FOO, FOOBAR), (FOO,), (Topic(T1, "foo", 8), FOOBAR))
BEATS = st.sampled_from(MEMBERS).map(lambda member: ("beat", member))
OTHERS = st.one_of(
    st.tuples(st.sampled_from(("stale", "join", "leave")), st.sampled_from(MEMBERS)),
    st.tuples(st.just("topics"), st.sampled_from(TOPICS)),
    st.tuples(st.just("settings"), st.sampled_from(SETTINGS)),
    st.tuples(st.just("wait"), st.sampled_from((1_100, 20_000, 46_000))),
    st.tuples(st.sampled_from(("hold", "release", "fail over")), st.none()),
)
STEPS = st.lists(st.tuples(OTHERS, st.lists(BEATS, max_size=4)), min_size=3, max_size=15)
"""Steps, and the heartbeats that follow each."""


class Repeating:
    """A shard whose members beat in the same objects as before; or, unless `same`, in equal ones."""

    def __init__(self, *, same: bool) -> None:
        self._same = same
        self.driver = ConsumerDriver(FOO, FOOBAR)
        self.driver.join("A", "B")

    def do(self, what: str, value: object) -> object:
        """Carry out a step; what a client sees of it."""
        driver = self.driver
        match what, value:
            case "beat", str(member):
                return self._beat(f"{member} e{self._epoch(member)}")
            case "stale", str(member):
                return self._beat(f"{member} e{self._epoch(member) - 1}")
            case "join", str(member):
                return self._beat(f"{member} e0 join")
            case "leave", str(member):
                return self._beat(f"{member} e-1")
            case "topics", tuple(topics):
                driver.set_topics(*topics)
            case "settings", ConsumerSettings() as changed:
                driver.set_settings(changed)
            case "wait", int(ms):
                driver.advance(ms)
            case "hold" | "release", _:
                driver.holds = what == "hold"
            case _ if not driver.held:
                driver.fail_over()
        return None

    def _epoch(self, member: str) -> int:
        return self.driver.committed().current_of(member).epoch if self.driver.stands() else 1

    def _beat(self, text: str) -> str:
        request = beat_request(text)
        answer = self.driver.answer(self.driver.ask(request if self._same else replace(request)))
        return "" if answer is None else f"{shown_answer(answer)} {answer.heartbeat_interval_ms} {answer.error_message}"


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_repeated_objects_change_nothing(steps: list[tuple[Any, list[Any]]]) -> None:
    repeated, anew = Repeating(same=True), Repeating(same=False)
    for what, value in [each for step, beats in steps for each in (step, *beats)]:
        assert repeated.do(what, value) == anew.do(what, value), what
        assert repeated.driver.stands() == anew.driver.stands()
    assert repeated.driver.log == anew.driver.log
    assert repeated.driver.answers.keys() == anew.driver.answers.keys()


def test_a_repeated_heartbeat_keeps_the_member_as_long_as_its_group_says() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    usual = beat_request("A e2")
    for _ in range(4):
        driver.advance(44_000)
        assert shown_answer(driver.call(usual)) == "e2"
    driver.set_settings(ConsumerSettings(session_timeout_ms=60_000, max_session_timeout_ms=60_000))
    assert shown_answer(driver.call(usual)) == "e2"
    driver.advance(59_000)
    assert driver.stands() == "2/2 Stable"
    driver.advance(2_000)
    assert driver.stands() == "3/2 Assigning" or driver.stands() == "3/3 Empty"


def test_a_repeated_heartbeat_hears_of_the_next_target() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    usual = beat_request("A e2")
    answers = [driver.call(usual) for _ in range(3)]
    assert answers[1] is answers[2], "it is answered by what was noted"
    driver.advance(1_100)
    driver.beat("B e0 join")
    assert shown_answer(driver.call(usual)) == "e2 asg 0-2"
