"""What the parts of one log share: its offsets, segments, epochs and producers, its checkpoint, whether it is usable.

The parts read the fields; only the methods here change them, so what has to move together does.
"""

from dataclasses import replace
from pathlib import Path

from actors.log.batch import BatchHeader
from actors.log.checkpoint import Checkpoint, save_checkpoint
from actors.log.config import LogConfig
from actors.log.errors import StorageError
from actors.log.files import Hold
from actors.log.producer_state import ProducerStates
from actors.log.recovery import OpenedLog
from actors.log.segments import Segments


class LogState:
    """One log's state. `start`, `end` and `watermark` are offsets; the next record gets `end`."""

    def __init__(self, directory: Path, config: LogConfig, opened: OpenedLog) -> None:
        self.directory = directory
        self.config = config
        """The topic's settings; the owner of the log may put others in their place at any time."""
        self.segments = Segments(opened.segments)
        self.epochs = opened.epochs
        self.producers = opened.producers
        self.checkpoint = opened.checkpoint
        self.start = opened.checkpoint.log_start_offset
        self.end = opened.log_end_offset
        self.watermark = opened.checkpoint.high_watermark
        self.hold = Hold()
        self.failure: str | None = None
        """Why the log takes no appends until it is repaired or opened again."""
        self.in_repair = False
        """Whether a job is reading the folder anew: until it ends, nothing that is there may be taken away."""
        self.generation = 0
        """Counts the times the end moved back: what another thread began before that has proved nothing."""
        self._saved: Checkpoint | None = None

    # -- whether it is usable

    def must_be_usable(self) -> None:
        """StorageError if the log has failed or is closed."""
        if self.failure is not None:
            raise StorageError(f"{self.directory} takes no appends: {self.failure}")

    def fail(self, reason: str) -> None:
        """What stands on the disk is in doubt: no more appends until the log is repaired or opened again."""
        self.failure = reason

    def abandon(self) -> None:
        """Let go of the files. From here on nothing is changed in the folder."""
        self.hold.end()
        for segment in self.segments:
            segment.close()
        self.failure = self.failure or "closed"

    def begin_repair(self) -> None:
        """A job reads the folder anew from now on."""
        self.in_repair = True

    def end_repair(self) -> None:
        """The job has run, whatever came of it."""
        self.in_repair = False

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
        """The log ends at `offset`, where its active segment begins, without records up to there."""
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
        """The log begins at `offset` if that is later than now. StorageError where that cannot be written down."""
        self.start = max(self.start, offset)
        self.epochs.truncate_start(self.start)
        self.save()

    def forget_after(self, end: int) -> None:
        """Before files change: a crash in between must check everything from `end` on. StorageError during a repair."""
        if self.in_repair:
            raise StorageError(f"{self.directory} is being repaired: {self.failure}")
        self.generation += 1
        point = min(self.checkpoint.recovery_point, end)
        cleaned_to = min(self.checkpoint.cleaned_to, end)
        self.checkpoint = replace(self.checkpoint, recovery_point=point, cleaned_to=cleaned_to)
        self.watermark = min(self.watermark, end)
        self.save(durable=True)

    def begin_at(self, offset: int) -> None:
        """Nothing is left: the log begins, and is committed, at `offset`."""
        self.epochs.truncate_end(offset)
        self.start = self.watermark = offset

    def end_at(self, offset: int) -> None:
        """What stood from `offset` on is gone."""
        self.end = offset
        self.watermark = min(self.watermark, offset)
        self.epochs.truncate_end(offset)

    def replace_producers(self, producers: ProducerStates) -> None:
        """The producers as a shorter log tells of them; when they were seen last is known better here."""
        producers.keep_times(self.producers)
        self.producers = producers

    def adopt(self, opened: OpenedLog) -> None:
        """Go on with another reading of our own folder. What is known here, and not yet on disk, stays."""
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
        self.checkpoint = replace(opened.checkpoint, recovery_point=self.end)
        self.failure = None

    # -- the checkpoint

    def flushed_to(self, offset: int) -> None:
        """All before `offset` is on disk. StorageError where that cannot be written down."""
        self.checkpoint = replace(self.checkpoint, recovery_point=offset)
        self.save()

    def cleaned_to(self, offset: int, cleanings: tuple[tuple[int, int], ...]) -> None:
        """Compaction has seen all before `offset`; `cleanings` are its runs. StorageError as above."""
        self.checkpoint = replace(self.checkpoint, cleaned_to=offset, cleanings=cleanings)
        self.save()

    def save(self, *, durable: bool = False) -> None:
        """Keep start, watermark and recovery point for the next opening. Costs a file only if they moved."""
        if self.hold.ended:
            raise StorageError(f"{self.directory} is no longer this log's")
        self.checkpoint = replace(self.checkpoint, log_start_offset=self.start, high_watermark=self.watermark)
        try:
            self.epochs.save()  # first: recovery looks for epochs only behind the recovery point
            if durable or self.checkpoint != self._saved:
                save_checkpoint(self.directory, self.checkpoint, durable=durable)
                self._saved = self.checkpoint
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint of {self.directory}: {error}") from error
