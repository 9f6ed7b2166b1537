"""A voter's data on disk: one journal of pieces, each of which replaces what it contradicts.

Three kinds of pieces are all there is: the `State` (Kafka's quorum-state), an `Entry`, which cuts off those from its
index on, and a `Snapshot`, which stands for the entries up to it. Read in their order they give the `Journal` again. So
a write is an append, and a crash can only cost the end of what was not synced. `encode` and `decode` are a piece's
bytes; whoever keeps the file frames them with a length and a CRC, and cuts off a torn end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgpack

from actors.quorum.errors import DamagedError
from actors.quorum.log import Entry, Log, Snapshot, VoterId, Voters


@dataclass(frozen=True, slots=True)
class State:
    """The newest epoch a voter knows of, and whom it has voted for in that."""

    epoch: int = 0
    vote: VoterId | None = None


Piece: TypeAlias = State | Entry | Snapshot


class Journal:
    """All that a voter knows after a start."""

    def __init__(self) -> None:
        self.state = State()
        self.log = Log()

    def apply(self, piece: Piece) -> None:
        """Take the next piece. Raises QuorumError if it does not fit those before."""
        match piece:
            case State():
                self.state = piece
            case Entry():
                self.log.put(piece)
            case Snapshot():
                self.log.begin_with(piece)

    def pieces(self) -> Iterator[Piece]:
        """The fewest pieces that say the same."""
        yield self.log.snapshot
        yield self.state
        yield from self.log.after(self.log.snapshot.index)


def encode(piece: Piece) -> bytes:
    """The bytes of a piece."""
    body: bytes = msgpack.packb(_array(piece))
    return body


def decode(body: bytes) -> Piece:
    """The piece of these bytes. Values behind those that are known are left out. Raises DamagedError."""
    try:
        match msgpack.unpackb(body):
            case ["state", int(epoch), vote, *_]:
                return State(epoch, None if vote is None else _voter(vote))
            case ["entry", int(index), int(epoch), bytes(records), voters, *_]:
                return Entry(index, epoch, records, None if voters is None else _voters(voters))
            case ["snapshot", int(index), int(epoch), voters, bytes(image), *_]:
                return Snapshot(index, epoch, _voters(voters), image)
            case other:
                raise DamagedError(f"no piece of a voter's journal, but {str(other)[:60]}")
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise DamagedError(f"no piece of a voter's journal: {error}") from error


def _array(piece: Piece) -> list[Any]:
    match piece:
        case State(epoch, vote):
            return ["state", epoch, vote and [vote.id, vote.directory]]
        case Entry(index, epoch, records, voters):
            return ["entry", index, epoch, records, None if voters is None else _pairs(voters)]
        case Snapshot(index, epoch, voters, image):
            return ["snapshot", index, epoch, _pairs(voters), image]


def _pairs(voters: Voters) -> list[list[Any]]:
    return [[each.id, each.directory] for each in voters]


def _voters(pairs: Any) -> Voters:
    return tuple(_voter(each) for each in pairs)


def _voter(pair: Any) -> VoterId:
    match pair:
        case [int(number), str(directory)]:
            return VoterId(number, directory)
        case other:
            raise DamagedError(f"no voter, but {str(other)[:60]}")
