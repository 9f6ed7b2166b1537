"""`roundrobin`: all partitions in order, dealt to the members in a circle."""

from __future__ import annotations

from collections.abc import Sequence

from actors.client.group.assignors.base import Assignment, Assignor, ClusterView, GroupMember, in_order, subscribers
from actors.client.records import TopicPartition


class RoundRobinAssignor(Assignor):
    """Deals partitions one by one, passing over members that do not subscribe to the topic."""

    name = "roundrobin"

    def assign(self, cluster: ClusterView, members: Sequence[GroupMember]) -> Assignment:
        ordered = in_order(members)
        result: Assignment = {member.member_id: [] for member in ordered}
        turn = 0
        for topic in subscribers(cluster, members):
            for partition in range(cluster.partitions[topic]):
                while topic not in ordered[turn].topics:
                    turn = (turn + 1) % len(ordered)
                result[ordered[turn].member_id].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return result
