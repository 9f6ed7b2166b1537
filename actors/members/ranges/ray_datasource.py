"""Ranges of offsets as a Ray Data dataset: one read task for each range, and the actor that hears which were read.

**Evenly cut tables.** Ray Data hands the blocks of a task on while the task runs. If its process dies, Ray
runs the task again from its beginning, and drops as many blocks of the second run as it had from the first, by their
number alone. So the second run has to cut its records as the first one did, or records are lost or come twice. Fetches
do not come alike twice; `evenly` makes the cut depend on nothing but the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data import Dataset, Datasource, ReadTask
from ray.data.block import BlockMetadata

from actors.client.consumer.ranges import BATCH_ROWS, FETCH_BYTES, RangeReader
from actors.client.records import OffsetRange
from actors.members.ranges.reads import Reading
from actors.runtime import ray_inside
from actors.runtime.process import check_same_version

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("headers", pa.map_(pa.string(), pa.binary())),
    ]
)
"""The columns of ray.data.read_kafka. Times are in ms; timestamp_type is 1 for CreateTime, 2 for LogAppendTime.

Names of headers are text, with U+FFFD for what is not UTF-8."""


@ray.remote(num_cpus=0, max_restarts=0)
class ReadReceipts:
    """The actor that notes which ranges of a batch were read to their end. If it dies, nothing is committed."""

    def __init__(self, version: str) -> None:
        check_same_version(version)
        self._batch = -1
        self._read: set[OffsetRange] = set()
        self._unlimited = False

    def begin(self, batch: int) -> None:
        """Forget what was noted. From now on notes count that are of this batch."""
        self._batch, self._read, self._unlimited = batch, set(), False

    def note(self, batch: int, wanted: OffsetRange) -> None:
        """Note that a range was read to its end."""
        if batch == self._batch:
            self._read.add(wanted)

    def unlimited(self, batch: int) -> None:
        """Note that the dataset was evaluated without a limit."""
        self._unlimited = self._unlimited or batch == self._batch

    def read(self) -> set[OffsetRange]:
        """The ranges read to their end so far; none while all evaluations had a limit."""
        return self._read if self._unlimited else set()


def dataset_of(ranges: Sequence[OffsetRange], reading: Reading, receipts: Any, batch: int) -> Dataset:
    """A dataset of these ranges, whose evaluations `receipts` hears of."""
    source = _GroupDatasource(ranges, reading, receipts, batch)
    dataset = ray.data.read_datasource(source, override_num_blocks=max(1, len(ranges)))
    # With a `limit` or `take`, too, the tasks read ahead to the end.
    ray_inside.call_without_limit(dataset, _noting_evaluations(receipts, batch))
    return dataset


def _noting_evaluations(receipts: Any, batch: int) -> Callable[[], None]:
    """Notes an evaluation."""
    return lambda: ray.get(receipts.unlimited.remote(batch))


class _GroupDatasource(Datasource):  # type: ignore[misc]
    """A data source with one read task for each range."""

    def __init__(self, ranges: Sequence[OffsetRange], reading: Reading, receipts: Any, batch: int) -> None:
        super().__init__()
        self._ranges, self._reading, self._receipts, self._batch = ranges, reading, receipts, batch

    def get_name(self) -> str:
        return "ConsumerGroup"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        if not self._ranges:
            nothing = BlockMetadata(num_rows=0, size_bytes=0, input_files=None, exec_stats=None)
            return [ReadTask(lambda: [SCHEMA.empty_table()], nothing, schema=SCHEMA)]
        return [
            ReadTask(
                partial(read_range, wanted, self._reading, self._receipts, self._batch),
                BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None),
                schema=SCHEMA,
                per_task_row_limit=per_task_row_limit,
            )
            for wanted in self._ranges
        ]


def read_range(wanted: OffsetRange, reading: Reading, receipts: Any, batch: int) -> Iterator[pa.Table]:
    """The work of one task: the records of a range, and a receipt at its end."""
    with RangeReader(
        reading.bootstrap_servers,
        headers=True,
        fail_on_data_loss=reading.fail_on_data_loss,
        time_unit="ms",  # a column of plain numbers has room for any time
        **reading.options,
    ) as reader:
        yield from evenly(map(as_read_kafka, reader.read([wanted])), BATCH_ROWS, FETCH_BYTES)
    ray.get(receipts.note.remote(batch, wanted))


def evenly(tables: Iterable[pa.Table], rows: int, size_bytes: int) -> Iterator[pa.Table]:
    """The same rows in other tables, whose cut and size depend on nothing but the rows.

    A table ends with the first row by which it has so many rows, or keys and values of so many bytes.
    """
    parts: list[pa.Table] = []
    rows_left, bytes_left = rows, size_bytes
    for table in tables:
        ends = np.cumsum(_sizes(table))
        at = 0
        while at < table.num_rows:
            before = int(ends[at - 1]) if at else 0
            by_size = int(np.searchsorted(ends, before + bytes_left)) + 1
            end = min(at + rows_left, by_size, table.num_rows)
            parts.append(table.slice(at, end - at))
            rows_left -= end - at
            bytes_left -= int(ends[end - 1]) - before
            if rows_left <= 0 or bytes_left <= 0:
                yield _joined(parts)
                parts, rows_left, bytes_left = [], rows, size_bytes
            at = end
    if parts:
        yield _joined(parts)


def _sizes(table: pa.Table) -> Any:
    lengths = [pc.fill_null(pc.binary_length(table[name]), 0).to_numpy() for name in ("key", "value")]
    return lengths[0].astype(np.int64) + lengths[1]


def _joined(parts: list[pa.Table]) -> pa.Table:
    """One table with memory of its own: a slice of another one counts other bytes, and Ray Data cuts by them."""
    table = pa.concat_tables(parts)
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks()


def as_read_kafka(batch: pa.RecordBatch) -> pa.Table:
    """A batch of `range_schema` as a table of `SCHEMA`, as Ray Data's own source of Kafka has it."""
    headers = pc.fill_null(batch.column("headers"), pa.scalar([], batch.schema.field("headers").type))
    pairs = headers.flatten()
    as_map = pa.MapArray.from_arrays(_offsets(headers), pairs.field("key"), pairs.field("value"))
    columns = [
        batch.column("offset"),
        batch.column("key"),
        batch.column("value"),
        batch.column("topic"),
        batch.column("partition"),
        batch.column("timestamp").cast(pa.int64()),
        pc.add(batch.column("timestampType"), pa.scalar(1, pa.int32())),
        as_map,
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """The index of each list's first value among the flattened values, and the end of the last list."""
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    return pa.array([0, *lengths.cumsum().tolist()], pa.int32())
