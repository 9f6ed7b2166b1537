"""Of several controllers, the one that leads is found among the actors of a cluster, or one that knows which it is."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError

from actors.controller.by_name import actors_of, end_actors, find_controller
from actors.controller.driver_ray import ActorName
from actors.runtime.controllers import AnyController, found, leading_of, namespaces, of_all_clusters, several
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from tests.support.fake_driver_ray import (
    FakeActor,
    FakeDriverRay,
    Method,
    another_leads,
    in_turn,
    raising,
    silent,
    unavailable,
)

NAMES = [ActorName("coterie-c", f"controller-{i}") for i in range(3)]
BROKER = ActorName("coterie-c", "broker-0-1")


def no() -> bool:
    return False


def yes() -> bool:
    return True


class Look:
    """A Ray with three controllers, which say in their turn whether they lead, and a clock that sleep puts forward."""

    def __init__(self, *leads: Method) -> None:
        self.now = 0.0
        self.clock = Clock(monotonic=lambda: self.now, sleep=self.sleep)
        self.actors = [FakeActor(leads=each, addresses=list) for each in leads]
        self.ray = FakeDriverRay(dict(zip(NAMES, self.actors, strict=False)))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def leading(self) -> FakeActor:
        actor = leading_of(self.ray, several(self.ray, "coterie-c"), 10.0, self.clock)
        assert isinstance(actor, FakeActor)
        return actor


# --- the one that leads ---


def test_the_one_that_says_so_leads_and_nobody_waits_for_the_others() -> None:
    w = Look(silent, no, yes)
    assert w.leading() is w.actors[2]
    assert w.now == 0.0


def test_one_that_dies_while_it_is_asked_does_not_lead_and_its_successor_is_found() -> None:
    w = Look(raising(unavailable()), in_turn(False, False, True), no)
    assert w.leading() is w.actors[1]
    assert w.now == 0.4


def test_one_of_which_nothing_is_heard_holds_up_no_election_and_is_asked_once() -> None:
    """The machine of the one that led is off, and Ray does not know it yet."""
    w = Look(silent, no, in_turn(False, False, True))
    assert w.leading() is w.actors[2]
    assert [len(each.asked) for each in w.actors] == [1, 3, 3]


def test_while_nobody_leads_it_is_looked_for_as_long_as_the_caller_says() -> None:
    w = Look(no, raising(ActorDiedError()), silent)
    with pytest.raises(ConnectionError, match="none of 3 controllers leads"):
        w.leading()
    assert 10.0 < w.now < 10.5


def test_without_any_controller_nothing_is_looked_for() -> None:
    w = Look()
    with pytest.raises(ValueError, match="there is no controller"):
        w.leading()
    assert w.now == 0.0


def test_one_of_three_that_is_not_there_is_not_missed() -> None:
    w = Look(no, yes, no)
    del w.ray.actors[NAMES[0]]
    assert w.leading() is w.actors[1]
    assert find_controller(w.ray, "c") == (w.actors[1], True, [])


def test_one_that_ends_between_its_name_and_its_handle_is_not_asked() -> None:
    class Late(FakeDriverRay):
        def find(self, name: ActorName) -> FakeActor:
            if name == NAMES[1]:
                raise ValueError(name)
            return super().find(name)

    w = Look(yes, yes, yes)
    assert several(Late(w.ray.actors), "coterie-c") == [w.actors[0], w.actors[2]]


def test_the_only_controller_is_not_asked_whether_it_leads() -> None:
    alone = FakeActor()
    assert found(FakeDriverRay({ActorName("coterie-c", "controller"): alone}), "coterie-c") == (alone, False)
    assert alone.asked == []


def test_one_that_leads_and_ends_before_its_next_answer_is_not_reached_though_others_run() -> None:
    w = Look(yes, yes, yes)
    for each in w.actors:
        each.methods["addresses"] = raising(unavailable())
    with pytest.raises(ClusterError, match=r"of cluster 'c' cannot be reached \(ActorUnavailableError\), though 3 of"):
        find_controller(w.ray, "c")


# --- by their names ---


def test_controllers_are_those_of_clusters_and_nothing_that_is_called_much_like_them() -> None:
    others = [
        ActorName("coterie-d", "controller"),
        ActorName("mine", "controller"),
        ActorName("coterie-c", "controller-x"),
    ]
    ray = FakeDriverRay({each: FakeActor() for each in [*NAMES, *others, BROKER]})
    assert of_all_clusters(ray) == [*NAMES, others[0]]
    assert namespaces(ray) == ["coterie-c", "coterie-d"]
    assert len(several(ray, "coterie-c")) == 3
    assert several(ray, "coterie-d") == []


def test_several_controllers_are_ended_first_and_are_not_counted() -> None:
    """They would start what dies again."""
    killed: list[str] = []

    class Noted(FakeActor):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def kill(self) -> None:
            killed.append(self.name)
            super().kill()

    ray = FakeDriverRay({each: Noted(each.name) for each in [BROKER, *NAMES]})
    assert end_actors(ray, "c") == 1
    assert killed == ["controller-0", "controller-1", "controller-2", "broker-0-1"]
    assert actors_of(ray, "c") == []


# --- any of them, for a broker ---


def test_the_first_of_several_that_answers_counts_and_their_actors_are_remembered() -> None:
    w = Look(yes, yes, yes)
    for each, join_info in zip(w.actors, (silent, raising(unavailable()), lambda: "that one"), strict=True):
        each.methods["join_info"] = join_info
    asking = AnyController("coterie-c", w.ray, w.clock)
    assert asking.ask("join_info", within_s=5) == ("that one", w.actors[2])
    w.ray.actors.clear()  # Ray's head is away
    assert asking.ask("join_info", within_s=5) == ("that one", w.actors[2])


def test_while_none_knows_who_leads_those_that_answer_are_asked_again() -> None:
    """The one that led is off: its silence holds up nobody until the next one leads."""
    w = Look(yes, yes, yes)
    for each, join_info in zip(
        w.actors, (silent, in_turn(another_leads(), another_leads(), "me"), raising(another_leads())), strict=True
    ):
        each.methods["join_info"] = join_info
    assert AnyController("coterie-c", w.ray, w.clock).ask("join_info", within_s=5) == ("me", w.actors[1])
    assert w.now == 0.4
    assert [len(each.asked) for each in w.actors] == [1, 3, 3]


def test_where_none_answers_they_are_looked_for_anew() -> None:
    w = Look(yes, yes, yes)
    for each in w.actors:
        each.methods["join_info"] = raising(GetTimeoutError("no answer"))
    asking = AnyController("coterie-c", w.ray, w.clock)
    with pytest.raises(ValueError, match="no controller knows which one leads"):
        asking.ask("join_info", within_s=5)
    later = FakeActor(join_info=lambda: "me")
    w.ray.actors = {ActorName("coterie-c", "controller-3"): later}
    assert asking.ask("join_info", within_s=5) == ("me", later)


def test_the_only_controller_is_found_each_time() -> None:
    name = ActorName("coterie-c", "controller")
    ray = FakeDriverRay({name: FakeActor(join_info=lambda: "first")})
    asking = AnyController("coterie-c", ray)
    assert asking.ask("join_info", within_s=5)[0] == "first"
    ray.actors[name] = FakeActor(join_info=lambda: "second")
    assert asking.ask("join_info", within_s=5)[0] == "second"
    ray.actors.clear()
    with pytest.raises(ValueError, match="Failed to look up"):
        asking.ask("join_info", within_s=5)
