"""Watches the product from the inside, by wrapping some of its methods for the length of a run. Its invariants:

replicas-agree      below any replica's high watermark all replicas have the same records, for ever
one-leader          under one leader epoch one broker process appends
zombie              nobody acts as leader beyond its lease once another has been elected
generations         in the log of a group, generations only grow, and one has one assignment
replay              an active shard's state is that of its log
expelled            only members not heard of for their session are expelled
answered-once       no request is answered twice; long after the last fault, none is left unanswered
progress            long after the last fault every partition has its leader and replicas, every group is Stable
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from actors.broker.connections.slots import Slot
from actors.broker.coordinators.hub import ShardHub
from actors.broker.coordinators.link import ShardLink
from actors.broker.coordinators.sleeping import Sleeper, Sleeping
from actors.broker.images import Images
from actors.broker.replication.links import FollowerLink, FollowerListener
from actors.broker.replication.manager import ReplicaManager
from actors.client.net.exchange import Exchange
from actors.controller.active import ActiveController
from actors.controller.metadata.publisher import Publisher
from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupMetadata
from actors.coordinator.classic.type import ClassicOperations
from actors.coordinator.group_types import GroupShard
from actors.coordinator.groups.expiry import ExpiryWrite
from actors.coordinator.shard import Shard
from actors.coordinator.turn import Now
from actors.links.connection import Message
from actors.links.control import Call, Heartbeat, Hello
from actors.links.operations import AlterPartitions
from actors.links.replication import Pong
from actors.log.partition_log import PartitionLog
from actors.log.replication import Ack, FollowerReplica, LeaderReplica, Outcome, Push
from actors.wire.api_keys import ApiKey
from placement.metadata import ClusterMetadata, PartitionInfo
from placement.records import PartitionRecord, Record, one_by_one
from tests.sim.cluster import Cluster
from tests.sim.crashes import Crashes
from tests.sim.engine import MS, SECOND, Process, Simulation
from tests.sim.history import History
from tests.sim.inspector import Inspector
from tests.sim.parked import is_of_a_client
from tests.sim.scenario import LEASE_MS, Scenario

_HEARTBEAT = ApiKey.HEARTBEAT
_PATIENCE_US = 15 * SECOND
_SLACK_US = 20 * MS


class Witness(Inspector):
    """Everything known from the inside in one run."""

    def __init__(
        self,
        sim: Simulation,
        cluster: Cluster,
        history: History,
        scenario: Scenario,
        heard_in_any_type: dict[tuple[int, str, str], int],
    ) -> None:
        super().__init__(sim, cluster, history)
        self.scenario = scenario
        self._leaders: dict[tuple[str, int], Process] = {}
        self._followed: dict[tuple[int, str], int] = {}
        self._heard: dict[tuple[int, str, str], int] = {}
        self._heard_in_any_type = heard_in_any_type
        self._contact: dict[int, int] = {}
        self._confirmed: dict[tuple[int, int], int] = {}
        self._answered: dict[int, Any] = {}
        self.crashes = Crashes(cluster)
        self._meetings: Counter[FollowerLink] = Counter()
        self._pushes: list[tuple[Process, Callable[[], Any]]] = []

    # -- hooks

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The functions of the product that are exchanged for the length of the run."""
        return [
            (PartitionLog, "advance_high_watermark", self._watch_watermark(PartitionLog.advance_high_watermark)),
            (PartitionLog, "append_admitted", self._watch_append(PartitionLog.append_admitted)),
            (LeaderReplica, "advance", self._watch_commit(LeaderReplica.advance)),
            (FollowerReplica, "on_push", self._watch_follower(FollowerReplica.on_push)),
            (PartitionLog, "truncate_to", self._watch_truncation(PartitionLog.truncate_to)),
            (ClassicGroup, "become_empty", self._watch_emptied(ClassicGroup.become_empty)),
            (Rebalancer, "watch", self._watch_sessions(Rebalancer.watch)),
            (ExpiryWrite, "committed", self._watch_expired(ExpiryWrite.committed)),
            (ClassicOperations, "resume", self._watch_resume(ClassicOperations.resume)),
            (ShardHub, "assign", self._watch_assign(ShardHub.assign)),
            (Sleeping, "add", self._watch_sleeps(Sleeping.add)),
            (Shard, "take_replies", self._watch_replies(Shard.take_replies)),
            (Slot, "finish", self._watch_slot(Slot.finish)),
            (Exchange, "timed_out", self._watch_timeout(Exchange.timed_out)),
            (ReplicaManager, "leads", self._watch_leads(ReplicaManager.leads)),
            (ReplicaManager, "ponged", self._watch_pongs(ReplicaManager.ponged)),
            (ActiveController, "heard", self._watch_controller(ActiveController.heard)),
            (Publisher, "commit", self._watch_moves(Publisher.commit)),
            (Images, "apply", self._watch_images(Images.apply)),
            (FollowerListener, "__init__", self._watch_pushes(FollowerListener.__init__)),
            (ReplicaManager, "connected", self._watch_links(ReplicaManager.connected)),
            (ReplicaManager, "acknowledged", self._watch_acks(ReplicaManager.acknowledged)),
        ]

    def _watch_watermark(self, product: Any) -> Any:
        def advance_high_watermark(log: PartitionLog, offset: int) -> bool:
            before = log.high_watermark
            moved: bool = product(log, offset)
            if moved:
                self.logs.judge(log, before)
            return moved

        return advance_high_watermark

    def _watch_emptied(self, product: Any) -> Any:
        def become_empty(group: ClassicGroup, wall_ms: int) -> None:
            product(group, wall_ms)
            self.logs.groups.emptied(group.group_id)

        return become_empty

    def _watch_follower(self, product: Any) -> Any:
        def on_push(replica: FollowerReplica, push: Push, now_ms: int) -> Ack:
            ack: Ack = product(replica, push, now_ms)
            process = self.sim.process
            assert process is not None
            key = (process.pid, replica.log.directory.name)  # type: ignore[attr-defined]
            newest = self._followed.get(key, -1)
            if ack.outcome is Outcome.MATCHED and push.leader_epoch < newest:
                text = f"{process.name} follows epoch {push.leader_epoch} of {key[1]} after epoch {newest}"
                self.sim.fail("one-leader", text)
            self._followed[key] = max(newest, push.leader_epoch)
            return ack

        return on_push

    def _watch_assign(self, product: Any) -> Any:
        def assign(hub: ShardHub, link: ShardLink, partition: int) -> bool:
            assigned: bool = product(hub, link, partition)
            assert self.sim.process is not None
            self.judge_links(self.cluster.opened[self.sim.process].coordinators)
            return assigned

        return assign

    def _watch_sleeps(self, product: Any) -> Any:
        def add(sleeping: Sleeping, partition: int, sleeper: Sleeper) -> None:
            self.history.sleeps += 1
            product(sleeping, partition, sleeper)

        return add

    def _watch_commit(self, product: Any) -> Any:
        def advance(leader: LeaderReplica) -> bool:
            moved: bool = product(leader)
            if moved and self.scenario.replicas > 1:
                self._judge_commit(leader)
            return moved

        return advance

    def _judge_commit(self, leader: LeaderReplica) -> None:
        """Committed records are on enough replicas. The disk of a broker that is down counts if it may still lead.

        So does the acknowledgement of a process that is gone: it was true then, and its machine has lost power since.
        """
        name = leader.log.directory.name  # type: ignore[attr-defined]
        topic, _, index = name.rpartition("-")
        truth = self.cluster.partition(topic, int(index))
        watermark, holders = leader.log.high_watermark, 0
        for broker in self.cluster.brokers:
            log = broker.log(topic, int(index))
            down = broker.server is None and truth is not None and broker.id in (*truth.isr, *truth.elr)
            held = log is not None and log.log_end_offset >= watermark
            epoch, acked = leader.acknowledged(broker.id)
            told = acked >= watermark
            spoke = broker.server is not None and told and epoch != broker.server.registration.link.epoch
            holders += down or held or spoke
            if truth is not None and broker.id in truth.isr and broker.server is not None and not held:
                end = log.log_end_offset if log is not None else 0
                text = f"{name} has committed up to {watermark}, broker {broker.id} has it up to {end} only"
                self.sim.fail("in-sync", text)
        if holders < self.scenario.min_insync:
            self.sim.fail("enough-replicas", f"{name} has committed up to {watermark} on {holders} replica(s)")

    def _watch_truncation(self, product: Any) -> Any:
        def truncate_to(log: PartitionLog, offset: int) -> Any:
            if offset < log.high_watermark:
                where = f"{log.directory.parent.name}'s {log.directory.name}"
                self.sim.fail("replicas-agree", f"{where} is cut at {offset}, committed up to {log.high_watermark}")
            return product(log, offset)

        return truncate_to

    def _watch_append(self, product: Any) -> Any:
        def append_admitted(log: PartitionLog, admitted: Any, leader_epoch: int, now_ms: int) -> Any:
            process, name = self.sim.process, log.directory.name
            assert process is not None
            leader = self._leaders.setdefault((name, leader_epoch), process)
            if leader is not process:
                text = f"{name} at epoch {leader_epoch} is led by {leader.name} and {process.name}"
                self.sim.fail("one-leader", text)
            newest = self._followed.get((process.pid, name), -1)
            self._followed[process.pid, name] = max(newest, leader_epoch)
            done = product(log, admitted, leader_epoch, now_ms)
            if leader_epoch < newest:
                self.sim.fail("one-leader", f"{process.name} leads {name} at epoch {leader_epoch} after epoch {newest}")
            return done

        return append_admitted

    def _watch_sessions(self, product: Any) -> Any:
        def watch(rebalancer: Rebalancer, group: ClassicGroup, member: Member) -> None:
            product(rebalancer, group, member)
            end = member.session.action

            def expired(now: Now) -> None:
                self._judge_expiry(group, member)
                end(now)

            member.session.action = expired

        return watch

    def _judge_expiry(self, group: ClassicGroup, member: Member) -> None:
        waits = member.parked_join or member.parked_sync
        heard_us = self._heard.get(self._seen_by_shard(group.group_id, member.member_id))
        if heard_us is not None and not member.is_new and not waits:
            silent_us = self.sim.now - heard_us
            if silent_us < member.session_timeout_ms * MS - _SLACK_US:
                text = f"{member.member_id} of {group.group_id}, heard of {silent_us // MS} ms ago"
                self.sim.fail("expelled", text)

    def _watch_expired(self, product: Any) -> Any:
        def committed(write: ExpiryWrite, now: Any) -> None:
            product(write, now)
            if write.group is not None:
                self.history.expired(write.group.group_id)

        return committed

    def _seen_by_shard(self, group_id: str, member_id: str) -> tuple[int, str, str]:
        process = self.sim.process
        assert process is not None
        return process.pid, group_id, member_id

    def _watch_resume(self, product: Any) -> Any:
        def resume(operations: ClassicOperations, group_id: str, persisted: GroupMetadata, now: Any) -> None:
            groups = self.groups_here()
            was_loaded = group_id not in groups
            product(operations, group_id, persisted, now)
            for member_id in groups[group_id].members:
                key = self._seen_by_shard(group_id, member_id)
                if was_loaded:
                    self._heard_in_any_type[key] = self.sim.now
                heard = self._heard_in_any_type.get(key)
                # One that was a consumer group until now is not loaded: its members' sessions run on. Of one that has
                # only joined there is nothing to judge.
                if heard is None:
                    self._heard.pop(key, None)
                else:
                    self._heard[key] = heard

        return resume

    def _watch_replies(self, product: Any) -> Any:
        def take_replies(shard: GroupShard) -> Any:
            replies = product(shard)
            for asked, response in replies:
                if is_of_a_client(asked):
                    self._judge_answer(asked, response)
            return replies

        return take_replies

    def _judge_answer(self, asked: Any, response: Any) -> None:
        if id(asked) in self._answered:
            self.sim.fail("answered-once", f"{type(response).__name__} for slot {asked.slot} comes twice")
        self._answered[id(asked)] = asked
        if asked.header.api_key == _HEARTBEAT and not response.error_code:
            self._heard[self._seen_by_shard(asked.message.group_id, asked.message.member_id)] = self.sim.now

    def _watch_slot(self, product: Any) -> Any:
        def finish(slot: Slot, answer: bytes) -> None:
            if slot.answer is not None:
                self.sim.fail("answered-once", f"a request of api {slot.api_key} is answered twice")
            product(slot, answer)

        return finish

    def _watch_timeout(self, product: Any) -> Any:
        def timed_out(exchange: Exchange, name: str, timeout_ms: int) -> None:
            if self.healed_us is not None and self.sim.now > self.healed_us + _PATIENCE_US:
                self.sim.fail("answered-once", f"no answer to {name} within {timeout_ms} ms, long after the last fault")
            product(exchange, name, timeout_ms)

        return timed_out

    def _watch_leads(self, product: Any) -> Any:
        def leads(manager: ReplicaManager, topic: str, index: int, partition: PartitionInfo) -> bool:
            does: bool = product(manager, topic, index, partition)
            if does:
                process = self.sim.process
                assert process is not None
                leader = manager.leading(topic, index)
                members = (leader.counted if leader is not None else frozenset(partition.isr)) | set(partition.elr)
                self._judge_leader(topic, index, partition, members - {self.cluster.opened[process].context.broker_id})
            return does

        return leads

    def _judge_leader(self, topic: str, index: int, partition: PartitionInfo, others: frozenset[int]) -> None:
        truth = self.cluster.partition(topic, index)
        process = self.sim.process
        if truth is None or process is None or truth.leader_epoch <= partition.leader_epoch or truth.leader < 0:
            return
        confirmed = min((self._confirmed.get((process.pid, broker), 0) for broker in others), default=0)
        silent_us = self.sim.now - max(self._contact.get(process.pid, 0), confirmed)
        if silent_us > LEASE_MS * MS + _SLACK_US and self.cluster.controller is not None:
            text = f"{process.name} leads {topic}-{index} at {partition.leader_epoch}, broker {truth.leader} does at "
            self.sim.fail("zombie", text + f"{truth.leader_epoch}; last confirmed {silent_us // MS} ms ago")

    def _watch_pongs(self, product: Any) -> Any:
        def ponged(manager: ReplicaManager, link: FollowerLink, pong: Pong) -> None:
            product(manager, link, pong)
            process = self.sim.process
            if process is not None and link.confirmed_at == pong.sent:
                asked_us = round(pong.sent * SECOND) - process.machine.monotonic_offset_us
                self._confirmed[process.pid, link.broker_id] = asked_us

        return ponged

    def _watch_controller(self, product: Any) -> Any:
        def heard(server: ActiveController, protocol: Any, message: Message) -> None:
            product(server, protocol, message)
            endpoint = protocol.transport
            if endpoint is not None and isinstance(message, Heartbeat | Hello):
                self._contact[endpoint.peer.process.pid] = self.sim.now
            if isinstance(message, Call) and isinstance(message.operation, AlterPartitions):
                for asked in message.operation.partitions:
                    self._judge_in_sync(server.metadata.names.get(asked.topic_id, ""), asked.index)

        return heard

    def heard_by_a_controller(self, process: Process) -> int | None:
        """The last time that a controller heard of a broker's process; None if it never has."""
        return self._contact.get(process.pid)

    def _watch_images(self, product: Any) -> Any:
        def apply(images: Images, metadata: ClusterMetadata) -> None:
            log = self.cluster.log
            if log is None or metadata.version > log.committed.version:
                text = f"an image of version {metadata.version} has come, which has not committed"
                self.sim.fail("nothing-uncommitted-told", text)
            product(images, metadata)

        return apply

    def _watch_moves(self, product: Any) -> Any:
        def commit(publisher: Publisher, records: Sequence[Record], **options: Any) -> Any:
            changes = [record for record in one_by_one(records) if isinstance(record, PartitionRecord)]
            asked = [(record.topic, record.index) for record in changes]
            before = {key: publisher.decided.partition(*key) for key in asked}
            made = product(publisher, records, **options)
            for (topic, index), old in before.items():
                new = publisher.decided.partition(topic, index)
                if old is not None and new is not None and set(old.replicas) - set(new.replicas):
                    self._judge_move(f"{topic}-{index}", old, new)
            return made

        return commit

    def _judge_move(self, name: str, old: PartitionInfo, new: PartitionInfo) -> None:
        """When replicas are dropped, enough others hold all that has committed: one machine may still crash."""
        held, holds = {*old.isr, *old.elr}, {*new.isr, *new.elr}
        if len(holds) < min(self.scenario.min_insync, len(new.replicas), len(held)):
            self.sim.fail("enough-replicas", f"{name} was {old} and is {new}: {len(holds)} replica(s) have everything")

    def _judge_in_sync(self, topic: str, index: int) -> None:
        """The members of a set that was proposed, and perhaps recorded, hold all that is known to have committed."""
        truth = self.cluster.partition(topic, index)
        for member in truth.isr if truth is not None else ():
            broker, committed = self.cluster.brokers[member], self.logs.end(f"{topic}-{index}")
            log = broker.log(topic, index)
            end = log.log_end_offset if log is not None else 0
            if broker.server is not None and end < committed:
                text = f"broker {member} is in sync for {topic}-{index} with records up to {end} of {committed}"
                self.sim.fail("in-sync", text)

    # -- messages that come again

    def _watch_pushes(self, product: Any) -> Any:
        def made(listener: FollowerListener, *parts: Any, take: Any, **options: Any) -> None:
            def taken(leader: int, pushes: Any) -> Any:
                assert self.sim.process is not None
                self._remember(self.sim.process, lambda: take(leader, pushes))
                return take(leader, pushes)

            product(listener, *parts, take=taken, **options)

        return made

    def _watch_links(self, product: Any) -> Any:
        def connected(manager: ReplicaManager, link: FollowerLink) -> None:
            self._meetings[link] += 1
            product(manager, link)

        return connected

    def _watch_acks(self, product: Any) -> Any:
        def acknowledged(manager: ReplicaManager, link: FollowerLink, acks: Any) -> None:
            meeting = self._meetings[link]

            def again() -> None:
                if self._meetings[link] == meeting and link.ready:
                    product(manager, link, acks)

            assert self.sim.process is not None
            self._remember(self.sim.process, again)
            product(manager, link, acks)

        return acknowledged

    def _remember(self, process: Process, again: Callable[[], Any]) -> None:
        self._pushes.append((process, again))
        if len(self._pushes) > 30:
            del self._pushes[:10]

    def repeat_messages(self) -> bool:
        """Have some messages between brokers arrive once more, in another order."""
        chosen = self.sim.random.sample(self._pushes, min(5, len(self._pushes)))
        for process, again in chosen:
            if process.alive:
                self.sim.at(self.sim.now + self.sim.random.randint(1, 300) * MS, process, again)
        return bool(chosen)
