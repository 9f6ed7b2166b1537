"""Looks through the logs that this broker follows, slowly, for batches that the disk has damaged since.

Nobody reads a follower's log until it leads; then its damage would be found by clients. Each pass reads all of them
from the disk, not from memory, at most `coterie.scrub.bytes.per.second`. Its findings are told and mended as those of
reads.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from actors.broker.context import BrokerContext
from actors.log.damage import DamagedBatchError
from actors.log.data_dir import TopicPartition
from actors.log.partition_log import PartitionLog
from actors.records.errors import LogError
from actors.runtime.logs import at

log = logging.getLogger(__name__)

SETTING: Final = "coterie.scrub.bytes.per.second"
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses, in seconds: between a broker's start and its first pass, and between passes."""

    first_s: float = 600.0
    next_s: float = 3600.0


_PAUSES: Final = Pauses()


class Scrubber:
    """Goes through all followed logs again and again, one at a time."""

    def __init__(self, context: BrokerContext, pauses: Pauses = _PAUSES) -> None:
        self._context = context
        self._pauses = pauses
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = self._context.loop.create_task(self._repeat())

    def stop(self) -> None:
        """End; a thread that is reading ends its piece."""
        if self._task is not None:
            self._task.cancel()

    async def _repeat(self) -> None:
        await asyncio.sleep(self._pauses.first_s)
        while True:
            for key, each in list(self._context.data_dir.logs.items()):
                try:
                    await self.look_through(key, each)
                except (LogError, OSError) as error:  # deleted or cut meanwhile, or a disk that cannot be read
                    log.warning("%s-%d is not looked through: %s", *key, error, extra=at(*key))
            await asyncio.sleep(self._pauses.next_s)

    async def look_through(self, key: TopicPartition, followed: PartitionLog) -> None:
        """Read a log from its present start to its present end, as long as it is followed here."""
        offset, end = followed.log_start_offset, followed.log_end_offset
        while offset < end and self._is_followed(key, followed):
            rate = self._context.config.integer(SETTING)
            if not rate:
                return
            size, extent = 0, None
            try:
                extent = followed.locate(max(offset, followed.log_start_offset), min(_PIECE_BYTES, rate), end)
                if extent is None:
                    return
                size = len(extent)
                await self._context.loop.run_in_executor(None, extent.read_from_disk)
                offset = extent.next_offset
            except DamagedBatchError as error:
                offset = max(error.damage.last_offset, offset) + 1  # on, whatever the damage says of its offsets
                size += error.damage.size_bytes - (len(extent) if extent is not None else 0)
            self._context.counts.integrity["scrubbed_bytes"] += size
            await asyncio.sleep(size / rate)

    def _is_followed(self, key: TopicPartition, followed: PartitionLog) -> bool:
        partition = self._context.metadata.partition(*key)
        mine = partition is not None and partition.leader != self._context.broker_id
        return mine and self._context.data_dir.get(*key) is followed
