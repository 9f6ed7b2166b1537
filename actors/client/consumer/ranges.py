"""Reads given ranges of offsets: exactly these, and the same records each time, without group, commits or positions.

`RangeReader` gives the records of an `OffsetRange` as Arrow batches, straight from the partition's leader. The next
fetch is under way while the last one is decoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from actors.client.config import consumer_config, network_settings
from actors.client.consumer.columnar import read_columns
from actors.client.consumer.decode import Whole, next_batch
from actors.client.consumer.positions import EARLIEST, LATEST, Chunk
from actors.client.consumer.range_columns import TimeUnit, record_batch
from actors.client.error_codes import error_for
from actors.client.errors import (
    ClosedError,
    ConfigurationError,
    CorruptMessageError,
    DataLossError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from actors.client.net.backoff import Backoff
from actors.client.net.leaders import list_offsets
from actors.client.net.network import Network
from actors.client.records import OffsetRange, TopicPartition
from actors.records.batch import iter_batches
from actors.records.errors import CorruptBatchError
from actors.runtime.environment import REAL, Environment
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

FETCH_BYTES: Final = 4 << 20
"""Most bytes of one fetch, unless max_partition_fetch_bytes says otherwise: bulk reads are worth more than 1 MiB."""
BATCH_ROWS: Final = 32_768
"""Most rows of one Arrow batch."""
_SETTLE_MS: Final = 5_000
# How long a log may be shorter than what is wanted, or its topic unknown, before that counts as lost: a leader that
# was just elected learns its high watermark, and a restarted broker its topics, within moments. And how long it must
# give nothing before that counts as all there is.
_WAIT_MS: Final = 100
_ONLY_FOR_GROUPS: Final = ("group_id", "group_instance_id", "enable_auto_commit", "auto_offset_reset")


@dataclass(frozen=True, slots=True)
class _Missing:
    """The log does not have the wanted offsets, but those from `start` to `end`; None: there is no such partition."""

    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class _Nothing:
    """The range has no records left (compaction, control batches), though the log goes on behind it."""


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
        self._committed = self.config["isolation_level"] == "read_committed"
        self._closed = False
        self._network = Network(network_settings(self.config), environment=environment)
        settle = self._network.settings
        self._backoff = Backoff(settle.retry_backoff_ms, settle.retry_backoff_max_ms, self._network.jitter)
        self._network.start()

    def read(self, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Read these ranges, one after the other. Yields batches of `range_schema` that are not empty.

        Raises DataLossError, KafkaTimeoutError (nothing came for poll_timeout_ms), CorruptMessageError,
        TimestampRangeError, and what a leader says for good.
        """
        wanted = [each for each in ranges if each.size]
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
        coming: Future[Chunk | _Missing | _Nothing] | None = None
        try:
            while position < until:
                found = (coming or self._start(tp, position, until)).result()
                coming = None
                if isinstance(found, _Nothing):
                    return
                if isinstance(found, _Missing):
                    position = self._lost(wanted, position, found)
                    continue
                after = found.offset
                if after < until:
                    coming = self._start(tp, after, until)
                for batches in _some_at_once(self._whole_batches(tp, found, position, until)):
                    yield from self._record_batches(wanted, position, batches)
                position = after
        finally:
            if coming is not None:
                coming.cancel()

    def _start(self, tp: TopicPartition, offset: int, until: int) -> Future[Chunk | _Missing | _Nothing]:
        if self._closed:
            raise ClosedError
        return self._network.run(self._next(tp, offset, until))

    def _whole_batches(self, tp: TopicPartition, chunk: Chunk, position: int, until: int) -> list[Whole]:
        batches: list[Whole] = []
        check = self.config["check_crcs"]
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

    def _lost(self, wanted: OffsetRange, position: int, missing: _Missing) -> int:
        """The offset at which to go on. Raises DataLossError with `fail_on_data_loss`."""
        where = f"{wanted.topic}-{wanted.partition}"
        if missing.start is None or missing.end is None:
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

    async def _next(self, tp: TopicPartition, offset: int, until: int) -> Chunk | _Missing | _Nothing:
        """Wait for the next batches from `offset` on. Raises KafkaTimeoutError after `poll_timeout_ms`."""
        deadline = self._network.now_ms() + self._timeout_ms
        settle_ms = min(self._settle_ms, self._timeout_ms // 2, self.config["request_timeout_ms"] // 2)
        look = _Look(self._network, self.config, settle_ms, tp, offset, until)
        failures = 0
        while True:
            try:
                async with asyncio.timeout(max(1, deadline - self._network.now_ms()) / 1000):
                    found = await look.once()
            except TimeoutError as error:
                found = None
                look.trouble = look.trouble or str(error)
            if found is not None:
                return found
            failures += 1
            left = deadline - self._network.now_ms()
            if left <= 0:
                if look.missing is not None:
                    return look.missing
                raise KafkaTimeoutError(
                    f"{tp.topic}-{tp.partition}: nothing came from offset {offset} on (up to {until}) within "
                    f"poll_timeout_ms={self._timeout_ms} (Spark's option kafkaConsumer.pollTimeoutMs): "
                    f"{look.trouble or 'no broker answered'}"
                )
            await asyncio.sleep(min(self._backoff.delay_ms(failures), left) / 1000)


class _Look:
    """Asks a leader again and again for one fetch, and remembers between the attempts since when something is odd."""

    def __init__(
        self, network: Network, config: Mapping[str, Any], settle_ms: int, tp: TopicPartition, offset: int, until: int
    ) -> None:
        self._network = network
        self._config = config
        self._committed = config["isolation_level"] == "read_committed"
        self._settle_ms = settle_ms
        self._tp = tp
        self._offset = offset
        self._until = until
        self._empty_since: int | None = None
        self._missing_since = 0
        self.missing: _Missing | None = None
        self.trouble = ""

    async def once(self) -> Chunk | _Missing | _Nothing | None:
        """Ask once. Returns an outcome, or None: ask again."""
        try:
            data, throttled = await self._fetch()
            return await self._judge(data, throttled)
        except UnknownTopicOrPartitionError as error:
            return self._unsettled(error, _Missing(None, None))
        except KafkaError as error:
            if not error.retriable:
                raise
            self.missing = None
            self.trouble = str(error)
            self._network.refresh()
            return None

    async def _fetch(self) -> tuple[Any, bool]:
        tp = self._tp
        node = self._network.cluster.leader(tp)
        if node is None:
            await self._network.refreshed()
            node = self._network.cluster.leader(tp)
        if node is None:
            self._without_leader()
        response: FetchResponse = await self._network.ask(node, self._request())
        for topic in response.responses:
            for data in topic.partitions:
                if (topic.topic, data.partition_index) == tp:
                    return data, response.throttle_time_ms > 0
        raise LeaderNotAvailableError(f"{node} answers without {tp.topic}-{tp.partition}")

    def _without_leader(self) -> None:
        topic = self._network.cluster.topics.get(self._tp.topic)
        known = topic is not None and (not topic.partitions or self._tp.partition in topic.partitions)
        if topic is not None and topic.error_code not in (0, Code.UNKNOWN_TOPIC_OR_PARTITION):
            raise error_for(topic.error_code, f"topic {self._tp.topic}", topics=[self._tp.topic])
        if topic is None or topic.error_code or not known:
            raise UnknownTopicOrPartitionError(f"{self._tp.topic}-{self._tp.partition} does not exist")
        raise LeaderNotAvailableError(f"{self._tp.topic}-{self._tp.partition} has no leader")

    def _request(self) -> FetchRequest:
        info = self._network.cluster.partition(self._tp)
        partition = FetchRequest.FetchPartition(
            partition=self._tp.partition,
            current_leader_epoch=info.leader_epoch if info else -1,
            fetch_offset=self._offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=self._config["max_partition_fetch_bytes"],
        )
        return FetchRequest(
            replica_id=-1,
            # A broker whose tiered storage is slow answers without records; then it gets more time (KIP-1018).
            max_wait_ms=_WAIT_MS if self._empty_since is None else self._settle_ms,
            min_bytes=1,
            max_bytes=max(self._config["fetch_max_bytes"], self._config["max_partition_fetch_bytes"]),
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self._tp.topic, partitions=[partition])],
        )

    async def _judge(self, data: Any, throttled: bool) -> Chunk | _Missing | _Nothing | None:
        if data.error_code == Code.OFFSET_OUT_OF_RANGE:
            start, end = await self._ends()
            missing = _Missing(start, end)
            if self._offset < start:
                return missing
            return self._unsettled(KafkaError(f"the log ends at {end}"), missing)
        if data.error_code:
            what = f"fetching {self._tp.topic}-{self._tp.partition} at {self._offset}"
            raise error_for(data.error_code, what, topics=[self._tp.topic])
        if data.records:
            return self._chunk(data)
        return self._nothing_came(data, throttled)

    def _chunk(self, data: Any) -> Chunk:
        try:
            batches = deque(iter_batches(data.records))
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self._tp.topic}-{self._tp.partition} at {self._offset}: {error}") from error
        if not batches:
            raise CorruptMessageError(f"{self._tp.topic}-{self._tp.partition} at {self._offset}: no whole batch came")
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or []]
        after = max(batches[-1][2].next_offset, self._offset + 1)
        return Chunk(0, data.records, batches, aborted, offset=after)

    def _nothing_came(self, data: Any, throttled: bool) -> _Missing | _Nothing | None:
        end = data.last_stable_offset if self._committed else data.high_watermark
        if end >= self._until:
            self.trouble = "the broker holds records back"
            if throttled:  # left out for a quota's sake
                return None
            # For a while nothing came, and not because of a quota or tiered storage: compaction has left nothing.
            if self._empty_since is None:
                self._empty_since = self._network.now_ms()
                return None
            return _Nothing() if self._network.now_ms() - self._empty_since >= self._settle_ms else None
        if self._committed and data.high_watermark >= self._until:
            self.trouble = f"a transaction that began at or before offset {end} is still open"
            return None
        return self._unsettled(KafkaError(f"the log ends at {end}"), _Missing(max(data.log_start_offset, 0), end))

    def _unsettled(self, trouble: KafkaError, missing: _Missing) -> _Missing | None:
        """The log is too short, or unknown. It counts as lost once that has lasted for a while; until then None."""
        self.trouble = str(trouble)
        now = self._network.now_ms()
        if self.missing is None:
            self._missing_since = now
        self.missing = missing
        self._network.refresh()
        return missing if now - self._missing_since >= self._settle_ms else None

    async def _ends(self) -> tuple[int, int]:
        found = []
        for at in (EARLIEST, LATEST):
            offsets = await list_offsets(
                self._network,
                {self._tp: at},
                isolation=int(self._committed),
                timeout_ms=self._config["request_timeout_ms"],
            )
            offset = offsets[self._tp]
            found.append(offset.offset if offset is not None else 0)
        return found[0], found[1]


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
