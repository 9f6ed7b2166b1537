"""The thread that looks after a pool's size. The figures and the pool are the test's."""

from __future__ import annotations

import queue
import threading

import pytest

from actors.members.autoscale import Autoscale, Load
from actors.members.pools.scaling import Scaling

POLICY = Autoscale(max_size=12, target_lag=10, stabilization_s=0, interval_s=0.001)


class Figures:
    """Says of each look what the test has put there; then that nothing is known."""

    def __init__(self, *seen: Load | Exception) -> None:
        self._seen: queue.SimpleQueue[Load | Exception] = queue.SimpleQueue()
        for each in seen:
            self._seen.put(each)
        self.closed = threading.Event()
        self.looks = 0
        self.all_seen = threading.Event()

    def look(self) -> Load:
        self.looks += 1
        if self._seen.empty():
            self.all_seen.set()
            return Load(0.0, 1, None)
        seen = self._seen.get()
        if isinstance(seen, Exception):
            raise seen
        return seen

    def close(self) -> None:
        self.closed.set()


def run(figures: Figures) -> list[tuple[int, str]]:
    changes: list[tuple[int, str]] = []
    scaling = Scaling(POLICY, figures, lambda size, why: changes.append((size, why)))
    scaling.start()
    assert figures.all_seen.wait(60)
    scaling.end()
    scaling.join()
    assert figures.closed.is_set()
    return changes


def test_what_is_decided_is_done_with_its_reason() -> None:
    (change,) = run(Figures(Load(0.0, 1, (10, 10, 0), busy=1.0)))
    assert change == (2, "a lag of 20 records in 2 of 3 partitions; 1.0 of 1 members are busy")


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    assert [size for size, _ in run(Figures(RuntimeError("a bug"), Load(0.0, 1, (10, 10), busy=1.0)))] == [2]
    assert "a bug" in caplog.text


def test_there_is_no_look_while_a_change_is_made() -> None:
    figures = Figures(Load(0.0, 1, (10, 10), busy=1.0))
    changing = threading.Event()
    go_on = threading.Event()

    def change(*_: object) -> None:
        changing.set()
        assert go_on.wait(60)

    scaling = Scaling(POLICY, figures, change)
    scaling.start()
    assert changing.wait(60)
    scaling.end()
    go_on.set()
    scaling.join()
    assert figures.looks == 1
