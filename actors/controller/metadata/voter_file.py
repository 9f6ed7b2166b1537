"""The file in which a voter of the controller's quorum keeps its journal.

Its first frame says in which directory the log is (`frames.Format`): an id that is made with the file, and is lost with
it. The others are the pieces that `actors.quorum.durable` describes. A snapshot is appended like the rest, and on disk;
then the file is rewritten without what it stands for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from actors import __version__
from actors.controller.metadata.file import LogFile, MetadataLogError
from actors.controller.metadata.frames import Format, frame
from actors.controller.metadata.frames import decode as decode_frame
from actors.controller.metadata.frames import encode as encode_frame
from actors.log.files import REAL_WRITER, FileWriter
from actors.quorum.durable import Journal, Piece, decode, encode
from actors.quorum.errors import DamagedError, QuorumError
from actors.quorum.log import Snapshot
from placement.arrays import ArrayError
from placement.records import QUORUM, UnknownRecordError

log = logging.getLogger(__name__)


class VoterFile:
    """A voter's journal on disk, which this process alone has: `journal` is what `file` has, which is open."""

    def __init__(self, file: LogFile, directory: str, journal: Journal) -> None:
        self.path = file.path
        self.directory = directory
        self._file = file
        self._journal = journal

    def read(self) -> Journal:
        """The journal that is on disk, for a voter to begin with."""
        return journal_of(self._journal.pieces())

    def write(self, pieces: Sequence[Piece]) -> None:
        """Have these on disk. If it raises OSError, none of them is."""
        self._file.append(b"".join(frame(encode(piece)) for piece in pieces))
        for piece in pieces:
            self._journal.apply(piece)
        if any(isinstance(piece, Snapshot) for piece in pieces):
            self._shorten()

    def _shorten(self) -> None:
        try:
            self._file.replace(_whole(self.directory, self._journal.pieces()))
        except OSError as error:
            log.warning("%s cannot be rewritten after a snapshot: %s", self.path, error)

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        self._file.close()


def open_voter_file(
    path: Path, new_directory: Callable[[], str], writer: FileWriter = REAL_WRITER, lock_timeout_s: float = 10.0
) -> VoterFile:
    """Open a file, or make one. `new_directory` makes an id for an empty one.

    Raises MetadataLogError as `LogFile` does, and if the file was written by a newer release or is none of a voter.
    """
    return voter_file_of(LogFile(path, writer, lock_timeout_s), new_directory)


def voter_file_of(file: LogFile, new_directory: Callable[[], str]) -> VoterFile:
    """The same of a file that is not open yet. It is given up if that fails."""
    try:
        (_, header), *pieces = file.read() or [(0, b"")]
        directory = _directory(file.path, header) if header else new_directory()
        journal = Journal()
        for position, body in pieces:
            _replay(journal, f"{file.path}, byte {position}", body)
    except BaseException:  # of a bug, too: the lock would stay with this process
        file.give_up()
        raise
    file.open()
    if not header:
        file.append(_whole(directory, ()))
    return VoterFile(file, directory, journal)


def turned_into_voter_file(file: LogFile, directory: str, pieces: Sequence[Piece]) -> VoterFile:
    """Have a journal of these pieces instead of all that is in an open file. If it raises OSError, that stays."""
    file.replace(_whole(directory, pieces))
    return VoterFile(file, directory, journal_of(pieces))


def journal_of(pieces: Iterable[Piece]) -> Journal:
    """The journal that pieces add up to."""
    journal = Journal()
    for piece in pieces:
        journal.apply(piece)
    return journal


def _whole(directory: str, pieces: Iterable[Piece]) -> bytes:
    header = encode_frame(Format(QUORUM, __version__, directory), QUORUM)
    return header + b"".join(frame(encode(piece)) for piece in pieces)


def _replay(journal: Journal, where: str, body: bytes) -> None:
    try:
        journal.apply(decode(body))
    except (DamagedError, QuorumError) as error:
        raise MetadataLogError(f"{where}: {error}. Restore a copy of the file") from error


def _directory(path: Path, header: bytes) -> str:
    try:
        content = decode_frame(header, QUORUM)
    except (ArrayError, UnknownRecordError) as error:
        raise MetadataLogError(f"{path} is no voter's journal: {error}") from error
    if isinstance(content, Format) and content.level > QUORUM:
        raise MetadataLogError(
            f"{path} has format {content.level}, but this version reads formats up to {QUORUM}: start the version that "
            "wrote it, or a newer one"
        )
    if not isinstance(content, Format) or not content.directory:
        raise MetadataLogError(f"{path} is no voter's journal: it begins with {str(content)[:60]}")
    return content.directory
