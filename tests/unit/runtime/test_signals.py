"""Python's handler gets SIGTERM, though Ray has put a handler of its own before it."""

from __future__ import annotations

import ctypes
import os
import signal
from types import FrameType

from actors.runtime.signals import sigterm_for_python

SIG_IGN = 1  # of C's signal.h


def test_after_ray_has_started_sigterm_is_pythons_alone() -> None:
    """Ray's own handler wrote the stack of its C++ to the terminal before it called that of Python."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGTERM, hear)
    try:
        with sigterm_for_python():
            ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(SIG_IGN))  # as Ray does: Python does not know
        assert signal.getsignal(signal.SIGTERM) is hear
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
