"""A pool's own memory of its members: the lines that it was sent, which outlive them, and lines about what it did."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from actors.links.member import Line

POOL: Final = "POOL"
_LINES_MAX: Final = 500
_CHARACTERS_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A line that a member has written, or its pool about it: then the level is POOL, and the pid 0."""

    wall_ms: int
    """Unix time, by the clock of the member's node."""
    slot: int
    pid: int
    number: int
    """Grows by one with each line of a process, from 1 on. Those of the pool's lines only grow."""
    level: str
    """Of `logging`, such as WARNING; stdout or stderr for what was printed."""
    text: str
    version: int = 0
    """Of a deployed pool's member, 1, 2, ...; 0 if it is none."""

    @property
    def process(self) -> tuple[int, int]:
        """The process in whose count the number is: slot and pid."""
        return self.slot, self.pid


Cursor = Mapping[tuple[int, int], int]
"""The number of the last line that was read, by `MemberLine.process`."""


def advanced(cursor: Cursor, lines: Iterable[MemberLine]) -> dict[tuple[int, int], int]:
    """The cursor after these lines. Lines that came before it leave it as it is."""
    found = dict(cursor)
    for line in lines:
        found[line.process] = max(line.number, found.get(line.process, 0))
    return found


class _Kept:
    """The lines of one slot that came last, so many and so many characters, each once."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], MemberLine] = {}
        self._characters = 0

    def add(self, line: MemberLine) -> None:
        if (line.pid, line.number) in self._lines:
            return
        self._lines[line.pid, line.number] = line
        self._characters += len(line.text)
        while len(self._lines) > _LINES_MAX or self._characters > _CHARACTERS_MAX:
            self._characters -= len(self._lines.pop(next(iter(self._lines))).text)

    def all(self) -> Iterable[MemberLine]:
        return self._lines.values()


class Journal:
    """The last lines of each slot that the pool has been sent, by whichever process, and the pool's own. Thread-safe.

    It is in the memory of the pool's process, and ends with it.
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._kept: defaultdict[int, _Kept] = defaultdict(_Kept)
        self._notes: dict[int, tuple[int, str]] = {}

    def note(self, slot: int, text: str) -> None:
        """Write a line about the member in a slot. A text that is said again and again is written once."""
        with self._lock:
            number, before = self._notes.get(slot, (0, ""))
            if before != text:
                now_ms = self._wall_ms()
                number = max(number + 1, now_ms)  # so that they grow, too, from a pool's process to the next one
                self._notes[slot] = (number, text)
                self._kept[slot].add(MemberLine(now_ms, slot, 0, number, POOL, text))

    def keep(self, slot: int, pid: int, lines: Iterable[Line], version: int = 0) -> list[MemberLine]:
        """Keep what a member has sent, and return it. A line that is known is not kept again."""
        found = [MemberLine(each.wall_ms, slot, pid, each.number, each.level, each.text, version) for each in lines]
        with self._lock:
            for line in found:
                self._kept[slot].add(line)
        return found

    def read(self, slot: int | None = None) -> list[MemberLine]:
        """The lines that are kept of a slot, or of all, each process's in the order in which they came."""
        with self._lock:
            return [line for number, kept in self._kept.items() if slot in (None, number) for line in kept.all()]
