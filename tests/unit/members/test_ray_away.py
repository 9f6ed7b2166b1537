"""A pool whose Ray has ended, or was left, says so and asks no other Ray. None is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import actors.members
from actors.links.member import MemberReport
from actors.members.pools.consumer_actor import StartedActor
from actors.members.pools.figures import Clusters
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Started, Version
from actors.members.pools.supervision import Supervision
from actors.runtime.ray_session import RayAwayError, RaySession

ROOM = Path(actors.members.__file__).parent
# Calls that begin with these ask a Ray, and connect to any that they find where this process has none.
ASKING = {"get", "wait", "kill", "put", "cancel", "nodes", "get_actor", "list_named_actors"}
# All calls of these do: a controller's actor that was found by its name, and what finds it.
FOUND = {"controller", "controllers", "NAMED_ON_RAY"}
# Code that runs in an actor's own process, which ends with its Ray; and the tasks of Ray Data.
INSIDE = {
    ("pools/consumer_actor.py", "ConsumerActor"),
    ("deployment/supervisor_actor.py", "PoolSupervisor"),
    ("ranges/ray_datasource.py", "ReadReceipts"),
    ("ranges/ray_datasource.py", "_noting_evaluations"),
    ("ranges/ray_datasource.py", "read_range"),
}


def away() -> RaySession:
    session = RaySession("192.0.2.1:6379", connected=lambda: True, reaches=lambda _: False)
    for _ in range(3):
        session.look()
    return session


def left() -> RaySession:
    return RaySession("192.0.2.1:6379", connected=lambda: False, reaches=lambda _: True)


class Untouched:
    """A handle of an actor that counts the calls after its first one, which begins it."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return self

    def remote(self, *_: Any) -> object:
        self.asked += 1
        return self


@pytest.mark.parametrize("make", [away, left])
def test_no_call_about_a_member_reaches_ray(make: Any) -> None:
    handle = Untouched()
    actor = StartedActor(handle, make())
    assert handle.asked == 1
    for ask in (lambda: actor.address(1), actor.serve):
        with pytest.raises(RayAwayError):
            ask()
    assert actor.is_placed()
    assert actor.how_it_died(1) is None
    actor.kill()
    Clusters(lambda: 0.0, make()).report(Any)
    assert handle.asked == 1


def test_a_death_that_ray_cannot_be_asked_about_is_blamed_on_no_record() -> None:
    there = True
    session = RaySession("192.0.2.1:6379", connected=lambda: True, reaches=lambda _: there)
    handle = Untouched()
    actor = StartedActor(handle, session)
    actor.serve()
    there = False
    assert actor.how_it_died(1) is None
    assert handle.asked == 2


class NoRay:
    """Starts nothing, as its session says."""

    wants = "a process"

    def __init__(self, session: RaySession) -> None:
        self.asked = 0
        self._session = session

    def start(self, spec: MemberSpec) -> Started:
        self.asked += 1
        return self._session.call(lambda: pytest.fail("Ray was called"))


def slots(starter: NoRay, session: RaySession) -> Supervision:
    version = Version(MemberSpec(("t",), "g", "host:1"), starter)
    return Supervision(version, lambda *_: None, instance_prefix="g", monotonic=lambda: 0.0, left=lambda: session.over)


def test_a_slot_says_that_its_ray_has_ended_and_is_not_given_up() -> None:
    session = away()
    starter = NoRay(session)
    made = slots(starter, session)
    (slot,) = made.add(1)
    said: list[MemberReport] = []

    class Stopping(NoRay):
        def start(self, spec: MemberSpec) -> Started:
            said.append(slot.report)
            if len(said) == 6:  # more than the starts that may fail
                slot.retire()
            slot.hurry.set()
            return super().start(spec)

    slot.version = Version(slot.version.spec, Stopping(session))
    made.supervise(slot)
    assert (said[-1].state, said[-1].error) == ("Starting", session.away)
    assert not slot.failed


def test_a_slot_whose_ray_was_left_ends_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread took the end of its own Ray for deaths, and had any Ray of the machine start successors."""
    session = left()
    starter = NoRay(session)
    made = slots(starter, session)
    (slot,) = made.add(1)
    made.supervise(slot)
    assert (starter.asked, slot.over) == (1, True)
    assert (slot.report.state, slot.report.error) == ("Failed", "this process has left its Ray")
    assert caplog.records == []


def asks_of_ray(path: Path) -> Iterator[tuple[str, str]]:
    """File and function of each `ray.get(...)`, `controller.ask(...)` and the like that is called by itself.

    A function handed to a session, as in `call(ray.get, ...)`, is not called by itself.
    """
    name = str(path.relative_to(ROOM))
    for top in ast.parse(path.read_text()).body:
        if (name, getattr(top, "name", "")) not in INSIDE:
            for part in top.body if isinstance(top, ast.ClassDef) else [top]:
                if any(asks(node) for node in ast.walk(part)):
                    yield name, getattr(part, "name", "")


def asks(node: ast.AST) -> bool:
    """True for such a call."""
    words = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else [""]
    return words[0] in FOUND or (words[0] == "ray" and words[-1] in ASKING)


# Functions that a session calls.
ALLOWED = {
    ("pools/consumer_actor.py", "_address"),
    ("pools/figures.py", "_report"),
    ("deployment/home.py", "_status"),
    ("deployment/home.py", "_answer"),
    ("deployment/supervisor_actor.py", "_close"),
    ("deployment/supervisor_actor.py", "_got"),
    ("ranges/ray_reader.py", "_got"),
}


def test_every_question_to_ray_in_this_room_goes_through_a_session() -> None:
    assert {each for path in ROOM.rglob("*.py") for each in asks_of_ray(path)} == ALLOWED
