"""SIGTERM: the first lets the member end, and nothing is left of our handler afterwards."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from actors.members.pools.handling.ending import run_until_terminated


class Seen:
    """A handler of the process's own: it keeps the signals that it gets."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.event = threading.Event()

    def __call__(self, number: int, _: FrameType | None) -> None:
        self.numbers.append(number)
        self.event.set()


@pytest.fixture
def before() -> Iterator[Seen]:
    seen = Seen()
    former = signal.signal(signal.SIGTERM, seen)
    yield seen
    signal.signal(signal.SIGTERM, former)


def test_the_first_sigterm_stops_and_a_second_one_does_what_it_did_before(before: Seen) -> None:
    stopped = threading.Event()

    def member() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stopped.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        before.event.wait(60)

    former = signal.getsignal(signal.SIGTERM)
    assert run_until_terminated(member, stopped.set)
    assert before.numbers == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is former


def test_without_one_nothing_has_happened(before: Seen) -> None:
    assert not run_until_terminated(lambda: None, lambda: pytest.fail("nobody asked it to stop"))
    os.kill(os.getpid(), signal.SIGTERM)
    assert before.event.wait(60)
