"""The kernel's word on real processes: whether one wants a CPU, and whether it is still the same one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from actors.runtime.liveness import Doing, look, started_at


def test_a_process_that_wants_a_cpu_is_told_from_one_that_is_stopped() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 60
        while (sight := look(busy.pid)) is None or sight.doing is not Doing.RUNNABLE or sight.cpu_s < 0.05:
            assert time.monotonic() < deadline
        busy.send_signal(signal.SIGSTOP)
        while (sight := look(busy.pid)) is None or sight.doing is not Doing.NOTHING:
            assert time.monotonic() < deadline
    finally:
        busy.kill()
        busy.wait()
    assert look(busy.pid) is None
    assert look(0) is None


def test_a_process_that_was_given_the_pid_of_another_is_not_taken_for_it() -> None:
    me = os.getpid()
    began = started_at(me)
    assert began > 0
    assert look(me, began) is not None
    assert look(me, began - 1) is None
    assert started_at(0) == 0
