"""Who uses the cluster: members of groups with the product's membership, producers, readers, and one who must not.

The network and membership code is actors.client's; only the user's thread, which there may block, is a coroutine here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from actors.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    HeartbeatFailedError,
    KafkaError,
    RebalanceInProgressError,
)
from actors.client.group.assignors import BUILT_IN
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.membership import Membership
from actors.client.group.classic.standing import MemberState
from actors.client.group.driver import Driver
from actors.client.group.effects import Apply, CommitFirst, CommitOutcome, Fail
from actors.client.net.changes import Changes
from actors.client.net.network import Network
from actors.client.net.settings import NetworkSettings
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.records.bounds import AT_ONCE
from actors.records.building import build_batch
from actors.records.reading import read_records
from actors.wire.messages import (
    FetchRequest,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    ProduceRequest,
)
from tests.sim.cluster import Cluster
from tests.sim.engine import MS, Machine, Process
from tests.sim.environment import environment_of
from tests.sim.history import History

TOPIC = "t"
PARTITIONS = 3
SESSION_MS = 3_000
REBALANCE_MS = 3_000
_REFUSED_FOR_GOOD = (CommitFailedError, RebalanceInProgressError, FencedInstanceIdError)
_LOOK_AGAIN = {-1, 14, 15, 16}
"""No coordinator, or the connection was lost: nothing is said of the commit."""


class Client:
    """A process that uses the cluster. It may be killed and started again."""

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        self.cluster = cluster
        self.sim = cluster.sim
        self.history = history
        self.name = name
        self.machine = Machine(self.sim, name)
        self.sim.network.machines.append(self.machine)
        self.process: Process | None = None
        self.network: Network
        self.lives = 0
        self.retired = False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        if self.running or self.sim.over or self.retired:
            return
        self.lives += 1
        self.process = Process(self.sim, f"{self.name}.{self.lives}", self.machine)
        self.sim.say(f"{self.process.name} starts")
        self.process.run(self._main(self.process))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def retire(self) -> None:
        """Gone, and not to come back."""
        self.retired = True
        self.kill()

    async def _main(self, process: Process) -> None:
        settings = NetworkSettings(
            bootstrap=self.cluster.bootstrap(),
            client_id=self.name,
            request_timeout_ms=2_500,
            connect_timeout_ms=1_500,
            metadata_max_age_ms=20_000,
            retry_backoff_max_ms=400,
        )
        environment = environment_of(process)
        self.network = Network(settings, lambda: frozenset({TOPIC}), loop=process.loop, environment=environment)
        self.prepare()
        process.run(self.network._keep_metadata())
        await self.live()

    def prepare(self) -> None:
        """Before the network is used."""

    async def live(self) -> None:
        raise NotImplementedError

    async def pause(self, low_ms: int, high_ms: int) -> None:
        await asyncio.sleep(self.sim.random.randint(low_ms, high_ms) / 1000)


class Watched(Membership):
    """The product's membership; the simulation is told of some of what happens to it."""


class Member(Client):
    """A consumer in a group: reads where the group stands, and commits ever newer positions."""

    def __init__(self, cluster: Cluster, history: History, name: str, group: str, **options: Any) -> None:
        super().__init__(cluster, history, name)
        self.group = group
        self.assignor: str = options.get("assignor", "range")
        self.instance: str | None = options.get("instance")
        self.subscribes: bool = options.get("subscribes", True)
        self.member: Membership
        self.driver: Driver
        self.positions: dict[TopicPartition, int] = {}
        self.commits = 0
        self.past: list[tuple[int, str]] = []
        """Generations and member ids that are over."""

    def prepare(self) -> None:
        config = MembershipConfig(
            group_id=self.group,
            assignors=(BUILT_IN[self.assignor](),),
            group_instance_id=self.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=REBALANCE_MS,
            request_timeout_ms=2_500,
            retry_backoff_max_ms=400,
        )
        self.positions = {}
        self.member = Watched(config, self.network.jitter)
        self.driver = Driver(self.member, self.network, Changes(self.network.now_ms), lambda tp: b"")
        self.network.on_metadata = self.driver.on_metadata
        if self.subscribes:
            self.member.subscribe({TOPIC})
        self.driver.pump()

    async def live(self) -> None:
        while True:
            self.member.poll(self.network.now_ms())
            if not await self._take_part():
                await self.pause(100, 500)
                self.sim.after(300 * MS, self.start)  # as a user would who was told that this consumer is done for
                assert self.process is not None
                self.sim.after(0, self.process.kill)
                return
            if self.member.owned and self.member.state is MemberState.STABLE:
                await self._work()
            await self.pause(20, 250)

    async def leave(self, back_us: int) -> None:
        """Close as a user does, and come back after a while."""
        self.member.unsubscribe(self.network.now_ms(), "closed")
        self.driver.pump()
        await self.pause(10, 500)
        assert self.process is not None
        self.sim.after(0, self.process.kill)
        self.sim.after(back_us, self.start)

    # -- taking part

    async def _take_part(self) -> bool:
        """What the product's poll does; False when the user is told to give up."""
        while True:
            before = self.member.generation
            action = self.member.next_action(self.network.now_ms())
            self.driver.pump()
            if action is None:
                return True
            if isinstance(action, Fail):
                self.sim.say(f"{self.name}: {action.error!r}")
                if isinstance(action.error, FencedInstanceIdError):
                    return False
                if isinstance(action.error, HeartbeatFailedError):
                    raise action.error
                continue
            outcome = CommitOutcome.DONE
            if isinstance(action, CommitFirst):
                outcome = await self._last_commit()
            elif isinstance(action, Apply):
                self._apply(action.partitions)
            self.member.action_done(action, self.network.now_ms(), None, outcome)
            if self.member.generation != before:
                self.past.append((before.id, before.member_id))

    def _apply(self, partitions: frozenset[TopicPartition]) -> None:
        generation = self.member.generation
        self.sim.say(f"{self.name} has {[tp.partition for tp in sorted(partitions)]} in generation {generation.id}")
        if partitions and generation.id >= 0:
            self.history.assigned(self.group, generation.id, self.instance or generation.member_id, partitions)
            if (generation.id, generation.member_id) not in self.past:
                self.past.append((generation.id, generation.member_id))
        self.positions = {tp: at for tp, at in self.positions.items() if tp in partitions}

    async def _last_commit(self) -> CommitOutcome:
        await self._commit(sorted(self.positions))
        return CommitOutcome.DONE

    # -- working

    async def _work(self) -> None:
        missing = [tp for tp in sorted(self.member.owned) if tp not in self.positions]
        if missing:
            generation = self.member.generation
            found = await self.read(missing, 2_500)
            if self.member.generation == generation and found:
                self.positions.update((tp, at) for tp, at in found.items() if tp in self.member.owned)
        elif self.sim.random.random() < 0.5:
            await self._commit(sorted(self.positions))

    async def read(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """The group's offsets, held against what was acknowledged; empty if they cannot be had."""
        begun_us = self.sim.now
        try:
            found = await self.driver.committed(partitions, timeout_ms)
        except KafkaError as error:
            self.sim.say(f"{self.name} cannot read offsets: {error!r}")
            return {}
        for tp, offset in found.items():
            self.history.read(self.group, tp, offset.offset if offset is not None else None, begun_us)
        return {tp: offset.offset if offset is not None else 0 for tp, offset in found.items()}

    async def _commit(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        values = {tp: self.history.next_position() for tp in partitions}
        offsets = {tp: OffsetAndMetadata(value, "", -1) for tp, value in values.items()}
        try:
            commit = self.driver.make_commit(offsets)
        except KafkaError:
            return
        attempts = self.history.begin_commit(self.group, values, self.name)
        try:
            await self.driver.commit(commit, offsets, 2_500, retry=False)
        except _REFUSED_FOR_GOOD as error:
            self.history.end_commit(attempts, acked=False, refused=repr(error))
        except KafkaError as error:
            self.sim.say(f"{self.name} cannot commit: {error!r}")
        else:
            self.commits += 1
            self.history.end_commit(attempts, acked=True)


class Observer(Member):
    """No member: asks for a group's offsets over and over, as tools that show its lag do."""

    def __init__(self, cluster: Cluster, history: History, name: str, group: str) -> None:
        super().__init__(cluster, history, name, group, subscribes=False)

    async def live(self) -> None:
        while True:
            await self.pause(50, 400)
            await self.read([TopicPartition(TOPIC, index) for index in range(PARTITIONS)], 1_000)


_LONG_TO_CHECK = bytes(AT_ONCE.plain_bytes)
"""What is checked in a thread, and stays small in the log."""


class Producer(Client):
    """Writes records with acks=all, each only once. Of one batch in eight a broker checks the records in a thread."""

    count = 0

    async def live(self) -> None:
        while True:
            await self.pause(50, 400)
            await self._produce(self.sim.random.randrange(PARTITIONS))

    async def _produce(self, index: int) -> None:
        leader = self.network.cluster.leader(TopicPartition(TOPIC, index))
        if leader is None:
            self.network.refresh()
            return
        values = []
        for _ in range(self.sim.random.randint(1, 3)):
            self.count += 1
            values.append(f"{self.name}-{self.count}".encode())
        codec = "none"
        if self.sim.random.random() < 0.125:
            codec, values[-1] = "zstd", values[-1] + _LONG_TO_CHECK
        batch = build_batch([(None, value, (), 1_700_000_000_000) for value in values], compression=codec)
        part = ProduceRequest.PartitionProduceData(index=index, records=batch)
        topic = self.network.cluster.topics[TOPIC]
        data = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=topic.id, partition_data=[part])
        request = ProduceRequest(acks=-1, timeout_ms=1_500, topic_data=[data])
        try:
            answer = await self.network.ask(leader, request)
        except KafkaError:
            self.network.refresh()
            return
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            self.history.wrote(TOPIC, index, result.base_offset, values)
        else:
            self.network.refresh()


class Reader(Client):
    """Reads what has committed, partition by partition, over and over."""

    def prepare(self) -> None:
        self.next: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    async def live(self) -> None:
        while True:
            await self.pause(100, 500)
            await self._fetch(self.sim.random.randrange(PARTITIONS))

    async def _fetch(self, index: int) -> None:
        leader = self.network.cluster.leader(TopicPartition(TOPIC, index))
        if leader is None:
            self.network.refresh()
            return
        start = self.next[index]
        made = FetchRequest.FetchPartition(
            partition=index, fetch_offset=start, partition_max_bytes=1 << 16, current_leader_epoch=-1
        )
        topic = self.network.cluster.topics[TOPIC]
        asked = FetchRequest.FetchTopic(topic=TOPIC, topic_id=topic.id, partitions=[made])
        request = FetchRequest(
            max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, session_id=0, session_epoch=-1, topics=[asked]
        )
        try:
            answer = await self.network.ask(leader, request)
        except KafkaError:
            self.network.refresh()
            return
        for topic_answer in answer.responses:
            for result in topic_answer.partitions:
                if result.error_code:
                    self.network.refresh()
                    continue
                for record in read_records(result.records or b""):
                    if record.offset >= start:
                        self.history.saw(TOPIC, index, record.offset, record.value or b"")
                        self.next[index] = max(self.next[index], record.offset + 1)
        if self.sim.random.random() < 0.1:
            self.next[index] = 0


class Intruder(Client):
    """Commits with generations that are over and as members nobody knows. It must never succeed."""

    def __init__(self, cluster: Cluster, history: History, name: str, members: list[Member]) -> None:
        super().__init__(cluster, history, name)
        self.members = members

    async def live(self) -> None:
        while True:
            await self.pause(300, 900)
            victim = self.sim.random.choice(self.members)
            stale = [each for each in victim.past if each[0] >= 0]
            if stale and self.sim.random.random() < 0.7:
                await self._as_of_old(victim, *self.sim.random.choice(stale))
            elif self.history.owners:
                await self._as_stranger(victim)

    async def _as_stranger(self, victim: Member) -> None:
        code = await self._commit(victim.group, 1, "nobody-knows-me", None)
        formed = any(group == victim.group for group, _ in self.history.owners)
        self.history.probed("a stranger's commit", code, ({25} if formed else {25, 69}) | _LOOK_AGAIN)

    async def _as_of_old(self, victim: Member, generation: int, member_id: str) -> None:
        newest = max((g for group, g in self.history.owners if group == victim.group), default=-1)
        if generation >= newest:
            return  # it may still be the present one
        code = await self._commit(victim.group, generation, member_id, victim.instance)
        allowed = {22, 25, 82} if victim.instance else {22, 25}
        self.history.probed(f"a commit of {victim.name} in generation {generation}", code, allowed | _LOOK_AGAIN)

    async def _commit(self, group: str, generation: int, member_id: str, instance: str | None) -> int:
        tp = TopicPartition(TOPIC, self.sim.random.randrange(PARTITIONS))
        value = self.history.next_position()
        attempts = self.history.begin_commit(group, {tp: value}, self.name)
        self.history.end_commit(attempts, acked=False, refused="an intruder's")
        try:
            find = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
            found = await self.network.ask(None, find)
            where = found.coordinators[0] if found.coordinators else found
            if where.error_code:
                return int(where.error_code)
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                group_instance_id=instance,
                retention_time_ms=-1,
                topics=[
                    OffsetCommitRequest.OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            OffsetCommitRequest.OffsetCommitRequestPartition(
                                partition_index=tp.partition, committed_offset=value
                            )
                        ],
                    )
                ],
            )
            node = Node(where.node_id, where.host, where.port)
            answer = await self.network.ask(node, request, max_version=9)
        except KafkaError:
            return -1
        return int(answer.topics[0].partitions[0].error_code)
