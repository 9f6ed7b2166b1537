"""The log of the metadata's records: what the controller needs of one, and the one file on one node that it has."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from actors import __version__
from actors.controller.metadata.commits import Commit, DecidedMetadata, NotControllerError
from actors.controller.metadata.file import LogFile, MetadataLogError
from actors.controller.metadata.frames import Content, Entry, Format, decode, encode, fits
from actors.log.files import REAL_WRITER, FileWriter
from placement.arrays import ArrayError
from placement.metadata import ClusterMetadata
from placement.records import METADATA_LEVELS, METADATA_VERSION, QUORUM, MetadataImage, Record, UnknownRecordError

log = logging.getLogger(__name__)

LAYOUTS: Final = range(1, QUORUM)
"""The levels whose layouts the file of one node can have."""


Failure: TypeAlias = OSError | MetadataLogError
"""The reason why a log has ended: its disk has refused a write, or it has an entry that this release cannot read."""


class Log(Protocol):
    """The part of a log that the controller needs."""

    @property
    def decided(self) -> ClusterMetadata:
        """With all that was appended: what is decided next is made of it."""

    @property
    def committed(self) -> ClusterMetadata:
        """With all that has committed: what others are told is made of it."""

    @property
    def end(self) -> Commit:
        """The commit of all that was appended so far."""

    @property
    def next_epoch(self) -> int:
        """The epoch of a controller that begins now."""

    @property
    def leads(self) -> bool:
        """True if this node is the controller, as far as it knows: records can be appended here."""

    def leads_in(self, epoch: int) -> bool:
        """True if the controller that has begun in this epoch is still that, as far as this node knows."""

    @property
    def failure(self) -> Failure | None:
        """The reason why this log has ended. None while it can be used, and if a write can be tried again."""

    def confirms(self) -> bool:
        """True if it leads, and no other node can be the controller by now."""

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        """Decide records, as the controller of this epoch. They commit together, after all before them.

        Raises OSError if they cannot be written and NotControllerError if a newer epoch has begun. Whatever it raises,
        nothing was decided.
        """

    def close(self) -> None:
        """Give up the log."""


def way_out(release: str, own: str) -> str:
    """The advice about a log that has records not known here. `release` has written it; empty if nobody knows."""
    by = f"Coterie {release} wrote it" if release else "a newer version of Coterie wrote it"
    return f"{by}, and this is {own}: start that version, or a newer one"


class Snapshots(Protocol):
    """The owner of the state behind a log: it gives snapshots of it, and takes the one that a log begins with."""

    def snapshot(self) -> MetadataImage:
        """All that has committed."""

    def restore(self, image: MetadataImage) -> None:
        """Begin anew with a snapshot."""


class MetadataLog:
    """A log of one node: an append-only file, which is rewritten as a snapshot after `snapshot_every` entries.

    Records have committed when they are on disk, before `append` returns.

    Opening replays the file and cuts off a torn end. It raises MetadataLogError if a record before the end is damaged;
    if a layout, a kind of record or a version of one is newer than this release's; and if another process holds the
    log's lock for longer than `lock_timeout_s`.

    A file keeps the layout that it has (`frames`) until the metadata's level is raised, for the release that wrote it
    to be able to read it. A new one has the newest.

    The record that raises the level is the last entry of the old layout: with it the raise has committed. The file is
    rewritten after it. If that cannot be, it is tried again before each entry and at each start; until it has worked,
    entries have the old layout, and those that the old layout cannot hold are refused.

    From level QUORUM on a voter's journal takes the file's place. That is not done here: `standalone`, which does it,
    hands in the `file`.
    """

    def __init__(
        self,
        path: Path,
        writer: FileWriter = REAL_WRITER,
        lock_timeout_s: float = 10.0,
        snapshot_every: int = 10_000,
        release: str = __version__,
        file: LogFile | None = None,
    ) -> None:
        self.path = path
        self._release = release
        self._snapshot_every = snapshot_every
        self._states = DecidedMetadata(ClusterMetadata())
        self._snapshots: Snapshots = self._states
        self._level = LAYOUTS[-1]
        self._count = 0
        self._file = file or LogFile(path, writer, lock_timeout_s)
        try:
            for position, body in self._file.read():
                self._replay(position, body)
        except BaseException:  # of a bug, too: the lock would stay with this process
            self._file.give_up()
            raise
        self._file.open()
        if self._count == 0:
            self._begin()
        elif self._count > self._snapshot_every or self._lags:
            self._shorten()

    @property
    def decided(self) -> ClusterMetadata:
        return self._states.decided

    @property
    def committed(self) -> ClusterMetadata:
        return self._states.committed

    @property
    def end(self) -> Commit:
        return self._states.end

    @property
    def next_epoch(self) -> int:
        return self.decided.controller_epoch + 1

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

    @property
    def states(self) -> DecidedMetadata:
        """The states with which a log goes on that takes this one's place."""
        return self._states

    # --- a start ---

    def _begin(self) -> None:
        self._file.append(encode(Format(self._level, self._release), self._level))
        self._count = 1
        self._has_level(Format(self._level, self._release))

    def _replay(self, position: int, body: bytes) -> None:
        where = f"{self.path}, byte {position}"
        try:
            content = decode(body, 1 if self._count == 0 else self._level)
        except UnknownRecordError as error:
            raise MetadataLogError(f"{where}: {error}. {way_out(self.committed.release, self._release)}") from error
        except ArrayError as error:
            raise MetadataLogError(f"{where} is of no use: {error}. Restore a copy of the file") from error
        self._count += 1
        match content:
            case Format() if content.directory and content.level <= METADATA_LEVELS[-1]:
                raise MetadataLogError(f"{self.path} is the journal of a voter")
            case Format():
                self._has_level(content)
            case MetadataImage():
                self._snapshots.restore(replace(content, release=content.release or self.committed.release))
            case Entry():
                self._check_order(where, content)
                self._states.commit(self._states.decide(content.records).index)
        self._check_level()

    def _has_level(self, header: Format) -> None:
        self._level = header.level
        for metadata in (self.committed, self.decided):
            metadata.release = header.release
            if header.level > METADATA_LEVELS[0]:
                metadata.features[METADATA_VERSION] = header.level

    def _check_level(self) -> None:
        found, newest = max(self._level, self.committed.level), METADATA_LEVELS[-1]
        if found > newest:
            raise MetadataLogError(
                f"{self.path} has format {found}, but this version reads formats up to {newest}: start the version "
                "that wrote it, or a newer one"
            )

    def _check_order(self, where: str, entry: Entry) -> None:
        if entry.index is not None and entry.index != self.committed.version:
            raise MetadataLogError(
                f"{where}: an entry after {entry.index} records, but {self.committed.version} come before it. "
                "Restore a copy of the file"
            )
        if entry.epoch is not None and entry.epoch < self.committed.controller_epoch:
            raise MetadataLogError(
                f"{where}: an entry of the controller epoch {entry.epoch} after epoch "
                f"{self.committed.controller_epoch}. Restore a copy of the file"
            )

    # --- changes ---

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        """See `Log`. The records are one frame: after a loss of power either all of them are there or none."""
        if not records:
            return self.end
        if epoch < self.decided.controller_epoch:
            newer = self.decided.controller_epoch
            raise NotControllerError(f"a controller of epoch {newer} has begun: that of epoch {epoch} decides nothing")
        if self._lags:
            self._catch_up(records)
        entry, layout = Entry(epoch, self.decided.version, tuple(records)), self._layout
        commit = self._states.decide(records)
        try:
            self._file.append(encode(entry, self._level))
        except BaseException:  # Ctrl-C, too: what the file lacks was not decided
            self._states.take_back()
            raise
        self._count += 1
        self._states.commit(commit.index)
        if self._layout > layout or self._count % self._snapshot_every == 0:
            self._shorten()  # if it fails, the next try comes after as many entries
        return commit

    @property
    def _layout(self) -> int:
        """The level whose layout the file is to have."""
        return min(self.committed.level, LAYOUTS[-1])

    @property
    def _lags(self) -> bool:
        """True if the file still has the layout of a lower level."""
        return self._level < self._layout

    def _catch_up(self, records: Sequence[Record]) -> None:
        """Give the file the layout of the metadata's level. Raises OSError if that fails and these records need it."""
        try:
            self._rewrite()
        except OSError as error:
            if not all(fits(record, self._level) for record in records):
                raise
            log.warning("%s keeps the layout of level %d: %s", self.path, self._level, error)

    def _shorten(self) -> None:
        """Rewrite the file if that can be. Appended records have committed, whatever becomes of this."""
        try:
            self._rewrite()
        except Exception as error:  # of a bug, too
            log.warning("%s cannot be rewritten as a snapshot: %s", self.path, error)

    def _rewrite(self) -> None:
        """Have a snapshot instead of all entries, in the layout of the metadata's level."""
        level = max(self._level, self._layout)
        contents: tuple[Content, ...] = (Format(level, self._release), self._snapshots.snapshot())
        self._file.replace(b"".join(encode(each, level) for each in contents))
        self._level, self._count = level, len(contents)

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        self._file.close()
