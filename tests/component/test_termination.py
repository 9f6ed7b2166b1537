"""SIGTERM while Ray starts, with a process in place of Ray's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from actors.runtime import termination

SLEEPS = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]


@contextmanager
def started_by(ways: list[Callable[..., Any]], start: Callable[..., Any]) -> Iterator[None]:
    """Within the block, the last way to start a process is `start`, which is given the one before."""
    ways.append(partial(start, *ways))
    yield
    ways.pop()


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that the program's own handler has heard."""
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


def test_sigterm_to_our_group_ended_ray(heard: list[int]) -> None:
    ways: list[Callable[..., Any]] = [subprocess.Popen]
    with termination.kept(partial(started_by, ways)):
        with ways[-1](SLEEPS, preexec_fn=None, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"
            assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
            process.terminate()
            assert process.wait(60) == -signal.SIGTERM, "and it hears of it, although it waits for us"
    assert ways == [subprocess.Popen]


def test_a_sigterm_while_ray_starts_is_the_programs_in_the_end(heard: list[int]) -> None:
    """Ray's C++ answered it with a trace of its stack, and the process was aborted."""
    with termination.kept(partial(started_by, [])):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a library does that has its own mind
        signal.raise_signal(signal.SIGTERM)
        assert heard == []
    assert heard == [signal.SIGTERM]
