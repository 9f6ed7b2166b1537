"""A voter's log in memory: a snapshot, and the entries after it. The set of voters is part of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from actors.quorum.errors import QuorumError


@dataclass(frozen=True, slots=True)
class VoterId:
    """One voter: a node's id, and the id of the directory that has its log (KIP-853).

    A node that comes back with an empty directory is another voter: what it had said before, it does not know.
    """

    id: int
    directory: str


Voters: TypeAlias = tuple[VoterId, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry commits as a whole. `records` are bytes that mean nothing here; the first entry of an epoch has none.

    `voters`: the set of voters from this entry on, if this is a change of it.
    """

    index: int
    epoch: int
    records: bytes = b""
    voters: Voters | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot stands for all entries up to `index`, which is the index of the last of them, and `epoch` its epoch.

    `voters` is the set in force after it, and `image` what the records add up to.
    """

    index: int = 0
    epoch: int = 0
    voters: Voters = ()
    image: bytes = b""


class Log:
    """A snapshot and entries. Indices count from 1, without a gap; the snapshot at index 0 is that of an empty log.

    A change of voters is in force from the moment it is in the log, committed or not.
    """

    def __init__(self, snapshot: Snapshot | None = None, entries: Iterable[Entry] = ()) -> None:
        self.snapshot = snapshot or Snapshot()
        self._entries: list[Entry] = []
        self._changes: list[tuple[int, Voters]] = [(self.snapshot.index, self.snapshot.voters)]
        for entry in entries:
            self.put(entry)

    @property
    def last_index(self) -> int:
        """The index of the last entry."""
        return self.snapshot.index + len(self._entries)

    @property
    def end(self) -> tuple[int, int]:
        """The epoch and the index of the last entry. The greater of two is that of the log that is more up to date."""
        return (self._entries[-1].epoch if self._entries else self.snapshot.epoch, self.last_index)

    @property
    def voters(self) -> Voters:
        """The set of voters in force."""
        return self._changes[-1][1]

    @property
    def changed_at(self) -> int:
        """The index from which on they are the voters, or of the snapshot if it is not known any more."""
        return self._changes[-1][0]

    @property
    def sets_of_voters(self) -> Sequence[Voters]:
        """All sets there have been since the snapshot, the one in force last."""
        return [voters for _, voters in self._changes]

    def voters_at(self, index: int) -> Voters:
        """The set of voters after the entry of this index, which is not before the snapshot."""
        return next(voters for at, voters in reversed(self._changes) if at <= index)

    def entry(self, index: int) -> Entry:
        """The entry of this index. Raises QuorumError if there is none, or only in the snapshot."""
        if not self.snapshot.index < index <= self.last_index:
            raise QuorumError(f"no entry {index} in a log from {self.snapshot.index} to {self.last_index}")
        return self._entries[index - self.snapshot.index - 1]

    def after(self, index: int, most: int | None = None) -> tuple[Entry, ...]:
        """The entries after this index, at most so many. The index is not before the snapshot's."""
        first = index - self.snapshot.index
        return tuple(self._entries[first : None if most is None else first + most])

    def epoch_at(self, index: int) -> int:
        """The epoch of an entry, or of the snapshot's last one; -1 where nothing is known."""
        if index == self.snapshot.index:
            return self.snapshot.epoch
        return self.entry(index).epoch if self.snapshot.index < index <= self.last_index else -1

    def put(self, entry: Entry) -> None:
        """Have an entry at its index. Those that were there and after it are cut off."""
        if not self.snapshot.index < entry.index <= self.last_index + 1:
            raise QuorumError(f"entry {entry.index} does not fit a log from {self.snapshot.index} to {self.last_index}")
        del self._entries[entry.index - self.snapshot.index - 1 :]
        while self._changes[-1][0] >= entry.index:
            self._changes.pop()
        self._entries.append(entry)
        if entry.voters is not None:
            self._changes.append((entry.index, entry.voters))

    def snapshot_at(self, index: int, image: bytes) -> Snapshot:
        """A snapshot of the entries up to this one, whose records add up to `image`."""
        return Snapshot(index, self.entry(index).epoch, self.voters_at(index), image)

    def begin_with(self, snapshot: Snapshot) -> None:
        """Have a snapshot instead of entries. Those after it stay, if this log has the snapshot's last entry."""
        fits = self.epoch_at(snapshot.index) == snapshot.epoch
        self._entries = list(self.after(snapshot.index)) if fits else []
        later = [change for change in self._changes if fits and change[0] > snapshot.index]
        self._changes = [(snapshot.index, snapshot.voters), *later]
        self.snapshot = snapshot
