"""The offsets that a folder has, and those of a batch that are new. No files here.

Offsets are those of one topic, by its id: a topic that was deleted and created again begins at 0, and nothing of it is
there yet. If an id is not known, as in entries of earlier releases, the offsets are those of the first topic that
had the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from spark_bridge.batch import Batch, BatchRange

Key = tuple[str, int]
Span = tuple[int, int]
Range = tuple[str, int, int, int]
"""Topic, partition, the first offset, and the one after the last."""


class Written:
    """The offsets that are there, of each partition and topic id."""

    def __init__(self) -> None:
        self._spans: dict[tuple[Key, bytes], list[Span]] = {}
        self._ids: dict[str, list[bytes]] = {}
        """The ids of each name, in their order."""

    def copy(self) -> Self:
        """The same, which does not change with this one."""
        made = type(self)()
        made._spans, made._ids = dict(self._spans), {topic: list(ids) for topic, ids in self._ids.items()}
        return made

    def add(self, written: Range, topic_id: bytes) -> None:
        """These offsets are there."""
        topic, partition, since, until = written
        ids = self._ids.setdefault(topic, [])
        if topic_id and topic_id not in ids:
            ids.append(topic_id)
        place = ((topic, partition), topic_id)
        self._spans[place] = merged([*self._spans.get(place, []), (since, until)])

    def spans(self, key: Key, topic_id: bytes) -> list[Span]:
        """The offsets of a partition that are there, of this topic; if it is not known, of any of the name."""
        ids = self._ids.get(key[0], [])
        asked = {topic_id} if topic_id else {b"", *ids}
        if not ids or topic_id == ids[0]:
            asked.add(b"")
        return merged([span for each in asked for span in self._spans.get((key, each), [])])

    def ends(self) -> dict[Key, int]:
        """The offset after the last one of each partition, in the newest topic of each name."""
        keys = {key for key, _ in self._spans}
        newest = {key: (self._ids.get(key[0]) or [b""])[-1] for key in sorted(keys)}
        return {key: spans[-1][1] for key, topic_id in newest.items() if (spans := self.spans(key, topic_id))}

    def beyond(self, batch: Batch) -> list[Range]:
        """The parts of the batch's ranges that are not written yet.

        They may lie before parts that are: a group's offsets may have been reset forwards, and then back.
        """
        return [part for each in batch.ranges for part in self._beyond(each)]

    def _beyond(self, wanted: BatchRange) -> list[Range]:
        found = []
        since = wanted.from_offset
        for begin, end in self.spans((wanted.topic, wanted.partition), wanted.topic_id):
            if since < min(begin, wanted.until_offset):
                found.append((wanted.topic, wanted.partition, since, min(begin, wanted.until_offset)))
            since = max(since, end)
        if since < wanted.until_offset:
            found.append((wanted.topic, wanted.partition, since, wanted.until_offset))
        return found


def merged(spans: list[Span]) -> list[Span]:
    """The spans in order; those that touch or overlap become one."""
    found: list[Span] = []
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(until, found[-1][1]))
        else:
            found.append((since, until))
    return found


def ids_of(batch: Batch) -> Mapping[str, bytes]:
    """The ids of a batch's topics, of those that have one."""
    return {each.topic: each.topic_id for each in batch.ranges if each.topic_id}
