"""A member's assignment: its target, the part that it owns, and the names of topics told by id. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from actors.client.net.metadata import MetadataView
from actors.client.records import TopicPartition
from actors.wire.messages import ConsumerGroupHeartbeatResponse

IdPartitions = frozenset[tuple[bytes, int]]
"""Partitions by the ids of their topics."""
_NOTHING: IdPartitions = frozenset()


@dataclass(frozen=True, slots=True)
class Received:
    """An assignment with the number of its receipt: one that comes again later is acknowledged again."""

    number: int
    partitions: IdPartitions


@dataclass(frozen=True, slots=True)
class Resolved:
    """The part of an assignment that has names: by name and by id. `whole` says whether that is all of it."""

    named: frozenset[TopicPartition]
    received: Received
    whole: bool


def partitions_of(assignment: ConsumerGroupHeartbeatResponse.Assignment) -> IdPartitions:
    """An assignment as a heartbeat's answer has it."""
    return frozenset((topic.topic_id, n) for topic in assignment.topic_partitions for n in topic.partitions)


class Assignments:
    """`target` is what was received last, `current` what was taken over; None since the member (re)joins."""

    def __init__(self) -> None:
        self.target: Received | None = None
        self.current: Received | None = None
        self._receipts = 0
        self._names: dict[bytes, str] = {}

    def receive(self, partitions: IdPartitions) -> None:
        """The coordinator has named an assignment. The same one again is nothing new."""
        if self.target is None or self.target.partitions != partitions:
            self._receipts += 1
            self.target = Received(self._receipts, partitions)

    def take_over(self, received: Received) -> None:
        """The user's thread has taken over this assignment, or that part of it which has names."""
        self.current = received
        wanted = {topic_id for topic_id, _ in received.partitions}
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in wanted}

    def forget(self) -> None:
        """The membership has ended."""
        self.target = self.current = None

    @property
    def settled(self) -> bool:
        """True if the last assignment has been taken over, all of it."""
        return self.target == self.current

    @property
    def owned(self) -> Received:
        """The partitions that a heartbeat says are owned."""
        return self.current or Received(0, _NOTHING)

    def resolve(self, view: MetadataView) -> Resolved:
        """The target by names: those of the metadata, else those that assigned topics had before."""
        assert self.target is not None
        self._names |= {topic_id: name for name, topic_id in view.ids.items()}
        target = self.target
        known = frozenset((topic_id, n) for topic_id, n in target.partitions if topic_id in self._names)
        named = frozenset(TopicPartition(self._names[topic_id], n) for topic_id, n in known)
        self._names = {topic_id: self._names[topic_id] for topic_id in _topics(known, self.owned.partitions)}
        return Resolved(named, Received(target.number, known), known == target.partitions)


def _topics(*some: Iterable[tuple[bytes, int]]) -> frozenset[bytes]:
    return frozenset(topic_id for each in some for topic_id, _ in each)
