"""Removing records from a log's start: on request, because the leader has, by size and by age.

After a crash at any step, opening the log finds a state that it understands.
"""

import contextlib
from pathlib import Path

from actors.log.errors import StorageError
from actors.log.segment import Segment
from actors.log.state import LogState
from actors.log.storage import Storage
from actors.records.errors import OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, LogError


class Retention:
    """Moves the start of one log."""

    def __init__(self, state: LogState, storage: Storage) -> None:
        self._state = state
        self._storage = storage

    def delete_before(self, offset: int) -> int:
        """Move the log start to `offset`, -1 for the watermark; the new log start. Files go with the next `apply`.

        LogError POLICY_VIOLATION where cleanup.policy is compact alone, OFFSET_OUT_OF_RANGE past the watermark.
        """
        state = self._state
        if state.config.compacts and not state.config.deletes:
            raise LogError(POLICY_VIOLATION, "cleanup.policy=compact: records cannot be deleted by offset")
        offset = state.watermark if offset == -1 else offset
        if not 0 <= offset <= state.watermark:
            raise LogError(OFFSET_OUT_OF_RANGE, f"{offset} is not below the watermark {state.watermark}")
        state.move_start(offset)
        return state.start

    def advance_start(self, offset: int) -> None:
        """Move the log start to `offset`, at most to the watermark."""
        if offset > self._state.start:
            self._state.move_start(min(offset, self._state.watermark))

    def apply(self, now_ms: int) -> list[Path]:
        """Drop segments over retention.bytes or retention.ms, or before the log start. The files to remove.

        They are out of the log and renamed, so `files.remove_files` may run later.
        """
        state = self._state
        if state.in_repair or state.hold.ended:
            return []
        state.producers.expire(now_ms, state.config.producer_id_expiration_ms)
        if state.failure is None:
            self._roll_expired(now_ms)
        count = self._expired_count(now_ms)
        if count == 0:
            return []
        doomed, kept = list(state.segments)[:count], state.segments.after(count)
        # Nothing has to be written, which a full disk would prevent: opening finds the first segment.
        with contextlib.suppress(StorageError):
            state.move_start(kept[0].base_offset)
        state.segments.replace(kept)
        return self._storage.retire(doomed)

    def _roll_expired(self, now_ms: int) -> None:
        active = self._state.segments.active
        everything_committed = self._state.watermark == self._state.end
        with contextlib.suppress(StorageError):  # closed segments can be deleted all the same
            if active.size_bytes and self._too_old(active, now_ms) and everything_committed:
                self._storage.roll()
            else:
                self._storage.roll_if_due(now_ms)

    def _expired_count(self, now_ms: int) -> int:
        state, config = self._state, self._state.config
        surplus = state.segments.size_bytes - config.retention_bytes
        count = 0
        for number, segment in enumerate(state.segments.closed()):
            end = state.segments.end_of(number)
            too_large = config.retention_bytes >= 0 and surplus >= segment.size_bytes
            expired = config.deletes and (too_large or self._too_old(segment, now_ms))
            if end > state.watermark or not (end <= state.start or expired):
                break
            surplus -= segment.size_bytes
            count += 1
        return count

    def _too_old(self, segment: Segment, now_ms: int) -> bool:
        config = self._state.config
        if config.retention_ms < 0 or not config.deletes:
            return False
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(segment.path.stat().st_mtime * 1000)
        return now_ms - newest > config.retention_ms
