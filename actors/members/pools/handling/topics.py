"""The ids of the topics whose records a member has in hand: a name may be that of another topic meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.client import TopicPartition


class PolledTopics:
    """The ids of topics, as they were when a partition last gave records. Any thread may ask."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ids: dict[TopicPartition, bytes] = {}

    def polled(self, partitions: Iterable[TopicPartition]) -> None:
        """These have just given records. In the member's thread."""
        for partition in partitions:
            self._ids[partition] = self._consumer.position_topic_id(partition)

    def id_of(self, partition: TopicPartition) -> bytes:
        """The id of the topic of which its records are; b"" if the brokers know none."""
        return self._ids.get(partition, b"")
