"""Offset ranges as a DataFrame: one Spark task a range, read on the executors straight from the partition leaders.

Which ranges to read is decided elsewhere (`read`, the streams). Nothing here knows groups or imports ray.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from actors.client.ranges import OffsetRange, RangeReader
from spark_bridge.columns import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_IDLE_S: Final = 30.0


@dataclass(frozen=True)
class Reading:
    """How ranges are read. `consumer_options` are settings of `actors.client` (isolation_level, client_id, …)."""

    bootstrap_servers: str
    headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    consumer_options: Mapping[str, Any] = field(default_factory=dict)


def ranges_dataframe(spark: SparkSession, ranges: Sequence[OffsetRange], reading: Reading) -> DataFrame:
    """The records of these ranges with the columns of Spark's Kafka source, one task a range; lazy.

    Whatever happens to the topic in the meantime, evaluating it twice reads the same offsets. Empty ranges get no
    task; without any other range the DataFrame is empty.
    """
    wanted = [each for each in ranges if each.size]
    schema = spark_schema(reading.headers)
    if not wanted:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(wanted), 1, len(wanted))
    return numbers.mapInArrow(_ReadRanges(wanted, reading), schema)


def split_ranges(ranges: Sequence[OffsetRange], min_partitions: int | None) -> list[OffsetRange]:
    """At least about `min_partitions` ranges, as Spark's option minPartitions: large ones are cut into equal parts.

    Each gets a number of parts in proportion to its size. Empty ranges are left out; the rest stays as it is when
    there are enough already, or without `min_partitions`.
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
    """Equal parts; the later ones are the larger by one where it does not come out even."""
    begin = whole.from_offset
    for number in range(min(parts, whole.size)):
        end = begin + (whole.until_offset - begin) // (min(parts, whole.size) - number)
        yield OffsetRange(whole.topic, whole.partition, begin, end)
        begin = end


class _ReadRanges:
    """What an executor runs; travels there by pickle, with the ranges."""

    def __init__(self, ranges: Sequence[OffsetRange], reading: Reading) -> None:
        self._ranges = tuple(ranges)
        self._reading = reading

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            wanted = [self._ranges[number] for number in batch.column(0).to_pylist()]
            with _reader_for(self._reading) as reader:
                yield from reader.read(wanted)


# --- one reader a Python worker -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Kept:
    """A reader between two tasks of one worker process: saves the next one connecting and asking for metadata."""

    key: tuple[Any, ...]
    reader: RangeReader
    pid: int
    timer: threading.Timer | None = None


_kept: list[_Kept] = []
_lock = threading.Lock()


@contextlib.contextmanager
def _reader_for(reading: Reading) -> Iterator[RangeReader]:
    """This process's reader, or a new one. After a failure it is closed; unused, it is closed after half a minute."""
    key = _key(reading)
    reader = _take(key) or RangeReader(
        reading.bootstrap_servers,
        headers=reading.headers,
        fail_on_data_loss=reading.fail_on_data_loss,
        poll_timeout_ms=reading.poll_timeout_ms,
        **reading.consumer_options,
    )
    try:
        yield reader
    except BaseException:
        reader.close()
        raise
    _keep(key, reader)


def _key(reading: Reading) -> tuple[Any, ...]:
    options = tuple(sorted((name, repr(value)) for name, value in reading.consumer_options.items()))
    return (
        reading.bootstrap_servers,
        reading.headers,
        reading.fail_on_data_loss,
        reading.poll_timeout_ms,
        options,
    )


def _take(key: tuple[Any, ...]) -> RangeReader | None:
    """The reader kept for this key, which is nobody else's from now on."""
    with _lock:
        for kept in _kept:
            # A forked process has its parent's objects, but not its threads and sockets.
            if kept.key == key and kept.pid == os.getpid():
                _kept.remove(kept)
                if kept.timer is not None:
                    kept.timer.cancel()
                return kept.reader
    return None


def _keep(key: tuple[Any, ...], reader: RangeReader) -> None:
    kept = _Kept(key, reader, os.getpid())
    kept.timer = threading.Timer(_IDLE_S, _drop, (kept,))
    kept.timer.daemon = True
    with _lock:
        others = [each for each in _kept if each.pid == kept.pid]
        _kept[:] = [kept]
    for each in others:
        _end(each)
    kept.timer.start()


def _drop(kept: _Kept) -> None:
    with _lock:
        if kept not in _kept:
            return
        _kept.remove(kept)
    kept.reader.close()


def _end(kept: _Kept) -> None:
    if kept.timer is not None:
        kept.timer.cancel()
    kept.reader.close()


@atexit.register
def _close_all() -> None:
    with _lock:
        mine = [each for each in _kept if each.pid == os.getpid()]
        _kept.clear()
    for each in mine:
        _end(each)
