"""A machine's disk: it keeps everything while the machine runs, and synced bytes and some of the rest after a crash.

Files lie in a folder of the host's memory, so that the product's code reads and writes them. This module remembers how
much of each file has been synced, the contents of small files that were replaced without a sync, and the entries of
each folder at its last sync: what was created, renamed and removed since may be undone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.log.files import FileWriter
from tests.sim.engine import Simulation
from tests.sim.entries import Entries

_SEGMENT = ".log"
_BLOCK = 512
_UNDONE = 0.5


class Disk:
    """The disk of one machine, in `folder`."""

    def __init__(self, sim: Simulation, folder: Path) -> None:
        self.sim = sim
        self.folder = folder
        self.failing = 0.0
        """The probability that a write or a sync fails."""
        self._synced: dict[int, int] = {}  # by inode: this many bytes survive a crash
        self._replaced: dict[Path, bytes | None] = {}  # small files whose newest content may not survive
        folder.mkdir(parents=True)
        self._entries = Entries(folder)
        self._of_entries = random.Random(f"entries {sim.seed} {folder.name}")  # so that the run's own is not touched

    def maybe_fail(self, what: str) -> None:
        """Raises OSError now and then."""
        if self.failing and self.sim.random.random() < self.failing:
            self.sim.say(f"disk {self.folder.name}: {what} fails")
            raise OSError(5, f"simulated failure of {what}")

    def written(self, fd: int, position: int) -> None:
        """Bytes from `position` on are new, and not synced."""
        inode = os.fstat(fd).st_ino
        if self._synced.get(inode, 0) > position:
            self._synced[inode] = position

    def synced(self, fd: int) -> None:
        """All of a file is safe."""
        status = os.fstat(fd)
        self._synced[status.st_ino] = status.st_size

    def replaced(self, path: Path) -> None:
        """A small file is about to be replaced, not durably."""
        if path not in self._replaced:
            self._replaced[path] = path.read_bytes() if path.exists() else None

    def replaced_durably(self, path: Path) -> None:
        """The former content of a small file cannot come back any more."""
        self._replaced.pop(path, None)

    def folder_synced(self, path: Path) -> None:
        """The entries of a folder are safe."""
        self._entries.synced(path)

    def crash(self) -> None:
        """The machine loses its power: bytes that were not synced are lost, torn, or there, and so are entries."""
        chance = self.sim.random
        for undone in self._entries.crash(lambda: self._of_entries.random() < _UNDONE):
            self.sim.say(f"disk {self.folder.name}: {undone}")
        for path in sorted(self.folder.rglob("*" + _SEGMENT)):
            status = path.stat()
            safe = min(self._synced.get(status.st_ino, 0), status.st_size)
            if safe < status.st_size:
                self._tear(path, safe, chance.randint(safe, status.st_size), status.st_size)
        for path, content in sorted(self._replaced.items()):
            if path.exists() and chance.random() < 0.5:
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
        self._replaced.clear()

    def _tear(self, path: Path, safe: int, end: int, size: int) -> None:
        chance = self.sim.random
        with open(path, "r+b") as file:
            if chance.random() < 0.3:
                # The file's length survived, some of its blocks did not.
                for block in range(safe // _BLOCK + 1, size // _BLOCK + 1):
                    if chance.random() < 0.5:
                        file.seek(block * _BLOCK)
                        file.write(bytes(min(_BLOCK, size - block * _BLOCK)))
            else:
                file.truncate(end)
            status = os.fstat(file.fileno())
        self._synced[status.st_ino] = status.st_size


class SimFileWriter(FileWriter):
    """The file writer of a machine's processes, on its simulated disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def write(self, fd: int, buffers: Sequence[Any], position: int) -> int:
        disk = self._disk
        if disk.failing:
            try:
                disk.maybe_fail("a write")
            except OSError:
                part = b"".join(bytes(buffer) for buffer in buffers)
                os.pwrite(fd, part[: disk.sim.random.randrange(len(part) + 1)], position)
                disk.written(fd, position)
                raise
        disk.written(fd, position)
        return super().write(fd, buffers, position)

    def write_atomically(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        self._disk.maybe_fail("a write")
        if durable:
            self._disk.replaced_durably(path)
        else:
            self._disk.replaced(path)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        os.replace(temporary, path)
        if durable:
            self._disk.folder_synced(path.parent)

    def fsync(self, fd: int) -> None:
        self._disk.maybe_fail("a sync")
        self._disk.synced(fd)

    def fsync_file(self, path: Path) -> None:
        with path.open("rb") as file:
            self.fsync(file.fileno())

    def fsync_directory(self, path: Path) -> None:
        self._disk.folder_synced(path)
