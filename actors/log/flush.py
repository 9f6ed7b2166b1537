"""Making a log durable away from the thread that appends to it."""

import contextlib
import errno
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from actors.log.files import FileWriter, Hold, fsync_directory, fsync_file, write_atomically
from actors.log.segment import Segment


class Syncing:
    """What the flushes of one log know of each other: the kernel tells of a failed write only once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failed = False
        """Whether an fsync has failed since the last repair: none after it proves anything."""


@dataclass(slots=True)
class FlushJob:
    """fsync of all that was appended before `upto`. `run` in any thread, then `PartitionLog.finish_flush`."""

    directory: Path
    upto: int
    generation: int
    writer: FileWriter
    hold: Hold
    syncing: Syncing
    newest_ms: int = 0
    """When the last record before `upto` was appended."""
    active_fd: int = -1
    sealed: list[Segment] = field(default_factory=list)
    files: list[tuple[Path, bytes]] = field(default_factory=list)
    error: OSError | None = None
    lost: bool = False
    """Whether the error leaves open what is on the disk. A full disk that takes no index file does not."""

    def run(self) -> None:
        """Do it. An error is kept in `error`."""
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
                fsync_file(segment.path)
        if self.active_fd >= 0:
            self.writer.fsync(self.active_fd)

    def _write(self) -> None:
        with self.hold.kept():
            for path, content in self.files:
                write_atomically(path, content, durable=False)
        fsync_directory(self.directory)
