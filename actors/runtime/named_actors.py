"""Actors on Ray as other processes find them, by their names, and ask them by the names of their methods.

`NamedOnRay` makes the calls; what needs no more than `NamedActors` is tested with a fake. Errors are Ray's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import ray
from ray.exceptions import RayError

__all__ = ["NAMED_ON_RAY", "ActorName", "Asked", "AskedOfRay", "FoundActor", "FoundOnRay", "NamedActors", "RayError"]


@dataclass(frozen=True, slots=True)
class ActorName:
    """The name by which any process finds an actor. Actors of another namespace may have the same `name`."""

    namespace: str
    name: str


class Asked(Protocol):
    """A call of an actor's method, or a task, that is under way."""

    def answer(self, within_s: float | None = None) -> Any:
        """Wait for the answer and return it; None: for as long as it takes.

        Raises GetTimeoutError if there is none in time, RayTaskError with the method's own error, RayActorError if the
        actor's process has ended or cannot be reached (ActorDiedError: for good), and other RayErrors.
        """

    def has_come(self, within_s: float) -> bool:
        """Wait for the answer, or for an error. Returns whether there is one."""

    def call_off(self) -> None:
        """Have Ray try no longer, if it is a task."""


class FoundActor(Protocol):
    """An actor that this process has found, or started."""

    def has(self, method: str) -> bool:
        """True if the actor has this method. Ray keeps the methods of the process that first started it."""

    def ask(self, method: str, *arguments: Any, **named: Any) -> Asked:
        """Call a method, and do not wait for it."""

    def kill(self) -> None:
        """End its process at once. Ray does not restart it."""


class NamedActors(Protocol):
    """The actors with names on the Ray that this process is connected to."""

    def names(self) -> list[ActorName]:
        """The names of all actors that Ray knows of."""

    def find(self, name: ActorName) -> FoundActor:
        """The actor of this name. Raises ValueError if there is none."""

    def first(self, asked: Sequence[Asked], within_s: float) -> Asked | None:
        """Wait until one of these calls has its answer, or an error, and return it; None: none has in time."""


class NamedOnRay:
    """Those of the Ray that this process is connected to, or will be. It has no state of its own."""

    def names(self) -> list[ActorName]:
        """The names of all actors that Ray knows of."""
        return [ActorName(each["namespace"], each["name"]) for each in ray.util.list_named_actors(all_namespaces=True)]

    def find(self, name: ActorName) -> FoundActor:
        """The actor of this name. Raises ValueError if there is none."""
        return FoundOnRay(ray.get_actor(name.name, namespace=name.namespace))

    def first(self, asked: Sequence[Asked], within_s: float) -> Asked | None:
        """The first of these calls that has come."""
        calls = {each.ref: each for each in cast(Sequence[AskedOfRay], asked)}
        done, _ = ray.wait(list(calls), timeout=within_s)
        return calls[done[0]] if done else None


NAMED_ON_RAY: Final[NamedActors] = NamedOnRay()


class FoundOnRay:
    """An actor, by Ray's handle of it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def has(self, method: str) -> bool:
        """True if the handle has this method."""
        return hasattr(self._handle, method)

    def ask(self, method: str, *arguments: Any, **named: Any) -> Asked:
        """Call a method."""
        return AskedOfRay(getattr(self._handle, method).remote(*arguments, **named))

    def kill(self) -> None:
        """End its process."""
        ray.kill(self._handle)


class AskedOfRay:
    """A call, by Ray's reference (`ref`) to its answer."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def answer(self, within_s: float | None = None) -> Any:
        """Wait for the answer."""
        return ray.get(self.ref, timeout=within_s)

    def has_come(self, within_s: float) -> bool:
        """Wait for the answer, or for an error."""
        done, _ = ray.wait([self.ref], timeout=within_s)
        return bool(done)

    def call_off(self) -> None:
        """Cancel a task."""
        ray.cancel(self.ref)
