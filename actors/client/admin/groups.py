"""The methods of `Admin` for consumer groups and their offsets, on the event loop. It asks each group's coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actors.client.admin.brokers import Brokers, Outcomes, outcome
from actors.client.admin.described_groups import Described, classic_group, consumer_group, may_be_of_another_type
from actors.client.admin.types import GroupDescription, GroupListing
from actors.client.error_codes import error_for
from actors.client.errors import KafkaError, UnknownMemberIdError, UnsupportedVersionError
from actors.client.group.offsets import fetch_request, judge_fetch
from actors.client.net.leaders import by_topic
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)

_ELSEWHERE = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


class Groups:
    """Lists, describes, changes and deletes groups, members and offsets. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def find(self, group_id: str, deadline: int) -> Node:
        """The broker that coordinates a group."""

        async def itself(node: Node) -> Node:
            return node

        return await self._brokers.at_coordinator(group_id, itself, deadline)

    async def list_all(self, states: Iterable[str], types: Iterable[str], deadline: int) -> list[GroupListing]:
        """All groups of all brokers, sorted by id; `states` and `types` keep only those."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        lowest = 5 if request.types_filter else 4 if request.states_filter else 0

        async def ask(node: Node) -> list[GroupListing]:
            response = await self._brokers.network.ask(node, request, min_version=lowest)
            if response.error_code:
                raise error_for(response.error_code, f"listing the groups of broker {node.id}")
            return [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]

        answers = await self._brokers.everywhere(ask, deadline)
        # By id, because a group that moves to another broker between two answers is in both.
        return sorted({g.group_id: g for groups in answers for g in groups}.values(), key=lambda g: g.group_id)

    async def describe(self, group_ids: Iterable[str], deadline: int) -> dict[str, GroupDescription | KafkaError]:
        """Classic and consumer groups with their members. One that does not exist has the state Dead.

        One that is neither is asked for as a classic one again: it may have become one between the two questions.
        """

        async def ask(node: Node, groups: list[str]) -> dict[str, Described]:
            found = await self._classic_groups(node, groups)
            others = [name for name, group in found.items() if may_be_of_another_type(group)]
            consumers = await self._consumer_groups(node, others) if others else None
            if consumers is None:
                return found
            neither = [group for group in others if group not in consumers]
            again = await self._classic_groups(node, neither) if neither else {}
            return found | consumers | again

        return await self._brokers.at_coordinators(group_ids, ask, deadline)

    async def _classic_groups(self, node: Node, groups: list[str]) -> dict[str, Described]:
        response = await self._brokers.network.ask(node, DescribeGroupsRequest(groups=groups))
        return {g.group_id: classic_group(g, node) for g in response.groups}

    async def _consumer_groups(self, node: Node, groups: list[str]) -> dict[str, Described] | None:
        """Those of the groups that are consumer groups; None where the broker does not know such groups."""
        try:
            response = await self._brokers.network.ask(node, ConsumerGroupDescribeRequest(group_ids=groups))
        except UnsupportedVersionError:
            return None
        found = {g.group_id: consumer_group(g, node) for g in response.groups}
        return {group: each for group, each in found.items() if each is not None}

    async def delete(self, group_ids: Iterable[str], deadline: int) -> Outcomes[str]:
        """Delete groups and their offsets; one outcome for each."""

        async def ask(node: Node, groups: list[str]) -> dict[str, bool | KafkaError]:
            response = await self._brokers.network.ask(node, DeleteGroupsRequest(groups_names=groups))
            return {r.group_id: outcome(r.error_code, f"deleting group {r.group_id}") or True for r in response.results}

        found = await self._brokers.at_coordinators(group_ids, ask, deadline)
        return {group: result if isinstance(result, KafkaError) else None for group, result in found.items()}

    async def remove_members(
        self, group_id: str, member_ids: Iterable[str], group_instance_ids: Iterable[str], reason: str, deadline: int
    ) -> Outcomes[str]:
        """Make members leave; one outcome for each. Raises ValueError if none is named."""
        identity = LeaveGroupRequest.MemberIdentity
        members = [identity(member_id=m, reason=reason) for m in member_ids]
        members += [identity(member_id="", group_instance_id=i, reason=reason) for i in group_instance_ids]
        if not members:
            raise ValueError("neither member_ids nor group_instance_ids were given")

        async def ask(node: Node) -> Outcomes[str]:
            request = LeaveGroupRequest(group_id=group_id, members=members)
            response = await self._brokers.network.ask(node, request, min_version=3)
            if response.error_code not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
                raise error_for(response.error_code, f"removing members of group {group_id}")
            if not response.members and response.error_code:
                return {m.group_instance_id or m.member_id: UnknownMemberIdError() for m in members}
            return {
                m.group_instance_id or m.member_id: outcome(m.error_code, f"removing a member of group {group_id}")
                for m in response.members
            }

        return await self._brokers.at_coordinator(group_id, ask, deadline)

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, deadline: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of these partitions, or of all. Partitions without one are left out."""
        wanted = None if partitions is None else list(partitions)

        async def ask(node: Node) -> dict[TopicPartition, OffsetAndMetadata]:
            lowest = 2 if wanted is None else 0
            response = await self._brokers.network.ask(node, fetch_request(group_id, wanted), min_version=lowest)
            fetched = judge_fetch(group_id, response)
            if fetched.error is not None:
                raise fetched.error
            return {tp: offset for tp, offset in fetched.offsets.items() if offset is not None}

        return await self._brokers.at_coordinator(group_id, ask, deadline)

    async def set_offsets(
        self, group_id: str, values: Mapping[TopicPartition, OffsetAndMetadata], deadline: int
    ) -> Outcomes[TopicPartition]:
        """Commit for a group that has no members; one outcome for each partition."""
        part = OffsetCommitRequest

        def partition(tp: TopicPartition) -> OffsetCommitRequest.OffsetCommitRequestPartition:
            at = values[tp]
            return part.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )

        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=-1,
            topics=[
                part.OffsetCommitRequestTopic(name=topic, partitions=parts)
                for topic, parts in by_topic(sorted(values), partition).items()
            ],
        )

        async def ask(node: Node) -> Outcomes[TopicPartition]:
            response = await self._brokers.network.ask(node, request)
            return _per_partition(response, f"setting offsets of group {group_id}")

        return await self._brokers.at_coordinator(group_id, ask, deadline)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], deadline: int
    ) -> Outcomes[TopicPartition]:
        """Delete committed offsets; one outcome for each partition."""
        part = OffsetDeleteRequest
        grouped = by_topic(
            sorted(partitions), lambda tp: part.OffsetDeleteRequestPartition(partition_index=tp.partition)
        )
        topics = [part.OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic, parts in grouped.items()]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)

        async def ask(node: Node) -> Outcomes[TopicPartition]:
            response = await self._brokers.network.ask(node, request)
            if response.error_code:
                raise error_for(response.error_code, f"deleting offsets of group {group_id}")
            return _per_partition(response, f"deleting offsets of group {group_id}")

        return await self._brokers.at_coordinator(group_id, ask, deadline)


def _per_partition(response: Any, what: str) -> Outcomes[TopicPartition]:
    """The outcomes by partition. Raises an error that concerns the coordinator, so that it is looked up again."""
    results: Outcomes[TopicPartition] = {}
    for topic in response.topics:
        for p in topic.partitions:
            error = outcome(p.error_code, f"{what}: {topic.name}-{p.partition_index}", topic=topic.name)
            if p.error_code in _ELSEWHERE and error is not None:
                raise error
            results[TopicPartition(topic.name, p.partition_index)] = error
    return results
