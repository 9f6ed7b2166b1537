"""A running `GroupStream`: the thread that makes micro-batches of what its members hold, and the handle to it.

In each turn the members say which partitions they hold and from which offsets. The ends are asked for, the ranges are
fixed, and the user's function gets them as a DataFrame. When it has returned, the members that still hold the
partitions commit their ends. Only the group keeps state: a query that starts goes on at the group's offsets.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors import CoterieError
from actors.client import Consumer, TopicPartition
from actors.client.errors import DataLossError, KafkaTimeoutError
from actors.client.records import OffsetRange
from actors.members.ranges.group import SeenTopics, limited, positions_and_ends
from actors.runtime import functions
from actors.runtime.environment import REAL, Clock
from actors.runtime.logs import about
from spark_bridge.batch import Batch
from spark_bridge.executor_scaling import ExecutorScaling
from spark_bridge.executors import ENDED, has_ended
from spark_bridge.members import Members, Share
from spark_bridge.source import Reading, ranges_dataframe, split_ranges
from spark_bridge.spark_config import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

BatchFunction = Callable[["DataFrame", Batch], Any]
Key = tuple[str, int]
Goal = dict[tuple[Key, bytes], int]
"""The end offsets of the partitions that are to be read to their ends, by partition and topic id."""

PATIENCE_SECONDS: Final = 5.0
"""So long a stop waits for members that wait for a broker or a rebalance."""
_IDLE_SECONDS = 0.1  # between two looks for new records, when there were none
_CANCEL_SECONDS = 0.5
_RECENT = 100  # progresses kept, as in Spark's spark.sql.streaming.numRecentProgressUpdates


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a query. `interval_s` is the time between two triggers; None: read what there is now, and end."""

    group_id: str
    function: BatchFunction
    reading: Reading
    interval_s: float | None
    partitions: tuple[TopicPartition, ...] = ()
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    settle_timeout_s: float = 60.0
    name: str | None = None


class GroupQuery:
    """A query that `GroupStream.start` began; the names are those of Spark's StreamingQuery, in Python's spelling."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        members: Members,
        client: Consumer,
        run_id: str,
        scaling: ExecutorScaling | None = None,
        clock: Clock = REAL.clock,
        patience_s: float = PATIENCE_SECONDS,
    ) -> None:
        from pyspark import InheritableThread

        self.name = plan.name
        self.id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"coterie:{plan.group_id}"))
        self.run_id = run_id
        self._spark, self._plan, self._members, self._client = spark, plan, members, client
        self._scaling, self._clock, self._patience_s = scaling, clock, patience_s
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._exception: BaseException | None = None
        self._progress: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._batches, self._records = 0, 0
        self._in_function = False
        self._last_batch = clock.monotonic()
        self._reported_at: float | None = None
        self._seen = SeenTopics()
        self._deleted: set[str] = set()  # topics that members hold partitions of
        self._message, self._available, self._triggered = "Joining the group", False, False
        self._thread = InheritableThread(target=self._run, name=f"coterie-query-{plan.group_id}", daemon=True)
        self._thread.start()

    # --- the handle -----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True while the query runs."""
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """`message`, `isDataAvailable` and `isTriggerActive`, as Spark says them."""
        return {
            "message": self._message,
            "isDataAvailable": self._available,
            "isTriggerActive": self._triggered,
        }

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The progress of the last batch, under Spark's names; None before the first. Times in ms, rates in records/s.

        `numInputRows` counts offsets: in compacted or transactional topics fewer records may stand behind them.
        `sources[0]["notCommitted"]` names the partitions that were taken away in the middle of the batch. With
        `GroupStream.autoscale`, `executors` says how many there are, how many are wanted, and why.
        """
        return self._progress[-1] if self._progress else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The progress of the last hundred batches."""
        return list(self._progress)

    @property
    def wanted_executors(self) -> int | None:
        """The number of executors that the load asks for, by the rule of `GroupStream.autoscale`; None without it."""
        return None if self._scaling is None else self._scaling.wanted

    def exception(self) -> BaseException | None:
        """The error that has ended the query, or None."""
        return self._exception if self._ended.is_set() else None

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the query. Returns False if `timeout_s` seconds have passed before.

        Raises what ended the query: the error of the batch function itself, KafkaError, DataLossError.
        """
        if not self._ended.wait(timeout_s):
            return False
        if self._exception is not None:
            raise self._exception
        return True

    def stop(self) -> None:
        """End the query: a running batch is cancelled and commits nothing. Returns when the members have left."""
        self._stopping.set()
        self._client.wakeup()
        if threading.current_thread() is self._thread:
            return  # a batch function stops its own query
        deadline = self._clock.monotonic() + self._patience_s
        while not self._ended.is_set():
            with contextlib.suppress(Exception):  # the session may have been stopped first
                self._spark.sparkContext.cancelJobGroup(self.run_id)  # again: the function may begin another job
            late = not self._ended.wait(_CANCEL_SECONDS) and self._clock.monotonic() > deadline
            if late and not self._in_function:
                self._members.stop()

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            context = self._spark.sparkContext
            context.setJobGroup(self.run_id, f"group {self._plan.group_id}", interruptOnCancel=True)
            self._settle()
            self._turns()
        except BaseException as error:  # a batch function may raise anything, SystemExit as well
            if not self._stopping.is_set():
                self._exception = reason = self._reason(error)
                log.warning(
                    "the query of group %s has ended: %s",
                    self._plan.group_id,
                    reason,
                    extra=about(group=self._plan.group_id),
                )
        finally:
            self._message, self._triggered = "Stopped", False
            try:
                self._members.stop()
                self._client.close()
            except Exception:  # Ray raises many kinds; whoever waits for the end must not wait for ever
                log.exception(
                    "closing the query of group %s", self._plan.group_id, extra=about(group=self._plan.group_id)
                )
            self._ended.set()

    def _reason(self, error: BaseException) -> BaseException:
        """The reason why the query has ended: the end of its session, or the error itself."""
        if isinstance(error, CoterieError) or not has_ended(self._spark):
            return error
        ended = _ended()
        ended.__cause__ = error
        return ended

    def _settle(self) -> None:
        plan = self._plan
        self._members.await_settled(plan.partitions, self._stopping.is_set, plan.settle_timeout_s)

    def _turns(self) -> None:
        goal: Goal = {}
        sure = False
        while not self._stopping.is_set():
            begun = self._clock.monotonic()
            self._triggered = True
            busy = self._turn(goal if self._plan.interval_s is None else None)
            self._triggered = False
            if self._plan.interval_s is None:
                if sure and not busy:
                    return
                if not busy:  # or is a member being replaced, or a partition on its way to another?
                    self._settle()
                sure = not busy
                continue
            pause = self._plan.interval_s - (self._clock.monotonic() - begun)
            if not busy:
                self._message = "Waiting for data to arrive"
                pause = max(pause, _IDLE_SECONDS)
            elif pause > 0:
                self._message = "Waiting for next trigger"
            if pause > 0:
                self._stopping.wait(pause)

    def _turn(self, goal: Goal | None) -> bool:
        """Make one micro-batch. Returns False if there is nothing to read.

        With `goal`, read only up to these ends; the end of a partition is fixed when it is first seen.
        """
        watch = _Watch(self._clock)
        self._message = "Getting offsets"
        if has_ended(self._spark):  # a turn without records asks Spark for nothing
            raise _ended()
        shares = self._members.begin()
        batch: Batch | None = None
        try:
            ranges, ends = self._fix(shares, goal, watch)
            self._available = bool(ranges)
            if ranges:
                batch = Batch(self._batches, tuple(ranges), lambda: self._still_held(shares))
                self._process(batch, ranges, watch)
        except BaseException:  # SystemExit of a batch function, too: the members wait for the batch's end
            with contextlib.suppress(Exception):  # the first error is the one that is told
                self._finish(batch, {}, shares)
            raise
        done = batch is not None and not self._stopping.is_set()
        with watch.measure("commitOffsets"):
            until = {(r.topic, r.partition): r.until_offset for r in ranges} if done else {}
            counted = self._finish(batch, until, shares)
        if done:
            self._progress.append(self._report(ranges, ends, counted, watch))
            self._batches += 1
            self._records += self._progress[-1]["numInputRows"]
            self._last_batch = self._clock.monotonic()
        return done

    def _process(self, batch: Batch, ranges: list[OffsetRange], watch: _Watch) -> None:
        self._message = f"Processing batch {self._batches}"
        self._in_function = True
        try:
            with watch.measure("addBatch"):
                functions.refuse_lazy(self._plan.function(self._dataframe(ranges), batch), "the batch function")
        finally:
            self._in_function = False

    def _finish(self, batch: Batch | None, until: Mapping[Key, int], shares: Mapping[Key, Share]) -> set[Key]:
        counted: set[Key] = set()
        try:
            counted = self._members.finish(until, shares)
        finally:
            if batch is not None:
                batch.settle(frozenset(counted))
        return counted

    def _still_held(self, shares: Mapping[Key, Share]) -> frozenset[Key]:
        tokens = {held.fencing_token for holding in self._members.holding() for held in holding.partitions}
        return frozenset(key for key, share in shares.items() if share.held.fencing_token in tokens)

    def _dataframe(self, ranges: list[OffsetRange]) -> DataFrame:
        return ranges_dataframe(self._spark, split_ranges(ranges, self._plan.min_partitions), self._plan.reading)

    def _fix(
        self, shares: Mapping[Key, Share], goal: Goal | None, watch: _Watch
    ) -> tuple[list[OffsetRange], dict[Key, int]]:
        """The ranges of the next batch, and where the partitions end now."""
        if not shares:
            return [], {}
        with watch.measure("latestOffset"):
            positions, ends = self._look(shares)
        if goal is None:
            targets = ends
        else:
            targets = {key: goal.setdefault((key, self._seen.ids.get(key[0], b"")), end) for key, end in ends.items()}
        ranges = limited(positions, targets, self._plan.max_offsets_per_trigger, self._seen.ids)
        fail = self._plan.reading.fail_on_data_loss
        ranges = self._seen.still(self._client, ranges, fail=fail, setting="failOnDataLoss")
        lags = {key: targets[key] - at for key, at in positions.items()}
        if self._scaling is not None:
            self._scaling.look(lags, self._records)
        return ([] if goal is None and self._too_few(sum(lags.values())) else ranges), ends

    def _look(self, shares: Mapping[Key, Share]) -> tuple[dict[Key, int], dict[Key, int]]:
        """The positions and the ends of all partitions, without those whose topic was deleted."""
        fail = self._plan.reading.fail_on_data_loss
        if self._deleted:
            self._deleted = self._missing(self._deleted)  # one may have been created again
        held = [share.held for (topic, _), share in shares.items() if topic not in self._deleted]
        held = self._seen.look(held, fail=fail, setting="failOnDataLoss")
        try:
            return positions_and_ends(self._client, self._seen, held, fail=fail, setting="failOnDataLoss")
        except KafkaTimeoutError:
            # Members give a topic up when their metadata is next refreshed, which may take minutes.
            deleted = self._missing({each.topic for each in held})
            if not deleted:
                raise
            lost = f"topics {', '.join(sorted(deleted))} do not exist any more"
            if fail:
                raise DataLossError(f"{lost}; set failOnDataLoss to false to go on with the others") from None
            log.warning("%s; going on with the others, since failOnDataLoss is false", lost)
            self._deleted |= deleted
        return self._look(shares)

    def _missing(self, topics: set[str]) -> set[str]:
        return {topic for topic in topics if self._client.partitions_for_topic(topic) is None}

    def _too_few(self, waiting: int) -> bool:
        """True if the batch waits for more records: fewer than minOffsetsPerTrigger, for less than maxTriggerDelay.

        All records that wait count, also those that maxOffsetsPerTrigger would leave out.
        """
        least = self._plan.min_offsets_per_trigger
        if least is None or waiting >= least:
            return False
        return self._clock.monotonic() - self._last_batch < self._plan.max_trigger_delay_s

    def _report(
        self, ranges: list[OffsetRange], ends: Mapping[Key, int], counted: set[Key], watch: _Watch
    ) -> dict[str, Any]:
        rows = sum(r.until_offset - r.from_offset for r in ranges)
        took = watch.total_s()
        now = self._clock.monotonic()
        since, self._reported_at = now - (self._reported_at or now - took), now
        return {
            "id": self.id,
            "runId": self.run_id,
            "name": self.name,
            "timestamp": watch.started.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "batchId": self._batches,
            "numInputRows": rows,
            "inputRowsPerSecond": rows / max(since, 1e-3),
            "processedRowsPerSecond": rows / max(took, 1e-3),
            "durationMs": {**watch.durations_ms, "triggerExecution": int(took * 1000)},
            "sources": [
                {
                    "description": f"GroupStream[{self._plan.group_id}]",
                    "startOffset": _by_topic({(r.topic, r.partition): r.from_offset for r in ranges}),
                    "endOffset": _by_topic({(r.topic, r.partition): r.until_offset for r in ranges}),
                    "latestOffset": _by_topic(ends),
                    "notCommitted": sorted({(r.topic, r.partition) for r in ranges} - counted),
                    "numInputRows": rows,
                }
            ],
            "sink": {"description": "ForeachBatch"},
            **({} if self._scaling is None else {"executors": self._scaling.progress()}),
        }


def _ended() -> SessionError:
    return SessionError(f"{ENDED} before its query: call the query's stop() first")


class _Watch:
    """Measures how long the parts of one turn take."""

    def __init__(self, clock: Clock) -> None:
        self.started = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)
        self.durations_ms: dict[str, int] = {}
        self._monotonic = clock.monotonic
        self._begun = clock.monotonic()

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        begun = self._monotonic()
        try:
            yield
        finally:
            self.durations_ms[name] = int((self._monotonic() - begun) * 1000)

    def total_s(self) -> float:
        return self._monotonic() - self._begun


def _by_topic(offsets: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark writes them: {"topic": {"0": 23}}."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found
