"""The file in which a voter of the controller's quorum keeps its journal.

Its first frame says in which directory the log is: an id that is made with the file, and is lost with it. The others
are the pieces that `actors.quorum.durable` describes. A snapshot is appended like the rest, and on disk; then the file
is rewritten without what it stands for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgpack

from actors.controller.metadata.file import LogFile, MetadataLogError
from actors.controller.metadata.frames import frame
from actors.log.files import REAL_WRITER, FileWriter
from actors.quorum.durable import Journal, Piece, decode, encode
from actors.quorum.errors import DamagedError, QuorumError
from actors.quorum.log import Snapshot

log = logging.getLogger(__name__)

_FORMAT: Final = 1


class VoterFile:
    """A voter's journal on disk, which this process alone has.

    `new_directory` makes an id for an empty one. Opening raises MetadataLogError as `LogFile` does, and if the file was
    written by a newer release or is none of a voter.
    """

    def __init__(
        self,
        path: Path,
        new_directory: Callable[[], str],
        writer: FileWriter = REAL_WRITER,
        lock_timeout_s: float = 10.0,
    ) -> None:
        self.path = path
        self._file = LogFile(path, writer, lock_timeout_s)
        self._journal = Journal()
        try:
            (_, header), *pieces = self._file.read() or [(0, b"")]
            self.directory = _directory(path, header) if header else new_directory()
            for position, body in pieces:
                self._replay(f"{path}, byte {position}", body)
        except BaseException:
            self._file.give_up()
            raise
        self._file.open()
        if not header:
            self._file.append(self._header())

    def _replay(self, where: str, body: bytes) -> None:
        try:
            self._journal.apply(decode(body))
        except (DamagedError, QuorumError) as error:
            raise MetadataLogError(f"{where}: {error}. Restore a copy of the file") from error

    def read(self) -> Journal:
        """The journal that is on disk, for a voter to begin with."""
        journal = Journal()
        for piece in self._journal.pieces():
            journal.apply(piece)
        return journal

    def write(self, pieces: Sequence[Piece]) -> None:
        """Have these on disk. If it raises OSError, none of them is."""
        self._file.append(b"".join(frame(encode(piece)) for piece in pieces))
        for piece in pieces:
            self._journal.apply(piece)
        if any(isinstance(piece, Snapshot) for piece in pieces):
            self._shorten()

    def _shorten(self) -> None:
        try:
            self._file.replace(self._header() + b"".join(frame(encode(piece)) for piece in self._journal.pieces()))
        except OSError as error:
            log.warning("%s cannot be rewritten after a snapshot: %s", self.path, error)

    def _header(self) -> bytes:
        return frame(msgpack.packb(["voter", _FORMAT, self.directory]))

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        self._file.close()


def _directory(path: Path, header: bytes) -> str:
    match msgpack.unpackb(header):
        case ["voter", int(found), str(directory), *_] if found <= _FORMAT:
            return directory
        case ["voter", int(found), *_]:
            raise MetadataLogError(f"{path} has format {found}, and this version reads formats up to {_FORMAT}")
        case other:
            raise MetadataLogError(f"{path} is no voter's journal: it begins with {str(other)[:60]}")
