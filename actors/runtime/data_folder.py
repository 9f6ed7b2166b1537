"""A data directory before it is trusted: whose it is, who else may write there, and where its private files lie.

Anybody may prepare a folder where all may write, as in /tmp: a cluster that used it would take his secret for its own.
So a folder, and each private file in it, is ours or root's, no link, and nobody else may write to it.

A mounted volume is the exception: it is root's, and we may write there as one of many, by its group. Private files of
ours then lie in the folder `private` inside it, which is ours alone. To mount a volume for a group adds the group's
rights to all that lies in it, so that these are taken away again instead of refused.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from actors import OutsideError
from actors.runtime.private import FOLDER_MODE, narrow

log = logging.getLogger(__name__)

PRIVATE: Final = "private"
_ROOT: Final = 0
_ANOTHER: Final = "choose another --data-dir"
_WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(OutsideError, PermissionError):
    """Somebody else has a hand in a folder or file; the text says who, and what to do."""


def fault_of(entry: os.stat_result, user: int, *, group_may: bool = False, folder: bool = False) -> str | None:
    """The reason why `user` cannot trust a file or folder with this `lstat`, with the remedy; None if it can.

    With `group_may` its group may write to it.
    """
    if stat.S_ISLNK(entry.st_mode):
        return "is a link, and may lead anywhere: remove it"
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(entry.st_mode):
        return f"is no {'folder' if folder else 'file'}: remove it"
    if entry.st_uid not in (user, _ROOT):
        return f"belongs to another user (uid {entry.st_uid}), who knows what is in it: remove it"
    writers = entry.st_mode & _WRITERS & ~(stat.S_IWGRP if group_may else 0)
    if writers:
        return f"has mode {stat.S_IMODE(entry.st_mode):o}, others may have written to it: remove it"
    return None


def is_shared(entry: os.stat_result, user: int, *, mounted: bool) -> bool:
    """True if a folder with this `lstat` is a volume that root has mounted for `user`, perhaps among others."""
    theirs = entry.st_uid == _ROOT and bool(entry.st_mode & _WRITERS)
    return stat.S_ISDIR(entry.st_mode) and theirs and (user != _ROOT or mounted)


def folder_fault(entry: os.stat_result, user: int, *, mounted: bool) -> str | None:
    """The reason why `user` cannot keep a data directory in the folder that has this `lstat`; None if it can."""
    if is_shared(entry, user, mounted=mounted):
        return None
    if not stat.S_ISDIR(entry.st_mode):
        return f"is no folder: {_ANOTHER}"
    if entry.st_uid != user:
        return f"belongs to another user (uid {entry.st_uid}), who could have prepared it: {_ANOTHER}"
    if entry.st_mode & _WRITERS:
        mode = f"{stat.S_IMODE(entry.st_mode):o}"
        return f"has mode {mode}, others may write in it: chmod go-w it, if all in it is yours, or {_ANOTHER}"
    return None


def check_link(path: Path) -> None:
    """Raise UntrustedError if a folder is named by a link of another user. Others are followed."""
    try:
        entry = path.lstat()
    except OSError:
        return
    if stat.S_ISLNK(entry.st_mode) and entry.st_uid not in (os.geteuid(), _ROOT):
        raise UntrustedError(f"{path} is a link of another user (uid {entry.st_uid}): name the folder itself")


def check_folder(folder: Path) -> bool:
    """Raise UntrustedError if a data directory is not to be trusted, OSError if it is not there.

    Returns True if it is shared.

    An empty one of ours to which others may write is taken from them.
    """
    entry, mounted = folder.lstat(), os.path.ismount(folder)
    fault = folder_fault(entry, os.geteuid(), mounted=mounted)
    if fault is not None and entry.st_uid == os.geteuid() and stat.S_ISDIR(entry.st_mode) and not any(folder.iterdir()):
        folder.chmod(stat.S_IMODE(entry.st_mode) & ~_WRITERS)
        log.warning("%s is empty, and others could write there: now they cannot", folder)
        return check_folder(folder)  # somebody may have been quicker
    if fault is not None:
        raise UntrustedError(f"{folder} {fault}")
    return is_shared(entry, os.geteuid(), mounted=mounted)


def place_of(folder: Path) -> Path:
    """The place of a data directory's private files. Raises UntrustedError if that is not ours alone."""
    inner = folder / PRIVATE
    try:
        fault = fault_of(inner.lstat(), os.geteuid(), folder=True)
    except (FileNotFoundError, NotADirectoryError):
        return folder
    if fault is not None:
        raise UntrustedError(f"{inner} {fault}")
    return inner


def prepared(folder: Path, private: Iterable[str], public: Iterable[str], folders: Iterable[str]) -> Path:
    """Make a data directory, or check the one that is there; where its private files lie.

    Its files and folders of these names are looked at, as far as they are there; those that are not `public` lose the
    rights of others. Raises UntrustedError, OSError.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    shared = check_folder(folder)
    for name in folders:
        _keep(folder / name, group_may=shared, folder=True)
    inner = folder / PRIVATE
    _keep(inner, group_may=shared, folder=True)
    if not shared and not inner.exists():
        place = folder
    else:
        inner.mkdir(mode=FOLDER_MODE, exist_ok=True)
        place = place_of(folder)
    for names, check in ((private, _keep), (public, _check)):
        for name in names:
            check(folder / name, group_may=shared)
            if place != folder:
                check(place / name, group_may=shared)
                _move(folder / name, place / name)
    return place


def _keep(path: Path, *, group_may: bool, folder: bool = False) -> None:
    """Check what is there, and take the rights of others from it. Raises UntrustedError."""
    _check(path, group_may=group_may, folder=folder)
    narrow(path)


def _check(path: Path, *, group_may: bool, folder: bool = False) -> None:
    try:
        fault = fault_of(path.lstat(), os.geteuid(), group_may=group_may, folder=folder)
    except FileNotFoundError:
        return
    if fault is not None:
        raise UntrustedError(f"{path} {fault}")


def _move(path: Path, to: Path) -> None:
    """Move a file of an older start, if it is there and has no successor."""
    if path.exists() and not to.exists():
        path.rename(to)
        log.warning("%s is %s now: others may write to the folder", path, to)


def check_own_folder(path: Path) -> None:
    """Raise UntrustedError if a folder of ours within a data directory is another's, if it is there at all."""
    try:
        shared = is_shared(path.parent.lstat(), os.geteuid(), mounted=os.path.ismount(path.parent))
    except FileNotFoundError:
        return
    _keep(path, group_may=shared, folder=True)


def read_trusted(path: Path) -> bytes:
    """The content of a file that we or root wrote, and nobody else may write to. Raises UntrustedError, OSError.

    It may be a link if that is ours or root's, as those are by which a secret is mounted.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        check_link(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        fault = fault_of(os.fstat(descriptor), os.geteuid())
        if fault is not None:
            raise UntrustedError(f"{path} {fault}")
        return file.read()
