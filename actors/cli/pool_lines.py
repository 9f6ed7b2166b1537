"""`coterie pools logs`: the lines of a pool's members, as text or JSON, once or as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from actors import CoterieError
from actors.cli import output
from actors.runtime.escaping import escaped, escaped_json

if TYPE_CHECKING:
    from actors.members.logs.journal import Cursor, MemberLine

_FOLLOW_SECONDS: Final = 1.0
_FOLLOW_LINES: Final = 100_000
"""The most that may come at a time: more than a pool has."""


class Ask(Protocol):
    """A source of lines: it gives the last `tail` of those behind a cursor."""

    def __call__(self, tail: int, after: Cursor) -> list[MemberLine]: ...


def text_line(line: MemberLine) -> str:
    """A line for people: local time, member, pid, level, text. Nothing in it moves a terminal's cursor."""
    when = datetime.fromtimestamp(line.wall_ms / 1000).isoformat(" ", "milliseconds")
    shown = escaped(line.text, keep="\t")
    return f"{when} {line.slot} {line.pid or '-':>7} {line.level:<7} {shown}".rstrip()


def json_line(line: MemberLine) -> str:
    """A line for programs: an object."""
    return escaped_json(asdict(line))


class Reader:
    """Prints lines, and remembers which, so that each is printed once."""

    def __init__(self, ask: Ask, shown: Callable[[MemberLine], str], note: Callable[[str], None]) -> None:
        self._ask = ask
        self._shown = shown
        self._note = note
        self._read: dict[tuple[int, int], int] = {}

    def print_new(self, tail: int) -> None:
        """Print what has come since the last time, at most the last `tail` lines."""
        from actors.members.logs.journal import advanced

        lines = self._ask(tail, self._read)
        for line in lines:
            if lost := self._lost(line):
                self._note(f"{lost} lines of member {line.slot} came faster than they could be read, and are not shown")
            output.say(self._shown(line), keep="\t")
            self._read = advanced(self._read, [line])

    def follow(self, is_there: Callable[[], object], wait: Callable[[float], object], looks: int | None = None) -> None:
        """Print lines as they come; without end unless `looks` says how often to look.

        A pool that does not say anything now, because its supervisor starts again, may later. `is_there` raises what
        `ask` raises if there is none any more.
        """
        noted = ""
        while looks is None or (looks := looks - 1) >= 0:
            wait(_FOLLOW_SECONDS)
            try:
                self.print_new(_FOLLOW_LINES)
            except CoterieError as error:
                is_there()
                if str(error) != noted:
                    noted = str(error)
                    self._note(noted)

    def _lost(self, line: MemberLine) -> int:
        before = self._read.get(line.process)
        return max(0, line.number - before - 1) if before is not None and line.pid else 0
