"""N-C-01: what lies on disk is what was there, piece by piece."""

from __future__ import annotations

import msgpack
import pytest

from actors.quorum.durable import Journal, Piece, State, decode, encode
from actors.quorum.errors import DamagedError, QuorumError
from actors.quorum.log import Entry, Snapshot
from tests.support.voters import A, B, C

PIECES: list[Piece] = [
    Snapshot(4, 2, (A, B, C), b"image"),
    Snapshot(),
    State(7, B),
    State(7),
    Entry(5, 3, b"records"),
    Entry(6, 3, b"", (A, B)),
    Entry(7, 1 << 40),
]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: str(piece)[:30])
def test_a_piece_is_read_as_it_was_written(piece: Piece) -> None:
    assert decode(encode(piece)) == piece


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: str(piece)[:30])
def test_what_a_newer_release_adds_at_the_end_is_left_out(piece: Piece) -> None:
    assert decode(msgpack.packb([*msgpack.unpackb(encode(piece)), "new"])) == piece


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb("state"),
        msgpack.packb(["state", "7", None]),
        msgpack.packb(["state", 7, [1]]),
        msgpack.packb(["entry", 1, 1, "text", None]),
        msgpack.packb(["entry", 1, 1, b"", 3]),
        msgpack.packb(["snapshot", 1, 1, None, b""]),
        msgpack.packb(["vote", 1]),
    ],
)
def test_anything_else_is_damage(body: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(body)


def test_a_journal_gives_the_newest_of_all() -> None:
    journal = Journal()
    for piece in (
        Snapshot(voters=(A,)),
        *(State(1, A), Entry(1, 1), Entry(2, 1, b"lost"), Entry(3, 1, voters=(A, B))),
        *(State(2), Entry(2, 2, b"kept"), Entry(3, 2), Snapshot(1, 1, (A,), b"one")),
    ):
        journal.apply(piece)
    assert list(journal.pieces()) == [
        *(Snapshot(1, 1, (A,), b"one"), State(2), Entry(2, 2, b"kept"), Entry(3, 2)),
    ]
    assert journal.log.voters == (A,)


@pytest.mark.parametrize("index", [0, 1, 4])
def test_an_entry_that_does_not_follow_is_no_journal(index: int) -> None:
    journal = Journal()
    journal.apply(Snapshot(1, 1))
    journal.apply(Entry(2, 1))
    with pytest.raises(QuorumError):
        journal.apply(Entry(index, 1))


def test_entries_are_found_by_index_and_nothing_is_known_outside() -> None:
    journal = Journal()
    for piece in (Snapshot(2, 1), Entry(3, 2), Entry(4, 3)):
        journal.apply(piece)
    log = journal.log
    assert [log.epoch_at(index) for index in (1, 2, 3, 4, 5)] == [-1, 1, 2, 3, -1]
    assert log.after(2, 1) == (Entry(3, 2),)
    for index in (2, 5):
        with pytest.raises(QuorumError):
            log.entry(index)
