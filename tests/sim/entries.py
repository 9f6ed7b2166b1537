"""The entries of a disk's folders: what was created, renamed or removed since a folder's last sync may be undone.

POSIX says no more than that a sync makes them safe: each may be undone, whatever has become of the others. A renaming
is undone as a whole. A file that has been removed is kept by a second link, as long as its removal may be undone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Names = Mapping[str, int]
"""Inodes, by name."""


class Entries:
    """Those of all folders below `root`, which is empty."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept = root.with_name(f"{root.name}.kept")
        self._kept.mkdir()
        self._synced: dict[int, Names] = {root.stat().st_ino: {}}  # by folder

    def synced(self, folder: Path) -> None:
        """A folder has been synced."""
        for entry in os.scandir(folder):
            kept = self._kept / str(entry.inode())
            if not entry.is_dir() and not kept.exists():
                os.link(entry.path, kept)
        self._synced[folder.stat().st_ino] = _names(folder)

    def crash(self, undone: Callable[[], bool]) -> Iterator[str]:
        """Undo changes for which `undone` says so; what has been undone. Then all that is there is safe."""
        yield from self._crash(self._root, undone)
        for each in self._kept.iterdir():
            each.unlink()
        self._synced.clear()
        for folder, _, _ in os.walk(self._root):
            self.synced(Path(folder))

    def _crash(self, folder: Path, undone: Callable[[], bool]) -> Iterator[str]:
        before, now = self._synced.get(folder.stat().st_ino, {}), _names(folder)
        for changed in _changes(before, now):
            if undone():
                self._undo(folder, {name: before[name] for name in changed if name in before}, changed & now.keys())
                yield f"{folder.relative_to(self._root)}: {', '.join(sorted(changed))}"
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                yield from self._crash(path, undone)

    def _undo(self, folder: Path, before: Names, now: set[str]) -> None:
        aside = [(folder / name).rename(self._kept / f"{(folder / name).stat().st_ino}.aside") for name in sorted(now)]
        for name, inode in sorted(before.items()):
            self._put_back(folder / name, inode)
        for path in aside:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _put_back(self, path: Path, inode: int) -> None:
        aside, kept = self._kept / f"{inode}.aside", self._kept / str(inode)
        if aside.exists():
            aside.rename(path)
        elif kept.exists():
            os.link(kept, path)
        else:  # a folder that has been removed
            path.mkdir()
            for name, each in sorted(self._synced.get(inode, {}).items()):
                self._put_back(path / name, each)
            self._synced[path.stat().st_ino] = _names(path)


def _names(folder: Path) -> Names:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def _changes(before: Names, now: Names) -> list[set[str]]:
    """The names that have changed; together those that files have had one after the other."""
    changes: list[set[str]] = []
    inodes: list[set[int]] = []
    for name in sorted(before.keys() | now.keys()):
        of_it = {names[name] for names in (before, now) if name in names}
        if before.get(name) == now.get(name):
            continue
        names = {name}
        for number in [n for n, others in enumerate(inodes) if others & of_it][::-1]:
            names |= changes.pop(number)
            of_it |= inodes.pop(number)
        changes.append(names)
        inodes.append(of_it)
    return changes
