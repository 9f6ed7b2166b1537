"""Offset ranges as a DataFrame: a Spark task for each range, which reads straight from the partition's leader.

`read` and the streams decide which ranges. Nothing here knows groups or imports ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.client.records import OffsetRange
from spark_bridge.columns import spark_schema
from spark_bridge.worker import begin_task, reader_for

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Reading:
    """Settings for reading ranges. `consumer_options` are those of `actors.client` (isolation_level, client_id, …)."""

    bootstrap_servers: str
    headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    consumer_options: Mapping[str, Any] = field(default_factory=dict)


def ranges_dataframe(spark: SparkSession, ranges: Sequence[OffsetRange], reading: Reading) -> DataFrame:
    """The records of these ranges with the columns of Spark's Kafka source, lazily; each range is a task.

    Whatever happens to the topic in the meantime, evaluating it twice reads the same offsets. Empty ranges get no
    task; without any other range the DataFrame is empty.
    """
    wanted = [each for each in ranges if each.size]
    schema = spark_schema(reading.headers)
    if not wanted:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(wanted), 1, len(wanted))
    return numbers.mapInArrow(RangeTask(wanted, reading), schema)


def split_ranges(ranges: Sequence[OffsetRange], min_partitions: int | None) -> list[OffsetRange]:
    """About `min_partitions` ranges or more, as Spark's option minPartitions says: large ones are cut into equal parts.

    The number of a range's parts is in proportion to its size. Empty ranges are left out. If there are enough ranges,
    or without `min_partitions`, none is cut.
    """
    wanted = [each for each in ranges if each.size]
    if min_partitions is None or len(wanted) > min_partitions or not wanted:
        return wanted
    total = sum(each.size for each in wanted)
    # Those too small to be cut have one part each; the rest shares what is left over.
    large = [each for each in wanted if _parts(each.size, total, min_partitions) > 1]
    left = max(1, min_partitions - (len(wanted) - len(large)))
    large_total = sum(each.size for each in large)
    cut = {each: _parts(each.size, large_total, left) for each in large}
    return [part for each in wanted for part in _cut(each, cut.get(each, 1))]


def _parts(size: int, total: int, count: int) -> int:
    return max(1, int(size / total * count + 0.5))


def _cut(whole: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """The range in equal parts; if it does not come out even, later parts have one offset more."""
    begin = whole.from_offset
    for number in range(min(parts, whole.size)):
        end = begin + (whole.until_offset - begin) // (min(parts, whole.size) - number)
        yield OffsetRange(whole.topic, whole.partition, begin, end, whole.topic_id)
        begin = end


class RangeTask:
    """The task that an executor runs. It is pickled with its ranges."""

    def __init__(self, ranges: Sequence[OffsetRange], reading: Reading) -> None:
        self._ranges = tuple(ranges)
        self._reading = reading

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in numbers:
            wanted = [self._ranges[number] for number in batch.column(0).to_pylist()]
            with reader_for(**self._arguments()) as reader:
                yield from reader.read(wanted)

    def _arguments(self) -> dict[str, Any]:
        reading = self._reading
        return {
            **reading.consumer_options,
            "bootstrap_servers": reading.bootstrap_servers,
            "headers": reading.headers,
            "fail_on_data_loss": reading.fail_on_data_loss,
            "poll_timeout_ms": reading.poll_timeout_ms,
        }
