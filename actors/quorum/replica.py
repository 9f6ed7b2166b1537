"""A voter's own copy of the log: what is put into it, by itself or by a leader, and how far all has committed."""

from __future__ import annotations

from actors.quorum.effects import Committed, Outbox, Restored, Then
from actors.quorum.errors import QuorumError
from actors.quorum.log import Entry, Log
from actors.quorum.messages import Append, Appended, InstallSnapshot, Taken


class Replica:
    """The log in memory is ahead of the one on disk; what is put here is persisted in that order."""

    def __init__(self, log: Log, out: Outbox) -> None:
        self.log = log
        self.committed = log.snapshot.index
        """Up to this index all has committed, as far as is known."""
        self._out = out

    def put(self, entry: Entry, then: Then | None = None) -> None:
        """Have an entry, and `then` do something when it is on disk."""
        self.log.put(entry)
        self._out.persist(entry, then)

    def commit(self, index: int) -> None:
        """All up to this index has committed."""
        if index > self.committed:
            self._out.tell(Committed(self.log.after(self.committed, index - self.committed)))
            self.committed = index

    def compact(self, index: int, image: bytes) -> None:
        """Have a snapshot instead of the entries up to this index."""
        if not self.log.snapshot.index < index <= self.committed:
            raise QuorumError(f"entry {index} is no end of a snapshot: {self.committed} have committed")
        snapshot = self.log.snapshot_at(index, image)
        self.log.begin_with(snapshot)
        self._out.persist(snapshot)

    def on_append(self, append: Append) -> Appended:
        """Take what the leader of this epoch has, and cut off what it does not have; the answer, once that is synced.

        If the logs differ before that, the answer says where they may be the same: where this one ends; and if there is
        another entry, where it is known that all has committed.
        """
        epoch, before = append.previous
        if before > self.log.snapshot.index and self.log.epoch_at(before) != epoch:
            index = self.log.last_index if before > self.log.last_index else self.committed
            return Appended(append.epoch, append.round, False, index)
        for entry in append.entries:
            if entry.index > self.log.snapshot.index and self.log.epoch_at(entry.index) != entry.epoch:
                if entry.index <= self.committed:
                    raise QuorumError(f"entry {entry.index} has committed, and the leader has another one")
                self.put(entry)
        end = before + len(append.entries)
        self.commit(min(append.committed, end))
        return Appended(append.epoch, append.round, True, end)

    def on_snapshot(self, message: InstallSnapshot) -> Taken:
        """Take the leader's snapshot, unless all of it is known to have committed; the answer, once it is synced."""
        snapshot = message.snapshot
        if snapshot.index > self.committed:
            self.log.begin_with(snapshot)
            self._out.persist(snapshot)
            self.committed = snapshot.index
            self._out.tell(Restored(snapshot))
        return Taken(message.epoch, message.round, snapshot.index)
