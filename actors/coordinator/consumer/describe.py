"""ConsumerGroupDescribe: groups as they were when records last committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

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
from actors.coordinator.timers import Timer
from actors.coordinator.turn import Now, Token

CLASSIC_TYPE, CONSUMER_TYPE = 0, 1
SLICE_WORK: Final = 3_000
"""The number of members, names, topics and partitions that are described in one turn, in all: a few milliseconds of
work. The last member of a slice is not cut, however much it has.
"""
_MEMBER_WORK: Final = 8
_COPIED: Final = 16
"""So many members are copied for a description with the work of one value."""
PAUSE_MS: Final = 1
"""A description goes on in the next turn."""


class Piece:
    """The token of a piece of an answer: nobody has asked for it alone."""

    __slots__ = ()


class Describe:
    """Answers descriptions, one after the other. Those of many members take several turns.

    All of a group is of the same moment: that in which its description begins.
    """

    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._timer = Timer(self._go_on)
        self._waiting: deque[_Description] = deque()
        self._turn_ms = 0
        self._left = SLICE_WORK
        """Of the turn: how much work may be done in it. All descriptions share it, however many there are."""

    def handle(self, token: Token, request: ConsumerGroupDescribeRequest, now: Now) -> None:
        """Answered at once, if the groups are not large and none are being described, for nothing changes."""
        self._runtime.park(token, request)
        self._waiting.append(_Description(token, request.group_ids, self._described))
        if self._timer.due_ms is None:
            self._go_on(now)

    def forget(self) -> None:
        """The shard is unloaded, and has answered all."""
        self._waiting.clear()

    def _go_on(self, now: Now) -> None:
        if now.monotonic_ms != self._turn_ms:
            self._turn_ms, self._left = now.monotonic_ms, SLICE_WORK
        while self._waiting:
            if not self._finish(self._waiting[0]):
                self._runtime.timers.arm(self._timer, now.monotonic_ms + PAUSE_MS)
                return
            self._waiting.popleft()

    def _finish(self, description: _Description) -> bool:
        """Describe as much as may be in this turn; whether that is all. One that is answered already is dropped."""
        if description.token not in self._runtime.unanswered:
            return True
        while self._left > 0:
            work = next(description.steps, None)
            if work is None:
                self._runtime.answer(description.token, description.answer())
                return True
            self._left -= work
        if members := description.take():
            self._runtime.replies.append((Piece(), MembersDescribed(description.token, members)))
        return False

    def _described(self, group_id: str) -> tuple[DescribedConsumerGroup, _Members | None]:
        """A group without its members, and these; or why there is none."""
        if not group_id:
            return DescribedConsumerGroup(group_id, Error.INVALID_GROUP_ID), None
        group = self._runtime.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or not group.exists:
            why = f"Group {group_id} is no consumer group."
            return DescribedConsumerGroup(group_id, Error.GROUP_ID_NOT_FOUND, why), None
        state = group.state
        described = DescribedConsumerGroup(
            group_id,
            state=group.state_name,
            group_epoch=state.group_epoch,
            assignment_epoch=state.assignment_epoch,
            assignor=chosen(state, self._cluster.settings.assignors),
        )
        return described, _Members(state, self._cluster.topics)


class _Description:
    """An answer in the making. Each of its steps tells how much work it was."""

    def __init__(
        self,
        token: Token,
        group_ids: Sequence[str],
        described: Callable[[str], tuple[DescribedConsumerGroup, _Members | None]],
    ) -> None:
        self.token = token
        self._described = described
        self._groups: list[DescribedConsumerGroup] = []
        self._fresh: dict[int, list[DescribedMember]] = {}  # by the group's place; those that were not taken yet
        self.steps = self._steps(group_ids)

    def _steps(self, group_ids: Sequence[str]) -> Iterator[int]:
        for place, group_id in enumerate(group_ids):
            group, members = self._described(group_id)
            self._groups.append(group)
            yield 1
            if members is not None:
                yield len(members) // _COPIED
                for member, work in members.described():
                    self._fresh.setdefault(place, []).append(member)
                    yield work

    def take(self) -> tuple[tuple[int, tuple[DescribedMember, ...]], ...]:
        """The members that have been described since the last time."""
        fresh, self._fresh = self._fresh, {}
        return tuple((place, tuple(members)) for place, members in fresh.items())

    def answer(self) -> ConsumerGroupDescribeResponse:
        """All groups, with the members that were not taken."""
        groups = enumerate(self._groups)
        return ConsumerGroupDescribeResponse(
            tuple(replace(group, members=tuple(self._fresh.get(place, ()))) for place, group in groups)
        )


class _Members:
    """The members of a group as they are now, whatever becomes of it."""

    def __init__(self, state: ConsumerState, image: TopicImage | None) -> None:
        self._metadata = sorted(state.metadata.items(), key=itemgetter(0))
        self._current, self._targets = dict(state.current), dict(state.targets)
        self._image = image
        self._names: dict[frozenset[str], tuple[str, ...]] = {}  # most members subscribe to the same

    def __len__(self) -> int:
        return len(self._metadata)

    def described(self) -> Iterator[tuple[DescribedMember, int]]:
        """Each with how much work it was."""
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
        return described, _MEMBER_WORK + len(names) + _size(held) + _size(target)

    def _sorted(self, names: frozenset[str]) -> tuple[str, ...]:
        found = self._names.get(names)
        if found is None:
            found = self._names[names] = tuple(sorted(names))
        return found


def _size(partitions: Mapping[bytes, Collection[int]]) -> int:
    """The number of values that are shown of these: topics and partitions."""
    return len(partitions) + sum(map(len, partitions.values()))


def _topics(partitions: Iterable[tuple[bytes, Iterable[int]]], image: TopicImage | None) -> tuple[DescribedTopic, ...]:
    """Those of topics that exist."""
    found = []
    for topic_id, indexes in partitions:
        topic = None if image is None else image.by_id(topic_id)
        if topic is not None:
            found.append(DescribedTopic(topic_id, topic.name, tuple(sorted(indexes))))
    return tuple(sorted(found, key=lambda each: each.name))
