"""`read_group(..., follow=True)`: a read without an end, in bounded datasets, each committed when it was consumed.

    with read_group("orders", "billing", bootstrap_servers=servers, follow=True) as read:
        for dataset in read:
            dataset.map_batches(enrich, batch_format="pyarrow").write_parquet("/data/billing")

**Bounded datasets.** Ray Data has none without an end. A read task that never ends keeps a CPU for good, and gives
nothing on before it has a whole block (128 MiB, unless told otherwise). Ray runs it again from its very beginning when
its process, or a block of it, is lost. Order (`preserve_order`), shuffles and writes wait for its end, which never
comes; and a dataset without progress for half an hour is given up. So each batch of offsets is a dataset of its own.

A commit stands for what was consumed: the loop asks for the next dataset, or batch of rows, only when it is done with
the one before. A loop that is left by `break`, `return` or an exception commits nothing of what it had in hand. But a
loop over the rows of one dataset, left early, cannot be told from one that took all: Ray's tasks read ahead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from actors import CoterieError
from actors.client import TopicPartition
from actors.client.records import OffsetRange
from actors.members.ranges.reads import ReadBatch, ReadPlan
from actors.runtime.environment import REAL

if TYPE_CHECKING:
    from ray.data import Dataset

_IDLE_SECONDS: Final = 0.25  # between two looks for new records


class BatchNotReadError(CoterieError, RuntimeError):
    """The next dataset was asked for before the last one was read to its end; nothing of that one is committed."""


class Reader(Protocol):
    """The member that reads and commits; `GroupReader`."""

    def begin(self, most: int | None = None) -> ReadBatch: ...
    def dataset(self, batch: ReadBatch) -> Dataset: ...
    def unread(self, batch: ReadBatch) -> list[OffsetRange]: ...
    def commit(self, batch: ReadBatch, ranges: Iterable[OffsetRange]) -> tuple[TopicPartition, ...]: ...
    def leave(self) -> None: ...


class GroupFollow:
    """The context manager that `read_group(follow=True)` returns, and within its block an iterator over datasets.

    `ranges` are the offsets of the dataset in hand, and `committed` the next offset of each partition that was
    committed so far. One thread may iterate; `stop` may be called from any other, or by a signal handler.
    """

    ranges: tuple[OffsetRange, ...] = ()

    def __init__(
        self,
        plan: ReadPlan,
        max_batch_offsets: int | None,
        batch_interval_s: float,
        make_reader: Callable[[ReadPlan], Reader],
        *,
        monotonic: Callable[[], float] = REAL.clock.monotonic,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._plan = plan
        self._most = max_batch_offsets
        self._interval_s = batch_interval_s
        self._make_reader = make_reader
        self._monotonic = monotonic
        self._sleep = sleep or threading.Event().wait
        self._reader: Reader | None = None
        self._stopping = False  # no Event: a signal handler must not wait for a lock that its own thread may have

    def __enter__(self) -> Self:
        self._reader = self._make_reader(self._plan)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.leave()

    def __iter__(self) -> Iterator[Dataset]:
        """The datasets, one after the other, for ever: until `stop`. Asking for one commits the one before it.

        Raises BatchNotReadError if that was not read to its end, DataLossError and KafkaError.
        """
        due_s = self._monotonic()
        while (batch := self._next(due_s)) is not None:
            due_s = self._monotonic() + self._interval_s
            self.ranges = batch.ranges
            yield self._joined().dataset(batch)
            self._commit(batch)

    def iter_batches(self, **options: Any) -> Iterator[Any]:
        """Rows in batches, for ever: until `stop`. `options` are those of Dataset.iter_batches.

        The offsets of a dataset are committed when all of its batches have been consumed.
        """
        for dataset in self:
            yield from dataset.iter_batches(**options)

    def stop(self) -> None:
        """End the loop when what it has in hand is consumed and committed. Stopping twice is harmless."""
        self._stopping = True

    def _joined(self) -> Reader:
        if self._reader is None:
            raise RuntimeError("read_group(follow=True) reads within its with block only")
        return self._reader

    def _next(self, due_s: float) -> ReadBatch | None:
        """The next batch with records, not before `due_s`; None if the loop ends."""
        reader = self._joined()
        while not self._stopping:
            early_s = due_s - self._monotonic()
            if early_s > 0:
                self._sleep(min(early_s, _IDLE_SECONDS))
                continue
            batch = reader.begin(self._most)
            if batch.ranges:
                return batch
            self._sleep(_IDLE_SECONDS)
        return None

    def _commit(self, batch: ReadBatch) -> None:
        reader = self._joined()
        if unread := reader.unread(batch):
            names = ", ".join(f"{r.topic}-{r.partition} from {r.from_offset} to {r.until_offset}" for r in unread)
            raise BatchNotReadError(
                f"group {self._plan.spec.group_id}: the next dataset was asked for, but this was not read to its end: "
                f"{names}. Nothing of it is committed. A dataset is lazy: write it, iterate it or materialize() it; "
                "take, limit and schema do not count"
            )
        counted = set(reader.commit(batch, batch.ranges))
        ends = {TopicPartition(r.topic, r.partition): r.until_offset for r in batch.ranges}
        self.committed |= {tp: end for tp, end in ends.items() if tp in counted}
        self.ranges = ()
