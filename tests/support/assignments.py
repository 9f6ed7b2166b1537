"""Groups and targets of assignors in words: "foo 0-2 5, bar 1" are partitions 0, 1, 2 and 5 of foo and 1 of bar."""

from __future__ import annotations

from collections.abc import Mapping

from actors.coordinator.assignors.assignor import GroupSpec, MemberSpec, Target

Partitions = dict[bytes, frozenset[int]]


def topic_id(name: str) -> bytes:
    """A topic's id, in the order of names; that of `negative` begins with a one bit."""
    return b"\xff" * 16 if name == "negative" else name.encode().ljust(16, b".")


def partitions(words: str) -> Partitions:
    """The partitions that `words` name."""
    topics = [topic.split() for topic in words.split(",") if topic.strip()]
    return {topic_id(name): frozenset(number for run in runs for number in _run(run)) for name, *runs in topics}


def member(topics: str = "foo", assigned: str = "", instance_id: str | None = None) -> MemberSpec:
    """A member with its previous target."""
    return MemberSpec(None, instance_id, frozenset(map(topic_id, topics.split())), partitions(assigned))


def group(counts: Mapping[str, int], members: Mapping[str, MemberSpec]) -> GroupSpec:
    """A group; `counts` has the number of partitions of each topic."""
    alike = len({each.topics for each in members.values()}) < 2
    return GroupSpec(members, {topic_id(name): count for name, count in counts.items()}, alike)


def after(before: GroupSpec, target: Target) -> GroupSpec:
    """The same group when its members have been given that target."""
    members = {
        member_id: MemberSpec(spec.rack, spec.instance_id, spec.topics, target[member_id])
        for member_id, spec in before.members.items()
    }
    return GroupSpec(members, before.partitions, before.homogeneous)


def sizes(target: Target) -> dict[str, int]:
    """The number of partitions of each member."""
    return {member_id: sum(map(len, mine.values())) for member_id, mine in target.items()}


def _run(words: str) -> range:
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)
