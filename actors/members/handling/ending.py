"""How a member's process ends well: SIGTERM has the member finish what is in hand, commit and leave.

That is what `ray stop`, and a pod that Kubernetes ends, send to Ray's workers. Ray has no public word for an actor
whose node is drained: when the node's time is up, its processes are killed, and the pool starts a successor.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


def join_or_stop(thread: threading.Thread, stop: Callable[[], None]) -> bool:
    """Wait for a thread; the first SIGTERM has it `stop`, a second one ends the process as it did before.

    For a process's main thread. Returns whether a SIGTERM has come.
    """
    before = signal.getsignal(signal.SIGTERM)
    terminated = False

    def terminate(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, before)
        stop()

    signal.signal(signal.SIGTERM, terminate)
    try:
        thread.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    return terminated
