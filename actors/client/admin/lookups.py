"""What tools ask an Admin before they do something: which topics exist, and where the logs begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.client.admin.offset_plans import Log
from actors.client.records import TopicPartition

if TYPE_CHECKING:
    from actors.client.admin.admin import Admin
    from actors.client.admin.types import TopicDescription


def existing_topics(admin: Admin, named: Iterable[str] | None = None) -> list[TopicDescription]:
    """Those of the named topics that exist, or all of them, by name."""
    there = admin.list_topics()
    wanted = there if named is None else sorted(set(named) & set(there))
    return admin.describe_topics(wanted) if wanted else []


def logs(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
    """The first and the end offset of each of these partitions that exists."""
    wanted = set(partitions)
    topics = existing_topics(admin, {topic for topic, _ in wanted}) if wanted else []
    there = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    asked = sorted(set(there) & wanted)
    if not asked:
        return {}
    first = admin.list_offsets(dict.fromkeys(asked, "earliest"))
    end = admin.list_offsets(dict.fromkeys(asked, "latest"))
    return {tp: Log(a.offset, z.offset) for tp in asked if (a := first[tp]) and (z := end[tp])}


def offsets_at(admin: Admin, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    """The first offset at or after a time (Unix milliseconds) in each partition; left out where there is none."""
    wanted = dict.fromkeys(partitions, time_ms)
    found = admin.list_offsets(wanted) if wanted else {}
    return {partition: at.offset for partition, at in found.items() if at is not None}
