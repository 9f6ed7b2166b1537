"""`cooperative-sticky`: the sticky plan, carried out in two steps so that nobody owns a partition twice (KIP-429)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.client.group.assignors.base import Assignment, Assignor, ClusterView, GroupMember, RebalanceProtocol
from actors.client.group.assignors.claims import Claim
from actors.client.group.assignors.sticky import plan
from actors.client.group.assignors.userdata import pack_cooperative, unpack_cooperative
from actors.client.records import TopicPartition


class CooperativeStickyAssignor(Assignor):
    """Withholds what moves for one generation: its owner sees it is gone, gives it up and joins again."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)
    withholds_moving = True

    def __init__(self) -> None:
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return pack_cooperative(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, cluster: ClusterView, members: Sequence[GroupMember]) -> Assignment:
        whole = plan(cluster, members, [_claim(member) for member in members])
        return {
            member_id: [tp for tp in partitions if tp not in whole.transferring]
            for member_id, partitions in whole.assignment.items()
        }


def _claim(member: GroupMember) -> Claim:
    # A subscription below version 2 has no generation of its own; the user data then carries it.
    generation = member.generation if member.generation >= 0 else unpack_cooperative(member.user_data)
    return Claim(member.member_id, member.owned, generation)
