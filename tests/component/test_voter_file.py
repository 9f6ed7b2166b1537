"""N-C-01: the file of a voter. All that was written is there after any crash, and a lost file is another directory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest

from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import frame
from actors.controller.metadata.voter_file import open_voter_file
from actors.log.files import FileWriter
from actors.quorum.durable import Piece, State
from actors.quorum.effects import Persist
from actors.quorum.elections import Tuning
from actors.quorum.log import Entry, Snapshot, VoterId
from actors.quorum.voter import Voter
from tests.support.log_helpers import FullDisk

PIECES: list[Piece] = [State(1), Entry(1, 1, b"one"), Entry(2, 1, b"two"), Entry(2, 2, b"instead"), State(3)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller" / "voter.log"


@pytest.fixture
def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"directory-{next(numbers)}"


def pieces(path: Path) -> list[Piece]:
    file = open_voter_file(path, lambda: "new")
    file.close()
    return list(file.read().pieces())


def test_what_was_written_is_there_again_and_the_directory_is_the_same(path: Path, ids: Callable[[], str]) -> None:
    file = open_voter_file(path, ids)
    file.write(PIECES[:2])
    file.write(PIECES[2:])
    file.close()
    again = open_voter_file(path, ids)
    again.close()
    assert (file.directory, again.directory) == ("directory-1", "directory-1")
    expected = [Snapshot(), State(3), Entry(1, 1, b"one"), Entry(2, 2, b"instead")]
    assert list(again.read().pieces()) == list(file.read().pieces()) == expected


def test_a_lost_file_is_another_directory(path: Path, ids: Callable[[], str]) -> None:
    open_voter_file(path, ids).close()
    path.unlink()
    file = open_voter_file(path, ids)
    file.close()
    assert file.directory == "directory-2"
    assert list(file.read().pieces()) == [Snapshot(), State()]


@pytest.mark.conformance("N-C-01")
def test_an_end_torn_at_any_byte_leaves_what_was_synced_before(path: Path, ids: Callable[[], str]) -> None:
    file = open_voter_file(path, ids)
    file.write([State(1), Entry(1, 1, b"synced")])
    size, before = path.stat().st_size, list(file.read().pieces())
    file.write([Entry(2, 1, b"torn")])
    file.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole)):
        path.write_bytes(whole[:cut])
        assert pieces(path) == before
        assert path.stat().st_size == size


def test_what_is_read_is_the_readers_own(path: Path, ids: Callable[[], str]) -> None:
    file = open_voter_file(path, ids)
    file.read().log.put(Entry(1, 9))
    file.write([Entry(1, 1)])
    file.close()
    assert pieces(path) == [Snapshot(), State(), Entry(1, 1)]


def test_a_snapshot_takes_the_place_of_what_it_stands_for(path: Path, ids: Callable[[], str]) -> None:
    file = open_voter_file(path, ids)
    file.write([State(1), *(Entry(index, 1, bytes(1000)) for index in range(1, 50))])
    snapshot = Snapshot(48, 1, (VoterId(1, "directory-1"),), b"image")
    file.write([snapshot])
    assert path.stat().st_size < 2000
    file.write([Entry(50, 1, b"after")])
    file.close()
    assert pieces(path) == [snapshot, State(1), Entry(49, 1, bytes(1000)), Entry(50, 1, b"after")]


def test_a_snapshot_is_on_disk_though_the_file_cannot_be_rewritten(path: Path, ids: Callable[[], str]) -> None:
    class NoNewFile(FileWriter):
        syncs = 0

        def fsync(self, fd: int) -> None:
            self.syncs += 1
            if self.syncs == 4:  # header, entry, snapshot, the new file
                raise OSError(28, "no space left")
            super().fsync(fd)

    file = open_voter_file(path, ids, NoNewFile())
    file.write([Entry(1, 1)])
    snapshot = Snapshot(1, 1, (), b"image")
    file.write([snapshot])
    file.close()
    assert pieces(path) == [snapshot, State()]


def test_a_full_disk_takes_nothing_and_leaves_what_was_there(path: Path, ids: Callable[[], str]) -> None:
    disk = FullDisk()
    file = open_voter_file(path, ids, disk)
    file.write([Entry(1, 1)])
    disk.room = 5
    with pytest.raises(OSError, match="No space"):
        file.write([Entry(2, 1)])
    file.close()
    assert pieces(path) == list(file.read().pieces()) == [Snapshot(), State(), Entry(1, 1)]


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([["format", 6, "9.9", "d"]], "format 6"),
        ([["format", 4, "0.1.0"]], "no voter's journal"),
        ([["format", 5, "9.9", "d"], ["vote", 1]], "byte .* no piece"),
        ([["format", 5, "9.9", "d"], ["entry", 5, 1, b"", None]], "byte .* does not fit"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name_and_let_go(path: Path, frames: list[object], why: str) -> None:
    path.parent.mkdir()
    path.write_bytes(b"".join(frame(msgpack.packb(each)) for each in frames))
    with pytest.raises(MetadataLogError, match=why):
        open_voter_file(path, lambda: "new")
    path.unlink()
    open_voter_file(path, lambda: "new", lock_timeout_s=0).close()


def test_a_voter_alone_goes_on_where_it_was(path: Path, ids: Callable[[], str]) -> None:
    said = []
    for turn in range(3):
        file = open_voter_file(path, ids)
        me = VoterId(1, file.directory)
        if turn == 0:
            file.write([Snapshot(voters=(me,))])
        voter = Voter(me, file.read(), Tuning(lambda: 0.0), 0.0)
        for proposed in (False, True):
            if proposed:
                said.append(voter.propose(b"x"))
            while effects := voter.take():
                for effect in effects:
                    if isinstance(effect, Persist):
                        file.write(effect.pieces)
                        voter.on_persisted(0.0)
        assert (voter.epoch, voter.committed) == (turn + 1, said[-1])
        file.close()
    assert said == [2, 4, 6]
