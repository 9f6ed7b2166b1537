"""The lines of a pool's members: those that live are asked, the journal has what is known of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Final

from actors.links.member import Line
from actors.members.logs.journal import Cursor, Journal, MemberLine
from actors.members.logs.ring import LINES_MAX
from actors.members.member_link import MemberClient, MemberEndedError

_ANSWER_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The lines that are wanted: the last `tail` of all, not older than `since_ms`, behind a cursor."""

    slot: int | None = None
    tail: int = LINES_MAX
    since_ms: int = 0
    after: Cursor = field(default_factory=dict)

    def problem(self) -> str | None:
        """The reason why it makes no sense; None if it does."""
        if self.tail < 1:
            return f"tail must be at least 1, got {self.tail}"
        return f"since_ms must not be negative, got {self.since_ms}" if self.since_ms < 0 else None


@dataclass(frozen=True, slots=True)
class Source:
    """A member that can be asked."""

    slot: int
    pid: int
    link: MemberClient
    version: int = 0


def gather(
    sources: Iterable[Source], journal: Journal, wanted: Wanted, timeout_s: float = _ANSWER_SECONDS
) -> list[MemberLine]:
    """The wanted lines, the oldest first. A member that does not answer in time is left out, and a line says so."""
    asked = [(each, _ask(each, wanted)) for each in sources if wanted.slot in (None, each.slot)]
    done, _ = futures.wait([answer for _, answer in asked], timeout_s)
    found: dict[tuple[tuple[int, int], int], MemberLine] = {}
    for source, answer in asked:
        if answer not in done:
            journal.note(source.slot, f"the member with pid {source.pid} does not say what it has written")
        elif not isinstance(answer.exception(), MemberEndedError):
            for line in journal.keep(source.slot, source.pid, answer.result(), source.version):
                found[line.process, line.number] = line
    for line in journal.read(wanted.slot):
        found[line.process, line.number] = line
    return _chosen(list(found.values()), wanted)


def _ask(source: Source, wanted: Wanted) -> futures.Future[tuple[Line, ...]]:
    after = wanted.after.get((source.slot, source.pid), 0)
    return source.link.read_lines(after=after, tail=wanted.tail, since_ms=wanted.since_ms)


def _chosen(lines: Sequence[MemberLine], wanted: Wanted) -> list[MemberLine]:
    new = [
        line for line in lines if line.number > wanted.after.get(line.process, 0) and line.wall_ms >= wanted.since_ms
    ]
    return sorted(new, key=lambda line: (line.wall_ms, line.slot, line.pid, line.number))[-wanted.tail :]
