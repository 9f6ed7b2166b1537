"""Repairs a log that takes no appends because an fsync, or the swap of compacted segments, failed.

After a failed fsync the kernel may call pages clean that never reached the disk, and the next fsync then succeeds
without them. So what is not known to be durable is read, checked, written once more, and only then flushed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.log.config import LogConfig
from actors.log.errors import StorageError
from actors.log.files import FileWriter, Hold, read_exactly
from actors.log.flush import Flushing
from actors.log.recovery import OpenedLog, open_directory
from actors.log.segment import Segment
from actors.log.state import LogState

_CHUNK_BYTES: Final = 1 << 20


@dataclass(slots=True)
class RepairJob:
    """Reads a log's folder anew and rewrites its tail. `run` in any thread, then `Repairs.finish`."""

    directory: Path
    config: LogConfig
    generation: int
    now_ms: int
    writer: FileWriter
    hold: Hold
    opened: OpenedLog | None = None
    error: StorageError | None = None

    def run(self) -> None:
        """Do the job. An error is kept in `error`."""
        try:
            with self.hold.kept():
                self.opened = opened = open_directory(
                    self.directory,
                    self.config,
                    self.writer,
                    clean_shutdown=False,
                    power_lost=False,
                    now_ms=self.now_ms,
                    create=False,
                )
                self._rewrite(opened)
        except Exception as error:  # whatever it is, the log stays as it was, and the next job tries again
            self.give_up()
            self.error = StorageError(f"{self.directory} cannot be repaired: {error}")

    def give_up(self) -> None:
        """Close the files that `run` opened."""
        opened, self.opened = self.opened, None
        for segment in opened.segments if opened is not None else ():
            segment.close()

    def _rewrite(self, opened: OpenedLog) -> None:
        point = opened.checkpoint.recovery_point
        ends = [segment.base_offset for segment in opened.segments[1:]] + [opened.log_end_offset]
        for segment, end in zip(opened.segments, ends, strict=True):
            if end > point or not segment.flushed:
                self._rewrite_from(segment, point)
        self.writer.fsync_directory(self.directory)

    def _rewrite_from(self, segment: Segment, offset: int) -> None:
        found = segment.find(offset)
        position = found.position if found is not None else segment.size_bytes
        fd = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            while position < segment.size_bytes:
                data = read_exactly(fd, min(_CHUNK_BYTES, segment.size_bytes - position), position)
                if not data:
                    raise OSError(f"{segment.path} ends at byte {position}")
                position += self.writer.write(fd, (data,), position)
            self.writer.fsync(fd)
        finally:
            os.close(fd)


class Repairs:
    """The repairs of one log. During one, reads go on, but segments are neither deleted nor cut."""

    def __init__(self, state: LogState, flushing: Flushing) -> None:
        self._state = state
        self._flushing = flushing

    def begin(self, now_ms: int) -> RepairJob | None:
        """A job that may end the log's failure; None if the log has not failed. Run it, then call `finish`."""
        state = self._state
        if state.failure is None or state.in_repair or state.segments.active.fd < 0:
            return None
        state.begin_repair()
        return RepairJob(state.directory, state.config, state.generation, now_ms, state.writer, state.hold)

    def finish(self, job: RepairJob) -> int:
        """Take over the log as a job that has run left it. The number of records that were lost at its end.

        Raises StorageError if the job failed: the log stays as it is, and the next job tries again.
        """
        state = self._state
        state.end_repair()
        if job.error is not None:
            raise job.error
        opened = job.opened
        assert opened is not None, "run() sets one of the two"
        if job.generation != state.generation or state.segments.active.fd < 0:
            job.give_up()
            return 0
        lost = max(state.end - opened.log_end_offset, 0)
        state.adopt(opened)
        self._flushing.begin_anew()
        state.save()
        return lost
