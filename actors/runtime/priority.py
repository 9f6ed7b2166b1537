"""The priority of processes that serve over the others of their machine.

Linux shares the CPU between sessions first, and between processes only within each (autogroups, sched(7)); a process in
a control group with a share of its own knows no sessions. So whoever is to be preferred leaves its session, gives the
new one the niceness, and takes it for itself as well, which counts where sessions do not.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_AUTOGROUP: Final = Path("/proc/self/autogroup")
_TASKS: Final = Path("/proc/self/task")
_AGAIN_SECONDS: Final = 0.1
"""So often the kernel lets those who are not root change an autogroup, all processes together."""


@dataclass(frozen=True, slots=True)
class Priority:
    """The niceness that a process has, from -20 (first) to 19; `problem` says for people why it is not what was asked.

    A process that could not leave its session for one of its own competes as that session does.
    """

    niceness: int
    problem: str | None = None


def ask(niceness: int) -> Priority | None:
    """Give this process a niceness below 0, and a session of its own that has it; None if 0 is asked, and nothing done.

    To be called before the process keeps its files in /proc from its own user, and before it starts processes.
    """
    if niceness == 0:
        return None
    try:
        _take(niceness)
        if _AUTOGROUP.exists():
            _leave_session()
            _give_session(niceness)
    except OSError as error:
        return Priority(_own(), f"niceness {niceness} was not to be had: {error.strerror}")
    return Priority(niceness)


def _own() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _take(niceness: int) -> None:
    """For all threads: in Linux each has its own, and new ones have that of the thread which starts them."""
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    for task in _TASKS.iterdir():
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)


def _leave_session() -> None:
    if os.getsid(0) == os.getpid():
        return
    if os.getpgid(0) == os.getpid():  # as Ray starts its workers; the first of a process group cannot leave
        os.setpgid(0, os.getpgid(os.getppid()))
    os.setsid()


def _give_session(niceness: int) -> None:
    try:
        _AUTOGROUP.write_text(str(niceness))
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        threading.Thread(target=_give_later, args=(niceness,), name="priority", daemon=True).start()


def _give_later(niceness: int) -> None:
    while True:
        time.sleep(_AGAIN_SECONDS)
        with suppress(BlockingIOError):
            _AUTOGROUP.write_text(str(niceness))
            return
