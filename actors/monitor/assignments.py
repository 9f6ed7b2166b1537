"""The assignments of groups' members, and their targets, as far as the log tells. No clock, no I/O.

Each type of group records assignments in its own way. `READERS` is the one table that tells types apart: of a type that
is not in it, members are shown without partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from actors.client.group.assignors.protocol import Assignment
from actors.coordinator.classic.records import CLASSIC, GroupMetadata
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import CONSUMER as CONSUMER_TYPE
from actors.coordinator.consumer.values import Current, Partitions, partitions_of
from actors.links.member_kinds import CONSUMER
from actors.monitor.offsets_log import FollowedGroup

Held = Mapping[str, tuple[int, ...]]
"""The partitions of a member, by topic."""
_NONE: Final[Held] = {}
_NO_PARTITIONS: Final[Partitions] = {}


class Share(NamedTuple):
    """A member's partitions; and of a consumer group's member its epoch, and its distance from its target."""

    held: Held
    epoch: int | None = None
    to_give_back: Held = _NONE
    to_come: Held = _NONE


class Progress(NamedTuple):
    """The progress of a consumer group to its target: its epochs, and how many partitions have yet to move."""

    epoch: int
    assignment_epoch: int
    to_give_back: int
    to_come: int


def shares_of(group: FollowedGroup, names: Mapping[bytes, str]) -> Mapping[str, Share]:
    """The partitions of each member, by its id.

    Those of whom it is not known are left out. `names` are topics by their ids.
    """
    read = READERS.get(group.group_type)
    return {} if read is None or group.persisted is None else read(group.persisted, names)


def epochs_of(group: FollowedGroup) -> tuple[int | None, int | None]:
    """A consumer group's epoch, and that of its target; None of another group."""
    state = group.persisted
    return (state.group_epoch, state.assignment_epoch) if isinstance(state, ConsumerState) else (None, None)


def progress_of(group: FollowedGroup) -> Progress | None:
    """Of a consumer group; None of another one. Topics that do not exist any more count, too."""
    state = group.persisted
    if not isinstance(state, ConsumerState):
        return None
    back = come = 0
    for member_id in tuple(state.metadata):  # a thread may count while the log is followed
        held, target = _held(state.current_of(member_id)), state.targets.get(member_id, _NO_PARTITIONS)
        back += sum(map(len, _without(held, target).values()))
        come += sum(map(len, _without(target, held).values()))
    return Progress(state.group_epoch, state.assignment_epoch, back, come)


def _of_classic(group: GroupMetadata, names: Mapping[bytes, str]) -> dict[str, Share]:
    if group.protocol_type != CONSUMER:
        return {}
    return {each.member_id: Share(_decoded(each.assignment)) for each in group.members}


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


def _of_consumer(group: ConsumerState, names: Mapping[bytes, str]) -> dict[str, Share]:
    return {member_id: _share(group, member_id, current, names) for member_id, current in group.current.items()}


def _share(group: ConsumerState, member_id: str, current: Current, names: Mapping[bytes, str]) -> Share:
    held, target = _held(current), group.targets.get(member_id, _NO_PARTITIONS)
    return Share(
        _named(held, names), current.epoch, _named(_without(held, target), names), _named(_without(target, held), names)
    )


def _held(current: Current) -> Partitions:
    """The partitions that a member may use, and those that it has not given back yet."""
    held = partitions_of(current.assigned)
    for topic_id, partitions in current.pending.items():
        held[topic_id] = held.get(topic_id, frozenset()) | partitions.keys()
    return held


def _without(some: Partitions, others: Partitions) -> Partitions:
    if some == others:
        return _NO_PARTITIONS
    return {topic_id: some[topic_id] - others.get(topic_id, frozenset()) for topic_id in some}


def _named(partitions: Partitions, names: Mapping[bytes, str]) -> Held:
    found = {names[topic_id]: indexes for topic_id, indexes in partitions.items() if indexes and topic_id in names}
    return {topic: tuple(sorted(indexes)) for topic, indexes in sorted(found.items())}


READERS: Final[Mapping[str, Callable[[Any, Mapping[bytes, str]], Mapping[str, Share]]]] = {
    CLASSIC: _of_classic,
    CONSUMER_TYPE: _of_consumer,
}
"""The readers of groups' records, by the type of group."""
