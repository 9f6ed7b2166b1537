"""The state that the parts of one log share: offsets, segments, epochs, producers, the checkpoint, a failure if any.

The parts read the fields. Only the methods here change them, so that what belongs together changes together.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from actors.log.checking import Bounds
from actors.log.checkpoint import save_checkpoint
from actors.log.config import LogConfig
from actors.log.damage import Damages
from actors.log.errors import StorageError
from actors.log.files import FileWriter, Hold
from actors.log.gaps import Gaps, save_gaps
from actors.log.producer_state import ProducerStates
from actors.log.recovery import OpenedLog
from actors.log.segment import Segment
from actors.log.segments import Segments
from actors.records.batch import BatchHeader

MAX_EPOCH: Final = 2**31 - 1


class LogState:
    """The state of one log. `start`, `end` and `watermark` are offsets; the next record gets `end`."""

    def __init__(
        self, directory: Path, config: LogConfig, opened: OpenedLog, writer: FileWriter, damages: Damages
    ) -> None:
        self.directory = directory
        self.writer = writer
        self.config = config
        """The topic's settings. The owner of the log may replace them at any time."""
        self.segments = Segments(opened.segments)
        self.epochs = opened.epochs
        self.producers = opened.producers
        self.checkpoint = opened.checkpoint
        self.start = opened.checkpoint.log_start_offset
        self.end = opened.log_end_offset
        self.watermark = opened.checkpoint.high_watermark
        self.damages = damages
        self.hold = Hold()
        self.failure: str | None = None
        """The reason why the log takes no appends until it is repaired or opened again; None if it does."""
        self.in_repair = False
        """True while a repair reads the folder: no file may be removed then."""
        self.generation = 0
        """The number of times that the end has moved back. The result of a job that was begun before the last time does
        not count.
        """
        self._saved = opened.written
        self._gaps = opened.gaps

    # -- whether it is usable

    def must_be_usable(self) -> None:
        """Raises StorageError if the log has failed or is closed."""
        if self.failure is not None:
            raise StorageError(f"{self.directory} takes no appends: {self.failure}")

    def fail(self, reason: str) -> None:
        """It is unknown what is on the disk: take no more appends until the log is repaired or opened again."""
        self.failure = reason

    def abandon(self) -> None:
        """Close the files. From now on nothing in the folder is changed."""
        self.hold.end()
        for segment in self.segments:
            segment.close()
        self.failure = self.failure or "closed"

    def begin_repair(self) -> None:
        """A repair reads the folder from now on."""
        self.in_repair = True

    def end_repair(self) -> None:
        """The repair has run, whether it succeeded or not."""
        self.in_repair = False

    # -- what may lie in it

    def bounds_of(self, segment: Segment) -> Bounds | None:
        """The bounds of the offsets and epochs of a segment's batches; None if it is no longer the log's."""
        end = self.segments.end_offset(segment, self.end)
        return None if end is None else Bounds(segment.base_offset, end, segment.size_bytes, self.newest_epoch)

    @property
    def newest_epoch(self) -> int:
        """The newest leader epoch that a batch can have."""
        latest = self.epochs.latest
        return latest if latest >= 0 else MAX_EPOCH

    # -- growing

    def grow(self, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Account for a batch that has been written at the end of the active segment."""
        self.epochs.assign(leader_epoch, base_offset)
        self.segments.active.added(
            base_offset, header.size_bytes, header.max_timestamp, self.config.index_interval_bytes
        )
        self.end = base_offset + header.last_offset_delta + 1
        if header.producer_id >= 0 and not header.is_control:
            self.producers.record(header, base_offset, now_ms)

    def skip_to(self, offset: int) -> None:
        """Move the end to `offset`, where the active segment begins, without records up to there."""
        self.end = offset

    def advance_watermark(self, offset: int) -> bool:
        """Move the watermark up to `offset`, at most to the end; whether it moved."""
        offset = min(offset, self.end)
        if offset <= self.watermark:
            return False
        self.watermark = offset
        return True

    # -- shrinking

    def move_start(self, offset: int) -> None:
        """Move the start to `offset` if that is later. Raises StorageError if it cannot be written down."""
        self.start = max(self.start, offset)
        self.epochs.truncate_start(self.start)
        self.save()

    def forget_after(self, end: int) -> None:
        """Before files are cut: note that all from `end` on has to be checked after a crash. Raises StorageError."""
        if self.in_repair:
            raise StorageError(f"{self.directory} is being repaired: {self.failure}")
        self.generation += 1
        point = min(self.checkpoint.recovery_point, end)
        cleaned_to = min(self.checkpoint.cleaned_to, end)
        self.checkpoint = replace(self.checkpoint, recovery_point=point, cleaned_to=cleaned_to)
        self.watermark = min(self.watermark, end)
        self.save(durable=True)

    def begin_at(self, offset: int) -> None:
        """The log is empty now: start, end and watermark are `offset`."""
        self.epochs.truncate_end(offset)
        self.start = self.watermark = offset

    def end_at(self, offset: int) -> None:
        """Everything from `offset` on was cut off."""
        self.end = offset
        self.watermark = min(self.watermark, offset)
        self.epochs.truncate_end(offset)

    def replace_producers(self, producers: ProducerStates) -> None:
        """Use the producers as a shorter log describes them, but keep the times when they were last seen."""
        producers.keep_times(self.producers)
        self.producers = producers

    def adopt(self, opened: OpenedLog) -> None:
        """Go on with the log as a repair has read it. State that is known here and not on disk yet stays."""
        for segment in self.segments:
            segment.close()
        self.segments.replace(opened.segments)
        self.generation += 1
        self.end = opened.log_end_offset
        self.start = min(max(self.start, opened.checkpoint.log_start_offset), self.end)
        self.watermark = min(self.watermark, self.end)
        self.producers = opened.producers
        for epoch, start in self.epochs.entries():
            opened.epochs.assign(epoch, min(start, self.end))
        self.epochs = opened.epochs
        self._gaps = opened.gaps
        self.checkpoint = replace(opened.checkpoint, recovery_point=self.end)
        self.failure = None

    # -- the checkpoint

    def is_saved(self, *, watermark: bool) -> bool:
        """True if the folder's checkpoint has the start, and if asked for the watermark."""
        saved = self._saved
        return self.start == saved.log_start_offset and not (watermark and self.watermark != saved.high_watermark)

    def flushed_to(self, offset: int) -> None:
        """All before `offset` is on disk. Raises StorageError if that cannot be written down."""
        self.checkpoint = replace(self.checkpoint, recovery_point=offset)
        self.save()

    def cleaned_to(self, offset: int, cleanings: tuple[tuple[int, int], ...]) -> None:
        """All before `offset` was compacted; `cleanings` as in `Checkpoint`. Raises StorageError as above."""
        self.checkpoint = replace(self.checkpoint, cleaned_to=offset, cleanings=cleanings)
        self.save()

    # -- gaps

    def permit_gap(self, first: int, end: int) -> None:
        """Before there is a gap between segments: the offsets from `first` to before `end` may be missing.

        Raises StorageError; then there must be none.
        """
        if not self._gaps.have(first, end):
            self._write_gaps(self._gaps.with_one(first, end, self.checkpoint.recovery_point))

    def keep_gaps_before(self, end: int) -> None:
        """The log was cut at `end`: a gap behind it would be a loss. Raises StorageError."""
        if self._gaps.before(end) != self._gaps:
            self._write_gaps(self._gaps.before(end))

    def _write_gaps(self, gaps: Gaps) -> None:
        try:
            save_gaps(self.directory, gaps, self.writer)
        except OSError as error:
            raise StorageError(f"cannot write the gaps of {self.directory}: {error}") from error
        self._gaps = gaps

    def save(self, *, durable: bool = False) -> None:
        """Write start, watermark and recovery point for the next opening, if they have moved. Raises StorageError."""
        if self.hold.ended:
            raise StorageError(f"{self.directory} is no longer this log's")
        self.checkpoint = replace(self.checkpoint, log_start_offset=self.start, high_watermark=self.watermark)
        try:
            self.epochs.save(self.writer)  # first: recovery looks for epochs only behind the recovery point
            if durable or self.checkpoint != self._saved:
                save_checkpoint(self.directory, self.checkpoint, self.writer, durable=durable)
                self._saved = self.checkpoint
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint of {self.directory}: {error}") from error
