"""The effects of a voter, and their order: nothing leaves before all it rests on is on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from actors.quorum.durable import Piece
from actors.quorum.log import Entry, Snapshot, VoterId
from actors.quorum.messages import Message


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these pieces in their order, sync, and say so by `on_persisted`. Until then there is no other Persist.

    If that fails, the voter is of no use any more, because nobody knows what is on disk: make a new one of what is.
    """

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message. It may get lost."""

    to: VoterId
    message: Message


@dataclass(frozen=True, slots=True)
class Committed:
    """These entries have committed, after all that were told before: no later leader lacks them."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """A leader's snapshot takes the place of all that had committed before."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This voter leads, in this epoch. It has all entries that have ever committed, and perhaps more."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Resigned:
    """This voter leads no more. Those of its entries that have not committed may or may not do so later."""

    epoch: int


Effect: TypeAlias = Persist | Send | Committed | Restored | BecameLeader | Resigned
Then: TypeAlias = Callable[[float], None]


class Outbox:
    """Collects effects. Messages wait for all that was to be persisted before them.

    So one rule holds for votes, acknowledgements and what a leader sends. Pieces that come while the disk is
    busy are written together afterwards.
    """

    def __init__(self) -> None:
        self._ready: list[Effect] = []
        self._writing = False
        self._held: list[Send | Then] = []  # waits for what is being written
        self._pieces: list[Piece] = []  # is to be written next
        self._later: list[Send | Then] = []  # waits for that

    def persist(self, piece: Piece, then: Then | None = None) -> None:
        """Have this written after all before it, and `then` call this with the time."""
        self._pieces.append(piece)
        if then is not None:
            self._later.append(then)

    def tell(self, effect: Committed | Restored | BecameLeader | Resigned) -> None:
        """Tell the driver at once."""
        self._ready.append(effect)

    def send(self, to: VoterId, message: Message) -> None:
        """Send this when all before it is on disk."""
        if self._pieces:
            self._later.append(Send(to, message))
        elif self._writing:
            self._held.append(Send(to, message))
        else:
            self._ready.append(Send(to, message))

    def persisted(self, now: float) -> None:
        """Let go what has waited for the disk."""
        held, self._held, self._writing = self._held, [], False
        for each in held:
            if isinstance(each, Send):
                self._ready.append(each)
            else:
                each(now)

    def take(self) -> list[Effect]:
        """All there is to do now."""
        if self._pieces and not self._writing:
            self._ready.append(Persist(tuple(self._pieces)))
            self._held, self._later, self._pieces, self._writing = self._later, [], [], True
        ready, self._ready = self._ready, []
        return ready
