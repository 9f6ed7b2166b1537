"""A broker's background work on its logs: checkpoints, flushing, repair, retention, compaction.

Everything that blocks runs in an executor or in a process of its own; the loop only plans, and puts results in place.
At most one flush and one compaction are under way. A round first picks the logs for which something is due, all in one
turn: most of thousands of logs are idle, and a turn for each would be most of what an idle broker does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from actors.broker.context import Beside, BrokerContext, Coordinators, Replication
from actors.log.compaction import CompactionPlan, CompactionResult
from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.partition_log import PartitionLog
from actors.runtime.logs import at

log = logging.getLogger(__name__)

REPAIRS = 3  # when so many have failed in a row, another broker should lead

Compact: TypeAlias = Callable[[CompactionPlan], Coroutine[Any, Any, CompactionResult]]
IsDue: TypeAlias = Callable[[tuple[str, int], PartitionLog, int], bool]  # the time in ms last


class Work(Protocol):
    """A job's work for one log."""

    async def __call__(self, topic: str, index: int, each: PartitionLog) -> None: ...


class Job(NamedTuple):
    """A job that looks every `seconds` which logs `is_due` picks, and has `work` done for these."""

    seconds: float
    is_due: IsDue
    work: Work


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals, in seconds, of jobs for which Kafka has no setting. Flushes may be set to come oftener."""

    checkpoint_s: float = 5.0
    flush_s: float = 2.0
    repair_s: float = 5.0


_INTERVALS = Intervals()


class Housekeeper:
    """Runs five jobs on the broker's loop, each of which goes through all logs again and again."""

    def __init__(
        self,
        context: BrokerContext,
        replication: Replication,
        coordinators: Coordinators,
        beside: Beside,
        compact: Compact,
        intervals: Intervals = _INTERVALS,
    ) -> None:
        self._context = context
        self._replication = replication
        self._coordinators = coordinators
        self._beside = beside
        self._compaction = compact
        self._intervals = intervals
        self._tasks: list[asyncio.Task[None]] = []
        self.compactions = 0
        self._failed_repairs: WeakKeyDictionary[PartitionLog, int] = WeakKeyDictionary()

    def start(self) -> None:
        """Start the jobs, at the intervals that the settings give."""
        config, intervals = self._context.config, self._intervals
        retention_seconds = config.integer("log.retention.check.interval.ms") / 1000
        flush_seconds = min(intervals.flush_s, max(config.integer("log.flush.scheduler.interval.ms") / 1000, 0.05))
        jobs = [
            Job(intervals.checkpoint_s, self._checkpoint_is_due, self._checkpoint),
            Job(flush_seconds, self._flush_is_due, self._flush),
            Job(intervals.repair_s, lambda _key, each, _now: each.failure is not None, self.repair),
            Job(retention_seconds, lambda _key, _each, _now: True, self._retain),
        ]
        if config.boolean("log.cleaner.enable"):
            backoff_seconds = max(config.integer("log.cleaner.backoff.ms") / 1000, 0.1)
            jobs.append(Job(backoff_seconds, lambda _key, each, _now: each.config.compacts, self._compact))
        self._tasks = [self._context.loop.create_task(self.repeat(job)) for job in jobs]

    def stop(self) -> None:
        """Cancel all jobs. They leave the logs in a state that a crash could, too, and that opening repairs."""
        for task in self._tasks:
            task.cancel()

    async def repeat(self, job: Job) -> None:
        """Do a job again and again."""
        is_due = job.is_due
        while True:
            await asyncio.sleep(job.seconds)
            logs = self._context.data_dir.logs
            now_ms = self._context.now_ms()
            for key, each in [(key, each) for key, each in logs.items() if is_due(key, each, now_ms)]:
                if logs.get(key) is not each:  # deleted since the round began
                    continue
                try:
                    await job.work(*key, each)
                except Exception:  # an error with one log must not end the job
                    log.exception("housekeeping of %s", each.directory.name, extra=at(*key))
                await asyncio.sleep(0)  # one log in a turn of the loop, so that clients are served in between

    def _checkpoint_is_due(self, key: tuple[str, int], each: PartitionLog, _now_ms: int) -> bool:
        """True if something has moved. A watermark counts if other replicas have a say in it; else it is the end."""
        if each.is_saved(watermark=True):
            return False
        partition = self._context.metadata.partition(*key)
        replicated = partition is not None and len(partition.replicas) > 1
        return not each.is_saved(watermark=replicated)

    async def _checkpoint(self, topic: str, index: int, each: PartitionLog) -> None:
        each.write_checkpoint()

    def _flush_is_due(self, _key: tuple[str, int], each: PartitionLog, now_ms: int) -> bool:
        return each.flushing.is_due(now_ms) and each.failure is None

    async def _flush(self, topic: str, index: int, each: PartitionLog) -> None:
        job = each.flushing.begin() if each.failure is None else None
        if job is not None:
            await self._context.loop.run_in_executor(None, job.run)
            each.flushing.finish(job)

    async def repair(self, topic: str, index: int, each: PartitionLog) -> None:
        """Repair a log that takes no appends, if the disk allows it."""
        reason, job = each.failure, each.repairs.begin(self._context.now_ms())
        if job is None:
            return
        await self._context.loop.run_in_executor(None, job.run)
        failed = self._failed_repairs.pop(each, 0)
        try:
            lost = each.repairs.finish(job)
        except StorageError as error:
            log.error("%s", error, extra=at(topic, index))
            self._failed_repairs[each] = failed + 1
            if failed + 1 >= REPAIRS and self._context.data_dir.logs.get((topic, index)) is each:
                self._replication.failed(topic, index)
            return
        if each.failure is not None:  # the log was cut or deleted meanwhile
            return
        log.warning("%s takes appends again after: %s", each.directory.name, reason, extra=at(topic, index))
        if lost:
            log.error("%s: the disk has lost the last %d records", each.directory.name, lost, extra=at(topic, index))
            self._replication.lost(topic, index)
        # A shard knows records that are lost, or takes some for refused that are there.
        self._coordinators.reload(topic, index)
        self._beside.reload(topic, index)

    async def _retain(self, topic: str, index: int, each: PartitionLog) -> None:
        self._remove_later(each, each.retention.apply(self._context.now_ms()))

    def _remove_later(self, each: PartitionLog, paths: list[Path]) -> None:
        """Remove files that have left the log after file.delete.delay.ms. After a stop the next start removes them."""
        if paths:
            loop = self._context.loop
            delay_s = each.config.file_delete_delay_ms / 1000
            loop.call_later(delay_s, lambda: loop.run_in_executor(None, remove_files, paths))

    async def _compact(self, topic: str, index: int, each: PartitionLog) -> None:
        plan = each.cleaning.plan(self._context.now_ms())
        if plan is not None:
            result = await self._compaction(plan)
            paths = each.cleaning.swap(result, self._context.now_ms())
            self.compactions += 1
            log.info("%s: compacted up to offset %d", each.directory.name, result.cleaned_to, extra=at(topic, index))
            if result.unreadable:
                text = "%s: %d batches cannot be read and stay as they are, the first at offset %d"
                number, first = len(result.unreadable), result.unreadable[0]
                log.error(text, each.directory.name, number, first, extra=at(topic, index))
            self._remove_later(each, paths)


async def compact_in_process(plan: CompactionPlan) -> CompactionResult:
    """Compact in a process of its own, which costs our loop nothing. Raises OSError."""
    folder = os.open(plan.directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "actors.log.compaction_worker",
            str(folder),
            pass_fds=(folder,),
            start_new_session=True,  # not in ours, which may be a preferred one
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    finally:
        os.close(folder)
    try:
        out, err = await process.communicate(pickle.dumps(plan))
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode != 0:
        reason = err.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise OSError(f"compaction of {plan.directory} failed: {reason[0]}")
    result: CompactionResult = pickle.loads(out)
    return result
