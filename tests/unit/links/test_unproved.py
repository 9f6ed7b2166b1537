"""Connections that have not proved themselves: few at a time, and not for long (SECURITY.md, XE-04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.links.unproved import UNPROVED_MAX, UNPROVED_SECONDS, Unproved


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Remembers what it is to call."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Timer, Callable[[], None]]] = []

    def call_later(self, delay: float, call: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer()
        self.due.append((delay, timer, lambda: call(*arguments)))
        return timer

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for _, timer, call in due:
            if not timer.cancelled:
                call()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.mark.conformance("XE-04")
def test_one_that_never_proves_itself_is_closed_after_five_seconds(loop: Loop) -> None:
    closed: list[str] = []
    unproved = Unproved(loop)  # type: ignore[arg-type]
    unproved.came("silent", lambda: closed.append("silent"))
    unproved.came("proved", lambda: closed.append("proved"))
    unproved.left("proved")
    assert [delay for delay, *_ in loop.due] == [UNPROVED_SECONDS] * 2 == [5.0] * 2
    loop.pass_time()
    assert closed == ["silent"]
    unproved.left("silent")  # its end comes later


@pytest.mark.conformance("XE-04")
def test_beyond_sixty_four_the_oldest_goes(loop: Loop) -> None:
    closed: list[int] = []
    unproved = Unproved(loop)  # type: ignore[arg-type]
    for number in range(UNPROVED_MAX + 3):
        unproved.came(number, lambda number=number: closed.append(number))  # type: ignore[misc]
    assert (UNPROVED_MAX, closed) == (64, [0, 1, 2])
    loop.pass_time()
    assert sorted(closed) == list(range(67)), "each once"


def test_one_that_was_accepted_before_the_end_was_kept_open_after_it(loop: Loop) -> None:
    closed: list[str] = []
    unproved = Unproved(loop)  # type: ignore[arg-type]
    unproved.came("accepted", lambda: closed.append("accepted"))
    unproved.close()
    assert closed == ["accepted"]
    unproved.came("still being made", lambda: closed.append("still being made"))
    loop.pass_time()
    assert closed == ["accepted", "still being made"], "each once"
