"""A group's history by `__consumer_offsets`: its commits in the log's order, and the partitions with two owners."""

from __future__ import annotations

from collections import defaultdict

from actors.client import Consumer, TopicPartition
from actors.client.group.assignors.protocol import Assignment
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.offset_records import OffsetsPut, decode_offset_value

OFFSETS_TOPIC = "__consumer_offsets"


def read_history(servers: str, group_id: str) -> tuple[dict[TopicPartition, list[int]], list[str]]:
    """(committed offsets of each partition in order, partitions with two owners in one generation)."""
    commits: dict[TopicPartition, list[int]] = defaultdict(list)
    double: list[str] = []
    with Consumer(bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest") as reader:
        partitions = [TopicPartition(OFFSETS_TOPIC, n) for n in reader.partitions_for_topic(OFFSETS_TOPIC) or ()]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        while any(reader.position(tp) < end for tp, end in ends.items()):
            for records in reader.poll(500).values():
                for record in records:
                    _note(group_id, GROUP_RECORDS.decode(record.key, record.value), commits, double)
    return commits, double


def _note(group_id: str, change: object, commits: dict[TopicPartition, list[int]], double: list[str]) -> None:
    if isinstance(change, OffsetsPut) and change.group_id == group_id:
        values = (value for topic in change.topics for value in topic.values)
        for partition, value in zip(change.partitions(), values, strict=True):
            commits[TopicPartition(*partition)].append(decode_offset_value(value).offset)
    elif isinstance(change, GroupPut) and change.group_id == group_id:
        owners: dict[TopicPartition, str] = {}
        for member in change.metadata.members:
            for tp in Assignment.decode(member.assignment).partitions if member.assignment else ():
                if tp in owners:
                    double.append(f"generation {change.metadata.generation_id}: {tp} has two owners")
                owners[tp] = member.member_id
