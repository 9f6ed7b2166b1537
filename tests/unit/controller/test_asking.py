"""A driver asks the controller by the names of its methods. Where there is no answer, it says why."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError

from actors.controller.asking import ControllerHandle
from actors.controller.driver_ray import ActorName
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from tests.support.fake_driver_ray import (
    FakeActor,
    FakeDriverRay,
    Method,
    another_leads,
    in_turn,
    raising,
    refused,
    silent,
    unavailable,
)


class Handle:
    """A handle of cluster `c`, and a clock that goes on while the handle sleeps."""

    def __init__(self, **methods: Method) -> None:
        self.now = 0.0
        self.actor = FakeActor(**methods)
        self.of = ControllerHandle(
            FakeDriverRay(), "c", self.actor, Clock(monotonic=lambda: self.now, sleep=self.sleep)
        )

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


# --- one of several ---


class Several:
    """A handle of cluster `c` with three controllers, of which the first has led, and a clock as above."""

    def __init__(self, *leads: Method) -> None:
        self.now = 0.0
        self.actors = [FakeActor(leads=each) for each in leads]
        self.ray = FakeDriverRay({ActorName("coterie-c", f"controller-{i}"): a for i, a in enumerate(self.actors)})
        clock = Clock(monotonic=lambda: self.now, sleep=self.sleep)
        self.of = ControllerHandle(self.ray, "c", self.actors[0], clock, several=True)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, method: str, *answers: Method) -> None:
        for actor, answer in zip(self.actors, answers, strict=True):
            actor.methods[method] = answer


def yes() -> bool:
    return True


def no() -> bool:
    return False


@pytest.mark.parametrize("error", [another_leads(), unavailable(), ActorDiedError()])
def test_a_look_is_had_from_the_next_one_that_leads(error: RayError) -> None:
    w = Several(no, in_turn(False, True), no)
    w.answer("status", raising(error), lambda: "well", silent)
    assert w.of.ask("status") == "well"
    assert w.of.ask("status") == "well"
    assert [asked for asked in w.actors[0].asked if asked == ("status",)] == [("status",)], "it is asked no more"


def test_an_order_that_has_changed_nothing_goes_to_the_next_one_that_leads() -> None:
    w = Several(no, no, yes)
    w.answer("add_brokers", raising(another_leads()), silent, lambda: [3])
    assert w.of.ask("add_brokers", 1, 60.0) == [3]


def test_an_order_during_which_its_controller_dies_is_not_given_again() -> None:
    """Nobody knows whether it was carried out."""
    w = Several(no, yes, no)
    w.answer("add_brokers", raising(unavailable()), lambda: [3], lambda: [3])
    with pytest.raises(RayActorError):
        w.of.ask("add_brokers", 1, 60.0)
    assert w.actors[1].asked == []


def test_after_one_that_did_not_answer_the_next_one_that_leads_is_asked() -> None:
    """Its machine is off, and Ray does not know it yet."""
    w = Several(silent, yes, no)
    w.answer("status", silent, lambda: "well", silent)
    with pytest.raises(GetTimeoutError):
        w.of.ask("status")
    assert w.of.ask("status") == "well"


def test_one_that_says_that_it_leads_and_does_not_is_given_up_in_time() -> None:
    w = Several(yes, no, no)
    w.answer("status", raising(another_leads()), silent, silent)
    with pytest.raises(ClusterError, match="cluster 'c': another one leads"):
        w.of.ask("status")
    assert 10.0 < w.now < 11.0


def test_while_nobody_leads_one_insists_for_half_a_minute() -> None:
    w = Several(no, no, no)
    w.answer("removal", raising(another_leads()), silent, silent)
    with pytest.raises(ClusterError, match="cluster 'c': another one leads"):
        w.of.insist("removal", 3)
    assert 30.0 < w.now < 45.0
    assert w.of.is_known


def test_to_insist_finds_the_next_one_that_leads() -> None:
    w = Several(no, yes, no)
    w.answer("removal", raising(ActorDiedError()), lambda: "under way", silent)
    assert w.of.insist("removal", 3) == "under way"


@pytest.mark.parametrize("first", [silent, raising(unavailable()), raising(ActorDiedError()), no])
def test_a_cluster_is_well_while_any_of_them_leads(first: Method) -> None:
    assert Several(first, no, yes).of.check()


def test_a_cluster_of_which_nobody_leads_is_looked_at_again_for_as_long_as_it_takes() -> None:
    """The program that has started it is not to end it: lost nodes come back."""
    w = Several(silent, no, raising(unavailable()))
    for _ in range(40):
        assert not w.of.check()
    assert w.now > 30.0
    assert w.of.is_known


def test_a_cluster_without_any_controller_has_been_ended() -> None:
    w = Several(yes, no, no)
    w.ray.actors.clear()
    with pytest.raises(ClusterError, match="cluster 'c' has been ended by `coterie down`"):
        w.of.check()
    assert not w.of.is_known
    with pytest.raises(ClusterError, match="has ended, or this program has left it"):
        w.of.check()


def test_the_one_that_leads_now_stops_the_cluster_and_all_of_them_are_ended() -> None:
    w = Several(no, yes, no)
    w.answer("stop", silent, lambda: None, silent)
    w.ray.actors[ActorName("coterie-c", "broker-0-1")] = FakeActor()
    w.of.end()
    assert [("stop",) in each.asked for each in w.actors] == [False, True, False]
    assert w.ray.names() == []
    assert not w.of.is_known


def test_what_several_controllers_have_left_is_ended_though_there_is_none_any_more() -> None:
    w = Several(no, no, no)
    w.answer("stop", raising(ActorDiedError()), silent, silent)
    w.ray.actors = {ActorName("coterie-c", "broker-0-1"): FakeActor()}
    with pytest.raises(ActorDiedError):
        w.of.end()
    assert w.ray.names() == []
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
