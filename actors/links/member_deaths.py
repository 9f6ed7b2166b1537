"""Messages of a member and its pool about records that may end a process: those in hand, and those that are noted.

A record whose handling ends the process (a segmentation fault, `os._exit`, no memory left) raises nothing that anybody
could catch. So a member says what it begins with before it begins, and whoever has started it notes what was in hand
of a process that has died. The messages are of the link in `member`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALONE_AFTER: Final = 2
"""After so many deaths a record is tried with nothing else in hand."""


@dataclass(frozen=True, slots=True)
class Span:
    """Records of one partition."""

    topic: str
    partition: int
    first: int
    next_offset: int
    """The offset behind the last one."""
    topic_id: bytes = b""
    """Of the topic that had the name then: one that is made anew has other records. b"" where brokers know no ids."""


@dataclass(frozen=True, slots=True)
class InHand:
    """Member -> starter, before it begins: all records that may be in hand until it says so again."""

    spans: tuple[Span, ...] = ()
    alone: bool = False
    """True if it is one record, which is tried with nothing else in hand."""
    handled: int = 0
    """The number of records handled by now: a report would come too late to tell it if the process dies."""
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """Member -> starter: the group's offset of a partition of which something is noted.

    Notes about a topic of the same name with another id are over.
    """

    topic: str
    partition: int
    offset: int
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Note:
    """Records that were in hand when processes died."""

    span: Span
    deaths: int
    died: str | None = None
    """The way in which a process died that had only this record in hand, which is set aside. Else None."""

    @property
    def doubted(self) -> bool:
        """True if its records are handled one by one, with nothing else in hand, or not at all."""
        return self.deaths >= ALONE_AFTER


@dataclass(frozen=True, slots=True)
class Notes:
    """Starter -> member: all that is noted of the pool's records, in place of what was said with a lower number."""

    number: int = 0
    notes: tuple[Note, ...] = ()
