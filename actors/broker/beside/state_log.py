"""The log of a state partition. Only here is it written, by the leader alone, at the epoch at which it was elected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from actors.broker.context import BrokerContext
from actors.broker.led import LedPartitions, LogAccessError
from actors.log.partition_log import PartitionLog
from actors.log.reading import Extent
from actors.records.building import build_keyed_batch
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from placement.metadata import PartitionInfo

KeyValue: TypeAlias = tuple[bytes, bytes | None]
Piece: TypeAlias = tuple[list[KeyValue], int]
"""Records, and the offset after them."""

_PIECE_BYTES = 1 << 18
_RECORD_OVERHEAD_BYTES = 24
_BATCH_OVERHEAD_BYTES = 61


class Appended(NamedTuple):
    """The log's end after an append, and the offset up to which it has committed."""

    next_offset: int
    watermark: int


class StateLog:
    """The log of one state partition, while this broker leads it at `leader_epoch`."""

    def __init__(self, context: BrokerContext, led: LedPartitions, topic: str, index: int, leader_epoch: int) -> None:
        self._context = context
        self._led = led
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch

    def bounds(self) -> tuple[int, int]:
        """The beginning and the end of the log; no log is made before the first record. Raises LogError, OSError."""
        data_dir, key = self._context.data_dir, (self.topic, self.index)
        if key not in data_dir.logs and not data_dir.folder(*key).exists():
            return 0, 0
        found = self._log()
        return found.log_start_offset, found.log_end_offset

    def watermark(self) -> int:
        """All below this has committed. -1 while this broker may not lead: another may have cut this log, and more."""
        return self._watermark() if self._led_partition() is not None else -1

    def _watermark(self) -> int:
        found = self._context.held_log(self.topic, self.index)
        return found.high_watermark if found is not None else 0

    def is_current(self) -> bool:
        """True if the last image has this broker as the leader at this epoch."""
        info = self._context.metadata.partition(self.topic, self.index)
        epoch = info.leader_epoch if info is not None and info.leader == self._context.broker_id else -1
        return epoch == self.leader_epoch

    def _led_partition(self) -> PartitionInfo | None:
        """The partition if this broker may act as its leader at this epoch."""
        info = self._context.metadata.partition(self.topic, self.index)
        may_lead = info is not None and self.is_current() and self._led.leads(self.topic, self.index, info)
        return info if may_lead else None

    def _log(self) -> PartitionLog:
        return self._context.log(self.topic, self.index)

    # --- reading ---

    def read(self, offset: int, end: int) -> asyncio.Future[Piece]:
        """Read the records from `offset` on, some of those before `end`, in another thread: a disk may be slow.

        Raises LogError, OSError, and so does the future.
        """
        extent = self._log().locate(offset, _PIECE_BYTES, end)
        if extent is None:
            raise OSError(f"{self.topic}-{self.index}: nothing at {offset} of {end}")
        return self._context.loop.run_in_executor(None, _piece, extent)

    # --- writing ---

    def room(self) -> int:
        """The bytes of keys and values that an append may have, each record counted by `size_of`."""
        return self._context.max_message_bytes(self.topic) - _BATCH_OVERHEAD_BYTES

    def append(self, records: Sequence[KeyValue]) -> Appended:
        """Append records in one batch, all or none. Raises LogAccessError, LogError, OSError."""
        context, info = self._context, self._led_partition()
        if info is None:
            raise LogAccessError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(info.isr) < min(context.min_insync_replicas(self.topic), len(info.replicas)):
            raise LogAccessError(ErrorCode.NOT_ENOUGH_REPLICAS)
        now_ms = context.now_ms()
        batch = build_keyed_batch([key for key, _ in records], [value for _, value in records], now_ms)
        partition_log = self._log()
        result = partition_log.append_as_leader(batch, info.leader_epoch, now_ms, internal=True)
        self._led.appended(self.topic, self.index, partition_log, info)
        return Appended(result.last_offset + 1, partition_log.high_watermark)


def size_of(record: KeyValue) -> int:
    """The bytes that a record takes at most."""
    key, value = record
    return len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES


def _piece(extent: Extent) -> Piece:
    records = [(key or b"", value) for key, value in iter_key_values(extent.read())]
    return records, extent.next_offset
