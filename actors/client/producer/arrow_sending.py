"""The part of `Producer` that sends Arrow columns: it chooses the rows' partitions, and puts batches in the buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.client.errors import IllegalStateError, MessageTooLargeError, SerializationError
from actors.client.net.metadata import TopicInfo
from actors.client.producer.accumulator import Batch, FutureBatchMetadata
from actors.client.producer.bulk import rows_of
from actors.client.producer.partitioning import partitions_for_keys
from actors.client.producer.sender import Sender
from actors.client.producer.values import limit_of, time_of
from actors.client.records import TopicPartition
from actors.client.settings import ProducerConfig
from actors.records.batch import HEADER_BYTES
from actors.records.compression import codec_id
from actors.records.growing import GrowingBatch
from actors.records.sealing import Ints, Rows, Sealed, seal

Partitions = npt.NDArray[np.int32]

_STEP_BYTES: Final = 4 << 20
"""The bytes of rows that become batches at once: enough to be fast, and little beside buffer_memory."""


class ArrowSending:
    """Works in the thread of whoever calls `Producer.send_arrow`."""

    def __init__(
        self,
        config: ProducerConfig,
        sender: Sender,
        sticky: dict[str, tuple[int, int]],
        find_topic: Callable[[str, int], TopicInfo],
        wait_for_room: Callable[[int, int], None],
    ) -> None:
        """`sticky` is shared with `Producer.send`: a topic's partition for rows without a key, and its bytes so far.

        `find_topic(topic, deadline)` and `wait_for_room(bytes, deadline)` wait, and raise when the deadline is over.
        """
        self._config = config
        self._sender = sender
        environment = sender.network.environment
        self._chance, self._wall_ms = environment.chance, environment.clock.wall_ms
        self._now_ms = sender.network.now_ms
        self._sticky = sticky
        self._find_topic = find_topic
        self._wait_for_room = wait_for_room
        self._codec = codec_id(self._config.compression_type)
        self._limit = min(config.batch_size, config.max_request_size, config.buffer_memory)

    def send(
        self, topic: str, batch: pa.RecordBatch, partition: int | None, timestamp_ms: int | None
    ) -> list[FutureBatchMetadata]:
        """Queue one Arrow batch; see `Producer.send_arrow`."""
        if not batch.num_rows:
            return []
        rows = rows_of(batch, self._wall_ms() if timestamp_ms is None else time_of(timestamp_ms))
        sizes = rows.sizes()
        self._refuse_too_large(sizes)
        deadline = self._now_ms() + self._config.max_block_ms
        info = self._find_topic(topic, deadline)
        asked = self._asked(batch, partition, topic, info)
        futures: list[FutureBatchMetadata] = []
        for begin, end in _steps(sizes, min(_STEP_BYTES, max(1, self._config.buffer_memory // 4))):
            part = rows.slice(begin, end - begin)
            places = self._places(topic, info, part, sizes[begin:end], None if asked is None else asked[begin:end])
            futures += self._queue(topic, seal(part, places, self._limit, self._codec))
        return futures

    def _refuse_too_large(self, sizes: Ints) -> None:
        largest = int(sizes.argmax())
        if sizes[largest] > min(self._config.max_request_size, self._config.buffer_memory):
            name, limit = limit_of(self._config, sizes[largest])
            raise MessageTooLargeError(
                f"the record of row {largest} has {sizes[largest]} bytes, more than {name}={limit}"
            )

    def _queue(self, topic: str, made: list[Sealed]) -> list[FutureBatchMetadata]:
        """Queue batches as there is room for them."""
        sender = self._sender
        futures = []
        now = self._now_ms()
        for each in made:
            batch = Batch(TopicPartition(topic, each.partition), GrowingBatch.built(each.data, each.count), now)
            with sender.room:
                if sender.buffered + batch.size > self._config.buffer_memory:
                    self._wait_for_room(batch.size, self._now_ms() + self._config.max_block_ms)
                    batch.created_ms = self._now_ms()
                sender.add_sealed(batch)
            futures.append(FutureBatchMetadata(batch, self._wall_ms()))
        sender.soon()
        return futures

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _asked(
        self, batch: pa.RecordBatch, partition: int | None, topic: str, info: TopicInfo
    ) -> npt.NDArray[np.int64] | None:
        """The partition that each row asks for, -1 where it asks for none; None if no row does."""
        if partition is not None:
            asked = np.full(batch.num_rows, partition, np.int64)
        elif "partition" in batch.schema.names:
            column = batch.column("partition")
            if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
                raise SerializationError(f"column 'partition' is {column.type}, must be an integer")
            if column.null_count == len(column):
                return None
            # A number below zero is no partition; null must stay apart from it.
            whole = column.cast(pa.int64())
            if (least := pc.min(whole).as_py()) < 0:
                raise IllegalStateError(f"topic {topic} has no partition {least}")
            asked = whole.fill_null(-1).to_numpy(zero_copy_only=False)
        else:
            return None
        known = np.array(sorted(info.partitions), np.int64)
        strange = asked[~np.isin(asked, known) & ((asked >= 0) | (partition is not None))]
        if len(strange):
            raise IllegalStateError(f"topic {topic} has no partition {strange[0]}; it has {len(known)}")
        return asked

    def _places(
        self, topic: str, info: TopicInfo, rows: Rows, sizes: Ints, asked: npt.NDArray[np.int64] | None
    ) -> Partitions:
        """The partition that each row goes to."""
        if asked is not None and (asked >= 0).all():
            return asked.astype(np.int32)
        if self._config.partitioner is not None:
            places = self._by_hand(info, rows)
        else:
            places = partitions_for_keys(rows.keys, len(info.partitions))
            if rows.keys.null_count:
                without = np.flatnonzero(rows.keys.is_null().to_numpy(zero_copy_only=False) & _open(asked, len(rows)))
                places[without] = self._spread(topic, info, sizes[without])
        return places if asked is None else np.where(asked >= 0, asked, places).astype(np.int32)

    def _by_hand(self, info: TopicInfo, rows: Rows) -> Partitions:
        custom: Any = self._config.partitioner
        everything = sorted(info.partitions)
        live = [n for n, p in info.partitions.items() if p.leader >= 0] or everything
        return np.array([custom(key, everything, live) for key in rows.keys.to_pylist()], np.int32)

    def _spread(self, topic: str, info: TopicInfo, sizes: Ints) -> Partitions:
        """Partitions for rows without a key: one partition for as many as a batch takes, then another (KIP-480)."""
        sticky = self._sticky
        number, used = sticky.get(topic, (-1, 0))
        limit = self._limit - HEADER_BYTES
        total = np.cumsum(sizes)
        places = np.empty(len(sizes), np.int32)
        begin = 0
        while begin < len(sizes):
            before = int(total[begin] - sizes[begin])
            end = int(np.searchsorted(total, before + limit - used, side="right"))
            if number not in info.partitions or end <= begin:
                live = [n for n, p in info.partitions.items() if p.leader >= 0 and n != number]
                among = live or list(info.partitions)
                number, used = among[self._chance.randrange(len(among))], 0
                end = max(begin + 1, int(np.searchsorted(total, before + limit, side="right")))
            end = min(end, len(sizes))
            places[begin:end] = number
            used += int(total[end - 1]) - before
            begin = end
        sticky[topic] = (number, used)
        return places


def _open(asked: npt.NDArray[np.int64] | None, count: int) -> npt.NDArray[np.bool_]:
    return np.ones(count, np.bool_) if asked is None else asked < 0


def _steps(sizes: Ints, most: int) -> list[tuple[int, int]]:
    """The rows in pieces of at most `most` bytes, but of at least one row."""
    total = np.cumsum(sizes)
    steps, begin = [], 0
    while begin < len(sizes):
        before = int(total[begin] - sizes[begin])
        end = min(len(sizes), max(begin + 1, int(np.searchsorted(total, before + most, side="right"))))
        steps.append((begin, end))
        begin = end
    return steps
