"""What a log does now and then to stay small and true: retention, truncation, compaction.

Every change of files here leaves a state that opening the log understands, wherever a crash cuts it off.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from actors.log.compaction import DEFAULT_MAX_KEYS, CompactionPlan, CompactionResult, cleaned
from actors.log.errors import OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, LogError, StorageError
from actors.log.files import fsync_directory, remove_files
from actors.log.recovery import rebuild_producers, snapshots
from actors.log.segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name
from actors.log.storage import StoredLog
from actors.log.swap import commit, install

_MAX_CLEANINGS: Final = 1000


class UpkeptLog(StoredLog):
    """A stored log that removes records: at its start, at its end, and superseded ones in between."""

    # -- removing from the start

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset`, -1 for the watermark; the new log start.

        LogError POLICY_VIOLATION where cleanup.policy has no delete, OFFSET_OUT_OF_RANGE past the watermark.
        Files go with the next `apply_retention`.
        """
        if not self.config.deletes:
            raise LogError(POLICY_VIOLATION, "cleanup.policy=compact: records cannot be deleted by offset")
        offset = self._watermark if offset == -1 else offset
        if not 0 <= offset <= self._watermark:
            raise LogError(OFFSET_OUT_OF_RANGE, f"{offset} is not below the watermark {self._watermark}")
        self._move_start(offset)
        return self._start

    def advance_start(self, offset: int) -> None:
        """The leader's log begins at `offset`: so does ours, at most at the watermark. Files go with retention."""
        if offset > self._start:
            self._move_start(min(offset, self._watermark))

    def apply_retention(self, now_ms: int) -> list[Path]:
        """Drop segments that are over size, over age or before the log start; the files to remove.

        They are already out of the log under another name: `files.remove_files` may take its time.
        """
        if self._in_repair or self._hold.ended:
            return []
        self._producers.expire(now_ms, self.config.producer_id_expiration_ms)
        if self._failure is None:
            self._roll_expired(now_ms)
        count = self._expired_count(now_ms)
        if count == 0:
            return []
        doomed, kept = list(self.segments)[:count], self.segments.after(count)
        # On a full disk nothing can be written down, and nothing must be: opening finds the first segment.
        with contextlib.suppress(StorageError):
            self._move_start(kept[0].base_offset)
        self.segments.replace(kept)
        return self._retire(doomed)

    def _roll_expired(self, now_ms: int) -> None:
        active = self.segments.active
        everything_committed = self._watermark == self._end
        with contextlib.suppress(StorageError):  # closed segments can be deleted all the same
            if active.size_bytes and self._too_old(active, now_ms) and everything_committed:
                self.roll()
            else:
                self.roll_if_due(now_ms)

    def _expired_count(self, now_ms: int) -> int:
        surplus = self.segments.size_bytes - self.config.retention_bytes
        count = 0
        for number, segment in enumerate(self.segments.closed()):
            end = self.segments.end_of(number)
            too_large = self.config.retention_bytes >= 0 and surplus >= segment.size_bytes
            expired = self.config.deletes and (too_large or self._too_old(segment, now_ms))
            if end > self._watermark or not (end <= self._start or expired):
                break
            surplus -= segment.size_bytes
            count += 1
        return count

    def _too_old(self, segment: Segment, now_ms: int) -> bool:
        if self.config.retention_ms < 0 or not self.config.deletes:
            return False
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(segment.path.stat().st_mtime * 1000)
        return now_ms - newest > self.config.retention_ms

    def _move_start(self, offset: int) -> None:
        self._start = max(self._start, offset)
        self._epochs.truncate_start(self._start)
        self.write_checkpoint()

    def _retire(self, segments: Sequence[Segment]) -> list[Path]:
        """Take segments' files out of the log by renaming them; the new names."""
        names = []
        for segment in segments:
            segment.close()
            paths = segment.paths()
            if segment.base_offset != self.segments.bases()[0]:
                paths.append(self.directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX))
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    names.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
        return names

    # -- removing from the end

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on; a batch that holds `offset` goes as a whole.

        For followers that diverged from their leader. The watermark comes down with the end.
        """
        if offset >= self._end:
            return
        found = self.segments.find(offset)
        end = min(offset, found[1].base_offset) if found else offset
        if end < self._start:
            self.reset_to(end)
            return
        self._forget_after(end)
        kept = [each for each in self.segments if each.base_offset < end] or self.segments.after(0)[:1]
        gone = [each for each in self.segments if each not in kept]
        self.segments.replace(kept)
        remove_files(self._retire(gone))
        active = kept[-1]
        active.open_for_append()
        if found is not None and found[0] is active:
            active.cut(found[1].position, self.config.index_interval_bytes)
        self._settle_end(end)

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`: the leader's log starts after ours ends."""
        self._forget_after(min(offset, self._start))
        remove_files(path for _, path in snapshots(self.directory))  # the producers' sequences have moved on
        old = list(self.segments)
        for segment in old:
            segment.close()
            remove_files(segment.paths())
        fresh = Segment(self.directory, offset)
        fresh.open_for_append()
        self.segments.replace([fresh])
        self._epochs.truncate_end(offset)
        self._start = self._watermark = offset
        self._settle_end(offset)

    def skip_to(self, offset: int) -> None:
        """Let the log end at `offset` without records up to there: compaction has emptied the leader's."""
        if offset <= self._end:
            return
        self._must_be_usable()
        if self.segments.active.size_bytes:
            self._roll(offset)
        else:
            self._replace_empty(offset)
        self._end = offset

    def _replace_empty(self, base_offset: int) -> None:
        """Have the active segment, which is empty, begin later: its name is all that tells where the log ends."""
        old, new = self.segments.active, Segment(self.directory, base_offset)
        try:
            new.open_for_append()
        except OSError as error:
            raise StorageError(f"cannot begin {new.path}: {error}") from error
        old.close()
        remove_files(old.paths())
        self.segments.replace([*self.segments.closed(), new])

    def _forget_after(self, end: int) -> None:
        """Before files change: a crash in between must check everything from `end` on."""
        self._must_not_be_in_repair()
        self._generation += 1
        point = min(self.recovery_point, end)
        cleaned_to = min(self.checkpoint.cleaned_to, end)
        self.checkpoint = replace(self.checkpoint, recovery_point=point, cleaned_to=cleaned_to)
        self._watermark = min(self._watermark, end)
        self.write_checkpoint(durable=True)

    def _settle_end(self, end: int) -> None:
        self._end = end
        self._watermark = min(self._watermark, end)
        self._epochs.truncate_end(end)
        self._snapshots = []
        before, self._producers = self._producers, rebuild_producers(self.directory, list(self.segments), end, 0)
        self._producers.keep_times(before)
        fsync_directory(self.directory)
        self.write_checkpoint()

    # -- compaction

    def dirty_ratio(self, now_ms: int) -> float:
        """Share of the compactable bytes that no compaction has seen yet."""
        clean, dirty = self._compactable(now_ms)
        total = sum(each.size_bytes for each in clean + dirty)
        return sum(each.size_bytes for each in dirty) / total if total else 0.0

    def plan_compaction(
        self, now_ms: int, *, force: bool = False, max_keys: int = DEFAULT_MAX_KEYS
    ) -> CompactionPlan | None:
        """What to compact now, for `compaction.compact` in a helper process; None when it is not due.

        `force`: whatever the dirty ratio, with the active segment, which is closed and flushed for it.
        """
        if not self.config.compacts or self._failure is not None:
            return None
        if force and self._watermark == self._end:
            self.roll()
            self.flush()
        clean, dirty = self._compactable(now_ms)
        if not dirty or not (force or self._compaction_is_due(dirty, now_ms)):
            return None
        used = clean + dirty
        end = self.segments.end_of(len(used) - 1)
        return CompactionPlan(
            directory=str(self.directory),
            bases=tuple(each.base_offset for each in used),
            end=end,
            first_dirty=max(self.checkpoint.cleaned_to, used[0].base_offset),
            log_start=self._start,
            tombstones_until=self._tombstones_until(now_ms),
            segment_bytes=self.config.segment_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            max_batch_bytes=self.config.max_message_bytes,
            generation=self._generation,
            max_keys=max_keys,
            producers_last=self._producers.last_offsets(end),
        )

    def swap(self, result: CompactionResult, now_ms: int) -> list[Path]:
        """Put compacted segments in place; the old files, renamed, for `files.remove_files`.

        A result the log has moved past (truncated, segments deleted meanwhile) is dropped, as is one of a log that
        has failed: a repair has removed what it found of it. StorageError when the disk refuses; once files have
        moved, the log takes no more appends until it is repaired.
        """
        if self._hold.ended:
            return []
        count = len(result.old_bases)
        moved_past = result.generation != self._generation or self.segments.bases()[:count] != result.old_bases
        if moved_past or self._failure is not None:
            # At once: later they may be the next compaction's.
            remove_files(cleaned(path) for base in result.new_bases for path in self._segment(base).paths())
            return []
        try:
            commit(self.directory, result.old_bases, result.new_bases)
        except OSError as error:
            raise StorageError(f"cannot swap segments in {self.directory}: {error}") from error
        try:
            retired = install(self.directory)
            fresh = [self._installed(base) for base in result.new_bases]
        except OSError as error:
            self._failure = f"swap of compacted segments failed: {error}"
            raise StorageError(f"{self.directory}: {self._failure}") from error
        self.segments.replace(fresh + self.segments.after(count))
        self._remember_cleaning(result.cleaned_to, now_ms)
        return retired + self._needless_snapshots()

    def _compactable(self, now_ms: int) -> tuple[list[Segment], list[Segment]]:
        """(clean, dirty): the durable, committed, closed segments that are old enough."""
        clean: list[Segment] = []
        dirty: list[Segment] = []
        newest = now_ms - self.config.min_compaction_lag_ms
        for number, segment in enumerate(self.segments.closed()):
            end = self.segments.end_of(number)
            too_young = self.config.min_compaction_lag_ms > 0 and segment.max_timestamp > newest
            if end > self._watermark or not segment.flushed or too_young:
                break
            (clean if end <= self.checkpoint.cleaned_to else dirty).append(segment)
        return clean, dirty

    def _compaction_is_due(self, dirty: list[Segment], now_ms: int) -> bool:
        overdue = now_ms - dirty[0].max_timestamp > self.config.max_compaction_lag_ms
        return overdue or self.dirty_ratio(now_ms) >= self.config.min_cleanable_dirty_ratio

    def _tombstones_until(self, now_ms: int) -> int:
        """Tombstones before this offset were first seen by a compaction delete.retention.ms ago."""
        limit = now_ms - self.config.delete_retention_ms
        return max((offset for offset, time in self.checkpoint.cleanings if time <= limit), default=0)

    def _remember_cleaning(self, cleaned_to: int, now_ms: int) -> None:
        until = self._tombstones_until(now_ms)
        limit = now_ms - self.config.delete_retention_ms
        kept = [each for each in self.checkpoint.cleanings if each[0] >= until or each[1] > limit]
        cleanings = (*kept[-_MAX_CLEANINGS:], (cleaned_to, now_ms))
        self.checkpoint = replace(self.checkpoint, cleaned_to=cleaned_to, cleanings=cleanings)
        self.write_checkpoint()

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self.directory, base_offset)

    def _installed(self, base_offset: int) -> Segment:
        segment = self._segment(base_offset)
        if not segment.load():
            segment.rebuild(self.config.index_interval_bytes, verify=False)
        segment.flushed = True
        return segment

    def _needless_snapshots(self) -> list[Path]:
        """Producer snapshots at offsets where no segment begins any more."""
        bases = set(self.segments.bases())
        found = snapshots(self.directory)
        return [path for offset, path in found if offset not in bases and offset < self._end]
