"""A node: a disk, which may be lost, and on it a voter, whose process may die or stand still."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Protocol

from actors.controller.metadata.frames import frame, frames
from actors.quorum.durable import Journal, Piece, decode, encode
from actors.quorum.effects import BecameLeader, Committed, Effect, Persist, Resigned, Restored, Send
from actors.quorum.elections import Tuning
from actors.quorum.errors import QuorumError
from actors.quorum.log import Entry, Snapshot, VoterId
from actors.quorum.messages import Message
from actors.quorum.voter import Voter
from tests.sim.quorum.network import Network
from tests.sim.quorum.world import ViolationError, World

NODES = range(1, 7)


class Watcher(Protocol):
    """Told of each act of the nodes."""

    def sends(self, node: Node, send: Send) -> None: ...
    def writes(self, node: Node, piece: Piece) -> None: ...
    def has(self, node: Node, piece: Piece) -> None: ...
    def leads(self, node: Node, epoch: int) -> None: ...
    def applies(self, node: Node, entry: Entry, image: bytes) -> None: ...
    def restores(self, node: Node, snapshot: Snapshot) -> None: ...
    def looks(self) -> None: ...


class Disk:
    """A directory with a journal in it. Of the bytes that were not synced, a crash leaves any number of the first."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.synced = b""
        self.unsynced = b""

    def crash(self, world: World) -> None:
        self.synced += self.unsynced[: world.random.randint(0, len(self.unsynced))]
        self.unsynced = b""

    def read(self) -> Journal:
        journal, end = Journal(), 0
        for end, body in frames(self.synced):  # noqa: B007 - where the last one ends
            journal.apply(decode(body))
        self.synced = self.synced[:end]
        return journal


class Node:
    """`stands_still`: events of its process wait until it goes on."""

    def __init__(self, world: World, network: Network, watcher: Watcher, number: int) -> None:
        self.world = world
        self.id = number
        self._network = network
        self._watcher = watcher
        self._disks = 0
        self._process = 0
        self._waiting: list[Callable[[], None]] = []
        self.stands_still = False
        self.slow_until = 0.0
        self.up = False
        self.voter: Voter
        self.applied = 0
        self.image = b""
        self.empty_disk()
        network.join(number, self._arrived)

    @property
    def me(self) -> VoterId:
        return VoterId(self.id, self.disk.directory)

    # --- its process

    def empty_disk(self) -> None:
        self._disks += 1
        self.disk = Disk(f"{self.id}.{self._disks}")
        self.journal = Journal()  # all that was handed to the disk, written or not

    def begin_with(self, snapshot: Snapshot) -> None:
        """Have one of the first voters here, before it starts."""
        self.disk.synced = frame(encode(snapshot))

    def clock(self) -> float:
        return self.world.now + self._offset

    def start(self) -> None:
        self._process += 1
        self._offset = self.world.random.uniform(0, 1000)
        self.up, self.stands_still, self._waiting = True, False, []
        journal = self.disk.read()
        if self.world.random.random() < 0.3:  # the file is rewritten
            self.disk.synced = b"".join(frame(encode(piece)) for piece in journal.pieces())
        self.journal = self.disk.read()
        for piece in self.journal.pieces():
            self._watcher.has(self, piece)
        self._due = math.inf
        self.applied, self.image = journal.log.snapshot.index, journal.log.snapshot.image
        tuning = Tuning(self.world.random.random, most_entries=self.world.scenario.most_entries)
        self.voter = Voter(self.me, journal, tuning, self.clock(), NODES)
        self.world.say(f"{self.id} starts as {self.me.directory}")
        self._drive()

    def crash(self) -> None:
        if self.up:
            self._process += 1
            self.up = False
            self.disk.crash(self.world)
            self.world.say(f"{self.id} crashes")

    def stand_still(self, for_s: float) -> None:
        if self.up and not self.stands_still:
            self.stands_still = True
            self.world.say(f"{self.id} stands still")
            process = self._process
            self.world.after(for_s, lambda: self._go_on(process))

    def _go_on(self, process: int) -> None:
        if process == self._process and self.stands_still:
            self.stands_still = False
            self.world.say(f"{self.id} goes on")
            waiting, self._waiting = self._waiting, []
            self.world.random.shuffle(waiting)
            for each in waiting:
                self.happen(each)

    def happen(self, what: Callable[[], None]) -> None:
        """Have the process do something, and all that follows from it."""
        if not self.up:
            return
        if self.stands_still:
            self._waiting.append(what)
            return
        try:
            what()
            self._drive()
        except QuorumError as error:
            raise ViolationError("rules", f"node {self.id}: {error}") from error
        self._watcher.looks()

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        process = self._process

        def do() -> None:
            if process == self._process:
                self.happen(what)

        self.world.after(max(delay_s, 0), do)

    # --- the inputs and outputs of its voter

    def _arrived(self, sender: VoterId, to: VoterId, message: Message) -> None:
        self.happen(lambda: self.voter.on_message(sender, to, message, self.clock()))

    def _drive(self) -> None:
        for effect in self.voter.take():
            self._do(effect)
        if self.applied - self.voter.log.snapshot.index >= self.world.scenario.snapshot_every:
            self.world.note("snapshots")
            self.voter.compact(self.applied, self.image)
            for effect in self.voter.take():
                self._do(effect)
        due = self.voter.deadline()
        if due != self._due and due != math.inf:
            self._later(due - self.clock() + 1e-9, self._wake)
        self._due = due

    def _wake(self) -> None:
        if self.voter.deadline() <= self.clock():
            self.voter.on_time(self.clock())

    def _do(self, effect: Effect) -> None:
        match effect:
            case Persist(pieces):
                self._persist(pieces)
            case Send():
                self._watcher.sends(self, effect)
                self.world.say(f"{self.id} to {effect.to.id}: {effect.message}")
                self._network.send(self.me, effect)
            case Committed(entries):
                for entry in entries:
                    self.applied, self.image = entry.index, zlib.crc32(entry.records, _number(self.image)).to_bytes(4)
                    self._watcher.applies(self, entry, self.image)
            case Restored(snapshot):
                self.world.note("restored")
                self.applied, self.image = snapshot.index, snapshot.image
                self._watcher.restores(self, snapshot)
            case BecameLeader(epoch):
                self.world.say(f"{self.id} leads in epoch {epoch}")
                self._watcher.leads(self, epoch)
            case Resigned(epoch):
                self.world.note("resigned")
                self.world.say(f"{self.id} leads no more in epoch {epoch}")

    def _persist(self, pieces: tuple[Piece, ...]) -> None:
        for piece in pieces:
            self._watcher.writes(self, piece)
            self.journal.apply(piece)
        self.disk.unsynced = b"".join(frame(encode(piece)) for piece in pieces)

        def done() -> None:
            self.disk.synced += self.disk.unsynced
            self.disk.unsynced = b""
            for piece in pieces:
                self._watcher.has(self, piece)
            self.voter.on_persisted(self.clock())

        slow = self.world.now < self.slow_until
        self._later(self.world.random.uniform(0.0005, 0.6 if slow else 0.01), done)


def _number(image: bytes) -> int:
    return int.from_bytes(image)
