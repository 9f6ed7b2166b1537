"""A session passes calls to its Ray alone, and gives up on calls to one that has ended. No Ray is started."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import ray

from actors.runtime.ray_session import RayAwayError, RaySession

ADDRESS = "192.0.2.1:6379"


class FakeRay:
    """Tells the session if this process is connected, and if something listens at Ray's address."""

    def __init__(self) -> None:
        self.connected = self.there = True
        self.calls: list[Any] = []
        self.session = RaySession(ADDRESS, connected=lambda: self.connected, reaches=self._reaches)

    def _reaches(self, address: str) -> bool:
        assert address == ADDRESS
        return self.there

    def note(self, *arguments: Any, **named: Any) -> str:
        self.calls.append((arguments, named))
        return "noted"

    def end(self) -> None:
        """Ray ends, and the session has looked often enough to be sure."""
        self.there = False
        for _ in range(3):
            self.session.look()


def test_a_call_returns_what_ray_returns_and_raises_what_it_raises() -> None:
    fake = FakeRay()
    assert fake.session.call(fake.note, 1, timeout=2) == "noted"
    assert fake.calls == [((1,), {"timeout": 2})]
    with pytest.raises(ZeroDivisionError):
        fake.session.call(lambda: 1 // 0)


def test_a_process_that_has_left_its_ray_calls_none_again() -> None:
    """It was connected to any Ray that was found on the machine."""
    fake = FakeRay()
    fake.connected = False
    with pytest.raises(RayAwayError, match="this process has left its Ray"):
        fake.session.call(fake.note)
    fake.connected = True  # to another one
    with pytest.raises(RayAwayError, match="this process has left its Ray"):
        fake.session.call(fake.note)
    assert fake.calls == []


def test_a_program_that_ends_lets_what_is_under_way_finish_and_begins_nothing() -> None:
    fake, begun, may_end = FakeRay(), threading.Event(), threading.Event()

    def call() -> str:
        begun.set()
        may_end.wait()
        return fake.note()

    with ThreadPoolExecutor(2) as threads:
        waits = threads.submit(fake.session.call, call)
        begun.wait()
        fake.session.end("the program ends")
        with pytest.raises(RayAwayError, match="the program ends"):
            waits.result()
        settled: Future[bool] = threads.submit(fake.session.settle, 60)
        may_end.set()
        assert settled.result()
    assert len(fake.calls) == 1  # before `settle` returned
    with pytest.raises(RayAwayError, match="the program ends"):
        fake.session.call(fake.note)
    assert len(fake.calls) == 1


def test_a_call_to_a_ray_that_has_ended_is_given_up_on(caplog: pytest.LogCaptureFixture) -> None:
    """`stop` waited for it until Ray ended the whole program, after a minute."""
    fake, begun, never = FakeRay(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        never.wait()

    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(fake.session.call, call)
        begun.wait()
        fake.end()
        with pytest.raises(RayAwayError, match=f"the Ray cluster at {ADDRESS} has ended, or cannot be reached"):
            waits.result()
    assert not fake.session.settle()  # it does not wait for that call
    never.set()
    (said,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert said.getMessage() == fake.session.away
    assert "coterie up" in said.getMessage()
    assert "\n" not in said.getMessage()


def test_a_ray_that_listens_and_does_not_answer_is_not_waited_for_where_that_has_a_limit() -> None:
    fake, never = FakeRay(), threading.Event()
    with pytest.raises(RayAwayError, match="does not answer"):
        fake.session.call_within(0.0, never.wait)
    never.set()
    assert fake.session.settle()


def test_one_refused_connection_keeps_calls_from_ray_and_is_not_told_yet(caplog: pytest.LogCaptureFixture) -> None:
    """Ray's C++ prints of each call that fails."""
    fake = FakeRay()
    fake.there = False
    with pytest.raises(RayAwayError):
        fake.session.call(fake.note)
    fake.session.look()
    assert (fake.calls, fake.session.away, caplog.records) == ([], "", [])


def test_a_ray_that_comes_back_is_called_again() -> None:
    fake = FakeRay()
    fake.end()
    assert fake.session.away
    fake.there = True
    fake.session.look()
    assert fake.session.away == ""
    assert fake.session.call(fake.note) == "noted"


def test_where_ray_is_not_known_it_is_never_away() -> None:
    session = RaySession("", connected=lambda: True, reaches=lambda _: False)
    for _ in range(9):
        session.look()
    assert (session.away, session.call(lambda: 7)) == ("", 7)


def test_code_that_catches_rays_errors_catches_this_one() -> None:
    assert issubclass(RayAwayError, ray.exceptions.RayError)
