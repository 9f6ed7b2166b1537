"""The log of a controller that is the only one of its cluster, in the form that the metadata's level asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from actors.controller.metadata.commits import Commit, DecidedMetadata
from actors.controller.metadata.file import LogFile, MetadataLogError
from actors.controller.metadata.frames import Format, decode
from actors.controller.metadata.log import Failure, MetadataLog
from actors.controller.metadata.quorum_log import QuorumLog, beginning, found, new_cluster
from actors.controller.metadata.voter_file import VoterFile, turned_into_voter_file, voter_file_of
from actors.log.files import REAL_WRITER, FileWriter
from actors.quorum.elections import Tuning
from actors.quorum.log import VoterId
from actors.runtime.environment import REAL, new_uuid
from placement.arrays import ArrayError
from placement.metadata import ClusterMetadata
from placement.records import QUORUM, Record, UnknownRecordError

log = logging.getLogger(__name__)

_NODE: Final = 0
_ALONE: Final = Tuning(lambda: 0.0)


def _new_directory() -> str:
    return new_uuid(REAL.chance).hex


class SeveralVotersError(MetadataLogError):
    """The log is that of several controllers, so that one of them decides nothing alone."""


class StandaloneLog:
    """A `Log` (`metadata.log`) whose records have committed when they are on disk, before `append` returns.

    Up to level 4 of the metadata it is a `MetadataLog`, from level QUORUM on a `QuorumLog` of one voter, which has no
    timers and hence needs no clock. A new cluster has that at once.

    When the level is raised, a voter's journal takes the file's place: all of it at once, so that after a crash either
    is there. The raise has committed before; a file that cannot be replaced keeps its form, which is tried again after
    each change and at each start. Releases that do not know the level refuse both. The controller goes on in its epoch,
    which is the voter's from then on; each start begins a newer one.

    A disk that refuses a change has that raise OSError, and is tried again with the next one.
    """

    def __init__(
        self,
        path: Path,
        writer: FileWriter = REAL_WRITER,
        lock_timeout_s: float = 10.0,
        snapshot_every: int = 10_000,
        new_directory: Callable[[], str] = _new_directory,
    ) -> None:
        self._snapshot_every = snapshot_every
        self._new_directory = new_directory
        self._voter: VoterFile | None = None
        self._file = LogFile(path, writer, lock_timeout_s)
        self._log: MetadataLog | QuorumLog
        if _is_of_one_node(self._file):
            self._log = MetadataLog(path, snapshot_every=snapshot_every, file=self._file)
            self._turn(self.committed.controller_epoch)
        else:
            self._voter = voter_file_of(self._file, new_directory)
        if self._voter is not None:
            try:
                _check_alone(self._voter)
                found(self._voter, _NODE, new_cluster())
                self._log = self._led_by(self._voter)
            except BaseException:  # of a bug, too: the lock would stay with this process
                self.close()
                raise

    @property
    def decided(self) -> ClusterMetadata:
        return self._log.decided

    @property
    def committed(self) -> ClusterMetadata:
        return self._log.committed

    @property
    def end(self) -> Commit:
        return self._log.end

    @property
    def next_epoch(self) -> int:
        return self._log.next_epoch

    @property
    def leads(self) -> bool:
        return True

    def leads_in(self, epoch: int) -> bool:
        return epoch >= self.decided.controller_epoch

    @property
    def failure(self) -> Failure | None:
        return None

    def confirms(self) -> bool:
        return True

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        self._lead()
        commit = self._log.append(records, epoch)
        self._turn(epoch)
        try:
            self._lead()
        except OSError as error:
            log.warning("%s has to be gone on with at the next change: %s", self._file.path, error)
        return commit

    def close(self) -> None:
        self._file.close()

    def _turn(self, epoch: int) -> None:
        """Have a voter's journal in the place of the file of one node, if the level asks for that and it can be."""
        if self._voter is not None or self.committed.level < QUORUM:
            return
        directory = self._new_directory()
        pieces = beginning(VoterId(_NODE, directory), self.committed.image(), epoch)
        try:
            self._voter = turned_into_voter_file(self._file, directory, pieces)
        except OSError as error:
            log.warning("%s cannot be made a voter's yet: %s", self._file.path, error)

    def _lead(self) -> None:
        """Have the voter lead, if there is one: with a log of its own, or anew after its disk has refused something."""
        if self._voter is not None and not (isinstance(self._log, QuorumLog) and self._log.leads):
            self._log = self._led_by(self._voter, self._log.states)

    def _led_by(self, voter: VoterFile, states: DecidedMetadata | None = None) -> QuorumLog:
        return QuorumLog(*(voter, _NODE, _ALONE, _no_time), snapshot_every=self._snapshot_every, states=states)


def _check_alone(voter: VoterFile) -> None:
    sets = voter.read().log.sets_of_voters
    others = {each.id for voters in sets for each in voters} - {_NODE}
    if others:
        count = len(sets[-1])
        raise SeveralVotersError(
            f"{voter.path} is the log of one of {count} controllers, and other controllers have it, too: start the "
            f"cluster with all of them (--controllers {count + (count + 1) % 2}); its users can be set while it runs"
        )


def _no_time() -> float:
    return 0.0


def _is_of_one_node(file: LogFile) -> bool:
    """True if there is a file in a form from before there were voters. Damage in it is its reader's to report."""
    try:
        (_, first), *_ = file.read() or [(0, b"")]
        return bool(first) and not _is_header_of_voter(first)
    except BaseException:  # of a bug, too: the lock would stay with this process
        file.give_up()
        raise


def _is_header_of_voter(first: bytes) -> bool:
    try:
        content = decode(first, QUORUM)
    except (ArrayError, UnknownRecordError, ValueError):
        return False
    return isinstance(content, Format) and content.directory != ""
