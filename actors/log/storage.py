"""The files of a log's segments: writing at the end of the active one, beginning the next, removing old ones."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.flush import Flushing
from actors.log.segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name
from actors.log.state import LogState
from actors.log.walking import MAX_RELATIVE_OFFSET
from actors.records.batch import Buffer


class Storage:
    """The segment files of one log."""

    def __init__(self, state: LogState, flushing: Flushing) -> None:
        self._state = state
        self._flushing = flushing

    # -- at the end

    def write(self, buffers: Sequence[Buffer], base: int, end: int, now_ms: int) -> None:
        """Write bytes at the end of the active segment, or of a new one. After StorageError none of them are left."""
        size = sum(map(len, buffers))
        segment = self._state.segments.active
        if self._roll_is_due(segment, size, end, now_ms):
            self._begin_segment_for(base, end)
            segment = self._state.segments.active
        try:
            self._state.writer.write(segment.fd, buffers, segment.size_bytes)
        except OSError as error:
            # Bytes past `size_bytes` are never read, and the next append overwrites them.
            with contextlib.suppress(OSError):
                os.ftruncate(segment.fd, segment.size_bytes)
            raise StorageError(f"cannot append to {segment.path}: {error}") from error
        if segment.size_bytes == 0:
            segment.first_append_ms = now_ms

    def roll(self) -> bool:
        """Begin a new segment unless the active one is empty. Returns True if it did."""
        self._state.must_be_usable()
        if self._state.segments.active.size_bytes == 0:
            return False
        self.begin_segment(self._state.end)
        return True

    def roll_if_due(self, now_ms: int) -> bool:
        """`roll` when the active segment is as old as a segment may become."""
        return self._roll_is_due(self._state.segments.active, 0, self._state.end, now_ms) and self.roll()

    def _roll_is_due(self, segment: Segment, more_bytes: int, end: int, now_ms: int) -> bool:
        too_far = end - segment.base_offset > MAX_RELATIVE_OFFSET + 1
        if segment.size_bytes == 0:
            return too_far  # an empty first segment stays: its name says where the log begins
        config = self._state.config
        most_ms = config.max_segment_ms
        return (
            segment.size_bytes + more_bytes > config.segment_bytes
            or now_ms - segment.first_append_ms >= most_ms - segment.jitter_ms(min(config.segment_jitter_ms, most_ms))
            or too_far
            or segment.offsets.is_full(config.segment_index_bytes)
            or segment.times.is_full(config.segment_index_bytes)
        )

    def _begin_segment_for(self, base: int, end: int) -> None:
        """Begin a segment for batches with offsets from `base` to `end`, if possible where the log ends.

        A compacted log has nothing from there to `base`. If the segment began at `base`, there would be a gap, as after
        a crash that has cut the segment before.
        """
        if end - self._state.end > MAX_RELATIVE_OFFSET + 1:
            self._after_gap(base, self.begin_segment)
        else:
            self.begin_segment(self._state.end)

    def begin_after_gap(self, base_offset: int) -> None:
        """Begin a segment at `base_offset`, with nothing from the log's end to there.

        An empty active segment goes, as its name alone says where the log ends. After StorageError nothing has changed.
        """
        self._after_gap(
            base_offset, self.begin_segment if self._state.segments.active.size_bytes else self._replace_empty
        )

    def _after_gap(self, base_offset: int, begin: Callable[[int], None]) -> None:
        state = self._state
        state.permit_gap(state.end, base_offset)
        try:
            begin(base_offset)
        except StorageError:
            with contextlib.suppress(StorageError):
                state.keep_gaps_before(state.end)
            raise

    def begin_segment(self, base_offset: int) -> None:
        """Close the active segment, and begin one at `base_offset`. After StorageError nothing has changed."""
        state = self._state
        old, new = state.segments.active, Segment(state.directory, base_offset)
        try:
            new.open_for_append()
            os.ftruncate(new.fd, 0)
        except OSError as error:
            new.close()
            raise StorageError(f"cannot begin {new.path}: {error}") from error
        old.seal()
        old.close()
        self._flushing.keep_snapshot(base_offset)
        state.segments.add(new)

    def _replace_empty(self, base_offset: int) -> None:
        state = self._state
        old, new = state.segments.active, Segment(state.directory, base_offset)
        try:
            new.open_for_append()
        except OSError as error:
            raise StorageError(f"cannot begin {new.path}: {error}") from error
        old.close()
        remove_files(old.paths())
        state.segments.replace([*state.segments.closed(), new])

    # -- taking away

    def retire(self, segments: Sequence[Segment]) -> list[Path]:
        """Rename the files of segments that have left the log, for removal. The new names."""
        state = self._state
        names = []
        for segment in segments:
            segment.close()
            paths = segment.paths()
            if segment.base_offset != state.segments.bases()[0]:
                paths.append(state.directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX))
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    names.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
        return names
