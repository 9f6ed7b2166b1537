"""The topics that a member wants to read, and the partitions that its group has given it. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.client.net.metadata import MetadataView
from actors.client.records import TopicPartition


class Holdings:
    """`topics` are subscribed to, by name or by pattern as they appear; `owned` are the member's partitions."""

    def __init__(self, *, exclude_internal: bool) -> None:
        self._exclude_internal = exclude_internal
        self._pattern: Callable[[str], bool] | None = None
        self._accepted: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] | None = None
        self.subscribed = False
        self.topics: frozenset[str] = frozenset()
        self.owned: frozenset[TopicPartition] = frozenset()

    def subscribe(self, topics: Iterable[str]) -> None:
        self.subscribed = True
        self._pattern = None
        self.topics = frozenset(topics)

    def subscribe_pattern(self, matches: Callable[[str], bool], view: MetadataView) -> None:
        self.subscribed = True
        self._pattern = matches
        self._accepted = frozenset()
        self.match(view)

    def unsubscribe(self) -> None:
        self.subscribed = False
        self._pattern = None
        self.topics = frozenset()
        self.owned = frozenset()

    @property
    def by_pattern(self) -> bool:
        return self._pattern is not None

    def match(self, view: MetadataView) -> None:
        """Match the pattern against refreshed metadata."""
        if self._pattern is not None:
            hidden = view.internal if self._exclude_internal else frozenset()
            matching = {t for t in view.partitions if t not in hidden and self._pattern(t)}
            self.topics = frozenset(matching) | self._accepted

    def wants(self, topic: str) -> bool:
        return topic in self.topics or (self._pattern is not None and self._pattern(topic))

    def accept(self, assigned: frozenset[TopicPartition], view: MetadataView) -> None:
        """Add topics that were assigned and match the pattern: the leader may know of them earlier than this member.

        The coordinator need not be told of these. Others that have come since the JoinGroup it has yet to be told of.
        """
        if self._pattern is not None:
            topics = frozenset(tp.topic for tp in assigned)
            self._accepted = topics - view.partitions.keys()
            self.topics |= topics
            self._joined_topics = (self._joined_topics or frozenset()) | topics

    def note_joining(self) -> None:
        """Remember that the coordinator is told of the present `topics`."""
        self._joined_topics = self.topics

    @property
    def changed(self) -> bool:
        """True if `topics` are other ones than the coordinator was told."""
        return self._joined_topics is not None and self._joined_topics != self.topics
