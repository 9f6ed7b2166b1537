"""A broker of the replication simulator: the real rules of leaders and followers, on a log in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from actors.links.operations import AlterPartitions, ProposedIsr
from actors.log.replication import Ack, FollowerReplica, LeaderReplica, Push
from placement.metadata import ClusterMetadata, PartitionInfo
from tests.support.replica_log import MemoryLog

if TYPE_CHECKING:
    from tests.support.replication_simulator import World

TOPIC_ID = b"t" * 16
LEASE_MS = 600
LAG_MS = 900
TICK_MS = 50
RETRY_MS = 200
REFUSED_RETRY_MS = 100
PRODUCE_TIMEOUT_MS = 1500


class ViolationError(AssertionError):
    """An invariant does not hold; its name is the first word."""


@dataclass(slots=True)
class Waiting:
    """A produce request that waits for the watermark."""

    value: bytes
    base: int
    next_offset: int
    deadline_ms: int


class SimBroker:
    """A broker's process, and the state that outlives it."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.log = MemoryLog()
        self.epoch = -1
        self.running = False
        self.stopped = False
        self.connected = False
        self._intact = True
        self._reset()

    def _reset(self) -> None:
        self.metadata: ClusterMetadata | None = None
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.waiting: list[Waiting] = []
        self._links: dict[int, int] = {}  # follower -> its process, as connected to
        self._last_confirmed = -(1 << 30)
        self._buffered: list[Callable[[], None]] = []
        self._heard_at = 0
        self._link_cut_until = 0
        self._pongs: dict[int, int] = {}

    # -- life

    def start(self) -> None:
        self.running, self.stopped = True, False
        self.epoch += 1
        self._reset()
        self.log.high_watermark = min(self.log.high_watermark, self.log.log_end_offset)
        self.follower = FollowerReplica(self.log, -1)
        self.world.say(f"broker {self.id} starts, process {self.epoch}, intact {self._intact}")
        self._connect(self.epoch)
        self._tick(self.epoch)

    def _connect(self, process: int) -> None:
        if self.running and process == self.epoch and not self.connected:
            self.connected = True
            self._heard_at = self.world.now_ms
            intact = self._intact
            self._ask(process, lambda: self.world.controller.register(self, process, intact))

    def registered(self, process: int) -> None:
        """The controller knows now of records lost before this process began; the process loses none itself."""
        if self.running and process == self.epoch:
            self._intact = True

    def crash(self, *, machine: bool = False) -> None:
        self.world.say(f"broker {self.id} crashes{' with its machine' if machine else ''}")
        process = self.epoch
        self.running = self.connected = False
        self._intact = not machine  # a process's death loses nothing that was written
        if machine:
            end = self.world.random.randint(self.log.flushed, self.log.log_end_offset)
            self.log.tear(end)
            self.world.torn = self.id
        # A dead machine does not close its connections: silence has to be noticed.
        notice = self.world.random.randint(LEASE_MS, 2 * LEASE_MS) if machine else self.world.random.randint(1, 30)
        self.world.after(notice, lambda: self.world.controller.lost(self.id, process))
        for other in self.world.brokers:
            self.world.after(notice // 2, lambda other=other: other.link_lost(self.id, process))
        self.world.after(self.world.random.randint(50, 2500), self._revive)

    def _revive(self) -> None:
        if not self.running:
            self.start()

    def stop_for_a_while(self) -> None:
        """SIGSTOP, and SIGCONT later: messages that arrive meanwhile wait in the sockets."""
        self.world.say(f"broker {self.id} is stopped")
        self.stopped = True
        self.world.after(self.world.random.randint(50, 2500), self.go_on)

    def go_on(self) -> None:
        if self.stopped:
            self.world.say(f"broker {self.id} goes on")
            self.stopped = False
            buffered, self._buffered = self._buffered, []
            for action in buffered:
                action()

    def cut_controller(self) -> None:
        """The connection to the controller breaks, both see it, and the broker finds back."""
        process = self.epoch
        if self.connected:
            self.connected = False
            if self.leader is not None:
                self.leader.outcome_unknown(self.leader.partition_epoch)
            self.world.after(5, lambda: self.world.controller.lost(self.id, process))
            self.world.after(self.world.random.randint(20, 1500), lambda: self._connect(process))

    def expelled(self, process: int) -> None:
        """The controller hangs up on a silent broker."""

        def hung_up() -> None:
            if self.connected and process == self.epoch:
                self.connected = False
                if self.leader is not None:
                    self.leader.outcome_unknown(self.leader.partition_epoch)
                self.world.after(20, lambda: self._connect(process))

        self.deliver(process, hung_up)

    def cut_links(self) -> None:
        self.world.say(f"broker {self.id} loses its links")
        self._link_cut_until = self.world.now_ms + self.world.random.randint(50, 2000)
        for other in list(self._links):
            self.link_lost(other, self._links[other])
        for other in self.world.brokers:
            other.link_lost(self.id, self.epoch)

    def heal(self) -> None:
        self.go_on()
        self._link_cut_until = 0

    # -- messages

    def deliver(self, process: int, action: Callable[[], None]) -> None:
        """Run `action` in this process, if it still is; later if it is stopped."""

        def act() -> None:
            if self.running and self.epoch == process:
                action()

        if self.stopped:
            self._buffered.append(act)
        else:
            act()

    def hear(self, process: int, action: Callable[[], None]) -> None:
        """Something from the controller, in order."""
        at = max(self.world.now_ms + self.world.random.randint(1, 40), self._heard_at)
        self._heard_at = at
        self.world.after(at - self.world.now_ms, lambda: self.deliver(process, action))

    def _ask(self, process: int, action: Callable[[], None]) -> None:
        self.world.after(self.world.random.randint(1, 20), action)

    # -- metadata

    def apply(self, image: ClusterMetadata) -> None:
        if self.metadata is not None and image.version < self.metadata.version:
            return
        self.metadata = image
        partition = image.partition("t", 0)
        assert partition is not None
        now = self.world.now_ms
        if partition.leader == self.id:
            current = self.leader
            seen = self.follower.epoch if self.follower is not None else -1
            if current is not None and current.leader_epoch == partition.leader_epoch:
                current.update(
                    partition.replicas, partition.isr, partition.partition_epoch, self.world.min_insync, now, 0
                )
            elif seen <= partition.leader_epoch:
                self._lead(partition)
        elif self.leader is not None or self.follower is None:
            self._follow(partition.leader_epoch)
        elif self.follower is not None:
            self.follower.epoch = max(self.follower.epoch, partition.leader_epoch)
        self._acknowledge()
        self._send()

    def _lead(self, partition: PartitionInfo) -> None:
        self.world.say(f"broker {self.id} leads at epoch {partition.leader_epoch} from {self.log.log_end_offset}")
        self.follower, self.waiting = None, []
        self.leader = LeaderReplica(
            self.id,
            self.log,
            leader_epoch=partition.leader_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
            partition_epoch=partition.partition_epoch,
            min_insync=self.world.min_insync,
            now_ms=self.world.now_ms,
            unclean=False,
            added_at=0,
            rounds=count(1),
        )
        for follower, process in self._links.items():
            self.leader.connect(follower, process, self.world.now_ms)

    def _follow(self, epoch: int) -> None:
        self.leader, self.waiting = None, []
        self.follower = FollowerReplica(self.log, epoch)

    # -- leading

    def serves(self) -> bool:
        if not self.running or self.stopped or self.leader is None or self.leader.deposed:
            return False
        alone = self.leader.isr == {self.id}
        return alone or self.world.now_ms - self._last_confirmed < LEASE_MS

    def produce(self, value: bytes) -> None:
        assert self.leader is not None
        if len(self.leader.isr) < self.world.min_insync:
            return
        count = self.world.random.randint(1, 3)
        base = self.log.append([value] * count, self.leader.leader_epoch)
        self.waiting.append(Waiting(value, base, base + count, self.world.now_ms + PRODUCE_TIMEOUT_MS))
        self.leader.advance()
        self._acknowledge()
        self._send()

    def _acknowledge(self) -> None:
        """Answer those whose records have committed."""
        leader = self.leader
        while leader is not None and self.waiting and self.waiting[0].next_offset <= self.log.high_watermark:
            done = self.waiting.pop(0)
            if done.deadline_ms >= self.world.now_ms and len(leader.isr) >= self.world.min_insync:
                for offset in range(done.base, done.next_offset):
                    self.world.acknowledged[offset] = done.value

    def _send(self, idle: bool = False) -> None:
        leader = self.leader
        if leader is None:
            return
        for follower, process in self._links.items():
            while (push := leader.take_push(follower, 400, self.world.now_ms, idle=idle)) is not None:
                self._push(follower, process, push)

    def _push(self, to: int, process: int, push: Push) -> None:
        other, me = self.world.brokers[to], self.epoch

        def arrive() -> None:
            ack = other.on_push(push)
            if ack is not None:
                self.world.carry(lambda: self.deliver(me, lambda: self._on_ack(to, process, ack)))

        self.world.carry(lambda: other.deliver(process, arrive))

    def _on_ack(self, sender: int, process: int, ack: Ack) -> None:
        if self.leader is not None and self._links.get(sender) == process:
            self.leader.on_ack(sender, ack, self.world.now_ms)
            if self.leader.deposed:
                self.world.refused_zombies += 1
                self.waiting = []
            self._acknowledge()
            self._send()

    # -- following

    def on_push(self, push: Push) -> Ack | None:
        if self.leader is not None:
            if push.leader_epoch <= self.leader.leader_epoch:
                return (
                    FollowerReplica(self.log, self.leader.leader_epoch).on_push(push, 0)
                    if (push.leader_epoch < self.leader.leader_epoch)
                    else None
                )
            self._follow(push.leader_epoch)
        assert self.follower is not None
        if self.world.chance(0.01):
            self.log.flushed = self.log.log_end_offset
        return self.follower.on_push(push, 0)

    # -- links and time

    def link_lost(self, other: int, process: int) -> None:
        if self._links.get(other) == process:
            del self._links[other]
            if self.leader is not None:
                self.leader.disconnect(other)

    def _tick(self, process: int) -> None:
        if not self.running or self.epoch != process:
            return
        self.world.after(TICK_MS, lambda: self._tick(process))
        if self.stopped:
            return
        self._connect_links()
        self._show_life(process)
        leader = self.leader
        if leader is not None:
            leader.retry(self.world.now_ms, RETRY_MS, REFUSED_RETRY_MS)
            self._propose(leader, process)
            self.waiting = [w for w in self.waiting if w.deadline_ms >= self.world.now_ms]
            self._acknowledge()
            self._send(idle=True)

    def _connect_links(self) -> None:
        for other in self.world.brokers:
            whole = max(self._link_cut_until, other._link_cut_until) <= self.world.now_ms
            if other is self or not other.running or other.stopped or not whole or self.world.chance(0.3):
                continue
            if self._links.get(other.id) != other.epoch and other.metadata is not None:
                self._links[other.id] = other.epoch
                if self.leader is not None:
                    self.leader.connect(other.id, other.epoch, self.world.now_ms)
            if self._links.get(other.id) == other.epoch:
                self._pongs[other.id] = self.world.now_ms

    def _show_life(self, process: int) -> None:
        if not self.connected:
            return
        sent = self.world.now_ms

        def arrive() -> None:
            controller = self.world.controller
            if controller.sessions.get(self.id, (None, -1))[1] == process:
                controller.heartbeat(self.id, process)
                self.hear(process, confirmed)

        def confirmed() -> None:
            self._last_confirmed = max(self._last_confirmed, sent)

        self._ask(process, arrive)

    def _propose(self, leader: LeaderReplica, process: int) -> None:
        if not self.connected:
            return
        proposal = leader.propose(self.world.now_ms, LAG_MS, self.epoch, lambda b: self._pongs.get(b, 0))
        if proposal is not None:
            self.world.say(f"broker {self.id} proposes {proposal.isr} at {proposal.partition_epoch}")
            asked = ProposedIsr(TOPIC_ID, 0, proposal.leader_epoch, proposal.partition_epoch, tuple(proposal.isr))
            proposed = AlterPartitions(self.id, process, (asked,))
            slow = self.world.random.randint(100, 400) if self.world.chance(0.3) else 1
            self.world.after(slow, lambda: self.world.controller.alter(self, process, proposed, leader))

    # -- invariants

    def judge(self) -> None:
        """Records below a watermark are the same everywhere, for ever."""
        watermark = self.log.high_watermark
        if watermark > self._judged:
            have = self.log.records(self._judged)
            for offset in range(self._judged, watermark):
                known = self.world.committed.setdefault(offset, have.get(offset, b""))
                if known != have.get(offset):
                    raise ViolationError(
                        f"divergence: broker {self.id} has {have.get(offset)!r} at {offset} below its watermark, "
                        f"{known!r} was committed"
                    )
        self._judged = watermark

    _judged = 0  # up to here this log has been compared
