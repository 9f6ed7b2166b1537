"""Progress of Spark's own streaming queries, and the offsets that groups commit for it. No Spark, broker or clock here.

Spark says after each batch how far each source has been read: `{"orders": {"0": 42}}`, the next offset to read of each
partition. That is what a consumer group commits. If several queries of a group, or several sources of a query, read
the same partition, the least offset counts: nothing is shown as read that one of them still has to read.

A query is known by its name, or by its id if it has none. A run that begins anew takes the place of the one before, so
that offsets which go back, as after the loss of a checkpoint, are shown. A query that has ended counts as long as no
other one of its group reads the partition.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actors.client.records import TopicPartition

Offsets = Mapping[TopicPartition, int]

QUERY: Final = "{query}"
"""The text that stands in a group id for the query's name."""
_KAFKA: Final = "Kafka"  # KafkaV2[Subscribe[orders]]; other sources have other descriptions


def offsets_of(sources: Iterable[tuple[str, Any]], topics: Collection[str] | None = None) -> dict[TopicPartition, int]:
    """The next offset of each partition by the descriptions and end offsets of a query's sources.

    End offsets are JSON, or what JSON means. Sources that are not Kafka's, or have not read anything yet, say nothing.
    With `topics`, only these count.
    """
    found: dict[TopicPartition, int] = {}
    for description, end in sources:
        for tp, offset in _end_offsets(end) if description.startswith(_KAFKA) else ():
            if topics is None or tp.topic in topics:
                found[tp] = min(offset, found.get(tp, offset))
    return found


def _end_offsets(end: Any) -> Iterable[tuple[TopicPartition, int]]:
    if isinstance(end, str):
        try:
            end = json.loads(end)
        except ValueError:  # "None", of a source that has not begun
            return
    if not isinstance(end, Mapping):
        return
    for topic, partitions in end.items():
        for number, offset in partitions.items() if isinstance(partitions, Mapping) else ():
            if str(number).isdecimal() and isinstance(offset, int) and offset >= 0:
                yield TopicPartition(str(topic), int(number)), offset


def group_of(template: str, query: str) -> str:
    """The group of a query: the template with the query's name in the place of `{query}`."""
    return template.replace(QUERY, query)


@dataclass(slots=True)
class _Group:
    """The offsets of a group's queries by query: of those that run, and the last ones of those that have ended."""

    running: dict[str, Offsets] = field(default_factory=dict)
    ended: dict[str, Offsets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All that a group is to have committed. `live`: a query of it runs."""

    group_id: str
    offsets: Offsets
    live: bool


class Positions:
    """The offsets that a session's groups have to commit. `template` is a group id that may contain `{query}`."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._groups: dict[str, _Group] = {}

    def read(self, query: str, offsets: Offsets) -> GroupOffsets:
        """A query has read up to these offsets."""
        group_id = group_of(self._template, query)
        group = self._groups.setdefault(group_id, _Group())
        group.running[query] = dict(offsets)
        group.ended.pop(query, None)
        group.ended = _without(group.ended, offsets)
        return self._of(group_id, group)

    def ended(self, query: str) -> GroupOffsets | None:
        """A query has ended. None if it has never read anything."""
        group_id = group_of(self._template, query)
        group = self._groups.get(group_id)
        if group is None or query not in group.running:
            return None
        last = group.running.pop(query)
        others = {tp for offsets in group.running.values() for tp in offsets}
        group.ended |= _without({query: last}, others)
        return self._of(group_id, group)

    def _of(self, group_id: str, group: _Group) -> GroupOffsets:
        found: dict[TopicPartition, int] = {}
        for offsets in (*group.running.values(), *group.ended.values()):
            for tp, offset in offsets.items():
                found[tp] = min(offset, found.get(tp, offset))
        return GroupOffsets(group_id, found, live=bool(group.running))


def _without(queries: Mapping[str, Offsets], partitions: Collection[TopicPartition]) -> dict[str, Offsets]:
    """The offsets of queries without these partitions; queries that have none left are left out."""
    kept = {
        query: {tp: offset for tp, offset in offsets.items() if tp not in partitions}
        for query, offsets in queries.items()
    }
    return {query: offsets for query, offsets in kept.items() if offsets}
