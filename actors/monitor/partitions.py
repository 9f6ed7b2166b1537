"""All partitions as seen at the last look: their beginnings and ends, and their sizes. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from actors.links.reading import PartitionRow
from actors.monitor.timeline import Timeline


@dataclass(slots=True)
class Partition:
    """A partition as its leader had it."""

    log_start: int
    log_end: int
    """The high watermark: what is beyond it cannot be read yet."""
    newest_ms: int
    size_bytes: int
    timeline: Timeline = field(default_factory=Timeline)


@dataclass(slots=True)
class Topic:
    """A topic's partitions by number. `messages_per_s` is the mean since the look before, None after the first."""

    id: bytes
    partitions: dict[int, Partition] = field(default_factory=dict)
    messages_per_s: float | None = None
    messages_in: int = 0
    """The number of records that have come since this Monitor began to look."""


class Partitions:
    """All partitions of which a leader has told. Those without a leader stay as they were seen last."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._topics.values())

    def __iter__(self) -> Iterator[tuple[str, Topic]]:
        return iter(self._topics.items())

    def topic(self, name: str) -> Topic | None:
        """A topic, if a leader of it has told."""
        return self._topics.get(name)

    def get(self, topic: str, partition: int) -> Partition | None:
        """A partition, if its leader has told."""
        found = self._topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def seen(self, name: str, topic_id: bytes, rows: Iterable[PartitionRow], now_ms: int) -> int:
        """A leader has told of some partitions. Returns how many records are new in them."""
        topic = self._topics.get(name)
        if topic is None or topic.id != topic_id:
            topic = self._topics[name] = Topic(topic_id)
        came = 0
        for row in rows:
            known = topic.partitions.get(row.partition)
            if known is None:
                known = Partition(row.log_start, row.high_watermark, row.newest_ms, row.size_bytes)
                topic.partitions[row.partition] = known
            else:
                came += max(0, row.high_watermark - known.log_end)
                known.log_start, known.log_end = row.log_start, row.high_watermark
                known.newest_ms, known.size_bytes = row.newest_ms, row.size_bytes
            known.timeline.seen(row.high_watermark, row.newest_ms, now_ms)
        topic.messages_in += came
        return came

    def keep(self, ids: Mapping[str, bytes]) -> None:
        """These are all topics there are; what is known of others is forgotten."""
        self._topics = {name: topic for name, topic in self._topics.items() if ids.get(name) == topic.id}

    def forget_records(self, needed: Mapping[tuple[str, int], int]) -> None:
        """`needed` are the least offsets that a group has committed, by partition: older records matter to nobody."""
        for name, topic in self._topics.items():
            for number, partition in topic.partitions.items():
                if len(partition.timeline) > 2:  # of a shorter one nothing can be forgotten, and nearly all are
                    partition.timeline.forget_before(needed.get((name, number), partition.log_end))
