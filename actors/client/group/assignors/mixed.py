"""The sticky division when subscriptions differ: fill, then move one by one until nobody can take from a richer one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from actors.client.group.assignors.base import Assignment, ClusterView, GroupMember
from actors.client.group.assignors.claims import Ownership
from actors.client.records import TopicPartition


def balance_mixed(
    cluster: ClusterView, members: Sequence[GroupMember], ownership: Ownership
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Returns the assignment and the partitions that change their owner, with the new one."""
    table = _Table(cluster, members, ownership)
    table.fill()
    table.balance()
    before = {tp: member for member, owned in ownership.owned.items() for tp in owned}
    moved = {
        tp: owner for tp, owner in table.owner.items() if before.get(tp, owner) != owner or tp in ownership.disputed
    }
    return table.assignment(), moved


class _Table:
    """The owners of partitions while the division is worked out."""

    def __init__(self, cluster: ClusterView, members: Sequence[GroupMember], ownership: Ownership) -> None:
        self.members = {member.member_id: member for member in members}
        takers = {topic: sorted(m.member_id for m in members if topic in m.topics) for topic in cluster.partitions}
        self.takers = {topic: ids for topic, ids in takers.items() if ids}
        self.partitions = [
            TopicPartition(topic, n)
            for topic in sorted(self.takers, key=lambda topic: (len(self.takers[topic]), topic))
            for n in range(cluster.partitions[topic])
        ]
        self.owner: dict[TopicPartition, str] = {}
        self.load: dict[str, int] = dict.fromkeys(sorted(self.members), 0)
        self.former = ownership.former
        self.revoked_by_subscription = False
        self.fresh = not any(ownership.owned.values())
        for member_id, owned in ownership.owned.items():
            for tp in owned:
                self._keep(tp, member_id)
        self.unassigned = [tp for tp in self.partitions if tp not in self.owner]

    def _keep(self, tp: TopicPartition, member_id: str) -> None:
        if member_id in self.members and tp.topic in self.members[member_id].topics:
            self._give(tp, member_id)
        else:
            self.revoked_by_subscription = True

    def _give(self, tp: TopicPartition, member_id: str) -> None:
        if tp in self.owner:
            self.load[self.owner[tp]] -= 1
        self.owner[tp] = member_id
        self.load[member_id] += 1

    def _poorest(self, topic: str) -> str:
        return min(self.takers[topic], key=lambda member_id: (self.load[member_id], member_id))

    def fill(self) -> None:
        """Each unassigned partition goes to its subscriber with the fewest."""
        for tp in self.unassigned:
            self._give(tp, self._poorest(tp.topic))

    def balance(self) -> None:
        """Move partitions to poorer subscribers; undone if that did not make the sizes more even."""
        owner, load = dict(self.owner), dict(self.load)
        if not self.revoked_by_subscription:
            # New partitions move first, so that members keep those they had if that is enough.
            self._move_until_still(self.unassigned)
        moved = self._move_until_still(self.partitions)
        self._undo_exchanges(owner)
        if moved and not self.fresh and _unevenness(self.load.values()) >= _unevenness(load.values()):
            self.owner, self.load = owner, load

    def _move_until_still(self, candidates: Iterable[TopicPartition]) -> bool:
        movable = [tp for tp in candidates if len(self.takers[tp.topic]) > 1]
        any_move, again = False, True
        while again:
            again = False
            for tp in movable:
                better = self._better_owner(tp)
                if better is not None:
                    self._give(tp, better)
                    again = any_move = True
        return any_move

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The former owner if it is poorer by more than one, else the poorest subscriber if that one is.

        Every such move makes the sum of squared sizes smaller, so that moving comes to an end.
        """
        load = self.load[self.owner[tp]]
        former = self.former.get(tp)
        if former in self.takers[tp.topic] and self.load[former] + 1 < load:
            return former
        poorest = self._poorest(tp.topic)
        return poorest if self.load[poorest] + 1 < load else None

    def _undo_exchanges(self, before: dict[TopicPartition, str]) -> None:
        """Two members that gave each other partitions of one topic take them back: the sizes stay as they are."""
        by_route: dict[tuple[str, str, str], list[TopicPartition]] = defaultdict(list)
        for tp in self.partitions:
            old, new = before[tp], self.owner[tp]
            if old == new:
                continue
            way_back = by_route[(tp.topic, new, old)]
            if way_back:
                other = way_back.pop()
                self.owner[tp], self.owner[other] = old, new
            else:
                by_route[(tp.topic, old, new)].append(tp)

    def assignment(self) -> Assignment:
        result: Assignment = {member_id: [] for member_id in self.members}
        for tp in self.partitions:
            result[self.owner[tp]].append(tp)
        return result


def _unevenness(sizes: Iterable[int]) -> int:
    """The sum of the differences of all pairs."""
    total = below = 0
    for rank, size in enumerate(sorted(sizes)):
        total += rank * size - below
        below += size
    return total
