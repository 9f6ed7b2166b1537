"""ConsumerGroupDescribe: groups as they were when records last committed."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedMember,
    DescribedTopic,
)
from actors.coordinator.consumer.operations import Cluster
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.target import NOTHING, chosen
from actors.coordinator.consumer.topics import TopicImage
from actors.coordinator.consumer.values import MemberMetadata, partitions_of
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now, Token

CLASSIC_TYPE, CONSUMER_TYPE = 0, 1


class Describe:
    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self._runtime = runtime
        self._cluster = cluster

    def handle(self, token: Token, request: ConsumerGroupDescribeRequest, now: Now) -> None:
        """Answered at once, for nothing changes."""
        groups = tuple(self._describe(group_id) for group_id in request.group_ids)
        self._runtime.replies.append((token, ConsumerGroupDescribeResponse(groups)))

    def _describe(self, group_id: str) -> DescribedConsumerGroup:
        if not group_id:
            return DescribedConsumerGroup(group_id, Error.INVALID_GROUP_ID)
        group = self._runtime.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or not group.exists:
            return DescribedConsumerGroup(group_id, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is no consumer group.")
        state = group.state
        return DescribedConsumerGroup(
            group_id,
            state=group.state_name,
            group_epoch=state.group_epoch,
            assignment_epoch=state.assignment_epoch,
            assignor=chosen(state, self._cluster.settings.assignors),
            members=tuple(self._member(state, *each) for each in sorted(state.metadata.items(), key=itemgetter(0))),
        )

    def _member(self, state: ConsumerState, member_id: str, member: MemberMetadata) -> DescribedMember:
        current, image = state.current_of(member_id), self._cluster.topics
        held = partitions_of(current.assigned)
        for topic_id, partitions in current.pending.items():
            held[topic_id] = held.get(topic_id, frozenset()) | partitions.keys()
        target = state.targets.get(member_id, NOTHING)
        assignment = _topics(held.items(), image)
        return DescribedMember(
            member_id=member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=current.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.names)),
            subscribed_topic_regex=member.regex,
            assignment=assignment,
            target=assignment if held == target else _topics(target.items(), image),
            member_type=CONSUMER_TYPE if member.classic is None else CLASSIC_TYPE,
        )


def _topics(partitions: Iterable[tuple[bytes, Iterable[int]]], image: TopicImage | None) -> tuple[DescribedTopic, ...]:
    """Those of topics that exist."""
    found = []
    for topic_id, indexes in partitions:
        topic = None if image is None else image.by_id(topic_id)
        if topic is not None:
            found.append(DescribedTopic(topic_id, topic.name, tuple(sorted(indexes))))
    return tuple(sorted(found, key=lambda each: each.name))
