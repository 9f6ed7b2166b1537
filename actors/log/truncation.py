"""Moving a follower's log end: back, if it diverged from its leader, or on, to where the leader's log goes on.

After a crash at any step, opening the log finds a state that it understands.
"""

import contextlib

from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.flush import Flushing
from actors.log.recovery import rebuild_producers, snapshots
from actors.log.segment import BrokenChainError, Segment
from actors.log.state import LogState
from actors.log.storage import Storage


class Truncation:
    """Moves the end of one log without appending records."""

    def __init__(self, state: LogState, storage: Storage, flushing: Flushing) -> None:
        self._state = state
        self._storage = storage
        self._flushing = flushing

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on; a batch that holds `offset` goes as a whole."""
        state = self._state
        if offset >= state.end:
            return
        found = state.segments.find(offset)
        end = min(offset, found[1].base_offset) if found else offset
        if end < max(state.start, state.segments.bases()[0]):
            self.reset_to(end)
            return
        state.forget_after(end)
        kept = [each for each in state.segments if each.base_offset < end] or state.segments.after(0)[:1]
        gone = [each for each in state.segments if each not in kept]
        state.segments.replace(kept)
        remove_files(self._storage.retire(gone[::-1]))  # from the end: a crash in between leaves no hole
        active = kept[-1]
        active.open_for_append()
        if found is not None and found[0] is active:
            active.cut(found[1].position, state.config.index_interval_bytes, written_to=end)
            if active.size_bytes < found[1].position:  # the header before it is damaged: no hole may be left there
                last = active.last_batch()
                end = max(last.last_offset + 1 if last else active.base_offset, state.start)
                state.forget_after(end)
        self._settle(end)

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`."""
        state = self._state
        state.forget_after(min(offset, state.start))
        remove_files(path for _, path in snapshots(state.directory))  # stale: the producers' sequences have gone on
        for segment in state.segments:
            segment.close()
            remove_files(segment.paths())
        fresh = Segment(state.directory, offset)
        fresh.open_for_append()
        state.segments.replace([fresh])
        state.begin_at(offset)
        self._settle(offset)

    def skip_to(self, offset: int) -> None:
        """Move the log end to `offset` without records up to there."""
        state = self._state
        if offset <= state.end:
            return
        state.must_be_usable()
        self._storage.begin_after_gap(offset)
        state.skip_to(offset)

    def _settle(self, end: int) -> None:
        state = self._state
        state.end_at(end)
        try:
            state.keep_gaps_before(end)
            state.permit_gap(self._reached(), end)  # to where the next segment may begin
            self._flushing.forget_snapshots()
            state.replace_producers(rebuild_producers(state.directory, list(state.segments), end, 0))
            state.writer.fsync_directory(state.directory)
            state.save()
        except (OSError, StorageError) as error:  # the end has moved: it is not truncated again
            reason = f"truncation failed: {error}"
            state.fail(reason)
            raise StorageError(f"{state.directory}: {reason}") from error

    def _reached(self) -> int:
        """The offset after the last record in the active segment, which the log's end may be past."""
        active = self._state.segments.active
        with contextlib.suppress(BrokenChainError):
            if (last := active.last_batch()) is not None:
                return last.last_offset + 1
        return active.base_offset
