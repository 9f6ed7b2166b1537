"""How a member's process ends well: SIGTERM has the member finish what is in hand, commit and leave.

Ray sends none to an actor whose node is drained: the pool looks for that itself (`members/draining.py`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

_LOOK_SECONDS: Final = 2.0
"""Python handles a signal when the main thread runs. One that comes just before it waits does not wake it."""


def run_until_terminated(run: Callable[[], None], stop: Callable[[], None]) -> bool:
    """Run in a thread; the first SIGTERM calls `stop`, a second one does what it did before.

    For the main thread, which waits for that thread alone. Returns whether a SIGTERM has come.
    """
    before = signal.getsignal(signal.SIGTERM)
    terminated = False

    def terminate(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, before)
        stop()

    thread = threading.Thread(target=run, name="coterie-member", daemon=True)
    signal.signal(signal.SIGTERM, terminate)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
    finally:
        signal.signal(signal.SIGTERM, before)
    return terminated
