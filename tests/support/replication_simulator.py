"""One partition on three brokers, a controller and a producer in one deterministic world: a seed in, the same run out.

The real rules of leaders, followers and elections on a network that drops, delays, doubles and reorders, with brokers
that crash, tear the ends of their logs, stop and go on. First faults, then everything heals, and progress is required.

    PYTHONPATH=. python -m tests.support.replication_simulator SEED     # run one seed, with a trace
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from actors.controller.decisions.elections import alter_partitions, broker_lost, broker_registered
from actors.links.operations import AlteredPartitions, AlterPartitions
from actors.log.replication import LeaderReplica
from actors.settings import BrokerConfig
from placement.metadata import BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, Record, TopicRecord
from tests.support.replication_broker import LEASE_MS, TICK_MS, TOPIC_ID, SimBroker, ViolationError

BROKERS = (0, 1, 2)
FAULTS_END_MS = 15_000
HEALED_END_MS = 25_000


class World:
    """Time, chance, and the queue of coming events."""

    min_insync = 2

    def __init__(self, seed: int, trace: bool = False, *, machines_crash: bool = True) -> None:
        self.random = random.Random(seed)
        self.trace = trace
        self.machines_crash = machines_crash
        self.now_ms = 0
        self.faulty = True
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.committed: dict[int, bytes] = {}  # all that any replica has held below its watermark
        self.acknowledged: dict[int, bytes] = {}
        self.produced = 0
        self.elections = 0
        self.refused_zombies = 0
        self.torn: int | None = None  # the broker whose machine crashed last
        self.controller = SimController(self)
        self.brokers = [SimBroker(self, broker) for broker in BROKERS]
        for broker in self.brokers:
            broker.start()
        self.after(100, self.produce)
        self.after(300, self.fault)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (self.now_ms + delay_ms, self._count, action))

    def chance(self, probability: float) -> bool:
        return self.faulty and self.random.random() < probability

    def say(self, text: str) -> None:
        if self.trace:
            sys.stdout.write(f"{self.now_ms:>6}  {text}\n")

    def run(self) -> None:
        self._run_until(FAULTS_END_MS)
        self.faulty = False
        self.say("-- healed")
        for broker in self.brokers:
            broker.heal()
        self._run_until(HEALED_END_MS)
        self._judge_end()

    def _run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
            for broker in self.brokers:
                broker.judge()
        self.now_ms = end_ms

    def carry(self, action: Callable[[], None]) -> None:
        """A message between brokers."""
        for _ in range(2 if self.chance(0.05) else 1):
            if not self.chance(0.05):
                slow = self.random.randint(100, 1500) if self.chance(0.05) else 0
                self.after(self.random.randint(1, 12) + slow, action)

    # -- the producer

    def produce(self) -> None:
        self.after(self.random.randint(5, 100), self.produce)
        if self.now_ms > HEALED_END_MS - 3000:
            return
        value = f"v{self.produced}".encode()
        self.produced += 1
        # Any broker that believes it leads is asked: the stale ones must be harmless.
        believers = [b for b in self.brokers if b.serves()]
        if believers:
            self.random.choice(believers).produce(value)

    # -- faults

    def fault(self) -> None:
        self.after(self.random.randint(50, 900), self.fault)
        if not self.faulty:
            return
        broker = self.random.choice(self.brokers)
        if not broker.running:
            return
        kinds = [broker.crash, broker.crash, broker.stop_for_a_while, broker.cut_controller, broker.cut_links]
        if self.machines_crash and self._whole(self.torn, broker.id):
            kinds.append(lambda: broker.crash(machine=True))
        self.random.choice(kinds)()

    def _whole(self, torn: int | None, broker_id: int) -> bool:
        """One machine at a time: a torn one must be in sync again, among enough, before another goes."""
        if torn in (None, broker_id):
            return True
        isr, back = self.controller.partition.isr, self.controller.registered(self.brokers[torn])
        return back and torn in isr and len(isr) >= self.min_insync

    # -- invariants

    def _judge_end(self) -> None:
        partition = self.controller.partition
        if set(partition.isr) != set(BROKERS):
            raise ViolationError(f"progress: in sync are {partition.isr} long after all faults")
        logs = [broker.log.records() for broker in self.brokers]
        if any(log != logs[0] for log in logs):
            raise ViolationError("agreement: the logs differ long after all faults")
        if self.brokers[partition.leader].log.high_watermark != self.brokers[partition.leader].log.log_end_offset:
            raise ViolationError("progress: the watermark is not at the log's end")
        for offset, value in self.acknowledged.items():
            if logs[0].get(offset) != value:
                raise ViolationError(
                    f"durability: acknowledged {value!r} at {offset}, there is {logs[0].get(offset)!r}"
                )
        if len(self.acknowledged) < 20:
            raise ViolationError(f"progress: only {len(self.acknowledged)} records acknowledged")


class SimController:
    """The real rules on real metadata; its messages to brokers keep their order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metadata = ClusterMetadata(cluster_id="c")
        self.config = BrokerConfig.from_mapping({"min.insync.replicas": str(world.min_insync)})
        self.sessions: dict[int, tuple[SimBroker, int]] = {}  # broker -> its process
        self.heard: dict[int, int] = {}
        partition = PartitionInfo(-1, 0, BROKERS, BROKERS)
        self._apply([TopicRecord(TopicInfo("t", TOPIC_ID, (partition,)))])
        self.tick()

    @property
    def partition(self) -> PartitionInfo:
        found = self.metadata.partition("t", 0)
        assert found is not None
        return found

    def _apply(self, records: Sequence[Record]) -> None:
        before = self.metadata.partition("t", 0)
        for record in records:
            self.metadata.apply(record)
        if before is not None and before != self.partition:
            self.world.elections += before.leader_epoch != self.partition.leader_epoch
            self.world.say(f"controller: {self.partition}")
        if records:
            self.tell()

    def tell(self) -> None:
        image = ClusterMetadata.from_wire(self.metadata.to_wire())
        for broker, process in self.sessions.values():
            broker.hear(process, lambda broker=broker: broker.apply(image))

    def register(self, broker: SimBroker, process: int, intact: bool) -> None:
        known = self.metadata.brokers.get(broker.id)
        if known is not None and known.alive and known.epoch != process:
            self._apply(broker_lost(self.metadata, broker.id, config=self.config))
        same = known is not None and known.alive and known.epoch == process
        self.sessions[broker.id] = (broker, process)
        broker.registered(process)
        self.heard[broker.id] = self.world.now_ms
        if not same:
            record = BrokerRecord(BrokerInfo(broker.id, "h", 1, None, process))
            self.metadata.apply(record)
            self._apply(broker_registered(self.metadata, broker.id, intact=intact, config=self.config))
        self.tell()

    def registered(self, broker: SimBroker) -> bool:
        """True if the broker runs, and its present process is registered."""
        return broker.running and self.metadata.brokers[broker.id].epoch == broker.epoch

    def lost(self, broker_id: int, process: int) -> None:
        """The end of a connection."""
        if self.sessions.get(broker_id, (None, -1))[1] == process:
            del self.sessions[broker_id]
            self._apply(broker_lost(self.metadata, broker_id, config=self.config))

    def heartbeat(self, broker_id: int, process: int) -> None:
        if self.sessions.get(broker_id, (None, -1))[1] == process:
            self.heard[broker_id] = self.world.now_ms

    def alter(self, broker: SimBroker, process: int, proposed: AlterPartitions, leader: LeaderReplica) -> None:
        if self.sessions.get(broker.id, (None, -1))[1] != process:
            return
        altered, records = alter_partitions(self.metadata, self.config, proposed, bytes)
        self._apply(records)
        assert isinstance(altered, AlteredPartitions)
        if altered.partitions[0].error_code:
            proposed_to = proposed.partitions[0].partition_epoch
            broker.hear(process, lambda: leader.refused(proposed_to))

    def tick(self) -> None:
        self.world.after(TICK_MS, self.tick)
        for broker_id, (_, process) in list(self.sessions.items()):
            if self.world.now_ms - self.heard[broker_id] > LEASE_MS:
                self.world.say(f"controller: broker {broker_id} is silent")
                self.sessions[broker_id][0].expelled(process)
                self.lost(broker_id, process)


def run(seed: int, trace: bool = False, **options: Any) -> World:
    """One run; raises ViolationError."""
    world = World(seed, trace, **options)
    world.run()
    return world


if __name__ == "__main__":
    found = run(int(sys.argv[1]), trace=True)
    sys.stdout.write(f"{len(found.acknowledged)} acknowledged, {found.elections} elections\n")
