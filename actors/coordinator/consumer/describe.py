"""ConsumerGroupDescribe: groups as they were when records last committed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

from actors.coordinator.assignors.slices import Pace
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedMember,
    DescribedTopic,
    MembersDescribed,
)
from actors.coordinator.consumer.operations import Cluster
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.target import NOTHING, chosen
from actors.coordinator.consumer.topics import TopicImage
from actors.coordinator.consumer.values import NEW, MemberMetadata, partitions_of
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.timers import Timer, nothing
from actors.coordinator.turn import Now, Token

CLASSIC_TYPE, CONSUMER_TYPE = 0, 1
SLICE_WORK: Final = 3_000
"""How many members, and names and partitions of theirs, are described in one turn: a few milliseconds of work."""
_MEMBER_WORK: Final = 8
PAUSE_MS: Final = 1
"""A description goes on in the next turn."""

Parts = Generator[tuple[tuple[int, tuple[DescribedMember, ...]], ...], None, tuple[DescribedConsumerGroup, ...]]


class Piece:
    """The token of a piece of an answer: nobody has asked for it alone."""

    __slots__ = ()


class Describe:
    """Answers descriptions. Those of many members take several turns; all of a group is of the same moment."""

    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self._runtime = runtime
        self._cluster = cluster

    def handle(self, token: Token, request: ConsumerGroupDescribeRequest, now: Now) -> None:
        """Answered at once, if the groups are not large, for nothing changes."""
        self._runtime.park(token, request)
        self._go_on(Timer(nothing), token, self._parts(request.group_ids), now)

    def _go_on(self, timer: Timer, token: Token, parts: Parts, now: Now) -> None:
        """Describe some members, unless the client has gone or the shard has been unloaded meanwhile."""
        if token not in self._runtime.unanswered:
            return
        try:
            members = next(parts)
        except StopIteration as end:
            self._runtime.answer(token, ConsumerGroupDescribeResponse(end.value))
            return
        self._runtime.replies.append((Piece(), MembersDescribed(token, members)))
        due_ms = now.monotonic_ms + PAUSE_MS
        self._runtime.timers.start(timer, due_ms, lambda later: self._go_on(timer, token, parts, later))

    def _parts(self, group_ids: Sequence[str]) -> Parts:
        pace = Pace(SLICE_WORK)
        groups: list[DescribedConsumerGroup] = []
        fresh: dict[int, list[DescribedMember]] = {}
        for place, group_id in enumerate(group_ids):
            group, members = self._described(group_id)
            groups.append(group)
            for member, work in members:
                fresh.setdefault(place, []).append(member)
                if pace.full(work):
                    yield tuple((each, tuple(some)) for each, some in fresh.items())
                    fresh.clear()
        return tuple(replace(group, members=tuple(fresh.get(place, ()))) for place, group in enumerate(groups))

    def _described(self, group_id: str) -> tuple[DescribedConsumerGroup, Iterable[tuple[DescribedMember, int]]]:
        """A group without its members, and these, each with the work that it is; or why there is none."""
        if not group_id:
            return DescribedConsumerGroup(group_id, Error.INVALID_GROUP_ID), ()
        group = self._runtime.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or not group.exists:
            why = f"Group {group_id} is no consumer group."
            return DescribedConsumerGroup(group_id, Error.GROUP_ID_NOT_FOUND, why), ()
        state = group.state
        described = DescribedConsumerGroup(
            group_id,
            state=group.state_name,
            group_epoch=state.group_epoch,
            assignment_epoch=state.assignment_epoch,
            assignor=chosen(state, self._cluster.settings.assignors),
        )
        return described, _Members(state, self._cluster.topics).described()


class _Members:
    """The members of a group as they are now, whatever becomes of it."""

    def __init__(self, state: ConsumerState, image: TopicImage | None) -> None:
        self._metadata = sorted(state.metadata.items(), key=itemgetter(0))
        self._current, self._targets = dict(state.current), dict(state.targets)
        self._image = image
        self._names: dict[frozenset[str], tuple[str, ...]] = {}  # most members subscribe to the same

    def described(self) -> Iterator[tuple[DescribedMember, int]]:
        for member_id, member in self._metadata:
            yield self._member(member_id, member)

    def _member(self, member_id: str, member: MemberMetadata) -> tuple[DescribedMember, int]:
        current, image = self._current.get(member_id, NEW), self._image
        held = partitions_of(current.assigned)
        for topic_id, partitions in current.pending.items():
            held[topic_id] = held.get(topic_id, frozenset()) | partitions.keys()
        target = self._targets.get(member_id, NOTHING)
        assignment = _topics(held.items(), image)
        names = self._sorted(member.names)
        described = DescribedMember(
            member_id=member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=current.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=names,
            subscribed_topic_regex=member.regex,
            assignment=assignment,
            target=assignment if held == target else _topics(target.items(), image),
            member_type=CONSUMER_TYPE if member.classic is None else CLASSIC_TYPE,
        )
        return described, _MEMBER_WORK + len(names) + 2 * (len(held) + len(target))

    def _sorted(self, names: frozenset[str]) -> tuple[str, ...]:
        found = self._names.get(names)
        if found is None:
            found = self._names[names] = tuple(sorted(names))
        return found


def _topics(partitions: Iterable[tuple[bytes, Iterable[int]]], image: TopicImage | None) -> tuple[DescribedTopic, ...]:
    """Those of topics that exist."""
    found = []
    for topic_id, indexes in partitions:
        topic = None if image is None else image.by_id(topic_id)
        if topic is not None:
            found.append(DescribedTopic(topic_id, topic.name, tuple(sorted(indexes))))
    return tuple(sorted(found, key=lambda each: each.name))
