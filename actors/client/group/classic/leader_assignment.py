"""The leader's assignment of partitions: read the subscriptions, run the assignor, pack the result. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.client.errors import IllegalStateError
from actors.client.group.assignors import Assignor, ClusterView, GroupMember, RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.group.callbacks import named
from actors.client.net.metadata import MetadataView
from actors.client.records import TopicPartition
from actors.wire.errors import ErrorCode
from actors.wire.messages import DescribeGroupsResponse, JoinGroupResponse, SyncGroupRequest

Racks = dict[TopicPartition, frozenset[str]]
Snapshot = tuple[dict[str, int], Racks | None]
Given = Mapping[str, Sequence[TopicPartition]]


def read_members(members: Sequence[JoinGroupResponse.JoinGroupResponseMember]) -> list[GroupMember]:
    """The members as assignors take them. Raises IllegalStateError if a subscription cannot be read."""
    found = []
    for member in members:
        try:
            subscription = Subscription.decode(member.metadata)
        except ValueError as error:
            raise IllegalStateError(f"member {member.member_id} sent a malformed subscription: {error}") from error
        found.append(
            GroupMember(
                member.member_id,
                frozenset(subscription.topics),
                member.group_instance_id,
                subscription.owned,
                subscription.generation,
                subscription.user_data,
                subscription.rack,
            )
        )
    return found


def group_topics(members: Sequence[GroupMember]) -> frozenset[str]:
    return frozenset(topic for member in members for topic in member.topics)


def snapshot(view: MetadataView, topics: frozenset[str], rack: str | None) -> Snapshot:
    """The part of the metadata an assignment depends on: partition counts, and racks if the leader has one."""
    counts = {topic: view.partitions[topic] for topic in topics if topic in view.partitions}
    racks = {tp: racks for tp, racks in view.racks.items() if tp.topic in counts} if rack else {}
    return counts, racks


def divide(
    assignor: Assignor, protocol: RebalanceProtocol, members: Sequence[GroupMember], view: MetadataView
) -> Given:
    """Run the assignor. Raises IllegalStateError if a cooperative one assigns what another member still owns."""
    topics = group_topics(members)
    counts = {topic: view.partitions[topic] for topic in topics if topic in view.partitions}
    given = assignor.assign(ClusterView(counts, view.racks), members)
    if protocol is RebalanceProtocol.COOPERATIVE and not assignor.withholds_moving:
        _refuse_early_handover(assignor, members, given)
    return given


def _refuse_early_handover(assignor: Assignor, members: Sequence[GroupMember], given: Given) -> None:
    owner = {tp: member.member_id for member in members for tp in member.owned}
    early = [
        tp for member_id, partitions in given.items() for tp in partitions if owner.get(tp, member_id) != member_id
    ]
    if early:
        raise IllegalStateError(
            f"the cooperative assignor {assignor.name!r} gives away {named(sorted(early))} while other members own "
            "them: it must leave them unassigned until their owners have given them up"
        )


def counts_assigned(response: DescribeGroupsResponse) -> dict[str, int] | None:
    """The number of partitions that each topic had at least when they were assigned; None if the group is not stable.

    New partitions have the highest numbers. A lower one that nobody has was left out on purpose. Raises ValueError if
    an assignment cannot be read; a member without any has none.
    """
    (group,) = response.groups
    if group.error_code != ErrorCode.NONE or group.group_state != "Stable":
        return None
    counts: dict[str, int] = {}
    for assignment in (member.member_assignment for member in group.members if member.member_assignment):
        for topic, partition in Assignment.decode(assignment).partitions:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    return counts


def pack(given: Given) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
    return [
        SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=Assignment.of(partitions).encode())
        for member_id, partitions in given.items()
    ]
