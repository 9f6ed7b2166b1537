"""Compaction as the log sees it: its moment, its input, and putting the result in place.

The work itself is compaction.py's, in a helper process; how files change places is swap.py's.
"""

import contextlib
from pathlib import Path
from typing import Final

from actors.log.compaction import DEFAULT_MAX_KEYS, CompactionPlan, CompactionResult, cleaned
from actors.log.config import MAX_LONG
from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.flush import Flushing
from actors.log.recovery import snapshots
from actors.log.segment import Segment
from actors.log.state import LogState
from actors.log.storage import Storage
from actors.log.swap import commit, install

_MAX_CLEANINGS: Final = 1000


class Cleaning:
    """The compactions of one log."""

    def __init__(self, state: LogState, storage: Storage, flushing: Flushing) -> None:
        self._state = state
        self._storage = storage
        self._flushing = flushing

    def dirty_ratio(self, now_ms: int) -> float:
        """The share of compactable bytes that have not been compacted yet, from 0 to 1."""
        clean, dirty = self._compactable(now_ms)
        total = sum(each.size_bytes for each in clean + dirty)
        return sum(each.size_bytes for each in dirty) / total if total else 0.0

    def plan(self, now_ms: int, *, force: bool = False, max_keys: int = DEFAULT_MAX_KEYS) -> CompactionPlan | None:
        """The compaction that is due now, for `compaction.compact` in a helper process; None if nothing is due.

        `force`: whatever the dirty ratio, with the active segment, which is closed and flushed for it.
        """
        state = self._state
        if not state.config.compacts or state.failure is not None:
            return None
        self._end_old_segment(now_ms)
        if force and state.watermark == state.end:
            self._storage.roll()
            self._flushing.flush()
        clean, dirty = self._compactable(now_ms)
        if not dirty or not (force or self._is_due(dirty, now_ms)):
            return None
        used = clean + dirty
        end = state.segments.end_of(len(used) - 1)
        return CompactionPlan(
            directory=str(state.directory),
            bases=tuple(each.base_offset for each in used),
            end=end,
            first_dirty=max(state.checkpoint.cleaned_to, used[0].base_offset),
            log_start=state.start,
            tombstones_until=self._tombstones_until(now_ms),
            segment_bytes=state.config.segment_bytes,
            index_interval_bytes=state.config.index_interval_bytes,
            max_batch_bytes=state.config.max_message_bytes,
            generation=state.generation,
            max_keys=max_keys,
            producers_last=state.producers.last_offsets(end),
        )

    def swap(self, result: CompactionResult, now_ms: int) -> list[Path]:
        """Put compacted segments in place. The old files, which were renamed, for `files.remove_files`.

        The result is dropped if the log was truncated, lost segments or failed meanwhile. Raises StorageError; if files
        have moved by then, the log takes no more appends until it is repaired.
        """
        state = self._state
        if state.hold.ended:
            return []
        count = len(result.old_bases)
        moved_past = result.generation != state.generation or state.segments.bases()[:count] != result.old_bases
        if moved_past or state.failure is not None:
            self._drop(result)
            return []
        try:
            state.permit_gap(result.old_bases[0], state.segments.end_of(count - 1))
        except StorageError:
            self._drop(result)
            raise
        try:
            commit(state.directory, result.old_bases, result.new_bases, state.writer)
        except OSError as error:
            raise StorageError(f"cannot swap segments in {state.directory}: {error}") from error
        try:
            retired = install(state.directory, state.writer)
            fresh = [self._installed(base) for base in result.new_bases]
        except OSError as error:
            reason = f"swap of compacted segments failed: {error}"
            state.fail(reason)
            raise StorageError(f"{state.directory}: {reason}") from error
        state.segments.replace(fresh + state.segments.after(count))
        self._remember(result.cleaned_to, now_ms)
        return retired + self._needless_snapshots()

    def _drop(self, result: CompactionResult) -> None:
        """Remove the result at once, as a repair does: later, files of these names may be the next compaction's."""
        bases, directory = result.new_bases, self._state.directory
        remove_files(cleaned(path) for base in bases for path in Segment(directory, base).paths())

    def _compactable(self, now_ms: int) -> tuple[list[Segment], list[Segment]]:
        """(clean, dirty): the durable, committed, closed segments that are old enough."""
        state, lag_ms = self._state, self._state.config.min_compaction_lag_ms
        clean: list[Segment] = []
        dirty: list[Segment] = []
        for number, segment in enumerate(state.segments.closed()):
            end = state.segments.end_of(number)
            too_young = lag_ms > 0 and segment.max_timestamp > now_ms - lag_ms
            if end > state.watermark or not segment.flushed or too_young:
                break
            (clean if end <= state.checkpoint.cleaned_to else dirty).append(segment)
        return clean, dirty

    def _end_old_segment(self, now_ms: int) -> None:
        """Roll an idle log, too. Kafka rolls at appends alone, and an idle log keeps superseded values for ever."""
        if not self._state.hold.ended:
            with contextlib.suppress(StorageError):  # closed segments can be compacted all the same
                self._storage.roll_if_due(now_ms)

    def _is_due(self, dirty: list[Segment], now_ms: int) -> bool:
        ratio = self._state.config.min_cleanable_dirty_ratio
        return self.dirty_ratio(now_ms) >= ratio or self._is_overdue(dirty[0], now_ms)

    def _is_overdue(self, segment: Segment, now_ms: int) -> bool:
        """True if a segment's first batch has waited longer than max.compaction.lag.ms for its compaction."""
        lag_ms = self._state.config.max_compaction_lag_ms
        if lag_ms == MAX_LONG:
            return False
        first_ms = segment.header_at(0).max_timestamp
        if first_ms < 0:
            first_ms = int(segment.path.stat().st_mtime * 1000)
        return now_ms - first_ms > lag_ms

    def _tombstones_until(self, now_ms: int) -> int:
        """The offset before which tombstones may go: a compaction saw them delete.retention.ms ago or earlier."""
        limit = now_ms - self._state.config.delete_retention_ms
        return max((offset for offset, time in self._state.checkpoint.cleanings if time <= limit), default=0)

    def _remember(self, cleaned_to: int, now_ms: int) -> None:
        until = self._tombstones_until(now_ms)
        limit = now_ms - self._state.config.delete_retention_ms
        kept = [each for each in self._state.checkpoint.cleanings if each[0] >= until or each[1] > limit]
        self._state.cleaned_to(cleaned_to, (*kept[-_MAX_CLEANINGS:], (cleaned_to, now_ms)))

    def _installed(self, base_offset: int) -> Segment:
        segment = Segment(self._state.directory, base_offset)
        if not segment.load():
            segment.rebuild(self._state.config.index_interval_bytes, verify=False)
        segment.flushed = True
        return segment

    def _needless_snapshots(self) -> list[Path]:
        """Producer snapshots at offsets where no segment begins any more."""
        bases, end = set(self._state.segments.bases()), self._state.end
        return [path for offset, path in snapshots(self._state.directory) if offset not in bases and offset < end]
