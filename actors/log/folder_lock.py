"""The lock of a folder that one process at a time may write to: a broker's data, the controller's metadata.

The lock is filelock's, an flock of the file `.lock`: the kernel frees it when its process dies, however that happens,
and neither a forked nor a started child keeps it. Some of the defaults of the library are not wanted here:

- A lock object that is garbage collected lets go. Here a lock is held until `release` or the end of the process.
- Where a file system has no flock, a marker file stands in, which the death of its process leaves behind. Here the
  folder is refused.
- A lock belongs to a thread. Here one thread may take it and another give it back.

There is no shared lock: `is_locked` takes the lock for a moment. Whoever wants it in that moment tries again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from actors import CoterieError

LOCK_NAME: Final = ".lock"
_held: set[FolderLock] = set()


class FolderInUseError(CoterieError):
    """Another process has the folder; `owner` is its pid as text, or "unknown"."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(f"{folder} is in use by another process (pid {owner})")
        self.owner = owner


class FolderLock:
    """A folder that is this process's. Made when it is held, after waiting for a dying owner up to `timeout_s`.

    Raises FolderInUseError, and OSError where no such file can be made or locked.
    """

    def __init__(self, folder: Path, timeout_s: float, name: str = LOCK_NAME) -> None:
        path = folder / name
        self._lock = _lock(path)
        try:
            self._lock.acquire(timeout=max(0.0, timeout_s))
        except Timeout:
            raise FolderInUseError(folder, path.read_text(errors="replace").strip() or "unknown") from None
        _held.add(self)
        with contextlib.suppress(OSError):  # the pid is only told to those who wait: a full disk does not matter
            path.write_text(str(os.getpid()))

    def release(self) -> None:
        """Let others have the folder. Releasing twice is harmless."""
        _held.discard(self)
        self._lock.release()


def is_locked(folder: Path) -> bool:
    """True if some process, this one included, holds the folder. Raises OSError if its lock cannot be tried."""
    lock = _lock(folder / LOCK_NAME)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _lock(path: Path) -> FileLock:
    return FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
