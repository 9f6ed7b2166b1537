"""Puts sound batches, which another replica has, in the place of damaged ones.

They are the same batches: each epoch had one leader, and that leader wrote each offset once (KIP-101). So the epochs of
both logs are compared, and their bytes fit where the damaged ones are, unless the two logs were compacted differently.
"""

from __future__ import annotations

import os
from dataclasses import replace

from actors.log.checking import Bounds, check
from actors.log.damage import Damage
from actors.log.errors import StorageError
from actors.log.segment import Segment
from actors.log.state import LogState
from actors.records.batch import iter_batches
from actors.records.errors import CorruptBatchError


class NotFittingError(CorruptBatchError):
    """Batches that are sound, and are not those that were here."""


class Mending:
    """Mends the segments of one log. A write is done at once, so that no truncation comes in between."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def mend(self, segment: Segment, damage: Damage, records: bytes) -> Damage | None:
        """Write batches with the offsets of a damage, the first ones or all.

        Returns the part of the damage that is left.

        All of it is left if the log no longer has it: its segment was compacted or cut, or has gone.
        Raises NotFittingError if they are others, StorageError if the disk does not take them. The caller has the file
        flushed.
        """
        state = self._state
        if state.bounds_of(segment) is None or not state.damages.has(segment, damage) or state.hold.ended:
            state.damages.forget(segment, damage)
            return damage
        low = self._offset_after(damage, records)
        self._write(segment, damage.position, records)
        state.damages.forget(segment, damage)
        end = damage.position + len(records)
        segment.known.add(damage.position, end)
        if end == damage.end:
            return None
        left = replace(damage, position=end, size_bytes=damage.end - end, first_offset=low)
        state.damages.add(segment, left, tell=False)
        return left

    def _offset_after(self, damage: Damage, records: bytes) -> int:
        bounds = Bounds(damage.first_offset, damage.last_offset + 1, damage.end, self._state.newest_epoch)
        outcome = check(records, damage.position, bounds)
        if not records or outcome.size_bytes != len(records):
            raise NotFittingError(f"{damage.path}: other batches than those at {damage.first_offset}: {outcome.wrong}")
        for _, _, header in iter_batches(records):
            if header.leader_epoch != self._state.epochs.epoch_at(header.last_offset):  # the log may begin within it
                raise NotFittingError(f"{damage.path}: a batch at {header.base_offset} of epoch {header.leader_epoch}")
        ends = damage.position + len(records) == damage.end
        if not ends and outcome.low > damage.last_offset:
            raise NotFittingError(f"{damage.path}: {len(records)} bytes in the place of {damage.size_bytes}")
        return outcome.low

    def _write(self, segment: Segment, position: int, records: bytes) -> None:
        try:
            fd = os.open(segment.path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                self._state.writer.write(fd, (records,), position)
            finally:
                os.close(fd)
        except OSError as error:
            raise StorageError(f"{segment.path} cannot be mended: {error}") from error


def sound_batches(read: bytes, first: int, last: int) -> bytes:
    """Of batches that were read from `first` on, those that lie within `first` to `last`. b"" if the first does not."""
    end = 0
    for start, stop, header in iter_batches(read):
        if header.base_offset < first or header.last_offset > last:
            break
        assert start == end, "they lie in a row"
        end = stop
    return read[:end]
