"""The subscribers of each topic. Members are numbers here: their places in the order that the assignor visits them in.

Members with the same subscription stand together as a class, of which there are few even in large groups, so that most
questions about the subscribers of a topic are questions about a few classes.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from actors.coordinator.assignors.assignor import MemberSpec
from actors.coordinator.assignors.slices import Pace


class Subscribers:
    """The classes, and those of each topic. It is complete when `reading` has ended."""

    __slots__ = ("by_topic", "class_of", "classes")

    def __init__(self) -> None:
        self.classes: list[list[int]] = []
        """The members of each class, ascending."""
        self.class_of: list[int] = []
        """The class of each member."""
        self.by_topic: dict[bytes, list[int]] = {}
        """The classes that subscribe a topic."""

    def reading(self, members: Sequence[MemberSpec], pace: Pace) -> Iterator[None]:
        """Reads the members, in slices."""
        numbers: dict[frozenset[bytes], int] = {}
        for member, spec in enumerate(members):
            number = numbers.setdefault(spec.topics, len(numbers))
            if number == len(self.classes):
                self._new_class(number, spec.topics)
            self.classes[number].append(member)
            self.class_of.append(number)
            if pace.full(1 + len(spec.topics) // 10):
                yield

    def width(self, topic: bytes) -> int:
        """The number of classes that subscribe a topic: what a question about it costs."""
        return len(self.by_topic[topic])

    def count(self, topic: bytes) -> int:
        return sum(len(self.classes[number]) for number in self.by_topic[topic])

    def of(self, topic: bytes) -> list[int]:
        """The members that subscribe a topic, ascending."""
        return sorted(chain.from_iterable(self.classes[number] for number in self.by_topic[topic]))

    def _new_class(self, number: int, topics: frozenset[bytes]) -> None:
        self.classes.append([])
        for topic in topics:
            self.by_topic.setdefault(topic, []).append(number)
