"""The end of `coterie up` when its Ray has been ended before it, as by a service manager that signals every process.

Each call of Ray's would wait a minute then, and Ray would end this process with a trace of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from actors.cli.output import note

_LOOK_SECONDS: Final = 0.2
_TEXT: Final = "Ray has been ended at the same time: the cluster's processes end with it, and its data stays"


def watch(
    stop: threading.Event,
    there: Callable[[], bool],
    over: threading.Event,
    leave: Callable[[], None] | None = None,
) -> None:
    """From `stop` on until `over`, look whether Ray is still `there`; if it is not, this process ends."""
    threading.Thread(target=_watch, args=(stop, there, over, leave or _leave), daemon=True).start()


def _watch(stop: threading.Event, there: Callable[[], bool], over: threading.Event, leave: Callable[[], None]) -> None:
    stop.wait()
    while not over.wait(_LOOK_SECONDS):
        if not there():
            leave()
            return


def _leave() -> None:
    note(_TEXT)
    sys.stdout.flush()
    os._exit(0)
