"""The number of executors that a query wants: by the rule of pools for their size, with task slots for members.

An executor runs a task for each of its slots at once, and a partition's records are the work of one task, or of several
with minPartitions. So the rule is asked for a number of slots, and what it says is rounded up to whole executors.
Spark has measured how busy the slots have been: by the tasks of all jobs of the session together, since they share the
executors.

The query looks between two of its batches. No task of it runs then, so that no work is lost when executors go.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from actors.client.records import OffsetRange
from actors.members.autoscale import Autoscale, Load, Scaler
from actors.members.workload import Work
from actors.runtime.environment import REAL
from spark_bridge.executor_changes import ExecutorFigures
from spark_bridge.source import split_ranges

log = logging.getLogger(__name__)

Resize = Callable[[int, str], Any]

_COME_S: Final = 120.0
"""The time that executors may take to come or go. After it, those that are there are counted anew."""
_NO_GAP_S: Final = 1e9
"""A batch may last longer than the time between two looks. It is no gap: what it needed is known when it ends."""


class Executors(Protocol):
    """The executors of the session; `SessionExecutors`."""

    @property
    def fixed(self) -> str | None: ...
    def look(self) -> ExecutorFigures: ...
    def resize(self, ids: Sequence[str], wanted: int) -> int: ...


class ExecutorScaling:
    """Decides look by look, and has the session resized, or `resize` called, if that can be."""

    def __init__(
        self,
        policy: Autoscale,
        executors: Executors,
        resize: Resize | None = None,
        min_partitions: int | None = None,
        monotonic: Callable[[], float] = REAL.clock.monotonic,
    ) -> None:
        found = executors.look()
        self._executors, self._resize, self._monotonic = executors, resize, monotonic
        self._least_tasks = min_partitions
        self._interval_s = policy.interval_s
        self._slots = found.slots
        self._scaler = Scaler(_by_slots(policy, found.slots), "task slot")
        self._work = Work(monotonic(), 0, found.task_s or 0.0)
        self._next_s = -math.inf
        self._asked, self._asked_until_s = len(found.ids), -math.inf
        self._present = len(found.ids)
        self._lacking = 0
        self._fixed = executors.fixed if resize is None else None
        self.wanted = len(found.ids)
        """The number of executors that the query wants."""
        self.reason = "nothing has been read yet"
        if self._fixed is not None:
            log.warning("executors are not added or removed, only wanted_executors says how many: %s", self._fixed)

    def progress(self) -> dict[str, Any]:
        """The figures for a query's progress."""
        return {"wanted": self.wanted, "present": self._present, "reason": self.reason}

    def look(self, lags: Mapping[tuple[str, int], int], records: int) -> None:
        """Look, if it is time: so much waits in each partition, and `records` were read by the query in all.

        Errors are logged: a query does not end by the number of its executors.
        """
        if (now_s := self._monotonic()) < self._next_s:
            return
        self._next_s = now_s + self._interval_s
        try:
            self._decide(now_s, lags, records)
        except Exception:  # py4j's errors have no common class
            log.exception("the executors of a query could not be looked after")

    def _decide(self, now_s: float, lags: Mapping[tuple[str, int], int], records: int) -> None:
        found = self._executors.look()
        self._present = len(found.ids)
        if now_s >= self._asked_until_s:
            self._asked = self._present
        load = Load(
            at_s=now_s,
            size=self._asked * self._slots,
            lags=task_lags(lags, self._least_tasks),
            busy=None if found.task_s is None else self._work.busy(now_s, records, found.task_s),
            per_second=self._work.per_second,
            settled=self._asked == self._present,
        )
        decision = self._scaler.decide(load)
        self.wanted, self.reason = math.ceil(decision.size / self._slots), decision.reason
        if self.wanted != self._asked and self._fixed is None:
            self._change(found.ids, now_s)

    def _change(self, ids: Sequence[str], now_s: float) -> None:
        if self._resize is not None:
            self._resize(self.wanted, self.reason)
            self._asked = self.wanted
        else:
            before, self._asked = self._asked, self._executors.resize(ids, self.wanted)
            if self._asked == before:
                self._tell_lacking()
                return
        self._asked_until_s = now_s + _COME_S
        log.info("from %d to %d executors: %s", len(ids), self._asked, self.reason)

    def _tell_lacking(self) -> None:
        if self._lacking != self.wanted:
            log.info("%d executors are wanted, and cannot be had now: %s", self.wanted, self.reason)
        self._lacking = self.wanted


def _by_slots(policy: Autoscale, slots: int) -> Autoscale:
    """The policy for task slots of one for executors."""
    return replace(
        policy,
        min_size=policy.min_size * slots,
        max_size=policy.max_size * slots,
        target_lag=None if policy.target_lag is None else max(1, policy.target_lag // slots),
        interval_s=_NO_GAP_S,
    )


def task_lags(lags: Mapping[tuple[str, int], int], least: int | None) -> tuple[int, ...]:
    """The records that each task would read if all that waits were read now, zeros for partitions without any."""
    waiting = [OffsetRange(topic, partition, 0, lag) for (topic, partition), lag in sorted(lags.items()) if lag > 0]
    tasks = [each.size for each in split_ranges(waiting, least)]
    return (*tasks, *[0] * (max(len(lags), least or 0) - len(tasks)))
