"""`range`: the partitions of each topic in consecutive ranges, one for each subscriber. Previous targets do not count.

Topics with equally many partitions and the same subscribers are divided in the same way, so that a member has the same
partitions of each. The first subscribers get one partition more if they do not divide evenly.
"""

from collections.abc import Iterator, Mapping

from actors.coordinator.assignors.assignor import GroupSpec, MemberSpec, Target
from actors.coordinator.assignors.slices import Pace, Slices, finish
from actors.coordinator.assignors.subscribers import Subscribers


class RangeAssignor:
    """Kafka's assignor of this name."""

    name = "range"

    def assign(self, group: GroupSpec) -> Target:
        return finish(self.steps(group))

    def steps(self, group: GroupSpec) -> Slices:
        """The target. Members whose target stays get the very mapping that they had."""
        pace = Pace()
        ids = sorted(group.members, key=lambda each: _place(each, group.members[each]))
        members = [group.members[each] for each in ids]
        subscribers = Subscribers()
        yield from subscribers.reading(members, pace)
        shares: list[dict[bytes, frozenset[int]]] = [{} for _ in ids]
        for topic in subscribers.by_topic:
            those = subscribers.of(topic)
            if pace.full(len(those) // 10 + subscribers.width(topic) // 2):
                yield
            for member, numbers in _divided(group.partitions[topic], those):
                shares[member][topic] = frozenset(numbers)
                if pace.full(len(numbers)):
                    yield
        target: dict[str, Mapping[bytes, frozenset[int]]] = {}
        for member_id, spec, share in zip(ids, members, shares, strict=True):
            target[member_id] = spec.assigned if spec.assigned == share else share
            if pace.full(1 + len(share)):
                yield
        return target


def _place(member_id: str, member: MemberSpec) -> tuple[bool, bytes, bytes]:
    """Members with an instance id come first, by that; the others by their own."""
    instance_id = member.instance_id
    return instance_id is None, _java_order(instance_id or ""), _java_order(member_id)


def _java_order(text: str) -> bytes:
    """Java compares by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _divided(count: int, members: list[int]) -> Iterator[tuple[int, range]]:
    """Each member's range of so many partitions; members beyond their number get none."""
    each, more = divmod(count, len(members))
    start = 0
    for number, member in enumerate(members[: min(count, len(members))]):
        end = start + each + (number < more)
        yield member, range(start, end)
        start = end
