"""Builds batches of records that the compiled builder does not take. It is slower, and takes all of them.

The compiled one refuses names of headers that are bytes, and takes a first record's timestamp of -1 for none at all.
"""

from __future__ import annotations

from typing import Any, Final

from actors.records import compression as codecs
from actors.records.batch import HEADER_BYTES, NO_TIMESTAMP, assembled, fresh_header, read_header
from actors.records.building import encode_record
from actors.records.reading import Headers

_MOST_BYTES: Final = 2**31 - 1
_WHOLE: Final = 1 << 64
_HALF: Final = 1 << 63


class Encoder:
    """Has those methods of the compiled builder that `GrowingBatch` uses."""

    __slots__ = ("_codec", "_count", "_first_ms", "_latest_ms", "_payload")

    def __init__(self, codec: int) -> None:
        self._codec = codec
        self._payload = bytearray()
        self._count = 0
        self._first_ms = NO_TIMESTAMP
        self._latest_ms = NO_TIMESTAMP

    @classmethod
    def after(cls, builder: Any, count: int, codec: int) -> Encoder:
        """An encoder that goes on where a compiled builder with `count` records has come to, which ends that one."""
        encoder = cls(codec)
        if count:
            built = builder.build()
            header = read_header(built)
            encoder._payload += codecs.decompress(header.codec, memoryview(built)[HEADER_BYTES:], _MOST_BYTES)
            encoder._count = count
            encoder._first_ms, encoder._latest_ms = header.first_timestamp, header.max_timestamp
        return encoder

    def append(
        self, offset_delta: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Add a record."""
        if not self._count:
            self._first_ms = timestamp_ms
        # As in Kafka a distance that is too large for 64 bits wraps around, and back when it is read.
        delta = (timestamp_ms - self._first_ms + _HALF) % _WHOLE - _HALF
        self._payload += encode_record(offset_delta, delta, key, value, headers)
        self._count += 1
        self._latest_ms = max(self._latest_ms, timestamp_ms)

    def size(self) -> int:
        """The bytes of the batch so far, before compression."""
        return HEADER_BYTES + len(self._payload)

    def build(self) -> bytearray:
        """The batch, without an identity."""
        header = fresh_header(self._codec, self._count, self._first_ms, self._latest_ms)
        return bytearray(assembled(header, codecs.compress(self._codec, self._payload)))
