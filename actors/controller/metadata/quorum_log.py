"""A log that the voters of a quorum agree on: records have committed when a majority of them has these on disk."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from actors import __version__
from actors.controller.metadata import frames
from actors.controller.metadata.commits import Commit, DecidedMetadata, NotControllerError
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.log import Failure, Snapshots, way_out
from actors.controller.metadata.voter_file import VoterFile
from actors.controller.others import NodeState
from actors.quorum.durable import Piece, State
from actors.quorum.effects import BecameLeader, Committed, Effect, Persist, Resigned, Restored, Send
from actors.quorum.elections import Tuning
from actors.quorum.errors import QuorumError
from actors.quorum.log import Entry, Snapshot, VoterId, Voters
from actors.quorum.messages import Message
from actors.quorum.replication import Follower
from actors.quorum.voter import Voter
from placement.arrays import ArrayError
from placement.metadata import ClusterMetadata, ControllerInfo
from placement.records import (
    METADATA_LEVELS,
    METADATA_VERSION,
    VERSIONED,
    MetadataImage,
    Record,
    RegisterControllerRecord,
    UnknownRecordError,
)

_LAYOUT: Final = VERSIONED
"""Entries and images have the layout of this level, which has been the same since."""
_FIRST: Final = 1


def new_cluster() -> MetadataImage:
    """The image that the log of a new cluster begins with: it has the newest level."""
    return ClusterMetadata(features={METADATA_VERSION: METADATA_LEVELS[-1]}, release=__version__).image()


def beginning(voter: VoterId, image: MetadataImage, epoch: int) -> tuple[Piece, ...]:
    """The journal of the first voter, whose log begins with an image, and who has led until `epoch`.

    The image counts as an entry, for one who joins later to be sent it.
    """
    return (State(epoch, voter), Snapshot(_FIRST, image.controller_epoch, (voter,), frames.packed(image, _LAYOUT)))


def found(file: VoterFile, node: int, image: MetadataImage) -> None:
    """Make a node the first voter of a cluster, unless its file has a log already. Raises OSError."""
    if file.read().log.last_index < _FIRST:
        file.write(beginning(VoterId(node, file.directory), image, image.controller_epoch))


class QuorumLog:
    """A `Log` (`metadata.log`) over one voter, whose `file` is that of `node`.

    Where the voter leads, records are decided at once, and commit when it says so: alone before `append` returns. Where
    it follows, only what has committed is decided. When it leads no more, what has not committed is dropped.

    A disk that refuses a write ends the log: nobody knows what is on it. So does an entry that this release cannot
    read. Another one can be made of the file, which is to be closed and opened again. After `snapshot_every` entries a
    snapshot takes their place.

    `send` has a message carried to another voter; it may get lost. `changed` is called when the voter begins or ceases
    to lead, when other settings have committed, and when the log has ended, but not for what is so from the start.
    After each call, `deadline` says when `on_time` is due. Opening raises OSError, and MetadataLogError if a newer
    release has written the file.

    `states` are handed in by one who goes on as the controller, in the epoch that the file has: nobody else can have
    that, because this process has had the file since, and is the only voter.
    """

    def __init__(
        self,
        file: VoterFile,
        node: int,
        tuning: Tuning,
        clock: Callable[[], float],
        send: Callable[[VoterId, Message], None] = lambda to, message: None,
        changed: Callable[[], None] = lambda: None,
        *,
        peers: Iterable[int] = (),
        snapshot_every: int = 10_000,
        states: DecidedMetadata | None = None,
    ) -> None:
        self._file = file
        self._clock = clock
        self._send = send
        self._changed: Callable[[], None] = lambda: None
        self._snapshot_every = snapshot_every
        self.states = states or DecidedMetadata(ClusterMetadata())
        self._snapshots: Snapshots = self.states
        self._effects: deque[Effect] = deque()
        self._waiting: deque[tuple[int, Commit]] = deque()  # the index of each decided entry, until it commits
        self._failure: Failure | None = None
        self._snapshot_offset = self.committed.version  # the number of records that are in the snapshot
        journal = file.read()
        if states is None:
            self._restore(journal.log.snapshot)
        else:
            self._applied = self._decided_to = journal.log.last_index
            journal.state = State(journal.state.epoch - 1)  # it stands once more in the epoch that it had
        self.me = VoterId(node, file.directory)
        self._voter = Voter(self.me, journal, tuning, clock(), peers)
        self._drive()
        if self._failure is not None:
            raise self._failure
        self._check_level()
        self.seen = self._controllers_in_log()
        """The controllers that the log told of at the start, whether that has committed or not."""
        self._changed = changed

    def _controllers_in_log(self) -> dict[int, ControllerInfo]:
        found = dict(self.decided.controllers)
        for entry in self._voter.log.after(self._applied):
            with suppress(MetadataLogError):  # it may never commit
                match self._content(entry.records) if entry.records else None:
                    case frames.Entry(_, _, records):
                        told = [each.controller for each in records if isinstance(each, RegisterControllerRecord)]
                        found |= {controller.id: controller for controller in told}
        return found

    # --- what it is ---

    @property
    def decided(self) -> ClusterMetadata:
        return self.states.decided

    @property
    def committed(self) -> ClusterMetadata:
        return self.states.committed

    @property
    def end(self) -> Commit:
        return self.states.end

    @property
    def next_epoch(self) -> int:
        return self._voter.epoch

    @property
    def leads(self) -> bool:
        """True if records can be appended here, as far as this voter knows."""
        return self._failure is None and self._voter.leads

    def leads_in(self, epoch: int) -> bool:
        return self.leads and self._voter.epoch == epoch

    @property
    def failure(self) -> Failure | None:
        return self._failure

    def confirms(self) -> bool:
        """True if it leads, and nobody else can by now."""
        return self._failure is None and self._voter.confirms(self._clock())

    @property
    def leader(self) -> VoterId | None:
        """The leader of the newest epoch, if this node knows it."""
        return self._voter.leader

    @property
    def committed_index(self) -> int:
        """The index of the last entry that has committed, as far as this voter knows."""
        return self._voter.committed

    @property
    def waiting(self) -> Sequence[tuple[int, Commit]]:
        """The entries that were decided and are not applied, oldest first: the index of each, and its commit."""
        return tuple(self._waiting)

    @property
    def voters(self) -> Voters:
        """The voters in force, by this node's log."""
        return self._voter.log.voters

    @property
    def has_settled_voters(self) -> bool:
        """True if the last change of voters has committed, as far as this node knows."""
        return self._voter.log.changed_at <= self._voter.committed

    @property
    def observers(self) -> list[VoterId]:
        """As the leader: the nodes that follow and have no vote."""
        return self._voter.observers

    def nodes(self) -> list[NodeState]:
        """As the leader: all nodes, the voters first. Else nothing."""
        now, voters = self._clock(), self.voters
        found = self._voter.followers()
        return [self._state(node, found[node], now) for node in sorted(found, key=lambda each: each not in voters)]

    def _state(self, node: VoterId, known: Follower, now: float) -> NodeState:
        if node == self.me:
            return NodeState(node, node in self.voters, True, self.decided.version, 0.0, 0.0)
        ages = [None if at == -math.inf else now - at for at in (known.acked_at, known.caught_up_at)]
        return NodeState(node, node in self.voters, False, self._offset_at(known.matched), *ages)

    def _offset_at(self, index: int) -> int:
        """The number of records up to an entry. Entries without records count as the one before them."""
        log = self._voter.log
        for at in range(index, log.snapshot.index, -1):
            if records := log.entry(at).records:
                match self._content(records):
                    case frames.Entry(_, int(before), found):
                        return before + len(found)
        return self._snapshot_offset if index >= log.snapshot.index else 0

    def change(self, after: Voters) -> None:
        """Have other voters, as the leader. Raises NotLeaderError, ChangeRefusedError."""
        self._have(lambda now: self._voter.change(after, now))

    def deadline(self) -> float:
        """The time at which `on_time` is due, by `clock`; infinite for one voter alone, and once the log has ended."""
        return self._voter.deadline() if self._failure is None else math.inf

    # --- what happens ---

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        """See `Log`. A disk that refuses the entry of these is an OSError, and the end of this log."""
        if not records:
            return self.end
        if not self.leads or epoch != self._voter.epoch:
            raise NotControllerError(f"the controller of epoch {epoch} does not lead its quorum: it decides nothing")
        body = frames.packed(frames.Entry(epoch, self.decided.version, tuple(records)), _LAYOUT)
        commit = self.states.decide(records)
        self._decided_to = self._voter.propose(body)
        self._waiting.append((self._decided_to, commit))
        self._drive()
        if self._failure is not None and not commit.done:
            raise self._failure
        return commit

    def on_message(self, sender: VoterId, to: VoterId, message: Message) -> None:
        """Another voter has said this to `to`."""
        if self._failure is None:
            self._have(lambda now: self._voter.on_message(sender, to, message, now))

    def on_time(self) -> None:
        """The deadline may have come."""
        if self._failure is None:
            self._have(self._voter.on_time)

    def close(self) -> None:
        self._file.close()

    # --- what the voter wants done ---

    def _have(self, happen: Callable[[float], object]) -> None:
        """Have the voter hear of something, and do what it wants done then. One whose log is wrong is none any more."""
        try:
            happen(self._clock())
        except QuorumError as error:
            self._fail(self._wrong(error))
        self._drive()

    def _drive(self) -> None:
        """Do all of it, in its order. Whoever is told of a commit may append: that comes after what is here already."""
        self._effects.extend(self._voter.take())
        while self._effects and self._failure is None:
            try:
                self._do(self._effects.popleft())
            except MetadataLogError as error:
                self._fail(error)
            except QuorumError as error:
                self._fail(self._wrong(error))
            self._effects.extend(self._voter.take())

    def _wrong(self, error: QuorumError) -> MetadataLogError:
        return MetadataLogError(f"{self._file.path}: {error}. This node must not vote with it any more")

    def _do(self, effect: Effect) -> None:
        match effect:
            case Persist(pieces):
                self._write(pieces)
            case Send(to, message):
                self._send(to, message)
            case Committed(entries):
                self._commit(entries)
            case Restored(snapshot):
                self._restore(snapshot)
            case BecameLeader():
                self._decide(self._voter.log.after(self._applied))
                self._changed()
            case Resigned():
                self._drop()

    def _write(self, pieces: Sequence[Piece]) -> None:
        try:
            self._file.write(pieces)
        except OSError as error:
            self._fail(error)
        else:
            self._voter.on_persisted(self._clock())

    def _fail(self, failure: Failure) -> None:
        """End: nothing that the voter still wants done is done."""
        self._failure = failure
        self._effects.clear()
        self._drop()

    def _drop(self) -> None:
        self._waiting.clear()
        self._decided_to = self._applied
        try:
            self.states.drop()
        finally:
            self._changed()

    def _decide(self, entries: Iterable[Entry]) -> None:
        """Decide what is in these entries, as far as that has not been done. An epoch's first one has no records."""
        for entry in entries:
            if entry.index > self._decided_to:
                self._decided_to = entry.index
                if entry.records:
                    self._waiting.append((entry.index, self.states.decide(self._records(entry))))

    def _records(self, entry: Entry) -> tuple[Record, ...]:
        match self._content(entry.records):
            case frames.Entry(_, self.decided.version, records):
                return records
            case other:
                at = f"entry {entry.index} after {self.decided.version} records"
                raise MetadataLogError(f"{self._file.path}: {at} is of no use: {str(other)[:60]}")

    def _commit(self, entries: Sequence[Entry]) -> None:
        self._decide(entries)
        self._applied = entries[-1].index
        committed: Commit | None = None
        while self._waiting and self._waiting[0][0] <= self._applied:
            committed = self._waiting.popleft()[1]
        if committed is not None:
            before = self.committed.settings
            self.states.commit(committed.index)
            if self.committed.settings is not before:
                self._changed()
        if self._applied - self._voter.log.snapshot.index >= self._snapshot_every:
            self._snapshot_offset = self.committed.version
            self._voter.compact(self._applied, frames.packed(self._snapshots.snapshot(), _LAYOUT))

    def _restore(self, snapshot: Snapshot) -> None:
        self._applied = self._decided_to = snapshot.index
        self._snapshot_offset = 0
        if snapshot.image:
            match self._content(snapshot.image):
                case MetadataImage() as image:
                    self._snapshots.restore(image)
                    self._snapshot_offset = image.version
                    self._changed()
                case other:
                    raise MetadataLogError(f"{self._file.path}: no snapshot, but {str(other)[:60]}")

    def _check_level(self) -> None:
        found, newest = self.decided.level, METADATA_LEVELS[-1]
        if found > newest:
            levels = f"has level {found}, and levels up to {newest} are known here"
            raise MetadataLogError(f"{self._file.path} {levels}. {way_out(self.decided.release, __version__)}")

    def _content(self, body: bytes) -> frames.Content:
        try:
            return frames.decode(body, _LAYOUT)
        except UnknownRecordError as error:
            way = way_out(self.decided.release, __version__)
            raise MetadataLogError(f"{self._file.path}: {error}. {way}") from error
        except ArrayError as error:
            raise MetadataLogError(f"{self._file.path} is of no use: {error}. Restore a copy of the file") from error
