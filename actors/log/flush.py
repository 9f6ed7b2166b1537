"""Flushing a log in another thread than the one that appends: when it is due, the job, and what follows from it."""

import contextlib
import errno
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from actors.log.errors import StorageError
from actors.log.files import FileWriter, Hold, remove_files
from actors.log.segment import SNAPSHOT_SUFFIX, Segment, file_name
from actors.log.state import LogState


class Syncing:
    """Shared by the flushes of one log, because the kernel reports a failed write only once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failed = False
        """True if an fsync has failed since the last repair. A later one that succeeds proves nothing."""


@dataclass(slots=True)
class FlushJob:
    """fsync of all that was appended before `upto`. `run` in any thread, then `Flushing.finish`."""

    directory: Path
    upto: int
    generation: int
    writer: FileWriter
    hold: Hold
    syncing: Syncing
    newest_ms: int = 0
    """The time at which the last record before `upto` was appended."""
    active_fd: int = -1
    sealed: list[Segment] = field(default_factory=list)
    files: list[tuple[Path, bytes]] = field(default_factory=list)
    error: OSError | None = None
    lost: bool = False
    """True if the error leaves it open what is on the disk. A failure to write only an index does not."""

    def run(self) -> None:
        """Do the job. An error of the disk is kept in `error`."""
        try:
            self._sync()
            self._write()
        except OSError as error:
            self.error = error
        finally:
            if self.active_fd >= 0:
                os.close(self.active_fd)
                self.active_fd = -1

    def _sync(self) -> None:
        self.lost = True
        with self.syncing.lock:
            if self.syncing.failed:
                raise OSError(errno.EIO, "another fsync of this log has failed")
            try:
                self._fsync()
            except OSError:
                self.syncing.failed = True
                raise
        self.lost = False

    def _fsync(self) -> None:
        for segment in self.sealed:
            with contextlib.suppress(FileNotFoundError):  # retention or a truncation may have taken it
                self.writer.fsync_file(segment.path)
        if self.active_fd >= 0:
            self.writer.fsync(self.active_fd)

    def _write(self) -> None:
        with self.hold.kept():
            for path, content in self.files:
                self.writer.write_atomically(path, content, durable=False)
        self.writer.fsync_directory(self.directory)


class Flushing:
    """Knows what of one log may not be durable yet, and makes the jobs that flush it."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._syncing = Syncing()
        self._unflushed_records = 0
        self._unflushed_since_ms = None if state.end == state.checkpoint.recovery_point else 0
        self._last_append_ms = 0
        self._snapshots: list[tuple[Path, bytes]] = []

    def appended(self, records: int, now_ms: int) -> None:
        """Records were written: flush now if flush.messages says so. Raises StorageError if they may be lost."""
        self._last_append_ms = now_ms
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        self._unflushed_records += records
        if self._unflushed_records >= self._state.config.flush_messages:
            self._flush_at_once()

    def _flush_at_once(self) -> None:
        try:
            self.flush()
        except StorageError:
            if self._state.failure is not None:  # else the records are durable, only an index is not
                raise

    def keep_snapshot(self, offset: int) -> None:
        """A segment begins at `offset`: write the producers' state beside it with the next flush."""
        self._snapshots.append(self._snapshot(offset))

    def _snapshot(self, offset: int) -> tuple[Path, bytes]:
        return self._state.directory / file_name(offset, SNAPSHOT_SUFFIX), self._state.producers.packed()

    def forget_snapshots(self) -> None:
        """The log was cut: drop the kept states of producers, for they describe records that are gone."""
        self._snapshots = []

    def begin_anew(self) -> None:
        """After a repair: everything in the folder is durable, and earlier failures do not count any more."""
        self._syncing = Syncing()
        self._snapshots = []
        self._unflushed_records = 0
        self._unflushed_since_ms = None

    @property
    def needed(self) -> bool:
        """True if closed segments wait to be flushed."""
        return any(not segment.flushed for segment in self._state.segments.closed())

    def is_due(self, now_ms: int) -> bool:
        """True if closed segments, or records older than flush.ms, have not been flushed."""
        since = self._unflushed_since_ms
        return (since is not None and now_ms - since >= self._state.config.flush_ms) or self.needed

    def begin(self) -> FlushJob | None:
        """A job that makes all appended records durable; None if they are. Run it, then call `finish`."""
        state = self._state
        state.must_be_usable()
        if state.end == state.checkpoint.recovery_point and not self.needed:
            return None
        job = self._job()
        job.active_fd = os.dup(state.segments.active.fd)
        job.sealed = [segment for segment in state.segments.closed() if not segment.flushed]
        for segment in job.sealed:
            job.files += [(index.path, index.packed()) for index in (segment.offsets, segment.times)]
        job.files += self._snapshots
        return job

    def _job(self) -> FlushJob:
        state, shared = self._state, (self._state.writer, self._state.hold, self._syncing)
        return FlushJob(state.directory, state.end, state.generation, *shared, self._last_append_ms)

    def finish(self, job: FlushJob) -> None:
        """Account for a job that has run. Raises StorageError if it failed; the next one tries again.

        After a failed fsync the log takes no more appends. The kernel may have dropped the data although a later fsync
        succeeds, so only a repair, or opening the log again, can tell what is there.
        """
        state = self._state
        if state.hold.ended:
            return
        if job.error is not None:
            reason = f"flush failed: {job.error}"
            if job.lost:
                state.fail(reason)
            raise StorageError(f"{state.directory}: {reason}") from job.error
        if job.generation != state.generation:
            # It may have written producers' states from before a cut.
            remove_files(path for path, _ in job.files if path.suffix == SNAPSHOT_SUFFIX)
            return
        for segment in job.sealed:
            segment.flushed = True
        written = {path for path, _ in job.files}
        self._snapshots = [each for each in self._snapshots if each[0] not in written]
        self._unflushed_records = 0
        # Records that came since are younger than the youngest flushed.
        self._unflushed_since_ms = None if state.end == job.upto else job.newest_ms
        state.flushed_to(job.upto)

    def flush(self) -> None:
        """Make all appended records durable in this thread, now."""
        job = self.begin()
        if job is not None:
            job.run()
            self.finish(job)

    def flush_for_good(self) -> None:
        """Flush, and write what an opening after a clean stop reads. After StorageError or OSError it was not clean."""
        active = self._state.segments.active
        os.ftruncate(active.fd, active.size_bytes)
        active.seal()
        job = self.begin() or self._job()
        job.files += [(index.path, index.packed()) for index in (active.offsets, active.times)]
        job.files.append(self._snapshot(self._state.end))
        job.run()
        self.finish(job)
