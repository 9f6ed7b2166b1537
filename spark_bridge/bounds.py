"""The bounds of reading: the earliest or latest offsets, given ones, or times; and the offsets that they mean now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from actors import CoterieError
from actors.client.records import TopicPartition

if TYPE_CHECKING:
    from actors.client import Admin

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's numbers for them, which Spark uses in offsets by partition, too."""

Partition = tuple[str, int]


class BoundError(CoterieError, ValueError):
    """A bound that does not fit the partitions that are read; the message names its option."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read. `option` is the option's name, for messages.

    Exactly one of these is set: `everywhere` (EARLIEST or LATEST), `offsets` (EARLIEST and LATEST allowed), or
    `timestamp_ms` / `timestamps_ms` (Unix time): the first record at or after it.
    """

    option: str
    everywhere: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[Partition, int] = field(default_factory=dict)
    latest_if_none: bool = True
    """With times: a partition without such a record counts as read to the end. If this is False, it is an error."""
    is_default: bool = False
    """True if nobody asked for it."""

    @property
    def by_partition(self) -> Mapping[Partition, int]:
        return self.offsets or self.timestamps_ms


def resolve(
    admin: Admin, bound: Bound, partitions: Iterable[Partition], *, committed: bool = False
) -> dict[Partition, int]:
    """The offset of each partition that `bound` means now; with `committed`, ends stop at open transactions.

    Raises BoundError if it names partitions that are not read or leaves some out, or a time nothing is as young as.
    """
    wanted = list(partitions)
    if bound.by_partition:
        _same(bound, wanted)
    fixed = {tp: at for tp, at in bound.offsets.items() if at >= 0}
    asked = {tp: _time(bound, tp) for tp in wanted if tp not in fixed}
    found = _ask(admin, asked, committed)
    late = [tp for tp, offset in found.items() if offset is None]
    if late and not bound.latest_if_none:
        topic, number = late[0]
        raise BoundError(
            f"{bound.option}: {topic}-{number} has no record at or after {_time(bound, late[0])} ms; "
            "with startingOffsetsByTimestampStrategy=latest such a partition is read from its end"
        )
    ends = _ask(admin, dict.fromkeys(late, LATEST), committed)
    return fixed | {tp: offset if offset is not None else ends[tp] or 0 for tp, offset in found.items()}


def _time(bound: Bound, tp: Partition) -> int:
    if bound.everywhere is not None:
        return bound.everywhere
    if bound.timestamp_ms is not None:
        return bound.timestamp_ms
    return bound.by_partition[tp]


def _same(bound: Bound, partitions: list[Partition]) -> None:
    given = set(bound.by_partition)
    if unread := sorted(given.difference(partitions)):
        topic, number = unread[0]
        raise BoundError(f"{bound.option} names {topic}-{number}, which is not read or does not exist")
    if left_out := sorted(set(partitions).difference(given)):
        topic, number = left_out[0]
        raise BoundError(f"{bound.option} leaves out {topic}-{number}; it must name every partition that is read")


def _ask(admin: Admin, wanted: Mapping[Partition, int], committed: bool) -> dict[Partition, int | None]:
    if not wanted:
        return {}
    times = {TopicPartition(*tp): at for tp, at in wanted.items()}
    found = admin.list_offsets(times, isolation_level=int(committed))
    return {(tp.topic, tp.partition): at.offset if at is not None else None for tp, at in found.items()}
