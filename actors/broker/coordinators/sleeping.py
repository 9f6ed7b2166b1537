"""The partitions led here whose shard has given its process back, and what wakes each.

A partition sleeps until a client asks for it, until something of it expires, or until one of its topics is deleted;
then a process loads it, as after a failover. Nothing of a sleeper is in memory but what is here, and its log cannot
change: an election, or a repair of the log, ends the sleep.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from actors.coordinator.groups.messages import MaySleepResponse

_LAST_DATE_MS = 253_402_214_400_000


@dataclass(slots=True)
class Sleeper:
    """A partition that sleeps, at the leader epoch at which it fell asleep. `rest` is what its shard said last.

    `expires` is what wakes it unasked, for people.
    """

    epoch: int
    since_ms: int
    rest: MaySleepResponse
    expires: str

    def is_due(self, now_ms: int) -> bool:
        """True if something expires."""
        return self.rest.due_ms is not None and self.rest.due_ms <= now_ms

    @property
    def why(self) -> str:
        """For people: since when it sleeps, and until when if nobody asks."""
        due_ms = self.rest.due_ms
        expires = f", or until {self.expires} at {_date(due_ms)}" if due_ms is not None else ""
        return f"since {_date(self.since_ms)}, until asked{expires}"


def _date(wall_ms: int) -> str:
    return datetime.fromtimestamp(min(wall_ms, _LAST_DATE_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


class Sleeping:
    """The sleepers of one broker. An entry stays until its partition is served, in case the process dies before."""

    def __init__(self) -> None:
        self._sleepers: dict[int, Sleeper] = {}

    def __contains__(self, partition: int) -> bool:
        return partition in self._sleepers

    def add(self, partition: int, sleeper: Sleeper) -> None:
        """A partition has fallen asleep."""
        self._sleepers[partition] = sleeper

    def drop(self, partition: int) -> None:
        """A partition does not sleep any more, or what is known of it no longer counts."""
        self._sleepers.pop(partition, None)

    def concerned(self, partition: int, topics: frozenset[str]) -> frozenset[str]:
        """Those of the topics that a partition may have to do with: all, unless it sleeps and has said which."""
        sleeper = self._sleepers.get(partition)
        return topics.intersection(sleeper.rest.topics) if sleeper is not None else topics

    def due(self, now_ms: int) -> list[int]:
        """The partitions of which something expires. `now_ms` is Unix time."""
        return [partition for partition, sleeper in self._sleepers.items() if sleeper.is_due(now_ms)]

    def items(self) -> list[tuple[int, Sleeper]]:
        """All of them, by partition."""
        return sorted(self._sleepers.items())
