"""A connection speaks for one broker, and a broker asks for what is its own to ask."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.replication.followers import Followers
from actors.broker.replication.links import FollowerListener
from actors.controller.allowed import OF_BROKERS_FOR_MONITORS, OF_CLIENTS, OF_ITSELF, OF_MONITORS
from actors.links import views
from actors.links.control import CODEC, Answer, Call, Failed, Join, Joined
from actors.links.observations import LookAtBroker
from actors.links.operations import (
    AllocateProducerIds,
    AlteredPartitions,
    AlterPartitions,
    BrokerLeaving,
    HandOver,
    LearnSecrets,
    ListShards,
    LookAtGroup,
    Operation,
    ProposedIsr,
    ReplicaTorn,
    Result,
)
from actors.links.reading import ForBroker
from actors.links.replication import Acks, FollowerHello, LeaderHello, Ping, Pong, Pushes
from actors.log.replication import Ack, Outcome
from actors.runtime.environment import REAL
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import TopicRecord
from tests.support.controller_world import Controller, controller, create
from tests.support.replica_log import MemoryLog, leading
from tests.support.runtime_helpers import FakeBroker, until

NUMBER = 77


def about(broker_id: int, c: Controller, isr: tuple[tuple[int, int], ...] = ()) -> list[Operation[Any]]:
    """A broker's reports about itself and the partition that it leads."""
    topic, partition = c.metadata.topics["t"], c.leader("t")
    proposed = ProposedIsr(topic.id, 0, partition.leader_epoch, partition.partition_epoch, isr)
    return [
        AlterPartitions(broker_id, 0, (proposed,)),
        ReplicaTorn(broker_id, 0, ((topic.id, 0),)),
        BrokerLeaving(broker_id),
    ]


async def said(broker: FakeBroker, operation: Operation[Any]) -> str | Result:
    """The result of a call, or why there is none."""
    broker.heard.clear()
    broker.send(Call(NUMBER, operation))
    (answer,) = await until(lambda: [*broker.of(Answer), *broker.of(Failed)])
    return answer.result if isinstance(answer, Answer) else answer.error


def test_every_operation_is_for_brokers_for_monitors_or_for_the_controller() -> None:
    asked = {cls for cls in CODEC.classes.values() if issubclass(cls, Operation)}
    of_brokers = {HandOver, LearnSecrets, ListShards, LookAtGroup, LookAtBroker, *OF_BROKERS_FOR_MONITORS}
    of_monitors = {each for each in views.CLASSES.values() if issubclass(each, Operation)}
    assert asked == {*OF_ITSELF, *OF_CLIENTS, *of_brokers, *of_monitors, *OF_MONITORS, ForBroker}


@pytest.mark.conformance("XE-05")
async def test_a_broker_speaks_for_no_other(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one, two = await FakeBroker(0).register(c.port), await FakeBroker(1).register(c.port)
        await create(one, "t", factor=2)
        rogue, other = (one, 1) if c.leader("t").leader == 1 else (two, 0)
        before = c.metadata.version
        for operation in about(other, c, isr=((other, 0),)):
            assert f"broker {rogue.broker_id} speaks for broker {other}" in str(await said(rogue, operation))
        assert c.metadata.version == before, "nothing has changed"


@pytest.mark.conformance("XE-05")
async def test_a_broker_proposes_no_set_for_what_another_leads(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one, two = await FakeBroker(0).register(c.port), await FakeBroker(1).register(c.port)
        await create(one, "t", factor=2)
        leader, rogue = (one, two) if c.leader("t").leader == 0 else (two, one)
        proposal, *_ = about(rogue.broker_id, c, isr=((rogue.broker_id, 0),))
        altered = await said(rogue, proposal)
        assert isinstance(altered, AlteredPartitions)
        assert [each.error_code for each in altered.partitions] == [ErrorCode.FENCED_LEADER_EPOCH]
        assert set(c.leader("t").isr) == {0, 1}
        proposal, *_ = about(leader.broker_id, c, isr=((leader.broker_id, 0),))
        altered = await said(leader, proposal)
        assert isinstance(altered, AlteredPartitions)
        assert [each.error_code for each in altered.partitions] == [0]


@pytest.mark.conformance("XE-05")
async def test_who_has_not_said_which_broker_it_is_asks_for_nothing(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        known = await FakeBroker(0).register(c.port)
        await create(known, "t")
        nobody = await FakeBroker(0).connect(c.port)
        before = c.metadata.version
        assert "has not said which broker it is" in str(await said(nobody, AllocateProducerIds()))
        for operation in about(0, c):
            assert "a broker that has not registered speaks for broker 0" in str(await said(nobody, operation))
        assert c.metadata.version == before


@pytest.mark.conformance("XE-05")
@pytest.mark.parametrize("operation", [HandOver(), ListShards(), LookAtGroup("g")])
async def test_a_broker_does_not_ask_for_what_brokers_do(tmp_path: Path, operation: Operation[Any]) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        assert "is nothing that a broker asks for" in str(await said(broker, operation))


@pytest.mark.conformance("XE-05")
@pytest.mark.parametrize("joins", [True, False], ids=["after it has joined", "after it has registered"])
@pytest.mark.parametrize("again", ["Join", "Hello"])
async def test_a_connection_does_not_become_another_brokers(tmp_path: Path, joins: bool, again: str) -> None:
    async with controller(tmp_path) as c:
        victim = await FakeBroker(1).register(c.port)
        rogue = await FakeBroker(0).connect(c.port)
        rogue.send(Join(0)) if joins else rogue.send(rogue.hello())
        rogue.send(Join(1) if again == "Join" else FakeBroker(1, epoch=0).hello())
        await rogue.lost.wait()
        assert len(rogue.of(Joined)) == joins
        assert c.server.brokers[1].pid == 1001
        assert not victim.lost.is_set()


class _Link:
    """A leader's connection, as its follower has it."""

    transport = None

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed = False

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def close(self) -> None:
        self.closed = True


@pytest.mark.conformance("XE-05")
def test_a_follower_hears_nothing_of_who_has_not_said_which_broker_it_is() -> None:
    took: list[int] = []

    def take(sender: int, pushes: Any) -> tuple[Any, ...]:
        took.append(sender)
        return ()

    listener: Any = FollowerListener(
        0, lambda: 3, lambda: b"", REAL.chance, take, lambda sent: Pong(sent, (0, 0), True), batches=None
    )
    for message in (Pushes(()), Ping(1.0)):
        stranger = _Link()
        listener.on_ready(stranger)
        listener.on_message(stranger, message)
        assert (stranger.closed, stranger.sent) == (True, [])
    link = _Link()
    listener.on_message(link, LeaderHello(1))
    listener.on_message(link, Pushes(()))
    assert link.sent == [FollowerHello(0, 3), Acks(())]
    assert took == [1]
    listener.on_message(link, LeaderHello(2))
    assert link.closed, "a connection is one leader's"


@pytest.mark.conformance("XE-05")
def test_a_follower_takes_pushes_of_no_broker_but_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    topic_id, metadata, ours = bytes(range(16)), ClusterMetadata(), MemoryLog()
    theirs = MemoryLog()
    theirs.append([b"a"], 3)
    context: Any = SimpleNamespace(
        broker_id=1,
        metadata=metadata,
        data_dir=SimpleNamespace(
            logs={("t", 0): ours}, topic_ids={("t", 0): topic_id}, get=lambda *key: ours, shortened=set()
        ),
        now_ms=lambda: 0,
    )
    metadata.apply(TopicRecord(TopicInfo("t", topic_id, (PartitionInfo(0, 3, (0, 1, 2), (0, 1, 2), 5),), {})))
    followers = Followers(context, lambda *key: None)

    def push(sender: int, epoch: int = 3) -> Ack:
        leader = leading(
            sender, theirs, leader_epoch=epoch, replicas=(0, 1, 2), isr=(0, 1, 2), partition_epoch=5, min_insync=1
        )
        leader.connect(1, 7, 0)
        sent = leader.take_push(1, 1000, 0)
        assert sent is not None
        return followers.take(("t", 0), topic_id, sent, -1, sender)

    assert push(2).outcome is Outcome.FAILED
    assert ours.log_end_offset == 0
    assert "broker 2 pushes, and broker 0 leads" in caplog.text
    assert push(0).outcome is not Outcome.FAILED
    assert push(2, epoch=4).outcome is not Outcome.FAILED, "elected, and the news of it come later than its pushes"
    assert push(0).outcome is Outcome.FENCED
