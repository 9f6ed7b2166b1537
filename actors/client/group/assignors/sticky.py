"""`sticky`: balanced first, then with as few moves as possible (KIP-54, KIP-341).

The two cases of the algorithm live in `uniform` (all members subscribe to the same topics) and `mixed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.client.group.assignors.base import Assignment, Assignor, ClusterView, GroupMember
from actors.client.group.assignors.claims import Claim, settle
from actors.client.group.assignors.mixed import balance_mixed
from actors.client.group.assignors.uniform import balance_uniform
from actors.client.group.assignors.userdata import pack_sticky, unpack_sticky
from actors.client.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Plan:
    """An assignment, and which of its partitions come from another member that held them until now."""

    assignment: Assignment
    transferring: dict[TopicPartition, str]


def plan(cluster: ClusterView, members: Sequence[GroupMember], claims: Iterable[Claim]) -> Plan:
    """Divide the partitions, keeping with their owners what balance allows.

    `cluster` may know more topics than are subscribed to; claims on those do not count.
    """
    wanted = {topic for member in members for topic in member.topics}
    known = ClusterView({t: n for t, n in cluster.partitions.items() if t in wanted and n > 0})
    ownership = settle(claims, known)
    for member in members:
        ownership.owned.setdefault(member.member_id, [])
    if len({member.topics for member in members}) <= 1:
        assignment, transferring = balance_uniform(known, ownership)
    else:
        assignment, transferring = balance_mixed(known, members, ownership)
    return Plan(assignment, transferring)


class StickyAssignor(Assignor):
    """Each member sends what it owned as its user data; the leader lets it keep what balance allows."""

    name = "sticky"

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] = ()
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        if self._generation < 0:
            return None
        return pack_sticky(self._assigned, self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        self._assigned = tuple(assigned)
        self._generation = generation

    def assign(self, cluster: ClusterView, members: Sequence[GroupMember]) -> Assignment:
        return plan(cluster, members, [_claim(member) for member in members]).assignment


def _claim(member: GroupMember) -> Claim:
    owned, generation = unpack_sticky(member.user_data)
    return Claim(member.member_id, tuple(owned), generation)
