"""SIGTERM in processes that a handler forks: it ends them, whatever the member's own process does with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from actors.members.pools.handling.ending import run_until_terminated

DEADLINE_S = 60


@pytest.fixture
def ignored() -> Iterator[list[int]]:
    """The process has a handler of its own, as Ray's workers have. It ends nothing."""
    seen: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        seen.append(number)

    former = signal.signal(signal.SIGTERM, note)
    yield seen
    signal.signal(signal.SIGTERM, former)


def wait_for_the_end() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(DEADLINE_S)  # if SIGTERM does not end it, SIGALRM does
    while True:
        signal.pause()


def by_fork() -> int:
    """Fork a child and send it SIGTERM. Returns the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        wait_for_the_end()
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status)


def by_process() -> int:
    process = multiprocessing.get_context("fork").Process(target=wait_for_the_end)
    process.start()
    process.terminate()
    process.join(DEADLINE_S)
    return -(process.exitcode or 0)


def by_pool() -> int:
    """`terminate` sends SIGTERM to the workers and waits for them, for ever if need be."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
        workers = multiprocessing.active_children()
        pool.terminate()
        pool.join()
    assert all(worker.exitcode is not None for worker in workers)
    return signal.SIGTERM


FORKS = [by_fork, by_process, by_pool]


@pytest.mark.parametrize("fork", FORKS)
def test_a_child_that_a_handler_has_forked_ignored_sigterm(fork: Callable[[], int], ignored: list[int]) -> None:
    """`Process.terminate()` did nothing, and `join` after it waited for ever."""
    ended: list[int] = []
    assert not run_until_terminated(
        lambda: ended.append(fork()), lambda: pytest.fail("the member was not asked to stop")
    )
    assert ended == [signal.SIGTERM]
    assert ignored == []


@pytest.mark.parametrize("fork", FORKS)
def test_so_did_one_of_a_member_that_is_stopping(fork: Callable[[], int], ignored: list[int]) -> None:
    ended: list[int] = []
    stopped = threading.Event()

    def member() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stopped.wait(DEADLINE_S)
        ended.append(fork())

    assert run_until_terminated(member, stopped.set)
    assert ended == [signal.SIGTERM]
    assert ignored == []


def test_the_member_itself_still_stops_after_a_fork(ignored: list[int]) -> None:
    stopped = threading.Event()

    def member() -> None:
        by_fork()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(DEADLINE_S)

    assert run_until_terminated(member, stopped.set)
    assert ignored == []
