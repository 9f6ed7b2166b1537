"""Kafka's default partitioner for a whole Arrow column of keys. It gives the same partitions as `placement.hashing`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)


def spans(array: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes below an Arrow binary array, and where each element begins and ends in them (nulls are empty)."""
    _, offsets_buffer, data = array.buffers()
    count = len(array)
    if offsets_buffer is None:
        return np.empty(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + count + 1].astype(np.int64)
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole, offsets[:-1], offsets[1:]


def murmur2_of(array: Any) -> npt.NDArray[np.int32]:
    """Kafka's murmur2 of each element of an Arrow binary array, as signed numbers."""
    data, starts, ends = spans(array)
    sizes = ends - starts
    # The longest keys come first, so that in each round those with another whole word are at the front.
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[order], sizes[order]
    h = _SEED ^ sizes.astype(np.uint32)
    words = np.ndarray((max(0, len(data) - 3),), "<u4", data, strides=(1,)) if len(data) > 3 else None
    left = sizes >> 2
    with np.errstate(over="ignore"):
        for word in range(int(left[0]) if len(left) else 0):
            some = int(np.searchsorted(-left, -word, side="left"))  # the number with more than `word` of them
            assert words is not None
            k = words[starts[:some] + 4 * word] * _M
            k ^= k >> np.uint32(24)
            h[:some] = h[:some] * _M ^ k * _M
        _tail(h, data, starts, sizes)
        h ^= h >> np.uint32(13)
        h *= _M
        h ^= h >> np.uint32(15)
    result = np.empty(len(h), np.uint32)
    result[order] = h
    return result.view(np.int32)


def _tail(
    h: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    """The one to three bytes after the last whole word."""
    rest = sizes & 3
    at = starts + (sizes & ~np.int64(3))
    for place in (2, 1, 0):
        some = np.flatnonzero(rest > place)
        h[some] ^= data[at[some] + place].astype(np.uint32) << np.uint32(8 * place)
    ending = rest > 0
    h[ending] *= _M


def partitions_for_keys(array: Any, count: int) -> npt.NDArray[np.int32]:
    """The partition of each key, of `count`. The result is meaningless for null keys."""
    return (murmur2_of(array) & np.int32(0x7FFFFFFF)) % np.int32(count)
