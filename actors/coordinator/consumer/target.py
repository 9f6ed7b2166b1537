"""The choice of the assignor that computes a group's target, its moment, and its input."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from actors.coordinator.assignors.assignor import GroupSpec, MemberSpec, Target
from actors.coordinator.assignors.slices import Pace
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.topics import TopicImage, existing
from actors.coordinator.turn import Now

NOTHING: Mapping[bytes, frozenset[int]] = {}


def chosen(state: ConsumerState, configured: Sequence[str]) -> str:
    """The assignor that most members wish for; of several, or if nobody wishes, the one that is configured first."""
    return max(configured, key=lambda name: state.votes.get(name, 0))


def is_due(state: ConsumerState, interval_ms: int, now: Now) -> bool:
    """True if a target may and has to be computed: at most one in each interval.

    A time to come is of a clock that was ahead of this one: whoever waits for it may wait for hours.
    """
    since_ms = state.assignment_timestamp_ms
    is_over = not since_ms or not since_ms <= now.wall_ms < since_ms + interval_ms
    return state.group_epoch > state.assignment_epoch and is_over


def spec_steps(state: ConsumerState, image: TopicImage, pace: Pace) -> Generator[None, None, GroupSpec]:
    """The group as an assignor is given it, made in slices."""
    topics = existing(state.subscribed_topics(), image)
    ids = {topic.name: topic.topic_id for topic in topics}
    members = {}
    known: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}  # most members subscribe to the same
    for member_id, member in state.metadata.items():
        key = member.names, member.regex
        subscribed = known.get(key)
        if subscribed is None:
            names = state.topics_of(member)
            subscribed = known[key] = frozenset(ids[name] for name in names if name in ids)
        previous = state.targets.get(member_id, NOTHING)
        members[member_id] = MemberSpec(member.rack_id, member.instance_id, subscribed, previous)
        if pace.full():
            yield
    partitions = {topic.topic_id: topic.partitions for topic in topics}
    leaders = {topic.topic_id: topic.leaders for topic in topics if topic.leaders}
    return GroupSpec(members, partitions, state.is_homogeneous, leaders)


def has_changed(state: ConsumerState, target: Target, member_id: str) -> bool:
    """True if a member's target is another one now, or it had none."""
    older = state.targets.get(member_id)
    return older is None or older != target.get(member_id, NOTHING)
