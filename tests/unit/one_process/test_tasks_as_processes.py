"""Tasks with pids of their own, which no process of the system has."""

from __future__ import annotations

import gc
import logging
import os

from actors.one_process.machine import Tasks, levels_of_its_own
from actors.runtime.environment import REAL


def test_to_kill_a_pid_ends_its_task_alone_and_once() -> None:
    tasks, ended = Tasks(REAL.clock), list[str]()
    first, second = tasks.begin(lambda: ended.append("first")), tasks.begin(lambda: ended.append("second"))
    kernel = tasks.environment(first).kernel
    kernel.kill(second)
    kernel.kill(second)
    assert ended == ["second"]
    assert kernel.look(first) is not None
    assert kernel.look(second) is None


def test_a_real_process_is_never_killed() -> None:
    tasks = Tasks(REAL.clock)
    kernel = tasks.environment(tasks.begin(lambda: None)).kernel
    kernel.kill(os.getpid())
    assert kernel.look(os.getpid()) is None
    assert kernel.pid() > 1 << 22, "Linux gives no pid above"


def test_a_task_that_has_ended_is_seen_no_more() -> None:
    tasks = Tasks(REAL.clock)
    pid = tasks.begin(lambda: None)
    tasks.over(pid)
    assert tasks.look(pid) is None


def test_a_shard_leaves_the_collector_of_the_process_alone() -> None:
    collector = Tasks(REAL.clock).environment(1).collector
    kept = gc.get_freeze_count()
    collector.pause()
    collector.keep()
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, kept)
    gc.disable()
    try:
        collector.go_on()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_shard_leaves_the_log_levels_of_the_process_alone() -> None:
    logger = logging.getLogger("actors.one_process")
    before = logger.getEffectiveLevel()
    levels = levels_of_its_own()
    levels.take_over({"actors.one_process": logging.DEBUG})
    assert logger.getEffectiveLevel() == before
    levels.take_over({})
    assert levels.changed == {}
