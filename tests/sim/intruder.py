"""A client whose requests must all be refused: of ended memberships, with others' epochs, and as a stranger."""

from __future__ import annotations

from typing import Any

from actors.client.errors import KafkaError
from actors.client.records import Node, TopicPartition
from actors.coordinator.classic.records import GroupMetadata
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import Current
from actors.wire.messages import ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, OffsetCommitRequest
from tests.sim.clients import PARTITIONS, TOPIC, Client
from tests.sim.cluster import Cluster
from tests.sim.group_truth import CommittedGroups
from tests.sim.history import History
from tests.sim.members import Member

_LOOK_AGAIN = {-1, 14, 15, 16}
"""No coordinator, or the connection was lost: nothing is said of the request."""


class Intruder(Client):
    """Commits with ended generations and as unknown members; beats with epochs that its members do not have.

    `groups` is the truth about groups with members of the consumer protocol.
    """

    def __init__(
        self, cluster: Cluster, history: History, name: str, members: list[Member], groups: CommittedGroups
    ) -> None:
        super().__init__(cluster, history, name)
        self.members = members
        self.groups = groups

    async def live(self) -> None:
        while True:
            await self.pause(300, 900)
            victim = self.sim.random.choice(self.members)
            if victim.plan.is_mixed and self.sim.random.random() < 0.3:
                await self._beat_as_of_old(victim.group)
                continue
            stale = [each for each in victim.past if each[0] >= 0]
            if stale and self.sim.random.random() < 0.7:
                as_of_old = self._as_of_old_in_a_mixed_group if victim.plan.is_mixed else self._as_of_old
                await as_of_old(victim, *self.sim.random.choice(stale))
            elif self.history.assignments:
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

    # -- groups of both protocols

    async def _as_of_old_in_a_mixed_group(self, victim: Member, epoch: int, member_id: str) -> None:
        """A member may commit in an older epoch for partitions that it has held since. It has not held these."""
        partitions = self._not_held(victim.group, epoch, member_id)
        if partitions:
            index = self.sim.random.choice(partitions)
            code = await self._commit(victim.group, epoch, member_id, victim.instance, index)
            allowed = {22, 25, 82, 113} | _LOOK_AGAIN
            self.history.probed(f"a commit of {member_id} for partition {index} at epoch {epoch}", code, allowed)

    def _not_held(self, group: str, epoch: int, member_id: str) -> list[int]:
        everything = list(range(PARTITIONS))
        match self.groups.persisted(group):
            case GroupMetadata(generation_id=generation):
                return everything if epoch < generation else []
            case ConsumerState() as state:
                if member_id not in state.metadata:  # an expelled member may join again, at this epoch at least
                    return everything if epoch < state.assignment_epoch else []
                current = state.current_of(member_id)
                return [] if epoch >= current.epoch else [i for i in everything if not self._held(current, i, epoch)]
        return []

    def _held(self, current: Current, index: int, epoch: int) -> bool:
        topic_id = self.cluster.truth.topics[TOPIC].id
        held = {**current.pending.get(topic_id, {}), **current.assigned.get(topic_id, {})}
        return held.get(index, epoch + 1) <= epoch

    async def _beat_as_of_old(self, group: str) -> None:
        """A heartbeat in an epoch that its member has left, or never had; it does not name the owned partitions."""
        state = self.groups.persisted(group)
        if not isinstance(state, ConsumerState):
            return
        epochs = {each: state.current_of(each).epoch for each, m in state.metadata.items() if m.classic is None}
        chosen = [(member_id, epoch) for member_id, epoch in sorted(epochs.items()) if epoch > 1]
        if not chosen:
            return
        member_id, epoch = self.sim.random.choice(chosen)
        wrong = epoch + 100 if self.sim.random.random() < 0.3 else self.sim.random.randrange(1, epoch)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=wrong, rebalance_timeout_ms=-1
        )
        answer = await self._ask(group, request)
        code = answer if isinstance(answer, int) else int(answer.error_code)
        self.history.probed(f"a heartbeat of {member_id} at epoch {wrong}", code, {25, 69, 110} | _LOOK_AGAIN)

    # -- requests

    async def _commit(
        self, group: str, generation: int, member_id: str, instance: str | None, index: int | None = None
    ) -> int:
        tp = TopicPartition(TOPIC, self.sim.random.randrange(PARTITIONS) if index is None else index)
        value = self.history.next_position()
        attempts = self.history.begin_commit(group, {tp: value}, self.name)
        self.history.end_commit(attempts, acked=False, refused="an intruder's")
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=value
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=-1,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        answer = await self._ask(group, request, max_version=9)
        return answer if isinstance(answer, int) else int(answer.topics[0].partitions[0].error_code)

    async def _ask(self, group: str, request: Any, max_version: int | None = None) -> Any:
        """The group's coordinator's answer, or an error code if there is none."""
        try:
            find = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
            found = await self.network.ask(None, find)
            where = found.coordinators[0] if found.coordinators else found
            if where.error_code:
                return int(where.error_code)
            node = Node(where.node_id, where.host, where.port)
            return await self.network.ask(node, request, max_version=max_version)
        except KafkaError:
            return -1
