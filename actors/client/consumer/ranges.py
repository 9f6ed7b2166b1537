"""Reads given ranges of offsets: exactly these, and the same records each time, without group, commits or positions.

`RangeReader` gives the records of an `OffsetRange` as Arrow batches, straight from the partition's leader. The next
fetch is under way while the last one is decoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final

import pyarrow as pa

from actors.client.config import consumer_config, network_settings
from actors.client.consumer.columnar import read_columns
from actors.client.consumer.decode import Whole, next_batch
from actors.client.consumer.positions import Chunk
from actors.client.consumer.range_columns import TimeUnit, record_batch
from actors.client.consumer.range_look import Look, Missing, Nothing
from actors.client.errors import (
    ClosedError,
    ConfigurationError,
    CorruptMessageError,
    DataLossError,
    KafkaTimeoutError,
)
from actors.client.net.network import Network
from actors.client.records import OffsetRange, TopicPartition
from actors.runtime.environment import REAL, Environment

log = logging.getLogger(__name__)

FETCH_BYTES: Final = 4 << 20
"""Most bytes of one fetch, unless max_partition_fetch_bytes says otherwise: bulk reads are worth more than 1 MiB."""
BATCH_ROWS: Final = 32_768
"""Most rows of one Arrow batch."""
_SETTLE_MS: Final = 5_000
# For so long a log may be shorter than the wanted range, or its topic unknown, before that counts as lost: a leader
# that was just elected learns its high watermark, and a restarted broker its topics, within moments. A log that gives
# nothing for so long counts as read to its end.
_ONLY_FOR_GROUPS: Final = ("group_id", "group_instance_id", "enable_auto_commit", "auto_offset_reset")


class RangeReader:
    """`RangeReader("localhost:9092")`; keeps its connections until `close`. Only one thread at a time may use it.

    With `fail_on_data_loss` a range that is not wholly in the log raises DataLossError; without, it is logged and
    what is there is read. `poll_timeout_ms` is how long one fetch may fail or bring nothing, and `settle_ms` how long a
    log may be shorter than its range, at most half of that. `settings` are those of a Consumer without a group
    (isolation_level, check_crcs, max_partition_fetch_bytes, request_timeout_ms, …). Time and chance are those of
    `environment`. Times are in `time_unit`: in "us", as Spark has them, the furthest have no room.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        *,
        headers: bool = False,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
        environment: Environment = REAL,
        settle_ms: int = _SETTLE_MS,
        time_unit: TimeUnit = "us",
        **settings: Any,
    ) -> None:
        if grouped := [name for name in _ONLY_FOR_GROUPS if name in settings]:
            raise ConfigurationError(f"{grouped[0]}: ranges are read without a group")
        if poll_timeout_ms < 1:
            raise ConfigurationError(f"poll_timeout_ms={poll_timeout_ms!r}: must be at least 1")
        given = {"max_partition_fetch_bytes": FETCH_BYTES, "client_id": "coterie-ranges"} | settings
        self.config = consumer_config(
            given | {"bootstrap_servers": bootstrap_servers, "allow_auto_create_topics": False}
        )
        self._headers = headers
        self._unit: TimeUnit = time_unit
        self._fail = fail_on_data_loss
        self._timeout_ms = poll_timeout_ms
        self._settle_ms = settle_ms
        self._committed = self.config.reads_committed
        self._closed = False
        self._ids: dict[str, bytes] = {}
        """The topics whose records are being read, where the ranges do not say."""
        self._network = Network(network_settings(self.config), environment=environment)
        self._network.start()

    def read(self, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Read these ranges, one after the other. Yields batches of `range_schema` that are not empty.

        Raises DataLossError, KafkaTimeoutError (nothing came for poll_timeout_ms), CorruptMessageError,
        TimestampRangeError, and what a leader says for good.
        """
        wanted = [each for each in ranges if each.size]
        self._ids = {}
        with self._network.holding(each.topic for each in wanted):
            for each in wanted:
                yield from self._read_one(each)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._network.close()

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- one range, in the user's thread ------------------------------------------------------------------------------

    def _read_one(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        tp = TopicPartition(wanted.topic, wanted.partition)
        position, until = wanted.from_offset, wanted.until_offset
        coming: Future[Chunk | Missing | Nothing] | None = None
        try:
            while position < until:
                found = (coming or self._start(wanted, position)).result()
                coming = None
                if isinstance(found, Nothing):
                    return
                if isinstance(found, Missing):
                    position = self._lost(wanted, position, found)
                    continue
                after = found.offset
                if after < until:
                    coming = self._start(wanted, after)
                for batches in _some_at_once(self._whole_batches(tp, found, position, until)):
                    yield from self._record_batches(wanted, position, batches)
                position = after
        finally:
            if coming is not None:
                coming.cancel()

    def _start(self, wanted: OffsetRange, offset: int) -> Future[Chunk | Missing | Nothing]:
        if self._closed:
            raise ClosedError
        return self._network.run(self._next(wanted, offset))

    def _whole_batches(self, tp: TopicPartition, chunk: Chunk, position: int, until: int) -> list[Whole]:
        batches: list[Whole] = []
        check = self.config.check_crcs
        while (batch := next_batch(tp, chunk, position, committed=self._committed, check=check)) is not None:
            if batch[1].base_offset >= until:
                break
            chunk.batches.popleft()
            batches.append(batch)
        return batches

    def _record_batches(self, wanted: OffsetRange, position: int, batches: list[Whole]) -> Iterator[pa.RecordBatch]:
        try:
            tp = TopicPartition(wanted.topic, wanted.partition)
            columns = read_columns(tp, batches, with_headers=self._headers)
        except CorruptMessageError:
            if len(batches) == 1:
                raise
            for each in batches:
                yield from self._record_batches(wanted, position, [each])
            return
        inside = columns.within(position, wanted.until_offset)
        whole = record_batch(tp, inside, headers=self._headers, unit=self._unit)
        for at in range(0, whole.num_rows, BATCH_ROWS):
            yield whole.slice(at, BATCH_ROWS)

    def _lost(self, wanted: OffsetRange, position: int, missing: Missing) -> int:
        """The offset at which to go on. Raises DataLossError with `fail_on_data_loss`."""
        where = f"{wanted.topic}-{wanted.partition}"
        if missing.recreated:
            present = "the topic of this name is another one"
        elif missing.start is None or missing.end is None:
            present = "there is no such partition"
        else:
            present = f"the log has {missing.start} to {missing.end}"
        what = f"{where}: offsets {position} to {wanted.until_offset} are wanted, but {present}"
        if self._fail:
            raise DataLossError(
                f"{what}. Records were deleted by retention, or the topic was deleted or created again; "
                "failOnDataLoss=false goes on with what is there"
            )
        log.warning("%s; going on with what is there, since failOnDataLoss is off", what)
        if missing.start is not None and position < missing.start:
            return missing.start
        return wanted.until_offset

    # --- one fetch, on the loop ---------------------------------------------------------------------------------------

    async def _next(self, wanted: OffsetRange, offset: int) -> Chunk | Missing | Nothing:
        """Wait for the next batches from `offset` on. Raises KafkaTimeoutError after `poll_timeout_ms`."""
        deadline = self._network.now_ms() + self._timeout_ms
        settle_ms = min(self._settle_ms, self._timeout_ms // 2, self.config.request_timeout_ms // 2)
        tp, until = TopicPartition(wanted.topic, wanted.partition), wanted.until_offset
        topic_id = wanted.topic_id or self._ids.get(tp.topic, b"")
        look = Look(self._network, self.config, settle_ms, tp, offset, until, topic_id)
        retries = self._network.retries(deadline)
        while True:
            try:
                async with asyncio.timeout(max(1, deadline - self._network.now_ms()) / 1000):
                    found = await look.once()
            except TimeoutError as error:
                found = None
                look.trouble = look.trouble or str(error)
            if found is not None:
                self._ids.setdefault(tp.topic, look.topic_id)
                return found
            if not await retries.pause_to_deadline():
                if look.missing is not None:
                    return look.missing
                raise KafkaTimeoutError(
                    f"{tp.topic}-{tp.partition}: nothing came from offset {offset} on (up to {until}) within "
                    f"poll_timeout_ms={self._timeout_ms} (Spark's option kafkaConsumer.pollTimeoutMs): "
                    f"{look.trouble or 'no broker answered'}"
                )


def _some_at_once(batches: list[Whole]) -> Iterator[list[Whole]]:
    """The batches in pieces of about BATCH_ROWS records, because columns may be many times larger than a fetch."""
    some: list[Whole] = []
    rows = 0
    for batch in batches:
        if some and rows + batch[1].record_count > BATCH_ROWS:
            yield some
            some, rows = [], 0
        some.append(batch)
        rows += batch[1].record_count
    if some:
        yield some
