"""The committed offsets of a group that may not have begun yet."""

from __future__ import annotations

from collections.abc import Collection

from actors.client import Admin, TopicPartition
from actors.client.errors import GroupIdNotFoundError


def committed_offsets(
    admin: Admin, group_id: str, partitions: Collection[TopicPartition], timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """The committed offsets of a group that need not exist yet. Partitions without one are left out."""
    try:
        committed = admin.list_consumer_group_offsets(group_id, partitions, timeout_ms)
    except GroupIdNotFoundError:  # some brokers answer so for a group that has yet to begin
        return {}
    return {tp: at.offset for tp, at in committed.items() if at is not None}
