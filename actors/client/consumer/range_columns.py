"""The columns that ranges are read into: those of Spark's Kafka source, in its order. No I/O.

A record's time is any number of milliseconds in 64 bits; in microseconds the furthest have no room. Such a record is
an error that says where it is: another time in its place would be believed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from actors.client.consumer.columnar import HEADERS, ArrowColumns
from actors.client.errors import TimestampRangeError
from actors.client.records import TopicPartition

TimeUnit = Literal["us", "ms"]
Place = tuple[TopicPartition, int]
"""A partition, and an offset in it."""
_MOST_MS: Final = (2**63 - 1) // 1000


def range_schema(headers: bool = False, unit: TimeUnit = "us") -> pa.Schema:
    """The columns. A record without headers has null there.

    Names of headers are text, with U+FFFD for what is not UTF-8.
    """
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp(unit, "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, pa.field("headers", HEADERS)] if headers else fields)


def record_batch(tp: TopicPartition, columns: ArrowColumns, *, headers: bool, unit: TimeUnit) -> pa.RecordBatch:
    """The records as a batch of `range_schema`. Raises TimestampRangeError if one's time has no room in `unit`."""
    times = pa.array(columns.timestamps)
    arrays = [
        columns.keys,
        columns.values,
        pa.repeat(pa.scalar(tp.topic), len(columns)),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), len(columns)),
        pa.array(columns.offsets),
        times.cast(pa.timestamp("ms", "UTC"))
        if unit == "ms"
        else microseconds(times, lambda row: (tp, int(columns.offsets[row]))),
        pa.array(columns.timestamp_types),
    ]
    if headers:
        arrays.append(columns.headers)
    return pa.RecordBatch.from_arrays(arrays, schema=range_schema(headers, unit))


def microseconds(times_ms: Any, place: Callable[[int], Place]) -> Any:
    """An int64 array of Unix milliseconds as timestamps in microseconds; null stays null.

    Raises TimestampRangeError for a time that has no room there; `place` says where the record of a row is.
    """
    known = times_ms.fill_null(0).to_numpy(zero_copy_only=False)
    beyond = (known > _MOST_MS) | (known < -_MOST_MS)
    if beyond.any():
        row = int(np.argmax(beyond))
        tp, offset = place(row)
        raise TimestampRangeError(
            f"{tp.topic}-{tp.partition} at offset {offset}: the time {known[row]} is no number of milliseconds since "
            "1970 that a timestamp in microseconds can hold; was it written in another unit? Begin behind this offset"
        )
    return pa.array(known * 1000, mask=times_ms.is_null().to_numpy(zero_copy_only=False)).cast(
        pa.timestamp("us", "UTC")
    )
