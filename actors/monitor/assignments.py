"""What members of groups are assigned, as far as the log tells. No clock, no I/O.

Each type of group records assignments in its own way. `READERS` is the one table that tells types apart: of a type that
is not in it, members are shown without partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.client.group.assignors.protocol import Assignment
from actors.coordinator.classic.records import CLASSIC, GroupMetadata
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import CONSUMER as CONSUMER_TYPE
from actors.coordinator.consumer.values import Current
from actors.links.member_kinds import CONSUMER
from actors.monitor.offsets_log import FollowedGroup

Held = Mapping[str, tuple[int, ...]]
"""The partitions of a member, by topic."""


def assignments_of(group: FollowedGroup, names: Mapping[bytes, str]) -> Mapping[str, Held]:
    """What each member has, by its id. Those of whom it is not known are left out. `names` are topics by their ids."""
    read = READERS.get(group.group_type)
    return {} if read is None or group.persisted is None else read(group.persisted, names)


def _of_classic(group: GroupMetadata, names: Mapping[bytes, str]) -> dict[str, Held]:
    if group.protocol_type != CONSUMER:
        return {}
    return {each.member_id: _decoded(each.assignment) for each in group.members}


def _decoded(data: bytes) -> Held:
    """The partitions by topic; none if the bytes are not an assignment: members may be of anybody's making."""
    try:
        partitions = Assignment.decode(data).partitions if data else ()
    except ValueError:
        return {}
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in by_topic.items()}


def _of_consumer(group: ConsumerState, names: Mapping[bytes, str]) -> dict[str, Held]:
    """What members may use, and what they have not given back yet."""
    return {member_id: _named(current, names) for member_id, current in group.current.items()}


def _named(current: Current, names: Mapping[bytes, str]) -> Held:
    held: dict[str, set[int]] = {}
    for part in (current.assigned, current.pending):
        for topic_id, partitions in part.items():
            if topic_id in names:
                held.setdefault(names[topic_id], set()).update(partitions)
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(held.items())}


READERS: Final[Mapping[str, Callable[[Any, Mapping[bytes, str]], Mapping[str, Held]]]] = {
    CLASSIC: _of_classic,
    CONSUMER_TYPE: _of_consumer,
}
"""How what is persisted of a group is read, by its type."""
