"""From the columns of an Arrow batch to those that `records.sealing` makes record batches of. No I/O."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.client.errors import SerializationError
from actors.client.producer.values import headers_of
from actors.records.building import encode_headers
from actors.records.sealing import Ints, Rows

_MOST_S = (2**63 - 1) // 1000


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """The rows of a batch with the columns key, value, headers and timestamp; only value is required.

    Keys and values are binary or string, headers a list of (key, value), timestamps a timestamp or Unix ms, by
    default `now_ms`. Raises SerializationError.
    """
    names = batch.schema.names
    if "value" not in names:
        raise SerializationError(f"there is no column 'value'; the columns are {', '.join(names)}")
    count = batch.num_rows
    keys = binary(batch.column("key"), "key") if "key" in names else pa.nulls(count, pa.binary())
    headers = batch.column("headers") if "headers" in names else None
    return Rows(
        keys,
        binary(batch.column("value"), "value"),
        _times(batch.column("timestamp"), now_ms) if "timestamp" in names else np.full(count, now_ms, np.int64),
        None if headers is None else _encoded_headers(headers),
    )


def binary(column: Any, name: str) -> Any:
    """A column as a binary array. Raises SerializationError if it is neither binary nor string."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    bytes_or_text = (
        pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_binary(kind)
    ) or pa.types.is_large_string(kind)
    if not (bytes_or_text or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind)):
        raise SerializationError(f"column {name!r} is {column.type}, must be binary or string")
    if pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _times(column: Any, now_ms: int) -> Ints:
    if pa.types.is_timestamp(column.type):
        column = _milliseconds(column)
    elif column.type != pa.int64():
        raise SerializationError(f"column 'timestamp' is {column.type}, must be a timestamp or int64 (Unix ms)")
    return column.fill_null(now_ms).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _milliseconds(column: Any) -> Any:
    """Timestamps of any unit as Unix ms, cut off. Raises SerializationError for seconds that have no room there."""
    if column.type.unit == "s":
        known = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        beyond = (known > _MOST_S) | (known < -_MOST_S)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise SerializationError(f"the time of row {row}, {known[row]} s, is too far from 1970 for milliseconds")
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _encoded_headers(column: Any) -> Any | None:
    """The bytes of each record's headers, with their count in front; None if no record has any."""
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        raise SerializationError(f"column 'headers' is {kind}, must be a list of (key, value)")
    if not pa.types.is_map(kind) and not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return None
    # Record by record: few records have headers, and where many do, the headers themselves cost more.
    return pa.array([_encode_headers(each) for each in column.to_pylist()], pa.binary())


def _encode_headers(headers: Any) -> bytes:
    return encode_headers(headers_of([_pair(each) for each in headers])[0] if headers else None)


def _pair(header: Any) -> Any:
    if not isinstance(header, dict):
        return header
    if not header.keys() >= {"key", "value"}:
        raise SerializationError(f"a header has the fields {', '.join(header)}, not key and value")
    return header["key"], header["value"]
