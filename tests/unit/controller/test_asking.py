"""A driver asks the controller by the names of its methods. Where there is no answer, it says why."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from actors.controller.asking import ControllerHandle
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from tests.support.fake_driver_ray import FakeActor, Method, in_turn, raising, refused, silent, unavailable


class Handle:
    """A handle of cluster `c`, and a clock that goes on while the handle sleeps."""

    def __init__(self, **methods: Method) -> None:
        self.now = 0.0
        self.actor = FakeActor(**methods)
        self.of = ControllerHandle("c", self.actor, Clock(monotonic=lambda: self.now, sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_controller_without_the_method_is_named_for_what_it_is() -> None:
    """Ray keeps the methods of the process that first started it."""
    handle = Handle().of
    for ask in (handle.ask, handle.insist):
        with pytest.raises(
            ClusterError, match="the controller of cluster 'c' was first started by a release that cannot"
        ):
            ask("removal", 3)


def test_after_it_was_left_it_is_asked_nothing() -> None:
    handle = Handle(status=silent, addresses=silent).of
    assert handle.is_known
    handle.leave()
    assert not handle.is_known
    for ask in (lambda: handle.ask("status"), lambda: handle.insist("status"), handle.check):
        with pytest.raises(ClusterError, match="cluster 'c' has ended, or this program has left it"):
            ask()


# --- one question ---


def test_an_answer_is_waited_for_as_long_as_the_caller_says() -> None:
    w = Handle(status=lambda: "well")
    assert w.of.ask("status") == "well"
    assert w.of.ask("status", 7, within_s=60.0, node_is_off=True) == "well"
    assert w.actor.asked == [("status",), ("status", 7, True)]
    assert [call.waited for call in w.actor.calls] == [[10.0], [60.0]]


def test_the_error_of_a_method_is_one_line_without_its_traceback() -> None:
    w = Handle(remove_broker=raising(refused("broker 3 is the last one")))
    for ask in (w.of.ask, w.of.insist):
        with pytest.raises(ClusterError, match=r"^broker 3 is the last one$"):
            ask("remove_broker", 3)


@pytest.mark.parametrize("error", [GetTimeoutError("no answer"), ActorDiedError(), unavailable()])
def test_a_question_without_an_answer_is_asked_once(error: RayError) -> None:
    w = Handle(status=raising(error))
    with pytest.raises(type(error)):
        w.of.ask("status")
    assert len(w.actor.asked) == 1


# --- to insist ---


def test_the_next_controller_is_asked_when_one_dies_meanwhile() -> None:
    w = Handle(removal=in_turn(unavailable(), GetTimeoutError("no answer"), "under way"))
    assert w.of.insist("removal", 3) == "under way"
    assert w.actor.asked == [("removal", 3)] * 3
    assert w.now == 2.0


def test_a_controller_that_stays_away_is_asked_for_half_a_minute() -> None:
    w = Handle(removal=raising(unavailable()))
    with pytest.raises(ClusterError, match=r"of cluster 'c' does not answer \(ActorUnavailableError\): what has begun"):
        w.of.insist("removal", 3)
    assert w.now == 31.0


def test_a_controller_that_is_said_to_be_dead_for_good_is_given_up_earlier() -> None:
    w = Handle(removal=raising(ActorDiedError()))
    with pytest.raises(ClusterError, match=r"of cluster 'c' does not answer \(ActorDiedError\)"):
        w.of.insist("removal", 3)
    assert w.now == 6.0


# --- to look after it ---


def test_a_look_waits_for_the_answer_of_the_look_before() -> None:
    w = Handle(addresses=silent)
    assert not w.of.check()
    assert not w.of.check()
    assert len(w.actor.asked) == 1, "it is asked again when it has answered"
    w.now = 31.0
    with pytest.raises(ClusterError, match=r"of cluster 'c' has not answered for 30 s: see `ray status`, and logs/con"):
        w.of.check()
    assert w.of.is_known, "it may come back"


def test_silence_counts_from_the_last_answer_on() -> None:
    w = Handle(addresses=in_turn([], GetTimeoutError("no answer")))
    w.now = 100.0
    assert w.of.check()
    w.now = 130.0
    assert not w.of.check()
    w.now = 130.1
    with pytest.raises(ClusterError, match="has not answered"):
        w.of.check()


def test_a_controller_that_is_restarted_has_not_answered_and_is_asked_again() -> None:
    w = Handle(addresses=in_turn(unavailable(), [("h", 1)]))
    assert not w.of.check()
    assert w.of.check()


def test_a_controller_that_is_gone_for_good_has_been_ended_or_lost_its_node() -> None:
    w = Handle(addresses=raising(ActorDiedError()))
    with pytest.raises(ClusterError, match="cluster 'c' has been ended by `coterie down`, or its controller's node is"):
        w.of.check()
    assert not w.of.is_known


# --- its end ---


@pytest.mark.parametrize("error", [None, GetTimeoutError("no answer"), unavailable()])
def test_a_controller_is_ended_whether_or_not_it_can_end_the_others_in_order(error: RayError | None) -> None:
    w = Handle(stop=in_turn(error))
    if error is None:
        w.of.end()
    else:
        with pytest.raises(type(error)):
            w.of.end()
    assert (w.actor.asked, w.actor.calls[0].waited) == ([("stop",)], [5.0])
    assert w.actor.killed
    assert not w.of.is_known
