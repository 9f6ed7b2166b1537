"""The orderly end of a member's process: SIGTERM has the member finish what is in hand, commit and leave.

Ray sends none to an actor whose node is drained: the pool looks for that itself (`members/pools/draining.py`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

_LOOK_SECONDS: Final = 2.0
"""Python handles a signal when the main thread runs. One that comes just before it waits does not wake it."""


def run_until_terminated(run: Callable[[], None], stop: Callable[[], None]) -> bool:
    """Run in a thread; the first SIGTERM calls `stop`, a second one does what it did before.

    For the main thread, which waits for that thread alone. Returns whether a SIGTERM has come. SIGTERM ends a process
    that is forked meanwhile, as `multiprocessing` expects of its workers: it has no member to stop.
    """
    before = signal.getsignal(signal.SIGTERM)
    terminated, over = False, False

    def terminate(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, before)
        stop()

    _end_children_by_sigterm(lambda: not over)
    thread = threading.Thread(target=run, name="coterie-member", daemon=True)
    signal.signal(signal.SIGTERM, terminate)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
    finally:
        over = True
        signal.signal(signal.SIGTERM, before)
    return terminated


def _end_children_by_sigterm(applies: Callable[[], bool]) -> None:
    """Have SIGTERM end each process that is forked from this one while `applies`.

    It is blocked around the fork: one that came before the child has its own disposition would be lost.
    """
    ours = os.getpid()  # processes that those fork are their own business
    masks: dict[int, set[int]] = {}  # by the thread that forks

    def before() -> None:
        if applies() and os.getpid() == ours:
            masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def in_parent() -> None:
        if (mask := masks.pop(threading.get_ident(), None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child() -> None:
        if threading.get_ident() in masks:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            in_parent()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
