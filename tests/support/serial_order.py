"""Linearizability: the answers that concurrent clients saw are those of some serial order of their requests.

The search is Wing and Gong's, with Lowe's memory of tried states: handle one request after the other, always one that
had been sent before the first outstanding answer came, and go back where the model's answer differs from the server's.
The model may park a request, and answer it while it handles a later one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

State = Hashable
Step = tuple[State, Mapping[int, Any]]
"""The next state, and the answers that are given, by the numbers of the requests."""


class Seen(Protocol):
    """One request as its client saw it; times are places in one order of all sendings and answers."""

    invoked: int
    answered: int
    answer: Any


class Model(Protocol):
    """The server's specification. It branches over the server's choices, such as ids, or reads them off the answers."""

    start: State

    def handle(self, state: Any, number: int) -> Iterable[Step]: ...

    def may_come_early(self, number: int) -> bool:
        """True if a request, answered as it was, may as well be handled before all others."""

    def by_itself(self, state: Any, open_now: Sequence[int], horizon: int) -> Iterable[Step]:
        """The steps that may happen without a request: a timer, a write that becomes safe.

        `open_now` may be handled next. The answer that came at `horizon` is owed before any request that was sent later
        is handled: steps that can as well happen after that may be left out.
        """

    def parked(self, state: Any) -> Iterable[int]:
        """The numbers of the requests that were handled and have no answer yet."""


class UndecidedError(Exception):
    """The search has come to its bound, and has neither found such an order nor excluded one."""


def serial_order(seen: Sequence[Seen], model: Model, bound: int = 200_000) -> list[int] | None:
    """The numbers of the requests in an order that explains all answers; None if there is none.

    `seen` is in the order of sending. Raises UndecidedError after `bound` steps.
    """
    return _Search(seen, model, bound).run() if seen else []


class _Search:
    def __init__(self, seen: Sequence[Seen], model: Model, bound: int) -> None:
        assert all(a.invoked < b.invoked for a, b in pairwise(seen)), "in the order of sending"
        self._seen = seen
        self._model = model
        self._left = bound

    def run(self) -> list[int] | None:
        start = (0, frozenset[int](), self._model.start)
        tried = {start}
        order: list[int] = []
        stack = [self._moves(*start)]
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if order and stack:
                    order.pop()
                continue
            number, place = move
            if place in tried:
                continue
            self._left -= 1
            if self._left < 0:
                raise UndecidedError(f"no order found, and not all tried; {len(tried)} states")
            tried.add(place)
            order.append(number)
            if place[0] == len(self._seen) and not any(self._model.parked(place[2])):
                return [each for each in order if each >= 0]
            stack.append(self._moves(*place))
        return None

    def _moves(self, low: int, beyond: frozenset[int], state: Any) -> Iterator[tuple[int, Any]]:
        """The possible next steps: (request or -1, place). All below `low` are handled, and those in `beyond`."""
        (open_now, horizon), moves = self._open(low, beyond, state), []
        for number in open_now:
            for after, answers in self._model.handle(state, number):
                if self._explained(answers):
                    if after == state or self._model.may_come_early(number):
                        # If there is any order, there is one in which it comes now.
                        yield number, self._place(low, beyond, number, after)
                        return
                    moves.append((number, after))
        for after, answers in self._model.by_itself(state, open_now, horizon):
            if self._explained(answers):
                yield -1, (low, beyond, after)
        for number, after in moves:
            yield number, self._place(low, beyond, number, after)

    def _open(self, low: int, beyond: frozenset[int], state: Any) -> tuple[list[int], int]:
        """The requests sent before the first owed answer came, the most urgent first; and the time of that answer."""
        horizon = min((self._seen[number].answered for number in self._model.parked(state)), default=1 << 62)
        found = []
        for number in range(low, len(self._seen)):
            one = self._seen[number]
            if one.invoked > horizon:
                break
            if number not in beyond:
                found.append(number)
                horizon = min(horizon, one.answered)
        found = [number for number in found if self._seen[number].invoked < horizon]
        return sorted(found, key=lambda number: self._seen[number].answered), horizon

    def _explained(self, answers: Mapping[int, Any]) -> bool:
        return all(self._seen[number].answer == answer for number, answer in answers.items())

    def _place(self, low: int, beyond: frozenset[int], number: int, state: Any) -> tuple[int, frozenset[int], Any]:
        beyond |= {number}
        while low in beyond:
            beyond -= {low}
            low += 1
        return low, beyond, state
