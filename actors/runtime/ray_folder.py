"""The folder in which an embedded Ray has its session: sockets, logs, what it unpacks. Ours alone.

By itself Ray keeps sessions in /tmp/ray, where anybody may make the folder first. It lets all write to its folder, and
to that of its sockets: a user of the machine moves a socket, and no process starts any more. So its folder lies in one
that nobody else may enter.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from actors.runtime import ray_inside
from actors.runtime.ray_connection import ClusterError

SOCKET_PATH_MAX: Final = 107
_PREFIX: Final = "coterie-ray-"
_ANY: Final = "*" * 8
_RAY: Final = "ray"
_LONGEST: Final = f"{_RAY}/{ray_inside.LONGEST_SOCKET}"
_BASE: Final = "RAY_TMPDIR"
_OLD_SECONDS: Final = 86_400.0  # until then somebody may want to read what a Ray said


def made() -> Path:
    """A new folder for one Ray, in one of mode 0700, in RAY_TMPDIR or among temporary files. Raises ClusterError."""
    base = base_for(os.environ.get(_BASE), tempfile.gettempdir())
    try:
        base.mkdir(parents=True, exist_ok=True)
        sweep(base)
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base), _RAY)
    except OSError as error:
        raise ClusterError(f"Ray has no folder for its session in {base}: {error.strerror}; set {_BASE}") from None


def base_for(chosen: str | None, temporary: str) -> Path:
    """The place for that folder: as `chosen`, else where temporary files are, or in /tmp if that is too long.

    Raises ClusterError if the chosen one is too long for the paths of Unix sockets.
    """
    bases = [chosen] if chosen else [temporary, "/tmp"]
    for base in bases:
        if len(os.fsencode(f"{base}/{_PREFIX}{_ANY}/{_LONGEST}")) <= SOCKET_PATH_MAX:
            return Path(base)
    raise ClusterError(f"{bases[0]} is too long for the sockets of Ray: set {_BASE} to a shorter path")


def sweep(base: Path) -> None:
    """Remove the folders of Rays that ended a day ago or earlier."""
    for path in base.glob(_PREFIX + "?" * len(_ANY)):
        with contextlib.suppress(OSError):  # another user's, or one that goes just now
            entry = path.lstat()
            ours = entry.st_uid == os.geteuid() and stat.S_ISDIR(entry.st_mode)
            old = time.time() - entry.st_mtime > _OLD_SECONDS
            if ours and old and not any(map(listens, path.glob(f"{_RAY}/{ray_inside.SOCKETS}"))):
                shutil.rmtree(path, ignore_errors=True)


def listens(path: Path) -> bool:
    """True if a process listens at a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True
