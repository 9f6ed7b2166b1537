"""A Monitor's memory of partitions and groups, and the lag of each group. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.links.views import LagPoint
from actors.monitor.lag import Lag, LagTable
from actors.monitor.offsets_log import FollowedGroup, OffsetsLog, TopicPartition
from actors.monitor.partitions import Partitions
from placement.metadata import OUR_TOPICS

LARGEST: Final = (1 << 63) - 1
"""A sum beyond it can neither be stored nor sent: offsets of that size are nobody's reading, and it is not known."""


@dataclass(slots=True)
class GroupLag:
    """A group's lag at the last look. `records` is the sum of what is known, `seconds` the slowest partition's.

    `committed` is the sum of its offsets; clients may have committed anything, so that it may exceed 64 bits.
    """

    by_partition: dict[TopicPartition, Lag] = field(default_factory=dict)
    records: int | None = None
    seconds: float | None = None
    committed: int = 0
    commits_per_s: float | None = None
    commits: int = 0
    """The group's count of commits at that look."""


def storable(total: int | None) -> int | None:
    """A sum, or None if it has more than 64 bits."""
    return total if total is not None and total <= LARGEST else None


class Memory:
    """The partitions, the groups, and how far the groups are behind."""

    def __init__(self, interval_ms: int) -> None:
        self.partitions = Partitions()
        self.table = LagTable(self.partitions, interval_ms)
        self.lags: dict[str, GroupLag] = {}
        self.commits_per_s: float | None = None
        self.messages_per_s: float | None = None
        """Of all topics but our own: internal ones, and that of pools."""
        self._measured_ms: int | None = None
        self._came: dict[str, int] = {}  # each topic's count of messages at the last look

    def measure(self, offsets: OffsetsLog, now_ms: int) -> None:
        """Work out the lag of all groups. To be called again, after `table.found`, for what had to be looked at."""
        lags = {}
        for _, group in offsets:
            lags[group.group_id] = self._lag_of(group, now_ms)
        self.lags = lags

    def _lag_of(self, group: FollowedGroup, now_ms: int) -> GroupLag:
        made = GroupLag(commits=group.commits)
        before = self.lags.get(group.group_id)
        made.commits_per_s = before.commits_per_s if before is not None else None
        for tp, committed in group.offsets.items():
            lag = made.by_partition[tp] = self.table.of(tp[0], tp[1], committed.offset, now_ms)
            made.committed += max(0, committed.offset)
            if lag.records is not None:
                made.records = (made.records or 0) + lag.records
            if lag.seconds is not None and (made.seconds is None or lag.seconds > made.seconds):
                made.seconds = lag.seconds
        made.records = storable(made.records)
        return made

    def points(self, now_ms: int) -> Iterator[tuple[str, LagPoint]]:
        """A point of each group's history."""
        for group_id, lag in self.lags.items():
            yield group_id, LagPoint(now_ms, lag.records, lag.seconds, storable(lag.committed))

    def rates(self, offsets: OffsetsLog, now_ms: int) -> None:
        """Work out rates since the look before. To be called once in each look, before `measure`."""
        before_ms, self._measured_ms = self._measured_ms, now_ms
        came = {name: topic.messages_in for name, topic in self.partitions}
        if before_ms is None or now_ms <= before_ms:
            self._came = came
            return
        seconds = (now_ms - before_ms) / 1000
        total = 0
        for name, topic in self.partitions:
            new = max(0, topic.messages_in - self._came.get(name, 0))
            topic.messages_per_s = new / seconds
            total += 0 if name in OUR_TOPICS else new
        self.messages_per_s = total / seconds
        self._came = came
        self._commit_rates(offsets, seconds)

    def _commit_rates(self, offsets: OffsetsLog, seconds: float) -> None:
        total = 0
        for _, group in offsets:
            known = self.lags.get(group.group_id)
            new = max(0, group.commits - (known.commits if known is not None else 0))
            total += new
            if known is not None:
                known.commits_per_s = new / seconds
        self.commits_per_s = total / seconds

    def trim(self, offsets: OffsetsLog, topic_ids: Mapping[str, bytes]) -> None:
        """Forget deleted topics, and what was seen of records that all groups have read."""
        self.partitions.keep(topic_ids)
        needed: dict[TopicPartition, int] = {}
        for _, group in offsets:
            for tp, committed in group.offsets.items():
                least = needed.get(tp)
                if least is None or committed.offset < least:
                    needed[tp] = committed.offset
        self.partitions.forget_records(needed)
