"""Leaders and followers know each other by epochs, and leaders tell followers what they have to know. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.commits import Commits
from actors.broker.replication.followers import Followers
from actors.broker.replication.links import FollowerLink, FollowerListener
from actors.broker.replication.manager import ReplicaManager
from actors.links.operations import ReplicaTorn
from actors.links.replication import Acks, FollowerHello, LeaderHello, Ping, Pong
from actors.log.errors import StorageError
from actors.log.replication import Ack, FollowerReplica, Outcome, Push
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from placement.metadata import BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo, changed
from placement.records import BrokerRecord, PartitionRecord, TopicRecord
from tests.support.replica_log import MemoryLog, leading
from tests.support.runtime_helpers import run

_TICK_SECONDS = 0.25


def test_the_sole_replica_takes_nothing_from_the_leader_before_it() -> None:
    """A move has ended here, and the former leader has not heard of it."""
    topic_id, theirs, ours = bytes(range(16)), MemoryLog(), MemoryLog()
    theirs.append([b"a", b"b"], 3)
    former = leading(0, theirs, leader_epoch=3, replicas=(1, 0), isr=(0, 1), partition_epoch=5, min_insync=1)
    former.connect(1, 7, 0)
    context: Any = SimpleNamespace(
        broker_id=1,
        config=BrokerConfig.from_mapping({}),
        metadata=ClusterMetadata(),
        data_dir=SimpleNamespace(
            logs={("t", 0): ours}, topic_ids={("t", 0): topic_id}, get=lambda *key: ours, shortened=set()
        ),
        now_ms=lambda: 0,
        environment=REAL,
    )
    manager = ReplicaManager(context, lambda: b"", lambda: 7, lambda: -1e9, _TICK_SECONDS)

    def push() -> Outcome:
        sent = former.take_push(1, 1000, 0)
        assert sent is not None
        _, _, ack = manager.take_pushes(0, [(topic_id, 0, sent)])[0]
        former.on_ack(1, ack, 0)
        return ack.outcome

    def hear(partition: PartitionInfo) -> None:
        context.metadata.apply(TopicRecord(TopicInfo("t", topic_id, (partition,), {})))
        manager.apply(context.metadata)

    hear(PartitionInfo(0, 3, (1, 0), (0, 1), 5, (), (1,), (0,)))
    while push() is not Outcome.MATCHED or ours.log_end_offset < 2:
        pass
    hear(PartitionInfo(1, 4, (1,), (1,), 6))
    ours.append([b"new"], 4)
    theirs.append([b"old", b"old"], 3)
    assert push() is Outcome.FENCED
    assert former.deposed
    assert theirs.high_watermark == 2, "nothing is acknowledged that the new leader does not have"
    assert list(ours.records().values()) == [b"a", b"b", b"new"]


def test_a_replica_that_was_dropped_and_added_again_takes_nothing_before_it_knows() -> None:
    """Else it would be in sync by the log that it deletes when it hears that it was dropped."""
    topic_id, metadata = bytes(range(16)), ClusterMetadata()
    leader = leading(
        0, MemoryLog(), leader_epoch=3, replicas=(0, 1), isr=(0,), partition_epoch=7, min_insync=1, added_at=7
    )
    leader.connect(1, 7, 0)
    push = leader.take_push(1, 1000, 0)
    assert push is not None
    context: Any = SimpleNamespace(
        broker_id=1,
        metadata=metadata,
        data_dir=SimpleNamespace(get=lambda *key: None, not_opened=set(), shortened=set()),
    )
    followers = Followers(context, lambda *key: None)

    def outcome(*image: Any, **later: Any) -> Outcome:
        metadata.apply(TopicRecord(TopicInfo("t", topic_id, (PartitionInfo(*image, **later),), {})))
        return followers.take(("t", 0), topic_id, push, -1, 0).outcome

    assert outcome(0, 3, (0, 1), (0, 1), 5) is Outcome.FAILED, "the news of the drop, at 6, are still to come"
    assert outcome(0, 3, (0,), (0,), 6) is Outcome.FAILED
    assert outcome(0, 3, (0, 1), (0,), 7, added_at=7) is Outcome.MATCHED


def test_a_replica_that_cannot_be_opened_is_in_sync_with_nothing_and_says_so() -> None:
    """Not even while its leader's log is empty: it would be elected, and could not lead."""
    topic_id, metadata = bytes(range(16)), ClusterMetadata()
    leader = leading(0, MemoryLog(), leader_epoch=3, replicas=(0, 1), isr=(0, 1), partition_epoch=7, min_insync=1)
    leader.connect(1, 7, 0)
    push = leader.take_push(1, 1000, 0)
    assert push is not None
    told: list[tuple[str, int]] = []

    def create(*_: Any, **__: Any) -> None:
        raise StorageError("input/output error")

    context: Any = SimpleNamespace(
        broker_id=1,
        metadata=metadata,
        data_dir=SimpleNamespace(get=lambda *key: None, not_opened={("t", 0)}, shortened=set(), create=create),
        topic_log_config=lambda topic: None,
        now_ms=lambda: 0,
        environment=REAL,
    )
    metadata.apply(TopicRecord(TopicInfo("t", topic_id, (PartitionInfo(0, 3, (0, 1), (0, 1), 7),), {})))
    assert (
        Followers(context, lambda *key: told.append(key)).take(("t", 0), topic_id, push, -1, 0).outcome
        is Outcome.FAILED
    )
    assert told == [("t", 0)]


def test_a_follower_in_sync_whose_log_was_opened_late_and_short_says_so() -> None:
    """It would be elected by what it has lost. Once it is out of sync it takes what it lacks."""
    topic_id, metadata, ours, theirs = bytes(range(16)), ClusterMetadata(), MemoryLog(), MemoryLog()
    theirs.append([b"a"], 3)
    leader = leading(0, theirs, leader_epoch=3, replicas=(0, 1), isr=(0, 1), partition_epoch=7, min_insync=1)
    leader.connect(1, 7, 0)
    push = leader.take_push(1, 1000, 0)
    assert push is not None
    told: list[tuple[str, int]] = []
    data_dir = SimpleNamespace(
        logs={("t", 0): SimpleNamespace(failure=None)},
        topic_ids={("t", 0): topic_id},
        get=lambda *key: ours,
        shortened={("t", 0)},
    )
    context: Any = SimpleNamespace(broker_id=1, metadata=metadata, data_dir=data_dir, now_ms=lambda: 0)
    followers = Followers(context, lambda *key: told.append(key))

    def outcome(isr: tuple[int, ...], partition_epoch: int) -> Outcome:
        info = PartitionInfo(0, 3, (0, 1), isr, partition_epoch)
        metadata.apply(TopicRecord(TopicInfo("t", topic_id, (info,), {})))
        return followers.take(("t", 0), topic_id, push, -1, 0).outcome

    assert (outcome((0, 1), 7), told) == (Outcome.FAILED, [("t", 0)])
    assert (outcome((0,), 8), told) == (Outcome.MISMATCHED, [("t", 0)]), "it says where its log ends"
    assert data_dir.shortened == set()


class _Leading:
    """Broker 0, which leads t-0, and its messages to broker 1 and to the controller."""

    def __init__(self, log: MemoryLog, replicas: tuple[int, ...]) -> None:
        self.topic_id, self.metadata = bytes(range(16)), ClusterMetadata()
        self.rows: list[Any] = []
        self.calls: list[Any] = []
        self.pings = 0
        self.controller = SimpleNamespace(connected=True, call=lambda asked, done: self.calls.append(asked))
        self._soon: list[tuple[Callable[..., None], Any]] = []
        key = ("t", 0)
        self.data_dir = SimpleNamespace(logs={key: log}, not_opened=set(), shortened=set())
        context: Any = SimpleNamespace(
            broker_id=0,
            config=BrokerConfig.from_mapping({}),
            metadata=self.metadata,
            data_dir=self.data_dir,
            log=lambda *key: log,
            loop=SimpleNamespace(time=lambda: 100.0, call_soon=lambda call, *args: self._soon.append((call, args))),
            controller=self.controller,
            min_insync_replicas=lambda topic: 1,
            fetches=SimpleNamespace(wake=lambda *key: None),
            commits=Commits(),
            environment=REAL,
        )
        self.manager = ReplicaManager(context, lambda: b"", lambda: 3, lambda: 100.0, _TICK_SECONDS)
        self.link: Any = SimpleNamespace(
            broker_id=1,
            broker_epoch=7,
            ready=True,
            room=1 << 20,
            heard_at=100.0,
            push=self.rows.extend,
            ping=self._ping,
            address=("h", 2),
        )
        self.manager.links[1] = self.link
        for broker in (0, 1, 2):
            self.metadata.apply(BrokerRecord(BrokerInfo(broker, "h", 1, None, 7, broker != 2, "h", 2)))
        # Over the same connection broker 1 follows another partition all the while.
        other = PartitionInfo(0, 0, (0, 1), (0, 1))
        self.metadata.apply(TopicRecord(TopicInfo("other", bytes(16), (other,), {})))
        self.partition = PartitionInfo(0, 0, replicas, replicas)
        self.metadata.apply(TopicRecord(TopicInfo("t", self.topic_id, (self.partition,), {})))
        self.first = self.hear()

    def _ping(self) -> None:
        self.pings += 1

    def hear(self, **changes: Any) -> list[Push]:
        """Have the partition changed; the pushes after that."""
        if changes:
            self.partition = changed(self.partition, **changes)
        self.metadata.apply(PartitionRecord("t", 0, self.partition))
        self.manager.apply(self.metadata)
        self._run()
        rows = [row for row in self.rows if row[0] == self.topic_id]
        self.rows.clear()
        return [push for _, _, push in rows]

    def acknowledged(self, ack: Ack) -> None:
        self.manager.acknowledged(self.link, [(self.topic_id, 0, ack)])
        self._run()

    def proposed(self) -> list[list[int]]:
        return [[broker for broker, _ in asked.partitions[0].isr] for asked in self.calls]

    def _run(self) -> None:
        while self._soon:
            call, args = self._soon.pop(0)
            call(*args)


def test_what_a_replica_said_before_it_was_dropped_is_not_taken_for_what_it_says_when_it_is_added_again() -> None:
    """In between the partition had one replica: the leader, at the same epoch, had no follower."""
    log, theirs = MemoryLog(), MemoryLog()
    for each in (log, theirs):
        each.append([b"a", b"b"], 0)
    leading = _Leading(log, (0,))
    (old,) = leading.hear(replicas=(0, 1))
    assert old.since == 1
    leading.hear(replicas=(0,))
    (new,) = leading.hear(replicas=(0, 1))
    assert new.since == 3
    leading.acknowledged(FollowerReplica(theirs, 0).on_push(old, 0))
    assert leading.proposed() == []
    leading.acknowledged(FollowerReplica(theirs, 0).on_push(new, 0))
    assert leading.proposed() == [[0, 1]]


def test_who_is_in_sync_need_not_hear_of_an_addition_before_it_takes_the_next_record() -> None:
    log = MemoryLog()
    leading = _Leading(log, (0, 1))
    (first,) = leading.first
    assert first.since == -1
    leading.acknowledged(FollowerReplica(MemoryLog(), 0).on_push(first, 0))
    assert leading.hear(replicas=(0, 1, 2), isr=(0, 1)) == []
    log.append([b"a"], 0)
    leading.manager.appended("t", 0, leading.partition)
    (push,) = leading.hear()
    assert (push.since, push.next_offset) == (-1, 1)


def test_a_watermark_for_which_there_was_no_room_is_told_with_the_next_tick() -> None:
    log, theirs = MemoryLog(), FollowerReplica(MemoryLog(), 0)
    leading = _Leading(log, (0, 1))
    leading.acknowledged(theirs.on_push(leading.first[0], 0))
    log.append([b"a"], 0)
    leading.manager.appended("t", 0, leading.partition)
    (push,) = leading.hear()
    leading.acknowledged(theirs.on_push(push, 0))
    assert (log.high_watermark, leading.hear()) == (1, [])
    leading.link.room = 0
    leading.manager.tick()
    leading.link.room = 1 << 20
    leading.manager.has_room(leading.link)  # between ticks, watermarks alone are not worth a push
    assert leading.hear() == []
    leading.manager.tick()
    assert [push.high_watermark for push in leading.hear()] == [1]


def test_followers_are_pinged_once_a_second_and_at_each_tick_while_they_have_to_confirm_their_leader() -> None:
    leading = _Leading(MemoryLog(), (0, 1))
    for _ in range(8):
        leading.manager.tick()
    assert leading.pings == 2
    leading.controller.connected = False
    for _ in range(8):
        leading.manager.tick()
    assert leading.pings == 2 + 8


@pytest.mark.parametrize(
    ("isr", "elr", "leads"), [((0, 1), (), False), ((0,), (1,), False), ((0,), (), True)], ids=["isr", "elr", "nobody"]
)
def test_a_log_that_was_opened_late_and_short_is_led_only_if_no_other_has_more(
    isr: tuple[int, ...], elr: tuple[int, ...], leads: bool
) -> None:
    leading = _Leading(MemoryLog(), (0, 1))
    leading.data_dir.shortened.add(("t", 0))
    pushes = leading.hear(leader_epoch=1, isr=isr, elr=elr)
    assert ([push.leader_epoch for push in pushes], len(leading.calls)) == (([1], 0) if leads else ([], 1))
    assert all(isinstance(asked, ReplicaTorn) for asked in leading.calls)
    assert bool(leading.data_dir.shortened) is not leads


def test_a_broker_that_cannot_lead_gives_way_to_an_eligible_one_too() -> None:
    leading = _Leading(MemoryLog(), (0, 1, 2))
    leading.hear(isr=(0,), elr=())
    leading.manager.failed("t", 0)
    assert leading.calls == [], "nobody else may lead"
    leading.hear(isr=(0,), elr=(1,))
    leading.manager.failed("t", 0)
    assert [type(asked) for asked in leading.calls] == [ReplicaTorn]


class _Link:
    """A leader's end of a connection, as its follower sees it."""

    transport = None

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed = False

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def close(self) -> None:
        self.closed = True


def _listener(epochs: list[int]) -> FollowerListener:
    return FollowerListener(
        0,
        lambda: epochs[-1],
        lambda: b"",
        REAL.chance,
        lambda pushes: (),
        lambda sent: Pong(sent, (0, 0), True),
        batches=None,
    )


def test_a_follower_that_does_not_know_its_epoch_yet_has_its_leader_come_again() -> None:
    """The controller's news reach the leader first; no in-sync set with epoch -1 would ever be recorded."""
    epochs, early, late = [-1], _Link(), _Link()
    listener: Any = _listener(epochs)
    listener.on_message(early, LeaderHello(1))
    assert early.closed
    assert not early.sent
    epochs.append(3)
    listener.on_message(late, LeaderHello(1))
    assert late.sent == [FollowerHello(0, 3)]


def test_a_follower_with_a_new_epoch_has_its_leaders_come_again() -> None:
    """After the controller took it for dead: sets that name it under its former epoch are refused for ever."""
    epochs, link = [3], _Link()
    listener: Any = _listener(epochs)
    listener.on_message(link, LeaderHello(1))
    listener.on_message(link, Ping(1.0))
    assert link.sent[-1] == Pong(1.0, (0, 0), True)
    epochs.append(4)
    listener.on_message(link, Ping(2.0))
    assert link.closed


def test_records_on_their_way_to_a_follower_leave_less_room_for_others() -> None:
    log = MemoryLog()
    log.append([b"x" * 5000], 0)
    leader = leading(1, log, leader_epoch=0, replicas=(1, 0), isr=(1,), partition_epoch=1, min_insync=1)
    leader.connect(0, 7, 0)
    probe = leader.take_push(0, 10_000, 0)
    assert probe is not None
    leader.on_ack(0, Ack(0, probe.round, Outcome.MISMATCHED), 0)
    push = leader.take_push(0, 10_000, 0)
    assert push is not None

    async def test() -> None:
        owner: Any = SimpleNamespace(acknowledged=lambda link, rows: None, connected=lambda link: None)
        link = FollowerLink(0, ("127.0.0.1", 1), b"", REAL.chance, 1, owner)
        protocol: Any = SimpleNamespace(send=lambda message: None, writable=True, close=lambda: None)
        link.on_ready(protocol)
        link.on_message(protocol, FollowerHello(0, 7))
        before = link.room
        link.push([(bytes(16), 0, push)])
        assert before - link.room >= len(push.records) > 5000
        link.on_message(protocol, Acks(((bytes(16), 0, Ack(0, push.round, Outcome.MATCHED)),)))
        assert link.room == before
        link.close()

    run(test())
