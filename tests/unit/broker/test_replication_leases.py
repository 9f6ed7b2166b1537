"""A leader serves while nobody else may have been elected, and tells its watermark to those who wait. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.commits import Commits
from actors.broker.led import LedPartitions
from actors.broker.replication.lease import Lease
from actors.broker.replication.manager import ReplicaManager
from actors.broker.replication.waiting import Waiter
from actors.links.operations import AlteredPartitions, IsrOutcome
from actors.log.replication import Ack, LeaderReplica, Outcome
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata, PartitionInfo
from tests.support.replica_log import MemoryLog, leading

_TICK_SECONDS = 0.25
_ALONE = PartitionInfo(1, 0, (1, 0, 2), (1,), 1)


def _context() -> Any:
    return SimpleNamespace(
        broker_id=1,
        config=BrokerConfig.from_mapping({}),
        metadata=ClusterMetadata(),
        data_dir=SimpleNamespace(logs={}),
        environment=REAL,
    )


def _joined(context: Any) -> ReplicaManager:
    """The replica manager of broker 1, which has not registered yet."""
    return ReplicaManager(context, lambda: b"", lambda: 0, lambda: -1e9, _TICK_SECONDS)


def _never_confirmed(leader: LeaderReplica, context: Any = None) -> ReplicaManager:
    """The replica manager of a broker that is in the cluster and that nobody has confirmed since."""
    manager = _joined(context or _context())
    manager.apply(ClusterMetadata())
    manager.leaders.replicas[("t", 0)] = leader
    return manager


def _leader() -> LeaderReplica:
    return leading(1, MemoryLog(), leader_epoch=0, replicas=(1, 0, 2), isr=(1,), partition_epoch=1, min_insync=2)


def test_who_alone_may_be_elected_needs_nobody_to_confirm_it() -> None:
    assert _never_confirmed(_leader()).leads("t", 0, _ALONE)


@pytest.mark.conformance("N-A-10", "N-D-03")
@pytest.mark.parametrize("members", [{1}, {1, 0}], ids=["alone", "confirmed by its followers"])
def test_a_broker_that_no_controller_confirms_for_too_long_serves_no_more(members: set[int]) -> None:
    now, confirmed = [5000.0], [-1e9]
    clock: Any = SimpleNamespace(monotonic=lambda: now[0])
    config = {"broker.session.timeout.ms": "9000", "coterie.broker.isolated.ms": "60000"}
    context: Any = SimpleNamespace(
        broker_id=1, config=BrokerConfig.from_mapping(config), environment=SimpleNamespace(clock=clock)
    )
    link: Any = SimpleNamespace(ready=True, confirmed_at=1e9)
    lease = Lease(context, {0: link}, lambda: confirmed[0])
    held = []
    for at, confirmed_at in ((5059.9, -1e9), (5060.1, -1e9), (6000.0, 5999.0), (6058.9, 5999.0), (6059.1, 5999.0)):
        now[0], confirmed[0] = at, confirmed_at
        held.append(lease.holds(frozenset(members)))
    assert held == [True, False, True, True, False]


@pytest.mark.parametrize("replicas", [(1,), (1, 0, 2)], ids=["alone", "with others"])
def test_a_broker_that_began_anew_led_its_sole_replicas_at_the_epoch_of_its_former_process(
    replicas: tuple[int, ...],
) -> None:
    """The metadata it gets when it joins can be from before the controller recorded that this process ended."""
    context = _context()
    manager = _joined(context)
    led = LedPartitions(context, manager)
    old, new = PartitionInfo(1, 0, replicas, (1,), 1), PartitionInfo(1, 2, replicas, (1,), 3)
    assert not led.leads("t", 0, old)
    manager.apply(ClusterMetadata())
    assert led.leads("t", 0, new)


def test_a_leader_alone_in_sync_is_no_leader_without_its_lease_while_an_eligible_replica_may_be_elected() -> None:
    eligible = PartitionInfo(1, 0, (1, 0, 2), (1,), 1, (0,))
    assert not _never_confirmed(_leader()).leads("t", 0, eligible)


def test_whom_a_leader_has_proposed_may_have_been_elected_already() -> None:
    leader = _leader()
    leader.connect(0, 7, 0)
    push = leader.take_push(0, 1000, 0)
    assert push is not None
    leader.on_ack(0, Ack(0, push.round, Outcome.MATCHED, 0), 0)
    assert leader.propose(0, 1000, 0, lambda broker: 0) is not None
    manager = _never_confirmed(leader)
    assert not manager.leads("t", 0, _ALONE)
    leader.refused(leader.partition_epoch)
    assert manager.leads("t", 0, _ALONE)


def test_a_watermark_that_a_refused_proposal_held_back_is_told_to_those_who_wait() -> None:
    log = MemoryLog()
    leader = leading(1, log, leader_epoch=0, replicas=(1, 0, 2), isr=(1,), partition_epoch=1, min_insync=1)
    leader.connect(0, 7, 0)
    push = leader.take_push(0, 1000, 0)
    assert push is not None
    leader.on_ack(0, Ack(0, push.round, Outcome.MATCHED, 0), 0)
    context = _context()
    manager = _never_confirmed(leader, context)
    asked: list[Callable[[Any, str | None], None]] = []
    told: list[ErrorCode] = []
    context.loop = SimpleNamespace(time=lambda: 0.0)
    context.controller = SimpleNamespace(connected=True, call=lambda operation, done: asked.append(done))
    context.metadata = SimpleNamespace(topics={"t": SimpleNamespace(id=bytes(16))})
    context.fetches = SimpleNamespace(wake=lambda topic, index: None)
    context.commits = Commits()
    manager.proposals.send(lambda broker: 0)
    log.append([b"x"], 0)
    assert not leader.advance()
    manager.leaders.waiting.add(("t", 0), Waiter(1, told.append))
    asked[0](AlteredPartitions((IsrOutcome(bytes(16), 0, ErrorCode.INVALID_UPDATE_VERSION),)), None)
    assert told == [ErrorCode.NONE]
    assert log.high_watermark == 1


def test_fewer_replicas_asked_for_let_a_watermark_go_on_at_once() -> None:
    leader = _leader()
    leader.log.append([b"x"], 0)  # type: ignore[attr-defined]
    assert not leader.advance()
    context = _context()
    manager = _never_confirmed(leader, context)
    context.loop = SimpleNamespace(time=lambda: 0.0)
    context.min_insync_replicas = lambda topic: 1
    context.fetches = SimpleNamespace(wake=lambda topic, index: None)
    context.commits = Commits()
    told: list[ErrorCode] = []
    manager.leaders.waiting.add(("t", 0), Waiter(1, told.append))
    manager.leaders.update(("t", 0), leader, _ALONE)
    assert told == [ErrorCode.NONE]
