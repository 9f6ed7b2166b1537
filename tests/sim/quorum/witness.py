"""The invariants, which hold whatever fails. The witness sees every disk and every message, and knows the true time.

`one-vote`: a voter gives one vote in an epoch. `one-controller`: one voter leads in an epoch. `logs-agree`: entries of
one index and one epoch are the same, and so is all before them. `nothing-uncommitted-told`: an entry that is told as
committed is on the disks of a majority. `committed-survives`: an entry once told as committed is told by everybody, and
every leader has it. `deposed-confirms-nobody`: while a voter confirms, nobody has been elected after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from actors.quorum.durable import Piece
from actors.quorum.effects import Send
from actors.quorum.log import Entry, Snapshot, VoterId, Voters
from actors.quorum.messages import Vote, Voted
from tests.sim.quorum.node import Node
from tests.sim.quorum.world import ViolationError, World


class Witness:
    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: list[Node] = []
        self.hear_of_elections: list[Callable[[Node], None]] = []
        self.told: list[Entry] = []
        self._images: list[bytes] = []
        self.leaders: dict[int, str] = {}
        self._votes: dict[tuple[str, int], str] = {}
        self._written: dict[tuple[int, int], tuple[bytes, Voters | None, int]] = {}
        self._disks: defaultdict[tuple[int, int], set[str]] = defaultdict(set)

    def fail(self, invariant: str, text: str) -> None:
        raise ViolationError(invariant, f"{text}, at {self._world.now:.3f} s")

    def sends(self, node: Node, send: Send) -> None:
        match send.message:
            case Vote(epoch, _, False):
                self._vote(node.me, epoch, node.me)
            case Voted(_, asked, False, True):
                self._vote(node.me, asked, send.to)

    def _vote(self, voter: VoterId, epoch: int, candidate: VoterId) -> None:
        other = self._votes.setdefault((voter.directory, epoch), candidate.directory)
        if other != candidate.directory:
            self.fail("one-vote", f"{voter.directory} votes for {other} and {candidate.directory} in epoch {epoch}")

    def writes(self, node: Node, piece: Piece) -> None:
        match piece:
            case Entry(index, epoch, records, voters):
                said = records, voters, node.journal.log.epoch_at(index - 1)
                if self._written.setdefault((index, epoch), said) != said:
                    self.fail("logs-agree", f"there are two entries {index} of epoch {epoch}")
            case Snapshot(index, _, _, image) if index > len(self.told) or image != self._images[index - 1]:
                self.fail("logs-agree", f"the snapshot of {node.id} up to {index} has another image")

    def has(self, node: Node, piece: Piece) -> None:
        if isinstance(piece, Entry):
            self._disks[piece.index, piece.epoch].add(node.me.directory)

    def leads(self, node: Node, epoch: int) -> None:
        self._world.note("elections")
        if epoch in self.leaders:
            self.fail("one-controller", f"{self.leaders[epoch]}, and then {node.me.directory}, leads in epoch {epoch}")
        self.leaders[epoch] = node.me.directory
        log = node.voter.log
        for entry in self.told[log.snapshot.index :]:
            if entry.index > log.last_index or log.entry(entry.index) != entry:
                self.fail("committed-survives", f"{node.id} leads in epoch {epoch} without entry {entry.index}")
        for hear in self.hear_of_elections:
            hear(node)

    def applies(self, node: Node, entry: Entry, image: bytes) -> None:
        if entry.index <= len(self.told):
            if self.told[entry.index - 1] != entry or self._images[entry.index - 1] != image:
                self.fail("committed-survives", f"{node.id} is told another entry {entry.index}")
            return
        have = self._disks[entry.index, entry.epoch]
        voters = node.voter.log.voters
        if entry.index > len(self.told) + 1 or 2 * sum(v.directory in have for v in voters) <= len(voters):
            self.fail("nothing-uncommitted-told", f"{node.id} is told entry {entry.index}, which {sorted(have)} have")
        self._world.note("committed")
        self.told.append(entry)
        self._images.append(image)

    def restores(self, node: Node, snapshot: Snapshot) -> None:
        if snapshot.index > len(self.told) or snapshot.image != self._images[snapshot.index - 1]:
            self.fail("logs-agree", f"{node.id} takes a snapshot up to {snapshot.index} that has another image")

    def looks(self) -> None:
        newest = max(self.leaders, default=0)
        for node in self.nodes:
            if node.up and not node.stands_still and node.voter.epoch < newest and node.voter.confirms(node.clock()):
                self.fail("deposed-confirms-nobody", f"{node.id} confirms in epoch {node.voter.epoch} after {newest}")
