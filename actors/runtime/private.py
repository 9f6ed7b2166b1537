"""Things that only our own user may see: files, folders, variables, and the other end of a Unix socket."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import socket
import stat
import struct
from pathlib import Path

log = logging.getLogger(__name__)

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS = 0o077
_taken: set[str] = set()
_CREDENTIALS = struct.Struct("iII")  # the kernel's `struct ucred`: pid, uid, gid


def keep_private() -> None:
    """Have all files and folders that this process makes from now on be its user's alone."""
    os.umask(_OTHERS)


def write_private(path: Path, text: str) -> None:
    """Make a file that only this user can read. Raises FileExistsError."""
    with open(path, "x", opener=private) as file:
        file.write(text)


def read_own(path: Path) -> str:
    """The text of a file that nobody but its owner may read. Raises OSError, ValueError."""
    with open(path, "rb") as file:
        entry = os.fstat(file.fileno())
        if entry.st_mode & _OTHERS:
            raise PermissionError(f"others may read {path}: chmod 600 it")
        if entry.st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"{path} belongs to another user (uid {entry.st_uid}): put a file of your own there")
        try:
            return file.read().decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no UTF-8") from None  # its text would show what is in the file


def first_line(path: Path) -> str:
    """The first line of a file: a password. Raises OSError, ValueError."""
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8") from None  # its text would show what is in the file
    if not lines or not lines[0]:
        raise ValueError(f"{path} has no first line")
    return lines[0]


def take_variable(name: str) -> str | None:
    """The value of a variable of the environment, which has none afterwards; None if there is no such variable.

    A process that this one starts from now on does not inherit it, and /proc shows it no more.
    """
    text = os.environ.get(name)
    if text is None:
        return None
    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    if place := getenv(os.fsencode(name)):
        ctypes.memset(place, 0, len(ctypes.string_at(place)))  # to take it out of the environment leaves it in memory
    os.environ.pop(name, None)
    _taken.add(name)
    return text


def taken_variables() -> list[str]:
    """The names of the variables that were taken, and not set again since."""
    return sorted(name for name in _taken if name not in os.environ)


def private(path: str, flags: int) -> int:
    """Open a file that only this user can read, if it has to be made: for `open(..., opener=private)`."""
    return os.open(path, flags, FILE_MODE)


def narrow(path: Path) -> None:
    """Take the rights of others from a file or folder of ours, if it is there. Raises PermissionError."""
    try:
        entry = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(entry.st_mode) or not entry.st_mode & _OTHERS:
        return
    if entry.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user, and others may read it")
    path.chmod(stat.S_IMODE(entry.st_mode) & ~_OTHERS)
    log.warning("%s could be read by others: mode %o is %o now", path, stat.S_IMODE(entry.st_mode), path.stat().st_mode)


def private_folder(path: Path) -> None:
    """Make a folder for Unix sockets, or check the one that is there: ours, mode 0700, no link to another place.

    Raises PermissionError, for anybody may have made something of that name in a folder that all may write to.
    """
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    entry = path.lstat()
    if not stat.S_ISDIR(entry.st_mode):
        raise PermissionError(f"{path} is no folder: set TMPDIR to a folder of your own")
    if entry.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user: set TMPDIR to a folder of your own")
    mode = stat.S_IMODE(entry.st_mode) & ~stat.S_ISGID  # a folder has it from the one it is in
    if mode != FOLDER_MODE:
        raise PermissionError(
            f"{path} has mode {mode:o}, others may have been in it: remove it, or set TMPDIR to a folder of your own"
        )


def is_ours(transport: asyncio.BaseTransport) -> bool:
    """True if a process of our own user is at the other end of a Unix socket, as the kernel says."""
    connection: socket.socket = transport.get_extra_info("socket")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1]) == os.geteuid()


def leave_no_core() -> None:
    """Have this process leave no core dump, in which its secrets would be.

    The limit is one byte: unlike zero, Linux also takes it for what is piped to a program, and no file is as short.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if most == 0 else 1, most))
