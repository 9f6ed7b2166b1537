"""Goes through the offsets of all groups in small steps, one a turn.

A shard may hold a million offsets. If it looked at all of them in one turn, it would answer nothing meanwhile, and its
broker would take it for dead. expiry.py and topic_deletion.py say what is looked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.durable import DurableGroup
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.offset_records import OffsetsDeleted
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.writer import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES

OFFSETS_A_TURN = 5_000
PAUSE_MS: Final = 10
_TOPIC_NAME_MAX_BYTES: Final = 249
_KEY_OVERHEAD_BYTES: Final = 10


def share(left: deque[str], runtime: GroupRuntime) -> Iterator[tuple[Group, DurableGroup]]:
    """The groups of one turn, taken out of `left`: about `OFFSETS_A_TURN` offsets, or one group that has more."""
    seen = 0
    while left and seen < OFFSETS_A_TURN:
        group_id = left.popleft()
        group, durable = runtime.groups.get(group_id), runtime.durable.get(group_id)
        if group is not None and durable is not None:
            seen += len(durable.offsets) + 1
            yield group, durable


def tombstones_a_write(group_id: str, config: CoordinatorConfig) -> int:
    """The number of offset tombstones of a group that fit into one append for certain. The log refuses larger ones."""
    key = len(group_id.encode()) + _TOPIC_NAME_MAX_BYTES + _KEY_OVERHEAD_BYTES
    return max((config.max_message_bytes - BATCH_OVERHEAD_BYTES) // (key + RECORD_OVERHEAD_BYTES), 1)


def in_writes(deleted: OffsetsDeleted, config: CoordinatorConfig) -> Iterator[OffsetsDeleted]:
    """A deletion cut into several, each of which fits into one append."""
    step = tombstones_a_write(deleted.group_id, config)
    for first in range(0, len(deleted.partitions), step):
        yield OffsetsDeleted(deleted.group_id, deleted.partitions[first : first + step])
