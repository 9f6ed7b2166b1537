"""A program's seeks and pauses: the positions it wants read next, and the partitions it wants to rest.

In the user's thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.positions import Positions
from actors.client.net.changes import Changes
from actors.client.records import TopicPartition


class Seeking:
    """Moves positions, and has the fetcher start from there. Raises IllegalStateError for what is not assigned."""

    def __init__(self, positions: Positions, fetcher: Fetcher, changes: Changes) -> None:
        self._positions = positions
        self._fetcher = fetcher
        self._changes = changes

    def to_offset(self, partition: TopicPartition, offset: int) -> None:
        with self._changes.lock:
            self._positions.of(partition).choose(offset)
        self._fetcher.soon()

    def to_time(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go on at EARLIEST, at LATEST or at a time; without partitions, in all that are assigned."""
        with self._changes.lock:
            for tp in list(partitions) or list(self._positions.states):
                self._positions.of(tp).reset(timestamp)
        self._fetcher.soon()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._positions.of(tp).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._positions.of(tp).paused = False
        self._fetcher.soon()

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, state in self._positions.states.items() if state.paused}
