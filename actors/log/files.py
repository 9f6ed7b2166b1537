"""The writer of logs' files, which is handed to them, and helpers that have no state."""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

Buffer = bytes | bytearray | memoryview

FILE_MODE: Final = 0o600
_IOV_MAX: Final = 512


class FileWriter:
    """Writes files and makes them durable: all of it or an OSError. Tests hand in a disk that fails."""

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write `buffers` one after the other at `position`; the number of bytes. An OSError may leave part of them."""
        first = sum(map(len, buffers[:_IOV_MAX]))
        if len(buffers) <= _IOV_MAX and (written := os.pwritev(fd, buffers, position)) == first:
            return written
        return _write_slowly(fd, buffers, position)

    def write_atomically(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """Replace `path` as a whole: a crash leaves the old or the new content, never a part."""
        temporary = path.with_name(path.name + ".tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
        try:
            _write_slowly(fd, (data,), 0)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        if durable:
            self.fsync_directory(path.parent)

    def fsync(self, fd: int) -> None:
        """Make an open file's data durable."""
        os.fdatasync(fd)

    def fsync_file(self, path: Path) -> None:
        """Make the content of `path` durable."""
        _fsync(path, os.O_RDONLY)

    def fsync_directory(self, path: Path) -> None:
        """Make creations, renames and removals in `path` durable."""
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


REAL_WRITER: Final = FileWriter()
"""The disk we have."""


class Hold:
    """A log's hold on its folder. Once it has ended, another log may have the path: the topic was created anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ended = False

    def end(self) -> None:
        """End it. Waits for a job in another thread that is changing files."""
        with self._lock:
            self.ended = True

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the folder while a job in another thread changes its files. Raises OSError if the hold has ended."""
        with self._lock:
            if self.ended:
                raise FileNotFoundError("the log is closed or deleted")
            yield


def _write_slowly(fd: int, buffers: Iterable[Buffer], position: int) -> int:
    start = position
    for buffer in buffers:
        view = memoryview(buffer)
        while view:
            written = os.pwrite(fd, view, position)
            if written == 0:
                raise OSError("the disk took no bytes")
            view = view[written:]
            position += written
    return position - start


def _fsync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_exactly(fd: int, size: int, position: int) -> bytes:
    """`size` bytes at `position`, fewer only at the end of the file."""
    data = os.pread(fd, size, position)
    while len(data) < size:
        more = os.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files that are no longer part of a log. May run in another thread, and more than once."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
