"""The reads of led partitions that a broker serves to the cluster's Monitor: its Fetch.

The controller asks on the Monitor's behalf; no client reaches this.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterator

from actors.broker.context import BrokerContext
from actors.broker.led import LedPartitions, LogAccessError
from actors.links.reading import (
    HEADS,
    HeadsRead,
    LogRead,
    PartitionsRead,
    ReadHeads,
    ReadLog,
    ReadPartitions,
    TopicSlice,
    pack_rows,
)
from actors.log.errors import FetchOffsetOutOfRange
from actors.log.partition_log import PartitionLog
from actors.log.reading import Extent
from actors.records.batch import HEADER_BYTES
from actors.records.errors import LogError
from actors.wire.errors import ErrorCode


class MonitorReads:
    """Answers a Monitor's reads. A turn of the loop is short: partitions come in slices, files are read in a thread."""

    def __init__(self, context: BrokerContext, led: LedPartitions) -> None:
        self._context = context
        self._led = led

    def partitions(self, asked: ReadPartitions) -> PartitionsRead:
        """The next slice of the partitions led here. One whose log cannot be opened is left out."""
        slices: list[TopicSlice] = []
        left, last = asked.limit, asked.after
        for name, first in self._topics_from(*asked.after):
            if left <= 0:
                return PartitionsRead(tuple(slices), last)
            rows = []
            for index in self._led_of(name, first):
                if left <= 0:
                    break
                left, last = left - 1, (name, index)
                if (row := self._row(name, index)) is not None:
                    rows.append(row)
            if rows:
                slices.append(TopicSlice(name, pack_rows(rows)))
        return PartitionsRead(tuple(slices), None if left > 0 else last)

    def _topics_from(self, name: str, partition: int) -> Iterator[tuple[str, int]]:
        """The topics from `name` on, and the partition to begin at."""
        names = sorted(self._context.metadata.topics)
        for each in names[bisect_left(names, name) :]:
            yield each, partition + 1 if each == name else 0

    def _led_of(self, topic: str, first: int) -> Iterator[int]:
        me, partitions = self._context.broker_id, self._context.metadata.topics[topic].partitions
        for index in range(first, len(partitions)):
            if partitions[index].leader == me and self._led.leads(topic, index, partitions[index]):
                yield index

    def _row(self, topic: str, index: int) -> tuple[int, int, int, int, int] | None:
        """The values of a PartitionRow, for which there are thousands of partitions."""
        log = self._context.held_log(topic, index)
        if log is None:
            return index, 0, 0, -1, 0  # no log was needed yet, and none is made for being looked at
        if log.high_watermark < log.log_end_offset:
            try:
                self._context.log(topic, index)  # this moves a watermark that nobody else has a say in
            except (LogError, OSError):
                return None
        return index, log.log_start_offset, log.high_watermark, log.segments.newest_ms, log.size_bytes

    async def log(self, asked: ReadLog) -> LogRead:
        """Batches of a log, or the error."""
        try:
            self._led.leader_of(asked.topic, asked.partition)
            log = self._context.log(asked.topic, asked.partition)
            extent = log.locate(asked.offset, asked.max_bytes)
            data = b""
            if extent is not None:
                data = await asyncio.get_running_loop().run_in_executor(None, extent.read, asked.head_bytes or None)
            return self._read(log, asked, ErrorCode.NONE, data[: asked.head_bytes or None])
        except FetchOffsetOutOfRange:
            return self._read(log, asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        except LogAccessError as error:
            return LogRead(error.code)
        except LogError as error:
            return LogRead(error.error_code)
        except OSError:
            return LogRead(ErrorCode.KAFKA_STORAGE_ERROR)

    async def heads(self, asked: ReadHeads) -> HeadsRead:
        """The headers of batches. One that cannot be had is empty."""
        extents = [self._batch_at(*place) for place in asked.places[:HEADS]]
        return HeadsRead(await asyncio.get_running_loop().run_in_executor(None, _heads, extents))

    def _batch_at(self, topic: str, partition: int, offset: int) -> Extent | None:
        try:
            self._led.leader_of(topic, partition)
            return self._context.log(topic, partition).locate(offset, HEADER_BYTES)
        except (LogAccessError, LogError, OSError):
            return None

    def _read(self, log: PartitionLog, asked: ReadLog, code: ErrorCode, data: bytes = b"") -> LogRead:
        epoch = log.epoch_at(asked.offset - 1) if asked.offset > 0 else -1
        return LogRead(code, log.log_start_offset, log.high_watermark, epoch, data)


def _heads(extents: list[Extent | None]) -> tuple[bytes, ...]:
    return tuple(b"" if each is None else _head(each) for each in extents)


def _head(extent: Extent) -> bytes:
    try:
        return extent.read(HEADER_BYTES)[:HEADER_BYTES]
    except (LogError, OSError):
        return b""
