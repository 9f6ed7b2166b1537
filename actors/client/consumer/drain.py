"""Hands out fetched records: from which partition next, how many, and what to do about errors among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from actors.client.consumer.decode import Deserializer, Whole, next_batch, next_batches, read_batch
from actors.client.consumer.fetcher import NO_OFFSET, TRUNCATED
from actors.client.consumer.positions import Chunk, PartitionState, Positions
from actors.client.error_codes import error_for
from actors.client.errors import (
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
)
from actors.client.records import ConsumerRecord, TopicPartition
from actors.records.bounds import STORED
from actors.wire.errors import ErrorCode as Code

_UNPACKED: Final = STORED.plain_bytes
"""A poll that has decompressed so many bytes ends: it may have had a hundred such batches in one fetch."""

Records = dict[TopicPartition, list[ConsumerRecord]]


class Gathering(Protocol):
    """A receiver of whole batches; its length is their number of records, `size_bytes` their decompressed bytes."""

    @property
    def size_bytes(self) -> int: ...

    def __len__(self) -> int: ...

    def add(self, tp: TopicPartition, batches: Sequence[Whole], position: int) -> None:
        """Take the records of some batches from offset `position` on. Raises KafkaError, and then takes none."""


G = TypeVar("G", bound=Gathering)


class Drain:
    """Takes records out of `positions` in the user's thread, one partition after the other."""

    def __init__(
        self,
        positions: Positions,
        *,
        lock: AbstractContextManager[Any],
        reset_to: int | None,
        committed: bool,
        check_crcs: bool,
        key_of: Callable[[str], Deserializer | None],
        value_of: Callable[[str], Deserializer | None],
    ) -> None:
        self._positions = positions
        # Held while a position jumps, so that the background thread does not add records of an older fetch.
        self._lock = lock
        self._reset_to = reset_to
        self._committed = committed
        self._check = check_crcs
        self._key_of = key_of
        self._value_of = value_of
        self._before: list[tuple[PartitionState, int, int, int]] = []
        # True if a buffer has got room or a position has jumped, so that more can be fetched. The fetcher clears it.
        self.drained = False

    def take(self, limit: int, *, advance: bool = True) -> Records:
        """Take at most `limit` records, fewer if they are very large.

        Without `advance` positions stay; the caller moves them record by record.

        If there are records before an error, these are returned, and the next call raises the error.
        """
        found: Records = {}
        left, room = limit, _UNPACKED
        for state in self._in_turn():
            while left > 0 and room > 0:
                try:
                    some = self._some(state, left, advance=advance, quiet=bool(found))
                except KafkaError:
                    if found:
                        return found
                    raise
                if not some:
                    break
                found.setdefault(state.tp, []).extend(some)
                left -= len(some)
                room -= _unpacked(state, some)
                if advance:
                    self.advance(state, some[-1])
                if state.ready is None:
                    return found  # the next record cannot be read
            if left <= 0 or room <= 0:
                break
        return found

    def take_batches(self, limit: int, into: G) -> G:
        """Whole batches until there are at least `limit` records. Errors wait as in `take`."""
        for state in self._in_turn():
            if state.ready is not None and state.position is not None:
                # A poll() has stopped within a batch. It is fetched again, because only whole batches can be taken.
                self._jump(state, state.position, state.epoch)
            while (
                len(into) < limit
                and into.size_bytes < _UNPACKED
                and (chunk := self._front(state, quiet=len(into) > 0)) is not None
            ):
                assert state.position is not None
                try:
                    batches = next_batches(
                        state.tp,
                        chunk,
                        state.position,
                        limit - len(into),
                        committed=self._committed,
                        check=self._check,
                    )
                    if not batches:
                        self._finish(state, chunk)
                        continue
                    batches = self._add(state, batches, into)
                except KafkaError:
                    if len(into):
                        return into
                    raise
                for _ in batches:
                    chunk.batches.popleft()
                state.position = batches[-1][1].next_offset
                state.epoch = batches[-1][1].leader_epoch
            if len(into) >= limit or into.size_bytes >= _UNPACKED:
                break
        return into

    @staticmethod
    def _add(state: PartitionState, batches: list[Whole], into: Gathering) -> list[Whole]:
        """Add batches, or only the first if one of them cannot be read. Those that were added."""
        assert state.position is not None
        try:
            into.add(state.tp, batches, state.position)
        except KafkaError:
            if len(batches) == 1:
                raise
            batches = batches[:1]
            into.add(state.tp, batches, state.position)
        return batches

    def meet_error(self, state: PartitionState) -> None:
        """If the partition has an error next instead of records, reset its position by the policy, or raise it."""
        self._front(state)

    def undo(self) -> None:
        """Undo the last take: its partitions are read again from where they were."""
        for state, token, position, epoch in self._before:
            if state.token == token:
                self._jump(state, position, epoch)
        self._before = []

    def _jump(self, state: PartitionState, position: int, epoch: int = -1) -> None:
        with self._lock:
            state.seek(position, epoch)
        self.drained = True

    @staticmethod
    def advance(state: PartitionState, record: ConsumerRecord) -> None:
        state.position = record.offset + 1
        state.epoch = record.leader_epoch

    def _in_turn(self) -> Iterator[PartitionState]:
        """Each partition that has records, once. Each call begins one partition further, so that none starves."""
        turn = self._positions.turn
        if turn:
            turn.rotate(-1)
        self._before = []
        for tp in list(turn):
            state = self._positions.states.get(tp)
            if state is not None and state.deliverable:
                if state.position is not None and (state.chunks or state.ready is not None):
                    self._before.append((state, state.token, state.position, state.epoch))
                yield state

    def _some(self, state: PartitionState, limit: int, *, advance: bool, quiet: bool) -> list[ConsumerRecord]:
        while True:
            if state.ready is not None:
                records = self._read_on(state, state.ready, limit)
                if records:
                    return records
                state.ready = None
                state.chunks[0].batches.popleft()
            chunk = self._front(state, quiet=quiet)
            if chunk is None:
                return []
            assert state.position is not None
            batch = next_batch(state.tp, chunk, state.position, committed=self._committed, check=self._check)
            if batch is None:
                self._finish(state, chunk, advance=advance)
                continue
            topic = state.tp.topic
            state.ready = read_batch(state.tp, *batch, state.position, self._key_of(topic), self._value_of(topic))

    @staticmethod
    def _read_on(state: PartitionState, ready: Iterator[ConsumerRecord], limit: int) -> list[ConsumerRecord]:
        """The next records of a batch, up to one that cannot be decoded. The call after that meets it, and raises."""
        records: list[ConsumerRecord] = []
        try:
            records.extend(islice(ready, limit))
        except BaseException as error:  # of a user's deserializer, or Ctrl-C: an iterator that raised is over
            state.ready = None
            if not (records and isinstance(error, KafkaError)):
                raise
        return records

    def _finish(self, state: PartitionState, chunk: Chunk, *, advance: bool = True) -> None:
        """Drop a chunk that is used up; the position passes the control batches at its end."""
        state.chunks.popleft()
        state.used += len(chunk.data)
        self.drained = True
        if advance and state.position is not None and chunk.offset > state.position:
            state.position = chunk.offset

    def _front(self, state: PartitionState, *, quiet: bool = False) -> Chunk | None:
        while state.chunks:
            chunk = state.chunks[0]
            if chunk.token != state.token:
                state.chunks.popleft()
            elif not chunk.code:
                return chunk
            elif quiet:
                return None
            else:
                self._trouble(state, chunk)
        return None

    def _trouble(self, state: PartitionState, chunk: Chunk) -> None:
        """Handle an error instead of records: reset the position if there is a policy, else raise."""
        tp = state.tp
        self.drained = True
        if chunk.code == NO_OFFSET:
            raise NoOffsetForPartitionError(partitions=[tp])
        if chunk.code == TRUNCATED:
            if self._reset_to is None:
                raise LogTruncationError(offsets={tp: chunk.offset})
            self._jump(state, chunk.offset)
        elif chunk.code == Code.OFFSET_OUT_OF_RANGE:
            if self._reset_to is None:
                raise OffsetOutOfRangeError(offsets={tp: chunk.offset})
            with self._lock:
                state.reset(self._reset_to)
        else:
            # The next poll tries again: the program may seek past it, or may be given the permission by then.
            state.chunks.popleft()
            state.halted = False
            if chunk.code == Code.TOPIC_AUTHORIZATION_FAILED:
                raise TopicAuthorizationError(topics=[tp.topic])
            raise error_for(chunk.code, f"fetching {tp.topic}-{tp.partition} at offset {chunk.offset}")


_key_size: Callable[[ConsumerRecord], int] = itemgetter(ConsumerRecord._fields.index("serialized_key_size"))
_value_size: Callable[[ConsumerRecord], int] = itemgetter(ConsumerRecord._fields.index("serialized_value_size"))


def _unpacked(state: PartitionState, records: list[ConsumerRecord]) -> int:
    """The bytes of the batch being read that were decompressed for these records."""
    if not state.chunks[0].batches[0][2].codec:
        return 0
    return sum(map(_key_size, records)) + sum(map(_value_size, records))


def by_topic(given: Any, make: Callable[[Any, str], Deserializer | None]) -> Callable[[str], Deserializer | None]:
    """A function that returns each topic's deserializer, made once: `deserialize(topic, data)` takes the topic."""
    made: dict[str, Deserializer | None] = {}

    def find(topic: str) -> Deserializer | None:
        if topic not in made:
            made[topic] = make(given, topic)
        return made[topic]

    return find
