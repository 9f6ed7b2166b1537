"""Looks at the whole cluster now and then, and when it should be at rest. Its invariants:

replay              an active shard's state is that of its log, and so is the state that is kept of one that sleeps
one-shard           a broker gives a partition to one process at a time
answered-once       every parked request is known to somebody who will answer it
progress            long after the last fault every partition has its leader and replicas, every group is Stable, and
                    expired offsets are gone
records-survive     in the end all acknowledged records are on every replica
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from actors.broker.coordinators.host import Coordinators
from actors.broker.coordinators.hub import ShardHub
from actors.client.group.classic.membership import Membership as ClassicMembership
from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.join import ReplacementWrite
from actors.coordinator.classic.messages import JoinGroupRequest, SyncGroupRequest
from actors.coordinator.consumer.executor import GroupWrite
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.group_types import GroupShard
from actors.coordinator.groups.offset_records import decode_offset_value
from actors.coordinator.shard import ShardState
from actors.coordinator_kinds.groups import GROUPS
from actors.log.partition_log import PartitionLog
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC
from tests.sim.clients import PARTITIONS
from tests.sim.cluster import Cluster
from tests.sim.engine import MS, Simulation
from tests.sim.history import History
from tests.sim.members import Member
from tests.sim.parked import parked_in
from tests.sim.scenario import Speaks
from tests.sim.sim_broker import SimBroker
from tests.sim.truth import CommittedLogs
from tests.support.offset_rows import naive_replay, projection

_LOOK_US = 1_500 * MS
_SOON_MS = 10_000


class Inspector:
    """Sees all processes at once, at any time."""

    def __init__(self, sim: Simulation, cluster: Cluster, history: History) -> None:
        self.sim = sim
        self.cluster = cluster
        self.history = history
        self.logs = CommittedLogs(sim)
        self.why = ""
        """The reason why the cluster was not at rest at the last look."""
        self.healed_us: int | None = None
        self.replays = 0

    # -- at rest

    def at_rest(self, members: list[Member]) -> Callable[[], bool]:
        """A function that tells if the cluster and its groups have come to rest after the last fault."""
        self.healed_us = self.sim.now

        def look() -> bool:
            self.why = self._missing(members)
            return not self.why

        return look

    def _missing(self, members: list[Member]) -> str:
        if not self.cluster.ready():
            return "not all brokers are here"
        if self.cluster.truth.removals:
            return f"{self.cluster.truth.removals} have yet to be removed"
        for topic in self.cluster.truth.topics.values():
            for index, partition in enumerate(topic.partitions):
                moves = partition.adding or partition.removing
                if moves or partition.leader != partition.replicas[0] or len(partition.isr) < len(partition.replicas):
                    return f"{topic.name}-{index} is {partition}"
        for group in sorted({member.group for member in members}):
            of_group = [member for member in members if member.group == group]
            why = self._group_missing(group, of_group)
            if why:
                return why
        return self._overdue()

    def _overdue(self) -> str:
        """Name a group with offsets that expire about now, by the clock of the broker that leads its partition."""
        for group_id in sorted(self.history.fleeting):
            index = partition_for_group(group_id, len(self.cluster.truth.topics[OFFSETS_TOPIC].partitions))
            partition = self.cluster.partition(OFFSETS_TOPIC, index)
            assert partition is not None
            broker = self.cluster.brokers[partition.leader]
            log = broker.log(OFFSETS_TOPIC, index)
            if log is None:
                continue
            group = naive_replay(self.logs.keys_and_values(log, log.high_watermark)).get(group_id)
            stored = [decode_offset_value(value) for _, value in group.offsets.items()] if group is not None else []
            soon_ms = broker.machine.wall_us // MS + _SOON_MS
            if any(value.expire_timestamp_ms <= soon_ms for value in stored):
                return f"an offset of {group_id} has expired, or does so soon"
        return ""

    def _group_missing(self, group_id: str, members: list[Member]) -> str:
        shard = self.shard_of(group_id)
        if shard is None or shard.state is not ShardState.ACTIVE:
            return f"no shard serves {group_id}"
        group = shard.coordinator.runtime.groups.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup) or group.state_name != "Stable":
            return f"group {group_id} is {group.state_name if group is not None else 'not there'}"
        slow = next((each for each in members if each.in_listener), None)
        if slow is not None:
            return f"a listener of {slow.name} has not returned"
        lost = next((each for each in members if not each.member.may_deliver(each.network.now_ms())), None)
        if lost is not None:
            return f"{lost.name} counts itself out of {group_id}, and has yet to say so"
        joins = next((m for m in members if isinstance(m.member, ClassicMembership) and not m.member.settled), None)
        if joins is not None:
            return f"{joins.name} has yet to join {group_id} again, as when its pattern matches other topics"
        epochs = self._epochs(group)
        if {m.member.generation.member_id for m in members if m.running} != set(epochs):
            return f"group {group_id} has members {sorted(epochs)}"
        for each in members:
            if each.member.generation.id != epochs.get(each.member.generation.member_id):
                return f"{each.name} of {group_id} is in {each.member.generation}, not in {epochs}"
            if isinstance(group, ClassicGroup) and each.speaks is not Speaks.CLASSIC:
                return f"group {group_id} is classic, and {each.name} is not"
        held = sorted(tp.partition for member in members for tp in member.positions)
        if held != list(range(PARTITIONS)):
            return f"group {group_id} reads {held}"
        there = members[0].plan.wish.topics & self.cluster.truth.topics.keys()
        for each in members:
            if (
                isinstance(each.member, ClassicMembership)
                and each.member.wants_all_topics
                and each.member.topics != there
            ):
                return f"{each.name} has yet to see that {sorted(there)} match its pattern, and joins again then"
        if isinstance(group, ConsumerGroup):
            resolved, asked = group.state.resolved, group.state.regexes
            if asked.keys() - resolved.keys() or any(each.topics != there for each in resolved.values()):
                return f"group {group_id} has yet to find that {sorted(there)} match its expressions"
        return self._unowned(group_id, members)

    @staticmethod
    def _epochs(group: ClassicGroup | ConsumerGroup) -> dict[str, int]:
        """The generation or epoch that each member has to be in."""
        if isinstance(group, ClassicGroup):
            return dict.fromkeys(group.members, group.generation_id)
        return {member_id: group.state.current_of(member_id).epoch for member_id in group.state.metadata}

    def _unowned(self, group_id: str, members: list[Member]) -> str:
        """The partitions of all topics that are subscribed to, each once, unless somebody lacks one or has another."""
        topics = self.cluster.truth.topics
        wished = [topics[name] for name in members[0].plan.wish.topics if name in topics]
        there = sorted((topic.name, index) for topic in wished for index in range(len(topic.partitions)))
        owned = sorted((tp.topic, tp.partition) for member in members for tp in member.member.owned)
        return "" if owned == there else f"group {group_id} owns {owned} of {there}"

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The shard that serves a group on the broker that leads it."""
        topic = self.cluster.truth.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        index = partition_for_group(group_id, len(topic.partitions))
        leader = topic.partitions[index].leader
        if leader < 0:
            return None
        for shard in self.cluster.brokers[leader].shards.values():
            if shard is not None and shard.partition == index and shard.shard is not None:
                return shard.shard
        return None

    def groups_here(self) -> dict[str, Any]:
        """The groups of the shard that the process at hand hosts."""
        process = self.sim.process
        assert process is not None
        (hosted,) = [broker.shards[process] for broker in self.cluster.brokers if process in broker.shards]
        shard: Any = hosted.shard if hosted is not None else None
        groups: dict[str, Any] = shard.coordinator.runtime.groups
        return groups

    def keep_watching(self) -> None:
        """Look at the shards every now and then from now on."""
        self.judge_shards()
        self.sim.after(_LOOK_US, self.keep_watching)

    def judge_shards(self) -> None:
        """Every active shard holds the state of its log, and forgets nobody who waits."""
        for broker in self.cluster.brokers:
            if broker.server is not None:
                self.judge_links(broker.server.coordinators)
                self._judge_sleepers(broker, broker.server.coordinators[GROUPS])
            for process, shard in list(broker.shards.items()):
                log = broker.log(OFFSETS_TOPIC, shard.partition) if shard is not None else None
                # The log of a stopped shard may be compacted beyond the shard's state: there is nothing to compare.
                runs = process.alive and not process.stopped
                if shard is not None and log is not None and shard.shard is not None and runs:
                    self._judge_shard(shard.shard, log, f"{broker.host}'s shard {shard.partition}")

    def _judge_shard(self, shard: GroupShard, log: PartitionLog, name: str) -> None:
        watermark = shard.coordinator.runtime.writer.committed_to
        if shard.state is not ShardState.ACTIVE or not log.checkpoint.cleaned_to <= watermark <= log.log_end_offset:
            return
        self._judge_parked(shard, name)
        self.replays += 1
        state = projection(shard.coordinator.runtime.durable)
        replayed = projection(naive_replay(self.logs.keys_and_values(log, watermark)))
        if state != replayed:
            self.sim.fail("replay", f"{name} holds {state}, its log says {replayed}")

    def _judge_sleepers(self, broker: SimBroker, hub: ShardHub) -> None:
        """A broker's notes of a sleeping partition agree with its log, while the broker leads it."""
        for index, sleeper in hub.sleeping.items():
            partition, log = self.cluster.partition(OFFSETS_TOPIC, index), broker.log(OFFSETS_TOPIC, index)
            if (
                partition is None
                or log is None
                or (partition.leader, partition.leader_epoch)
                != (
                    broker.id,
                    sleeper.epoch,
                )
            ):
                continue
            if index in hub.partitions.links or log.checkpoint.cleaned_to > log.high_watermark:
                continue
            state = naive_replay(self.logs.keys_and_values(log, log.high_watermark))
            held = {group_id: group.topics() for group_id, group in state.items()}
            kept = {group.group_id for group in sleeper.rest.groups}
            if set(held) != kept or frozenset().union(*held.values()) != frozenset(sleeper.rest.topics):
                self.sim.fail("replay", f"{broker.host} keeps {sleeper.rest} of {index}, its log says {held}")

    def _judge_parked(self, shard: GroupShard, name: str) -> None:
        """Every join or sync that waits is known to somebody who will answer it."""
        runtime = shard.coordinator.runtime
        writes = list(runtime.writer.pending_writes())
        known = {id(write.parked.token) for write in writes if isinstance(write, ReplacementWrite)}
        for group in runtime.groups.values():
            known.update(id(token) for token in parked_in(group))
        for write in writes:
            if isinstance(write, GroupWrite):
                known.update(id(each.operation.token) for each in write.done)
        for token, request in runtime.unanswered.items():
            if isinstance(request, JoinGroupRequest | SyncGroupRequest) and id(token) not in known:
                self.sim.fail("answered-once", f"nobody will answer a {type(request).__name__} that {name} holds")

    def judge_links(self, coordinators: Coordinators) -> None:
        """No two processes were given the same partition by a broker that has not taken it back from one."""
        given = Counter(link.partition for link in coordinators.processes.links.values() if link.partition >= 0)
        for partition, count in given.items():
            if count > 1:
                self.sim.fail("one-shard", f"{count} processes were given offsets partition {partition}")

    def judge_logs(self) -> None:
        """At rest: all acknowledged records are on every replica."""
        self.judge_shards()
        for (topic, index), acked in self.history.acked.items():
            partition = self.cluster.partition(topic, index)
            assert partition is not None
            for replica in partition.replicas:
                log = self.cluster.brokers[replica].log(topic, index)
                held = self.logs.values(log) if log is not None else {}
                for offset, value in acked.items():
                    if held.get(offset) != value:
                        text = f"{topic}-{index} at {offset}: {value!r} was acknowledged, broker {replica} has "
                        self.sim.fail("records-survive", text + repr(held.get(offset)))

    def judge_unanswered(self) -> None:
        """At rest: shards owe only the answers that they have parked, and none of these is old."""
        for broker in self.cluster.brokers:
            if broker.server is not None:
                for link in broker.server.coordinators[GROUPS].partitions.links.values():
                    if len(link.pending) > 20:
                        self.sim.fail(
                            "answered-once", f"{broker.host} waits for {len(link.pending)} answers of a shard"
                        )
