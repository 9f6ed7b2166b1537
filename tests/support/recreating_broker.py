"""A scripted broker whose topics have ids, so that one can be deleted and created again while a client uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.client.records import TopicPartition
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker

UNKNOWN_TOPIC_ID = 100
_BY_ID: dict[type[m.ApiMessage], tuple[int, int]] = {
    m.FetchRequest: (4, 13),
    m.OffsetCommitRequest: (2, 10),
    m.OffsetFetchRequest: (1, 10),
}


class RecreatingBroker(ScriptedBroker):
    """Answers by id what is asked by id: 100 for one that no topic has. With `by_id` off it is older, and knows names.

    `refused` are the offsets that commits by an id which is gone would have stored. `late` is whether the offsets of
    deleted topics stay, as they do for a while in Kafka.
    """

    def __init__(self, *, by_id: bool = True, late: bool = False) -> None:
        self.ids: dict[str, bytes] = {}
        self.refused: list[int] = []
        self._made = 0
        self._late = late
        super().__init__()
        if by_id:
            self.versions |= _BY_ID

    def topic(self, name: str, partitions: int = 1) -> None:
        super().topic(name, partitions)
        if name not in self.ids:
            self._made += 1
            self.ids[name] = self._made.to_bytes(16, "big")

    def delete(self, name: str) -> None:
        """Delete a topic with its records and its committed offsets."""
        with self.changed:
            self.ids.pop(name)
            for tp in [tp for tp in self.logs if tp.topic == name]:
                for of_topic in (self.logs, self.starts, self.ends):
                    of_topic.pop(tp, None)
                if not self._late:
                    self.committed.pop(tp, None)
            self.changed.notify_all()

    def recreate(self, name: str, *values: bytes, partitions: int = 1) -> None:
        """Delete a topic and create it again, with these values in its first partition."""
        with self.changed:
            self.delete(name)
            self.topic(name, partitions)
            if values:
                self.append(name, 0, *values)

    def on_metadata(self, request: Any) -> Any:
        with self.changed:
            answer = super().on_metadata(request)
            for topic in answer.topics:
                topic.topic_id = self.ids.get(topic.name, bytes(16))
            return answer

    def on_offsetcommit(self, request: Any, code: int = 0) -> Any:
        with self.changed:
            known, unknown = self._named(request.topics)
            self.refused += [p.committed_offset for topic in unknown for p in topic.partitions]
            request.topics = known
            part = m.OffsetCommitResponse
            answer = self._with_ids(super().on_offsetcommit(request, code))
            for topic in unknown:
                errors = [
                    part.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=UNKNOWN_TOPIC_ID)
                    for p in topic.partitions
                ]
                answer.topics.append(part.OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=errors))
            return answer

    def on_offsetfetch(self, request: Any) -> Any:
        with self.changed:
            asked = {}
            for group in request.groups:
                group.topics, asked[group.group_id] = self._named(group.topics)
            part = m.OffsetFetchResponse
            answer = super().on_offsetfetch(request)
            for group in answer.groups:
                self._with_ids(group)
                for topic in asked.get(group.group_id, ()):
                    errors = [
                        part.OffsetFetchResponsePartitions(
                            partition_index=n, committed_offset=-1, error_code=UNKNOWN_TOPIC_ID
                        )
                        for n in topic.partition_indexes
                    ]
                    group.topics.append(part.OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=errors))
            return answer

    def fetched(self, request: Any) -> tuple[Any, bool]:
        known, unknown = self._named(request.topics)
        answer, found = super().fetched(m.FetchRequest(topics=known))
        part = m.FetchResponse
        for topic in answer.responses:
            topic.topic_id = self.ids.get(topic.topic, bytes(16))
        for topic in unknown:
            errors = [
                part.PartitionData(
                    partition_index=p.partition, error_code=UNKNOWN_TOPIC_ID, high_watermark=-1, records=b""
                )
                for p in topic.partitions
            ]
            answer.responses.append(part.FetchableTopicResponse(topic_id=topic.topic_id, partitions=errors))
        return answer, found or bool(unknown)

    def _named(self, topics: list[Any]) -> tuple[list[Any], list[Any]]:
        """The topics with their names, and those whose id nothing has."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        known, unknown = [], []
        for topic in topics:
            field = "topic" if hasattr(topic, "topic") else "name"
            if any(topic.topic_id):
                setattr(topic, field, names.get(topic.topic_id, ""))
            (known if getattr(topic, field) else unknown).append(topic)
        return known, unknown

    def _with_ids(self, answer: Any) -> Any:
        for topic in answer.topics:
            topic.topic_id = self.ids.get(topic.name, bytes(16))
        return answer

    def stored(self, topic: str, partition: int = 0) -> int | None:
        """The committed offset of a partition."""
        return self.committed.get(TopicPartition(topic, partition))


@pytest.fixture(params=[True, False], ids=["by id", "by name"])
def recreating(request: pytest.FixtureRequest) -> Iterator[RecreatingBroker]:
    """A broker of today and one that knows topics by name alone, with the topic "t" in it."""
    kafka = RecreatingBroker(by_id=request.param)
    kafka.topic("t")
    yield kafka
    kafka.close()
