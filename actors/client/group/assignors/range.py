"""`range`: each topic cut into consecutive pieces, with racks honoured where they can help (KIP-881)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.client.group.assignors.base import Assignment, Assignor, ClusterView, GroupMember, subscribers
from actors.client.records import TopicPartition


class RangeAssignor(Assignor):
    """Topic by topic, the first members get one partition more if the division leaves a remainder.

    Topics with the same subscribers and as many partitions are cut alike, so that their partitions with the same
    number meet in one member.
    """

    name = "range"

    def assign(self, cluster: ClusterView, members: Sequence[GroupMember]) -> Assignment:
        pieces = {
            topic: _TopicPieces.of(topic, cluster.partitions[topic], takers)
            for topic, takers in subscribers(cluster, members).items()
        }
        aware = [piece for piece in pieces.values() if _racks_help(piece, cluster.racks)]
        for group in _co_partitioned(aware):
            _give_by_rack(group, cluster.racks)
        result: Assignment = {member.member_id: [] for member in members}
        for piece in pieces.values():
            piece.give_rest()
            for taker in piece.takers:
                result[taker.member_id] += sorted(piece.given[taker.member_id])
        return result


@dataclass(slots=True)
class _TopicPieces:
    topic: str
    takers: list[GroupMember]
    count: int
    given: dict[str, list[TopicPartition]]
    free: list[int]

    @classmethod
    def of(cls, topic: str, count: int, takers: list[GroupMember]) -> _TopicPieces:
        return cls(topic, takers, count, {taker.member_id: [] for taker in takers}, list(range(count)))

    def room(self, taker: GroupMember) -> int:
        """The number of partitions that this member may still take: the quotient, plus one while there are extras."""
        quotient, extra = divmod(self.count, len(self.takers))
        held = len(self.given[taker.member_id])
        extra_taken = sum(len(given) > quotient for given in self.given.values())
        return max(0, quotient - held + (1 if held <= quotient and extra_taken < extra else 0))

    def give(self, taker: GroupMember, partition: int) -> None:
        self.given[taker.member_id].append(TopicPartition(self.topic, partition))
        self.free.remove(partition)

    def give_rest(self) -> None:
        rest, self.free = self.free, []
        for taker in self.takers:
            take = min(self.room(taker), len(rest))
            self.given[taker.member_id] += [TopicPartition(self.topic, number) for number in rest[:take]]
            rest = rest[take:]


def _racks_help(piece: _TopicPieces, racks: Mapping[TopicPartition, frozenset[str]]) -> bool:
    """Racks decide nothing if no subscriber shares one with a replica, or if every partition is in all of them."""
    of_members = {taker.rack for taker in piece.takers if taker.rack}
    of_partitions = [racks.get(TopicPartition(piece.topic, n), frozenset()) for n in range(piece.count)]
    everywhere = frozenset().union(*of_partitions)
    return bool(of_members & everywhere) and any(here != everywhere for here in of_partitions)


def _co_partitioned(pieces: list[_TopicPieces]) -> list[list[_TopicPieces]]:
    """Groups of topics with the same subscribers and partition count, then each topic alone."""
    groups: dict[tuple[tuple[str, ...], int], list[_TopicPieces]] = {}
    for piece in pieces:
        key = (tuple(taker.member_id for taker in piece.takers), piece.count)
        groups.setdefault(key, []).append(piece)
    together = [group for group in groups.values() if len(group) > 1]
    # A topic whose common racks run out on the way still gets a chance on its own.
    return together + [[piece] for piece in pieces]


def _give_by_rack(group: list[_TopicPieces], racks: Mapping[TopicPartition, frozenset[str]]) -> None:
    for number in range(group[0].count):
        if not all(number in piece.free for piece in group):
            continue
        for taker in group[0].takers:
            near = taker.rack and all(
                taker.rack in racks.get(TopicPartition(piece.topic, number), ()) for piece in group
            )
            if near and all(piece.room(taker) > 0 for piece in group):
                for piece in group:
                    piece.give(taker, number)
                break
