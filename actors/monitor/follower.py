"""Follows `__consumer_offsets`: reads what is new in each of its partitions, from the leaders.

A log that somebody reads on can go wrong: it was cut after an unclean election and written anew (then the epoch before
our position is another one, or the log ends before it), it has lost its beginning, its leader has changed or is not
there. The first two have it read from its beginning into a new table, which takes the old one's place when it has all:
until then the old one is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.records import RecordTypes
from actors.links.reading import LogRead
from actors.monitor.offsets_log import OffsetsLog, OffsetsPartition
from actors.records.batch import iter_batches
from actors.records.errors import CorruptBatchError
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
PIECES_MAX: Final = 64
"""The number of pieces of one partition that are read in one look. The rest is read in the next ones."""


class Reads(Protocol):
    """The reads of logs."""

    async def read_log(
        self, topic: str, partition: int, offset: int, max_bytes: int, head_bytes: int = 0
    ) -> LogRead | None:
        """Ask the partition's leader. None if there is none, or it does not answer."""


class Follower:
    """Keeps an OffsetsLog up with the cluster's."""

    def __init__(self, reads: Reads, types: RecordTypes = GROUP_RECORDS) -> None:
        self._reads = reads
        self._types = types
        self._anew: dict[int, OffsetsPartition] = {}  # those that are being read from their beginnings
        self.log = OffsetsLog()
        self.behind = 0
        """The number of offsets that were left unread before partitions' ends at the last look."""

    async def follow(self, ends: Mapping[int, int]) -> None:
        """Read on to these ends (high watermarks), by partition. Others stay as they are."""
        self.behind = 0
        for number, end in ends.items():
            reading = self._anew.get(number) or self._known(number)
            if reading.position == end and number not in self._anew:
                continue
            if not await self._read_on(number, reading, end):
                self.behind += 1

    def _known(self, number: int) -> OffsetsPartition:
        found = self.log.partitions.get(number)
        if found is None:
            found = self.log.partitions[number] = OffsetsPartition(self._types)
        return found

    async def _read_on(self, number: int, reading: OffsetsPartition, end: int) -> bool:
        """Returns True if all up to `end` was read."""
        for _ in range(PIECES_MAX):
            piece = await self._reads.read_log(OFFSETS_TOPIC, number, reading.position, PIECE_BYTES)
            if piece is None:
                return False
            if _was_cut(piece, reading):
                log.warning("%s-%d was cut before offset %d: it is read anew", OFFSETS_TOPIC, number, reading.position)
                reading = self._anew[number] = self._beginning_at(piece.log_start)
                continue
            if piece.error_code:
                return False
            if not _take(piece, reading, number) or reading.position >= max(end, piece.high_watermark):
                self._put_in_place(number, reading)
                return True
        return False

    def _beginning_at(self, offset: int) -> OffsetsPartition:
        made = OffsetsPartition(self._types)
        made.position = max(0, offset)
        return made

    def _put_in_place(self, number: int, reading: OffsetsPartition) -> None:
        if self._anew.pop(number, None) is not None:
            self.log.partitions[number] = reading


def _was_cut(piece: LogRead, reading: OffsetsPartition) -> bool:
    """True if the log is not the one that was read so far. A watermark may lag for a moment after an election."""
    if piece.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return True
    known = piece.error_code == 0 and reading.epoch >= 0 and piece.epoch_before >= 0
    return known and piece.epoch_before != reading.epoch


def _take(piece: LogRead, reading: OffsetsPartition, number: int) -> bool:
    """Apply whole batches; False if there was none. Batches that cannot be read are passed over."""
    try:
        batches = list(iter_batches(piece.data))
    except CorruptBatchError as error:
        log.error("%s-%d at offset %d: %s", OFFSETS_TOPIC, number, reading.position, error)
        return False
    if not batches:
        return False
    try:
        reading.apply(iter_key_values(piece.data))
    except CorruptBatchError:
        _apply_one_by_one([piece.data[start:end] for start, end, _ in batches], reading, number)
    last = batches[-1][2]
    reading.position, reading.epoch = max(reading.position, last.next_offset), last.leader_epoch
    return True


def _apply_one_by_one(batches: list[bytes], reading: OffsetsPartition, number: int) -> None:
    for batch in batches:
        try:
            reading.apply(iter_key_values(batch))
        except CorruptBatchError as error:
            reading.unreadable += 1
            log.error("%s-%d: %s", OFFSETS_TOPIC, number, error)
