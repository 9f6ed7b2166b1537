"""Lanes of work: the pieces of one lane begin one after the other, lanes go side by side. No I/O, no clock.

Records that are handled one by one have a lane for each key of a partition, and those without a key one each. Batches
have a lane for each partition, where records are gathered until there are enough or they have waited long enough.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from actors.client import TopicPartition
from actors.members.pools.handling.work import Work, cut, joined, pieces

Begin = Callable[[Work], None]
_DEEP = 16


class Lanes(Protocol):
    """Records that wait, and the order in which they may begin. `begin` hears of each piece in the order of offsets."""

    def admit(self, partition: TopicPartition, records: Any, now: float) -> None:
        """These records wait from now on (seconds)."""
        ...

    def take(self, now: float, blocked: Container[TopicPartition]) -> Work | None:
        """The next piece that may begin, and has now begun; None if none may. Blocked partitions have to wait."""
        ...

    def ahead(self) -> Iterator[tuple[TopicPartition, int]]:
        """The places of single records that wait, those first which probably begin next."""
        ...

    def release(self, work: Work, again: Sequence[Work]) -> None:
        """The piece has ended: its lane may go on, at first with the pieces `again`."""
        ...

    def drop(self, partition: TopicPartition) -> None:
        """Forget a partition. Pieces of it that have begun are not released any more."""
        ...

    def waiting(self, partition: TopicPartition) -> int:
        """The number of records that wait."""
        ...

    def is_full(self, partition: TopicPartition) -> bool:
        """True if so many wait that no more should be polled."""
        ...

    def has_room(self, partition: TopicPartition) -> bool:
        """True if so few wait that more should be polled."""
        ...

    def due_in(self, now: float) -> float | None:
        """The seconds until a piece may begin because time has passed; None if time changes nothing."""
        ...


class KeyLanes:
    """Records one by one; those of one key in order."""

    def __init__(self, concurrency: int, begin: Begin) -> None:
        self._full = 2 * concurrency
        self._begin = begin
        self._lanes: dict[Hashable, deque[Work]] = {}
        self._ready: deque[Hashable] = deque()
        self._waiting: Counter[TopicPartition] = Counter()

    def admit(self, partition: TopicPartition, records: Any, now: float) -> None:
        for work in pieces(partition, records, 1):
            self._begin(work)
            name = _lane_of(work)
            if name not in self._lanes:
                self._lanes[name] = deque()
                self._ready.append(name)
            self._lanes[name].append(work)
        self._waiting[partition] += len(records)

    def take(self, now: float, blocked: Container[TopicPartition]) -> Work | None:
        for i, name in enumerate(self._ready):
            if (work := self._lanes[name][0]).partition not in blocked:
                del self._ready[i]
                self._lanes[name].popleft()
                self._waiting[work.partition] -= 1
                return work
        return None

    def ahead(self) -> Iterator[tuple[TopicPartition, int]]:
        heads = (self._lanes[name][0] for name in self._ready)
        return (
            (work.partition, work.first)
            for work in chain(heads, chain.from_iterable(map(_behind, self._lanes.values())))
        )

    def release(self, work: Work, again: Sequence[Work]) -> None:
        name = _lane_of(work)
        lane = self._lanes[name]
        lane.extendleft(reversed(again))
        self._waiting[work.partition] += len(again)
        if lane:
            self._ready.append(name)
        else:
            del self._lanes[name]

    def drop(self, partition: TopicPartition) -> None:
        self._lanes = {name: lane for name, lane in self._lanes.items() if name[0] != partition}  # type: ignore[index]
        self._ready = deque(name for name in self._ready if name in self._lanes)
        del self._waiting[partition]

    def waiting(self, partition: TopicPartition) -> int:
        return self._waiting[partition]

    def is_full(self, partition: TopicPartition) -> bool:
        return self._waiting[partition] >= self._full

    def has_room(self, partition: TopicPartition) -> bool:
        return self._waiting[partition] <= self._full // 2

    def due_in(self, now: float) -> float | None:
        return None


def _behind(lane: deque[Work]) -> Iterator[Work]:
    return islice(lane, _DEEP)


def _lane_of(work: Work) -> Hashable:
    record = work.records[0]
    return (work.partition, work.first) if record.key is None else (work.partition, record.key)


class _Gathered:
    """The records of a partition that wait to be a batch."""

    def __init__(self) -> None:
        self.arrived: deque[tuple[float, Any]] = deque()
        self.count = 0
        self.again: deque[Work] = deque()
        self.busy = False

    def take(self, most: int) -> Any:
        """The oldest records, at most so many."""
        taken: list[Any] = []
        left = most
        while left and self.arrived:
            at, records = self.arrived.popleft()
            if len(records) > left:
                self.arrived.appendleft((at, cut(records, left, len(records) - left)))
                records = cut(records, 0, left)
            taken.append(records)
            left -= len(records)
        self.count -= most - left
        return joined(taken)


class BatchLanes:
    """Batches of one partition, of up to `most` records, or fewer if the oldest has waited for `wait_s`."""

    def __init__(self, most: int, wait_s: float, begin: Begin) -> None:
        self._most = most
        self._wait_s = wait_s
        self._begin = begin
        self._gathered: dict[TopicPartition, _Gathered] = {}

    def admit(self, partition: TopicPartition, records: Any, now: float) -> None:
        gathered = self._gathered.setdefault(partition, _Gathered())
        gathered.arrived.append((now, records))
        gathered.count += len(records)

    def take(self, now: float, blocked: Container[TopicPartition]) -> Work | None:
        for partition, gathered in self._gathered.items():
            if gathered.busy or partition in blocked:
                continue
            if gathered.again or ((left := self._left(gathered, now)) is not None and left <= 0):
                self._gathered[partition] = self._gathered.pop(partition)  # the others first, next time
                gathered.busy = True
                return gathered.again.popleft() if gathered.again else self._begun(partition, gathered)
        return None

    def _begun(self, partition: TopicPartition, gathered: _Gathered) -> Work:
        work = Work.of(partition, gathered.take(self._most))
        self._begin(work)
        return work

    def _left(self, gathered: _Gathered, now: float) -> float | None:
        """The seconds that the next batch has to wait; None while there are no records."""
        if not gathered.count:
            return None
        return 0.0 if gathered.count >= self._most else gathered.arrived[0][0] + self._wait_s - now

    def ahead(self) -> Iterator[tuple[TopicPartition, int]]:
        """Nobody knows what the next batch will be."""
        return iter(())

    def release(self, work: Work, again: Sequence[Work]) -> None:
        gathered = self._gathered[work.partition]
        gathered.busy = False
        gathered.again.extendleft(reversed(again))

    def drop(self, partition: TopicPartition) -> None:
        self._gathered.pop(partition, None)

    def waiting(self, partition: TopicPartition) -> int:
        gathered = self._gathered.get(partition)
        return 0 if gathered is None else gathered.count + sum(map(len, gathered.again))

    def is_full(self, partition: TopicPartition) -> bool:
        return self.waiting(partition) >= self._most

    def has_room(self, partition: TopicPartition) -> bool:
        return self.waiting(partition) < self._most

    def due_in(self, now: float) -> float | None:
        waits = (self._left(each, now) for each in self._gathered.values() if not each.busy)
        return min((max(wait, 0.0) for wait in waits if wait is not None), default=None)
