"""A batch that grows record by record, as a producer's does until it is sent."""

from __future__ import annotations

from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from actors.records.batch import HEADER_BYTES, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE
from actors.records.encoding import Encoder

_MOST_BYTES: Final = 2**31 - 1

GivenHeaders = list[tuple[str | bytes, bytes | None]]


class GrowingBatch:
    """A compiled builder makes the batch, until a record comes that it does not take: `Encoder` goes on from there.

    `count` are its records, and `size` are its bytes, before compression while it grows. `data` is the batch, without
    offset and producer, once it is built; None while records can be added.
    """

    __slots__ = ("_builder", "_codec", "count", "data", "size")

    def __init__(self, codec: int) -> None:
        self.count = 0
        self.size = HEADER_BYTES
        self.data: bytearray | None = None
        self._codec = codec
        self._builder: Any = DefaultRecordBatchBuilder(MAGIC, codec, 0, NO_PRODUCER_ID, -1, NO_SEQUENCE, _MOST_BYTES)

    @classmethod
    def built(cls, data: bytearray, count: int) -> GrowingBatch:
        """A batch that was built elsewhere."""
        batch = cls.__new__(cls)
        batch.count, batch.size, batch.data = count, len(data), data
        batch._codec, batch._builder = 0, None
        return batch

    def append(self, key: bytes | None, value: bytes | None, headers: GivenHeaders, timestamp_ms: int) -> int:
        """Add a record to a batch that is not built yet. Returns its index."""
        index = self.count
        if timestamp_ms < 0:
            self._encode()
        try:
            self._builder.append(index, timestamp_ms, key, value, headers)
        except TypeError:  # the name of a header is bytes; the builder is what it was
            self._encode()
            self._builder.append(index, timestamp_ms, key, value, headers)
        self.count = index + 1
        self.size = self._builder.size()
        return index

    def _encode(self) -> None:
        """From here on the batch is built by `Encoder`."""
        if not isinstance(self._builder, Encoder):
            self._builder = Encoder.after(self._builder, self.count, self._codec)

    def build(self) -> bytearray:
        """The batch, compressed. Nothing can be added to it any more."""
        if self.data is None:
            self.data = self._builder.build()
            self._builder = None
        return self.data

    def drop(self) -> None:
        """Let go of the bytes. The counts stay, and nothing can be added."""
        self.data = bytearray()
        self._builder = None
