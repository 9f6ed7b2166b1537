"""SIGTERM in a process that uses Ray. `ray.init` puts a handler of Ray's C++ before that of Python."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def sigterm_for_python() -> Iterator[None]:
    """For a block that calls ray.init: SIGTERM then does what Python's handler says, and nothing else.

    Ray's own handler writes the stack of its C++ to the terminal first, as of a crash. In a thread that is not the main
    one nothing is changed: signals are the main thread's.
    """
    yield
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None:
        with contextlib.suppress(ValueError):  # of a thread that is not the main one
            signal.signal(signal.SIGTERM, handler)
