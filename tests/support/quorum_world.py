"""Logs of a quorum's voters in one process: files of their own, one clock that is put forward, and links to be cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.controller.metadata.frames import packed
from actors.controller.metadata.quorum_log import QuorumLog
from actors.controller.metadata.voter_file import VoterFile, open_voter_file
from actors.log.files import REAL_WRITER, FileWriter
from actors.quorum.durable import State
from actors.quorum.elections import Tuning
from actors.quorum.log import Snapshot, VoterId
from actors.quorum.messages import Message
from placement.metadata import ClusterMetadata
from placement.records import METADATA_LEVELS, ProducerIdsRecord, Record

IMAGE = ClusterMetadata("a cluster").image()


class QuorumWorld:
    """Nodes from 1 on. `voters` of them are the first voters; a node that is opened later only follows."""

    def __init__(self, folder: Path, voters: int, snapshot_every: int = 10_000) -> None:
        self._folder = folder
        self._snapshot_every = snapshot_every
        self.now = 100.0
        self.cut: set[int] = set()
        """Nodes that nobody hears and that hear nobody."""
        self.sent: list[Message] = []
        self.changes: list[tuple[int, str, str]] = []
        """Nodes whose leadership has begun or ended, with the cluster's id that was decided, and had committed."""
        self._under_way: deque[tuple[VoterId, VoterId, Message]] = deque()
        self.logs: dict[int, QuorumLog] = {}
        self.first = tuple(VoterId(node, f"directory {node}") for node in range(1, voters + 1))
        for each in self.first:
            file = self._file(each.id)
            file.write((State(), Snapshot(1, 0, self.first, packed(IMAGE, METADATA_LEVELS[-1]))))
            file.close()
            self.open(each.id)

    def _file(self, node: int, writer: FileWriter = REAL_WRITER) -> VoterFile:
        return open_voter_file(self._folder / str(node) / "metadata.log", lambda: f"directory {node}", writer)

    def open(self, node: int, writer: FileWriter = REAL_WRITER) -> QuorumLog:
        """Begin, or begin again, with what is on its disk."""
        if node in self.logs:
            self.logs[node].close()
        tuning = Tuning(lambda: node / 10)  # the first stands first
        self.logs[node] = QuorumLog(
            *(self._file(node, writer), node, tuning, lambda: self.now),
            lambda to, message: self._carry(node, to, message),
            lambda: self._changed(node),
            peers=[each.id for each in self.first],
            snapshot_every=self._snapshot_every,
        )
        return self.logs[node]

    def _changed(self, node: int) -> None:
        log = self.logs[node]
        self.changes.append((node, log.decided.cluster_id, log.committed.cluster_id))

    def _carry(self, node: int, to: VoterId, message: Message) -> None:
        self.sent.append(message)
        if node not in self.cut:
            self._under_way.append((VoterId(node, f"directory {node}"), to, message))

    def settle(self) -> None:
        """Have all that is under way arrive."""
        while self._under_way:
            sender, to, message = self._under_way.popleft()
            if to.id in self.logs and not self.cut & {to.id, sender.id}:
                self.logs[to.id].on_message(sender, to, message)

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self.now + seconds
        self.settle()
        while (due := min(log.deadline() for log in self.logs.values())) <= until:
            self.now = max(self.now, due)
            for log in self.logs.values():
                if log.deadline() <= self.now:
                    log.on_time()
            self.settle()
        self.now = until

    @property
    def leader(self) -> int:
        """The node that leads: one of those that are not cut off."""
        (found,) = [node for node, log in self.logs.items() if log.leads and node not in self.cut]
        return found

    def elected(self) -> QuorumLog:
        """One leads, and has committed something."""
        self.run(5)
        return self.logs[self.leader]

    def ids(self) -> dict[int, tuple[int, int]]:
        """By node, the producer ids that are decided, and those that have committed."""
        return {node: (log.decided.next_producer_id, log.committed.next_producer_id) for node, log in self.logs.items()}

    def close(self) -> None:
        for log in self.logs.values():
            log.close()


def ids(number: int) -> list[Record]:
    """A change that is easily told from another."""
    return [ProducerIdsRecord(number)]


@contextmanager
def quorum_worlds(folder: Path) -> Iterator[Callable[..., QuorumWorld]]:
    """Within the block, a function that makes quorums of so many voters."""
    made: list[QuorumWorld] = []

    def make(voters: int, **options: int) -> QuorumWorld:
        made.append(QuorumWorld(folder, voters, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
