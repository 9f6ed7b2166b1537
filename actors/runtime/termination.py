"""SIGTERM while Ray starts, and after: it is this program's, however it comes, and not that of Ray's processes.

A service manager, or `timeout`, sends it to the whole process group. Ray would end then, before what runs on it has
stopped, and who asks it anything waits a minute. While Ray starts, its C++ would answer with a trace of its stack.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

_TERMINATION: Final = {signal.SIGTERM}


@contextlib.contextmanager
def kept(started_by: Callable[[Callable[..., Any]], AbstractContextManager[None]]) -> Iterator[None]:
    """For a block that calls ray.init: Ray's processes get groups of their own, and SIGTERM waits until its end.

    `started_by` is a block within which each of them is started by a function. Then the program's handler is in force
    again, if it has one. In other threads than the main one signals are left as they are.
    """
    with started_by(_started):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler = signal.getsignal(signal.SIGTERM)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINATION)
        try:
            yield
        finally:
            if callable(handler):
                signal.signal(signal.SIGTERM, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(
    popen: Callable[..., subprocess.Popen[Any]], *arguments: Any, preexec_fn: Callable[[], Any] | None, **more: Any
) -> subprocess.Popen[Any]:
    return popen(*arguments, preexec_fn=partial(_heed, preexec_fn), process_group=0, **more)


def _heed(then: Callable[[], Any] | None) -> None:
    """In a new process: it inherits that SIGTERM waits, and has to hear of it all the same."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINATION)
    if then is not None:
        then()
