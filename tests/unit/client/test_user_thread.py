"""The thread that uses a consumer: only one comes in, none misses a change, and each wait can be woken."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest

from actors.client.consumer.user_thread import UserThread
from actors.client.errors import ClosedError, ConcurrentUseError, KafkaTimeoutError, WakeupError
from actors.client.net.changes import Changes
from actors.runtime.environment import REAL

now_ms = REAL.clock.monotonic_ms
HOUR_MS = 3_600_000


def test_a_change_between_the_look_and_the_wait_is_not_missed() -> None:
    changes = Changes(now_ms)
    seen = changes.count
    changes.tell()
    changes.wait(seen, now_ms() + HOUR_MS)


def test_a_wait_ends_with_the_next_change() -> None:
    changes = Changes(now_ms)
    user = threading.Thread(target=changes.wait, args=(changes.count, now_ms() + HOUR_MS))
    user.start()
    changes.tell()
    user.join(60)
    assert not user.is_alive()


def test_the_same_thread_comes_in_again_and_another_does_not() -> None:
    thread = UserThread(Changes(now_ms))
    refused = []

    def other() -> None:
        with pytest.raises(ConcurrentUseError), thread.using():
            pass
        refused.append(True)

    with thread.using(), thread.using():
        second = threading.Thread(target=other)
        second.start()
        second.join(60)
        assert thread.busy
    assert refused == [True]
    assert not thread.busy


def test_nobody_comes_in_once_it_is_closed() -> None:
    thread = UserThread(Changes(now_ms))
    thread.close()
    with pytest.raises(ClosedError), thread.using():
        pass


def test_a_wake_up_ends_the_wait_and_is_raised_once() -> None:
    thread = UserThread(Changes(now_ms))
    thread.wake()
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    with pytest.raises(WakeupError):
        thread.result(future, now_ms() + HOUR_MS, lambda: "late")
    assert future.cancelled()
    thread.raise_if_woken()


def test_what_is_done_already_is_given_though_somebody_woke_the_thread() -> None:
    thread = UserThread(Changes(now_ms))
    thread.wake()
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_result(7)
    assert thread.result(future, now_ms(), lambda: "late") == 7
    with pytest.raises(WakeupError):
        thread.raise_if_woken()


def test_a_wake_up_may_be_forgotten() -> None:
    thread = UserThread(Changes(now_ms))
    thread.wake()
    thread.forget_wakeup()
    thread.raise_if_woken()


def test_what_comes_too_late_is_cancelled() -> None:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    with pytest.raises(KafkaTimeoutError, match="too slow"):
        UserThread(Changes(now_ms)).result(future, now_ms(), lambda: "too slow")
    assert future.cancelled()
