"""Fetches that wait for records: the choice of those to try again, and their number in one turn of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.broker.fetches import ParkedFetch, ParkedFetches


class Turns:
    """A loop whose turns the test runs."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.next.append(call)

    def call_later(self, delay: float, call: Callable[..., None], *args: Any) -> Turns:
        return self

    def cancel(self) -> None: ...

    def run(self) -> None:
        calls, self.next = self.next, []
        for call in calls:
            call()


class World:
    """`tried` has the names of the fetches that were tried; those in `enough` were answered."""

    def __init__(self) -> None:
        self.turns = Turns()
        loop: Any = self.turns
        self.fetches = ParkedFetches(loop)
        self.tried: list[str] = []
        self.enough: set[str] = set()

    def park(self, name: str, connection: Any, partitions: int = 1) -> None:
        def retry(last: bool) -> bool:
            self.tried.append(name)
            return name in self.enough

        self.fetches.park(ParkedFetch(retry, [("t", 0)] * partitions, connection), 1000)

    def turn(self) -> list[str]:
        """The names of the fetches that are tried in the next turn."""
        self.tried.clear()
        self.turns.run()
        return list(self.tried)


def test_of_one_connection_the_first_is_tried_and_the_next_when_that_is_answered() -> None:
    """Else the broker looks at each record 512 times for a client with 512 fetches."""
    w = World()
    for name in ("a1", "a2", "a3"):
        w.park(name, "a")
    w.park("b1", "b")
    w.fetches.wake("t", 0)
    assert w.turn() == ["a1", "b1"]
    w.enough = {"a1"}
    w.fetches.wake("t", 0)
    assert w.turn() == ["a1", "b1", "a2"]
    assert w.turn() == []
    w.fetches.forget("a")  # type: ignore[arg-type]
    assert w.turn() == []
    assert len(w.fetches) == 1


def test_the_next_is_not_tried_if_nothing_came_for_it() -> None:
    w = World()
    w.enough = {"a1"}
    w.park("a1", "a")
    w.fetches.wake("t", 0)
    w.park("a2", "a")
    assert w.turn() == ["a1"]
    assert w.turn() == []
    assert len(w.fetches) == 1


def test_large_ones_take_turns_with_other_clients() -> None:
    w = World()
    for name in ("a", "b", "c"):
        w.park(name, name, partitions=600)
    w.park("d", "d")
    w.fetches.wake("t", 0)
    assert w.turn() == ["a", "b"]
    w.fetches.wake("t", 0)
    assert w.turn() == ["c", "d", "a"], "who has waited comes first"
    assert w.turn() == ["b"]
    assert w.turn() == []
