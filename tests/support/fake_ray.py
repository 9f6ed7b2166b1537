"""A Ray that the test plays: it notes which actors it is asked to start and to kill, and has the nodes it is given.

`HandWork` stands for the thread that asks Ray, with a clock that the test puts forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.controller.ray_actors import Role
from placement.nodes import Node

NODES = [Node(f"{i:056x}", f"10.0.0.{i}", 2.0) for i in range(2)]


@dataclass(frozen=True, slots=True)
class Started:
    """An actor that Ray was asked for. `ended` says that its process has ended, or was never started."""

    role: Role
    name: str
    told: bytes
    options: Mapping[str, Any]
    ended: Callable[[BaseException | None], None]

    @property
    def broker_id(self) -> int:
        return int(self.name.split("-")[1])


class FakeRay:
    """The actors of one cluster, as the controller on node `node_id` asks for them."""

    def __init__(self, node_id: str = "0f" * 28) -> None:
        self.node_id = node_id
        self.address = "127.0.0.1"
        self.started: list[Started] = []
        self.killed: list[str] = []
        self.named: list[str] = []
        """Actors that others have started."""
        self.alive = NODES
        """The living nodes. Without any, Ray is too busy to say."""
        self.drained: dict[str, int] | None = {}
        self.token = False
        self.refusal: Exception | None = None
        """Raised by each start."""
        self.answering: dict[str, Any] = {}
        """The objects that answer for actors, by their names."""

    def of(self, role: Role) -> list[Started]:
        return [each for each in self.started if each.role is role]

    def start(
        self,
        role: Role,
        name: str,
        told: bytes,
        options: Mapping[str, Any],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(Started(role, name, told, options, ended))

    def kill(self, name: str) -> None:
        if name in self.names():
            self.killed.append(name)

    def ask(self, name: str, method: str, *arguments: Any, within_s: float) -> Any:
        if name not in self.answering:
            raise ValueError(f"there is no actor {name}")
        return getattr(self.answering[name], method)(*arguments)

    def names(self) -> list[str]:
        known = [*self.named, *(each.name for each in self.started)]
        return sorted(name for name in known if name not in self.killed)

    def nodes(self) -> list[Node]:
        if not self.alive:
            raise TimeoutError("the GCS is busy")
        return self.alive

    def draining(self) -> Mapping[str, int] | None:
        return self.drained

    def asks_for_token(self) -> bool:
        return self.token


class HandWork:
    """Does work at once, or when the test lets it: while `held`, as while a call of Ray's does not return."""

    def __init__(self) -> None:
        self.now = 0.0
        self.held = False
        self.waiting: list[Callable[[], None]] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._busy = False

    def put(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)
        self._do()

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        self._later.append((self.now + delay_s, work))

    def go_on(self) -> None:
        self.held = False
        self._do()

    def _do(self) -> None:
        if self._busy or self.held:
            return
        self._busy = True
        try:
            while self.waiting:
                self.waiting.pop(0)()
        finally:
            self._busy = False

    def advance(self, seconds: float) -> None:
        """Put the clock forward; what is due by then is done."""
        self.now += seconds
        due = [work for at, work in self._later if at <= self.now]
        self._later = [each for each in self._later if each[0] > self.now]
        for work in due:
            self.put(work)
