"""A follower out of sync is filled at the rate that is set; one in sync gets all at once. No I/O."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.replication.pushes import Pushes
from actors.log.replication import Ack, LeaderReplica, Outcome
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, PartitionInfo, Removal, TopicInfo
from placement.records import BrokerRemovalRecord, TopicRecord, UnregisterBrokerRecord
from tests.support.replica_log import MemoryLog, leading

RATE = 10_000
TICK = 0.25
KEY = ("t", 0)
BATCHES, BATCH = 200, 1_000


class Link:
    """A follower's connection that takes everything; the follower acknowledges it at once."""

    ready = True
    room = 8 << 20

    def __init__(self, broker_id: int, leader: LeaderReplica) -> None:
        self.broker_id = broker_id
        self.sent = 0
        self._leader = leader

    def push(self, pushes: Any) -> None:
        for _, _, push in pushes:
            self.sent += len(push.records)
            outcome = Outcome.MATCHED if push.base_offset == 0 or push.records else Outcome.MISMATCHED
            self._leader.on_ack(self.broker_id, Ack(push.leader_epoch, push.round, outcome, push.next_offset), 0)


class World:
    """A leader with a long log, of which one follower in sync and one out of sync have nothing."""

    def __init__(self, rate: int | None) -> None:
        self.now = 0.0
        config = {} if rate is None else {"leader.replication.throttled.rate": str(rate)}
        loop = SimpleNamespace(time=lambda: self.now, call_soon=lambda call: call())
        metadata = ClusterMetadata()
        metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, (PartitionInfo(0, 0, (0, 1, 2), (0, 1)),))))
        self.context: Any = SimpleNamespace(loop=loop, config=BrokerConfig.from_mapping(config), metadata=metadata)
        log = MemoryLog()
        for _ in range(BATCHES):
            log.append([bytes(BATCH)], 0)
        leader = leading(0, log, leader_epoch=0, replicas=(0, 1, 2), isr=(0, 1), partition_epoch=0, min_insync=1)
        self.links = {broker: Link(broker, leader) for broker in (1, 2)}
        self.pushes = Pushes(self.context, {KEY: leader}, self.links)  # type: ignore[arg-type]
        for broker in self.links:
            leader.connect(broker, 7, 0)
        self.pushes.mark((1, 2), KEY)

    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += TICK
            self.pushes.mark((1, 2), KEY)
            self.pushes.tick(int(self.now * 1000))


@pytest.mark.conformance("N-D-04")
@pytest.mark.parametrize("seconds", [2, 10])
def test_a_follower_out_of_sync_is_filled_at_the_rate_and_one_in_sync_at_once(seconds: int) -> None:
    world = World(RATE)
    for tick in range(1, int(seconds / TICK) + 1):
        world.pass_time(1)
        assert world.links[2].sent <= RATE * (1 + tick * TICK) + 2 * BATCH + RATE * TICK
    assert world.links[2].sent >= RATE * seconds * 0.9
    assert world.links[1].sent > BATCHES * BATCH


@pytest.mark.conformance("N-D-04")
@pytest.mark.parametrize("rate", [None, 100 * RATE])
def test_a_removal_has_a_rate_of_its_own_for_as_long_as_it_lasts(rate: int | None) -> None:
    world = World(rate)
    for broker_id, throttle in ((3, 0), (4, RATE)):
        world.context.metadata.apply(BrokerRemovalRecord(broker_id, Removal(0, 1, throttle)))
    world.pass_time(8)
    assert world.links[2].sent <= RATE * (1 + 8 * TICK) + 2 * BATCH + RATE * TICK
    world.context.metadata.apply(UnregisterBrokerRecord(4))
    world.pass_time(200)
    assert world.links[2].sent > BATCHES * BATCH


def test_without_a_rate_both_get_all_at_once_and_a_rate_can_be_set_and_taken_back() -> None:
    world = World(None)
    world.pass_time(2)
    assert min(link.sent for link in world.links.values()) > BATCHES * BATCH
    world = World(1)
    world.pass_time(8)
    assert world.links[2].sent < 3 * BATCH
    world.context.config = BrokerConfig.from_mapping({})
    world.pass_time(2)
    assert world.links[2].sent > BATCHES * BATCH
