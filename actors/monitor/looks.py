"""One look at partitions and groups: ends first, then what was committed up to them, then lag, then single batches.

In this order no lag is shown that never was: an end is never newer than what was read of commits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Final, Protocol, TypeVar

from actors.links.operations import Operation, Result
from actors.links.reading import HEADS, LogRead, PartitionsRead, ReadHeads, ReadLog, ReadPartitions, unpack_rows
from actors.monitor.follower import Follower
from actors.monitor.lag import Place
from actors.monitor.memory import Memory
from actors.monitor.timeline import Estimate
from actors.records.batch import HEADER_BYTES, BatchHeader, iter_batches, read_header
from actors.records.bounds import Bounds
from actors.records.errors import CorruptBatchError, OverBoundsError
from actors.records.reading import batch_records
from placement.metadata import OFFSETS_TOPIC

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

_RECORD_BYTES: Final = 64 << 10
"""The part of a batch that is fetched to learn the time of one of its records. Of a longer one, the header has to do.
"""
_RECORD_BOUNDS: Final = Bounds(plain_bytes=4 << 20, records=64 << 10)
"""Likewise, how much it may hold."""
_AT_ONCE: Final = 8  # lookups of single records
_ANY_MS: Final = 1 << 62


class Brokers(Protocol):
    """The brokers, as the Monitor reaches them."""

    @property
    def alive(self) -> tuple[int, ...]:
        """Their ids."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """All topics there are."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, if it has one."""

    async def ask(self, broker_id: int, operation: Operation[R]) -> R | None:
        """Ask a broker. None if it does not answer."""


class LeaderReads:
    """Reads logs from whoever leads them (`follower.Reads`)."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def read_log(
        self, topic: str, partition: int, offset: int, max_bytes: int, head_bytes: int = 0
    ) -> LogRead | None:
        """Ask the partition's leader. None if there is none, or it does not answer."""
        leader = self._brokers.leader_of(topic, partition)
        if leader is None:
            return None
        return await self._brokers.ask(leader, ReadLog(topic, partition, offset, max_bytes, head_bytes))


class Looker:
    """Looks at partitions and groups, and keeps what it saw in a Memory."""

    def __init__(self, brokers: Brokers, memory: Memory) -> None:
        self._brokers = brokers
        self._memory = memory
        self._reads = LeaderReads(brokers)
        self.follower = Follower(self._reads)
        self.unanswered: tuple[int, ...] = ()
        """Brokers that did not say where their partitions end, at the last look."""

    async def look(self, now_ms: int) -> None:
        """Take a look. `now_ms` is wall time."""
        memory, offsets = self._memory, self.follower.log
        memory.table.begin()
        await self._see_partitions(now_ms)
        await self.follower.follow(self._ends_of_offsets())
        memory.rates(offsets, now_ms)
        memory.measure(offsets, now_ms)
        if await self._look_up():
            memory.measure(offsets, now_ms)
        memory.trim(offsets, self._brokers.topic_ids)

    async def _see_partitions(self, now_ms: int) -> None:
        alive = self._brokers.alive
        told = await asyncio.gather(*(self._see_broker(each, now_ms) for each in alive))
        self.unanswered = tuple(each for each, has in zip(alive, told, strict=True) if not has)

    async def _see_broker(self, broker_id: int, now_ms: int) -> bool:
        after: tuple[str, int] | None = ("", -1)
        while after is not None:
            found = await self._brokers.ask(broker_id, ReadPartitions(after))
            if found is None:
                return False
            self._take(found, now_ms)
            after = found.last
        return True

    def _take(self, found: PartitionsRead, now_ms: int) -> None:
        ids = self._brokers.topic_ids
        for each in found.topics:
            if (topic_id := ids.get(each.name)) is not None:
                self._memory.partitions.seen(each.name, topic_id, unpack_rows(each.rows), now_ms)

    def _ends_of_offsets(self) -> dict[int, int]:
        topic = self._memory.partitions.topic(OFFSETS_TOPIC)
        return {} if topic is None else {number: each.log_end for number, each in topic.partitions.items()}

    async def _look_up(self) -> bool:
        """Learn when unread records came, where the growth of logs does not tell. Returns True if that was needed."""
        table = self._memory.table
        if batches := table.wanted():
            await self._look_at_batches(batches)
        if records := table.wanted_records():
            await self._look_at_records(records)
        return bool(batches or records)

    async def _look_at_batches(self, places: list[Place]) -> None:
        by_leader: dict[int | None, list[Place]] = defaultdict(list)
        for place in places:
            by_leader[self._brokers.leader_of(place[0], place[1])].append(place)
        told = await asyncio.gather(*(self._heads_of(leader, led) for leader, led in by_leader.items()))
        heads = zip(chain(*by_leader.values()), chain(*told), strict=True)
        self._memory.table.estimated((place, estimate_of(head, place[2])) for place, head in heads)

    async def _heads_of(self, leader: int | None, places: list[Place]) -> list[bytes]:
        """Of each, the header of its batch, or b"". A leader that does not answer is not asked again."""
        heads: list[bytes] = []
        while leader is not None and len(heads) < len(places):
            found = await self._brokers.ask(leader, ReadHeads(tuple(places[len(heads) :][:HEADS])))
            if found is None or not found.heads:
                break
            heads += found.heads
        return heads + [b""] * (len(places) - len(heads))

    async def _look_at_records(self, places: list[Place]) -> None:
        for at in range(0, len(places), _AT_ONCE):
            some = places[at : at + _AT_ONCE]
            times = await asyncio.gather(*(self._time_of(place) for place in some))
            self._memory.table.found(zip(some, times, strict=True))

    async def _time_of(self, place: Place) -> int | None:
        found = await self._reads.read_log(*place, _RECORD_BYTES, _RECORD_BYTES)
        return None if found is None or found.error_code else time_of(found.data, place[2])


def time_of(data: bytes, offset: int) -> int | None:
    """The timestamp of the first record at or after `offset`, in ms, from batches of which the first may be cut."""
    start = 0
    try:
        for start, end, header in iter_batches(data):
            for record in batch_records(data[start:end], header, _RECORD_BOUNDS):
                if record.offset >= offset and not header.is_control:
                    return record.timestamp
        start = 0
    except OverBoundsError as error:
        log.debug("the record at offset %d is not looked at: %s", offset, error)
    except CorruptBatchError as error:
        log.warning("the record at offset %d cannot be read: %s", offset, error)
        return None
    estimate = estimate_of(data[start:], offset)
    return None if estimate is None else estimate.at_ms


def estimate_of(head: bytes, offset: int) -> Estimate | None:
    """The estimate of a record's time by the header of the batch that holds `offset`. None if it says nothing."""
    return _between(read_header(head), offset) if len(head) >= HEADER_BYTES else None


def _between(header: BatchHeader, offset: int) -> Estimate | None:
    """An estimate by the record's place between the first and the largest timestamp of its batch, which came as one."""
    first_ms, newest_ms = header.first_timestamp, header.max_timestamp
    if newest_ms < 0 or offset > header.last_offset:
        return None
    if header.is_control:
        return Estimate(newest_ms, _ANY_MS)  # it is no record: that comes after it
    if first_ms < 0 or header.is_log_append_time or not header.last_offset_delta:
        return Estimate(newest_ms, 0)
    share = max(0, offset - header.base_offset) / header.last_offset_delta
    return Estimate(first_ms + round(share * (newest_ms - first_ms)), newest_ms - first_ms)
