"""Bugs planted in what a log has on its disk. They are found in runs in which machines lose their power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from actors.log import recovery
from actors.log.files import FileWriter
from actors.log.flush import Flushing, FlushJob

Changes = list[tuple[Any, str, Any]]

DISK_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    DISK_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def flush_per_message_skipped() -> Changes:
    """`log.flush.interval.messages=1` flushes nothing."""
    return [(Flushing, "_flush_at_once", lambda self: None)]


@bug
def lost_batches_leave_a_hole() -> Changes:
    """A log goes on behind a closed segment whose last batches a crash has taken."""
    return [(recovery, "load_gaps", lambda directory: None)]


class FilesOnly:
    """A writer that syncs files and no folders."""

    def __init__(self, writer: FileWriter) -> None:
        self._real = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def fsync_directory(self, path: Path) -> None:
        pass


@bug
def new_segment_not_in_its_folder() -> Changes:
    """A flush syncs the files of a log, and not the folder in which they were created."""
    product = FlushJob.run

    def run(self: FlushJob) -> None:
        self.writer = cast(FileWriter, FilesOnly(self.writer))
        product(self)

    return [(FlushJob, "run", run)]
