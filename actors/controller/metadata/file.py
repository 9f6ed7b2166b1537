"""The file of a metadata log: frames at its end, all of it replaced at once, nothing lost. It knows no records."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from actors import CoterieError
from actors.controller.metadata.frames import body_at, frames
from actors.log.files import FileWriter
from actors.log.folder_lock import LOCK_NAME, FolderInUseError, FolderLock


class MetadataLogError(CoterieError):
    """The log cannot be used; the text says which file and why."""


class LogFile:
    """A file of frames, which this process alone has. Reading it comes first, then `open`, then writing."""

    def __init__(self, path: Path, writer: FileWriter, lock_timeout_s: float) -> None:
        """Raises MetadataLogError if another process holds the folder's lock for longer than `lock_timeout_s`."""
        self.path = path
        self._writer = writer
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.parent, lock_timeout_s)

    def read(self) -> list[tuple[int, bytes]]:
        """The byte position and the body of each frame. A torn end is left out, and cut off when the file is opened.

        Raises MetadataLogError if a frame before the end is damaged, because brokers know of the records after it.
        """
        data = self.path.read_bytes() if self.path.exists() else b""
        self._size, found = 0, []
        for end, body in frames(data):
            found.append((self._size, body))
            self._size = end
        for later in range(self._size + 1, len(data)):
            if body_at(data, later) is not None:
                raise MetadataLogError(
                    f"{self.path} is damaged at byte {self._size}: whole records follow from byte {later} on, so this "
                    "is not a torn end, and nothing was cut off. Restore a copy of the file, or give up all changes "
                    f"from byte {self._size} on: truncate -s {self._size} {self.path}"
                )
        return found

    def open(self) -> None:
        """Make ready to write at the end of what was read."""
        mode = "r+b" if self.path.exists() else "w+b"
        self._file = open(self.path, mode, buffering=0)  # noqa: SIM115 - lives as long as we do
        self._file.truncate(self._size)
        self._writer.fsync_directory(self.path.parent)
        self._named = True  # the name is on disk: after a loss of power it is still this file's

    def append(self, data: bytes) -> None:
        """Write a frame, and have it on disk. If it raises OSError, nothing was written."""
        if not self._named:
            self._name()
        try:
            self._file.truncate(self._size)  # a write that failed may have left something
            self._writer.write(self._file.fileno(), [data], self._size)
            self._writer.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)

    def replace(self, data: bytes) -> None:
        """Have these frames instead of all; they say what the old ones say. If it raises OSError, the old file stays.

        After a loss of power either may be there, so nothing is appended before the new one's name is on disk.
        """
        new = self.path.with_suffix(".new")
        file = open(new, "w+b", buffering=0)  # noqa: SIM115 - lives as long as we do
        try:
            self._writer.write(file.fileno(), [data], 0)
            self._writer.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                new.unlink()  # the disk may be full because of it
            raise
        old, self._file = self._file, file
        self._size, self._named = len(data), False
        with suppress(OSError):  # the new one is in place, and nobody reads the old one
            old.close()

    def _name(self) -> None:
        self._writer.fsync_directory(self.path.parent)
        self._named = True

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        self._file.close()
        self._lock.release()

    def give_up(self) -> None:
        """Release the lock of a file that was never opened."""
        self._lock.release()


def _locked(folder: Path, timeout_s: float) -> FolderLock:
    try:
        return FolderLock(folder, timeout_s)
    except FolderInUseError:
        raise MetadataLogError(
            f"data directory {folder.parent} is in use: another controller holds {folder / LOCK_NAME}; "
            "stop that cluster, or choose another --data-dir"
        ) from None
