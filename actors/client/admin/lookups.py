"""Questions of tools to an Admin before they act: which groups and topics there are, where logs begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.client.admin.offset_plans import Log
from actors.client.records import TopicPartition

if TYPE_CHECKING:
    from actors.client.admin.admin import Admin
    from actors.client.admin.types import GroupDescription, GroupListing, TopicDescription


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


def described_groups(admin: Admin, names: Sequence[str]) -> dict[str, GroupDescription]:
    """Groups by their ids, of whatever type. One that does not exist has the state Dead.

    DescribeGroups says of a group that is not a classic one that it is Dead. Its other fields then come from a list of
    groups; and so do those of one with topics that may not be seen.
    """
    described = admin.describe_consumer_groups(names, show_hidden=True) if names else []
    found = {group.group_id: group for group in described}
    if any(group.is_hidden or group.state == "Dead" for group in described):
        for listed in admin.list_consumer_groups():
            group = found.get(listed.group_id)
            if group is not None and _says_more(listed, group):
                kind = listed.type.lower()
                told = replace(group, state=listed.state, protocol_type=listed.protocol_type, type=kind)
                found[listed.group_id] = told
    return found


def _says_more(listed: GroupListing, group: GroupDescription) -> bool:
    """True if a list of groups has more than the description: that of a group which is hidden, or of another type."""
    return group.is_hidden or (group.state == "Dead" and listed.type.lower() not in ("", group.type))


def offsets_at(admin: Admin, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    """The first offset at or after a time (Unix milliseconds) in each partition; left out where there is none."""
    wanted = dict.fromkeys(partitions, time_ms)
    found = admin.list_offsets(wanted) if wanted else {}
    return {partition: at.offset for partition, at in found.items() if at is not None}
