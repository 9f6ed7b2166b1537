"""A Ray that the test plays for a driver: it has the actors that it is given, and notes who was asked, ended and left.

A method of a `FakeActor` is a function without arguments. As with Ray, the driver gets its error when it takes the
answer. `silent` is the method of an actor that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from actors.controller.driver_ray import ActorName, Asked
from actors.links.not_controller import NotControllerError
from placement.nodes import Node
from tests.support.fake_ray import NODES

Method = Callable[[], Any]


def raising(error: BaseException) -> Method:
    """A method that raises."""

    def method() -> NoReturn:
        raise error

    return method


def in_turn(*answers: Any) -> Method:
    """A method that gives these answers one after the other; an exception among them is raised."""
    left = list(answers)

    def method() -> Any:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return method


def refused(text: str) -> RayTaskError:
    """The error of a method that has raised: its text ends with the one of the cause."""
    return RayTaskError("f", f"Traceback (most recent call last):\n  of a worker\nactors.ClusterError: {text}", None)


def another_leads() -> RayTaskError:
    """The error of one of several controllers that does not lead: Ray's error is one of the cause's class, too."""
    error: RayTaskError = RayTaskError("f", "Traceback\nanother one leads", NotControllerError()).as_instanceof_cause()
    return error


def unavailable() -> ActorUnavailableError:
    """The error of an actor that Ray restarts, or cannot reach."""
    return ActorUnavailableError("RPC error: Socket closed", None)


silent = raising(GetTimeoutError("no answer"))


class FakeAsked:
    """A call whose answer is made at once, and had when the driver takes it."""

    def __init__(self, method: Method) -> None:
        self.given_up = False
        self.waited: list[float | None] = []
        """The times that the driver would have waited."""
        self._answer: Any = None
        self._error: BaseException | None = None
        try:
            self._answer = method()
        except BaseException as error:  # raised for whoever takes the answer
            self._error = error

    def answer(self, within_s: float | None = None) -> Any:
        self.waited.append(within_s)
        assert self.has_come(0) or within_s is not None, "the driver would wait for ever"
        if self._error is not None:
            raise self._error
        return self._answer

    def has_come(self, within_s: float) -> bool:
        return not isinstance(self._error, GetTimeoutError)

    def call_off(self) -> None:
        self.given_up = True


class FakeActor:
    """An actor with these methods, and no others."""

    def __init__(self, **methods: Method) -> None:
        self.methods = methods
        self.asked: list[tuple[Any, ...]] = []
        """The method and arguments of each call."""
        self.calls: list[FakeAsked] = []
        self.killed = False

    def has(self, method: str) -> bool:
        return method in self.methods

    def ask(self, method: str, *arguments: Any, **named: Any) -> FakeAsked:
        self.asked.append((method, *arguments, *named.values()))
        self.calls.append(FakeAsked(raising(ActorDiedError()) if self.killed else self.methods[method]))
        return self.calls[-1]

    def kill(self) -> None:
        self.killed = True


class FakeDriverRay:
    """A Ray with these actors, until they are killed. `connected`: this process uses it already."""

    def __init__(self, actors: Mapping[ActorName, FakeActor] | None = None, *, connected: bool = True) -> None:
        self.actors = dict(actors or {})
        self.is_connected = connected
        self.address = "10.0.0.9:6379"
        self.asks_for_token = True
        self.alive = NODES
        self.lost = 0
        """The number of nodes that Ray knows of and that do not live."""
        self.next = FakeActor()
        """The actor that is started next."""
        self.made: dict[ActorName, FakeActor] = {}
        """Those that are started by these names, instead."""
        self.places: dict[ActorName, Node] = {}
        """The nodes of actors that were started elsewhere."""
        self.told: dict[ActorName, bytes] = {}
        """The actors that were started, with their arguments."""
        self.joined: list[tuple[str | None, Path | None]] = []
        self.embedded: list[tuple[Path, Sequence[str] | None]] = []
        self.left = 0
        self.tasks: list[FakeAsked] = []
        self.run_as: Callable[..., Any] = dict
        """A task of the driver's is this function."""

    def join(self, ray_address: str | None, folder: Path | None) -> bool:
        self.joined.append((ray_address, folder))
        before, self.is_connected = self.is_connected, True
        return not before

    def start_embedded(self, folder: Path, warm: Sequence[str] | None) -> None:
        self.embedded.append((folder, warm))
        self.is_connected = True

    def leave(self) -> None:
        self.left += 1
        self.is_connected = False

    @property
    def node_count(self) -> int:
        return len(self.alive) + self.lost

    def nodes(self) -> list[Node]:
        return self.alive

    def run(self, task: Callable[..., Any], options: Mapping[str, Any], *arguments: Any) -> FakeAsked:
        self.tasks.append(FakeAsked(lambda: self.run_as(*arguments)))
        return self.tasks[-1]

    def names(self) -> list[ActorName]:
        return [name for name, actor in self.actors.items() if not actor.killed]

    def find(self, name: ActorName) -> FakeActor:
        if name not in self.names():
            raise ValueError(f"Failed to look up actor with name '{name.name}'")
        return self.actors[name]

    def start_here(self, actor_class: Any, name: ActorName, told: bytes) -> FakeActor:
        if name in self.names():
            raise ValueError(f"Actor with name '{name.name}' already exists in the namespace {name.namespace}")
        self.told[name] = told
        self.actors[name] = self.made.get(name, self.next)
        return self.actors[name]

    def start_at(self, node: Node, actor_class: Any, name: ActorName, told: bytes) -> FakeActor:
        self.places[name] = node
        return self.start_here(actor_class, name, told)

    def first(self, asked: Sequence[Asked], within_s: float) -> Asked | None:
        return next((each for each in asked if each.has_come(within_s)), None)
