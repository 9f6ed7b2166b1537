"""The reason why a folder of ours cannot be used, and the remedy: in one line, whatever the system calls it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_NO_ROOM: Final = "its disk is full: make room there, or name another folder"
_WAYS: Final = {
    errno.ENOTDIR: "a file is in its way: name a folder",
    errno.EEXIST: "a file is in its way: name a folder",
    errno.EROFS: "its disk is mounted read-only: name another folder, or have it mounted for writing",
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.ENAMETOOLONG: "its name is too long: name a shorter one",
    errno.ENOLCK: "its file system has no locks: name a folder on a local disk",
}
_DENIED: Final = (errno.EACCES, errno.EPERM)


def why_unusable(folder: Path, error: OSError) -> str:
    """The line for an error that came of making, locking or writing what is in `folder`."""
    if error.errno in _DENIED:
        what = f"{error.filename or folder} may not be used by this user (uid {os.geteuid()})"
        return f"data directory {folder} cannot be used: {what}: chown it to this user, or name another folder"
    return f"data directory {folder} cannot be used: {_WAYS.get(error.errno or 0, error.strerror or str(error))}"
