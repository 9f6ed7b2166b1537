"""One fetch of a range, asked for until it is there or it is clear that it will not come. Runs on the event loop."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from actors.client.consumer.fetch_requests import NO_ID, fetch_version
from actors.client.consumer.positions import EARLIEST, LATEST, Chunk
from actors.client.error_codes import error_for
from actors.client.errors import (
    CorruptMessageError,
    KafkaError,
    LeaderNotAvailableError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from actors.client.net.leaders import list_offsets
from actors.client.net.network import Network
from actors.client.records import TopicPartition
from actors.client.settings import ConsumerConfig
from actors.records.batch import iter_batches
from actors.records.errors import CorruptBatchError
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import FetchRequest, FetchResponse

_WAIT_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Missing:
    """The log does not have the wanted offsets, but those from `start` to `end`; None: there is no such partition.

    `recreated`: the topic was deleted, and another one has its name.
    """

    start: int | None
    end: int | None
    recreated: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """The range has no records left (compaction, control batches), though the log goes on behind it."""


class Look:
    """Asks a leader again and again for one fetch, and remembers between the attempts since when something is odd.

    `topic_id` is the topic that is meant; b"" is the one that has the name when the leader answers, and known then.
    """

    def __init__(
        self,
        network: Network,
        config: ConsumerConfig,
        settle_ms: int,
        tp: TopicPartition,
        offset: int,
        until: int,
        topic_id: bytes = b"",
    ) -> None:
        self._network = network
        self._config = config
        self._committed = config.reads_committed
        self._settle_ms = settle_ms
        self._tp = tp
        self._offset = offset
        self._until = until
        self.topic_id = topic_id
        self._empty_since: int | None = None
        self._missing_since = 0
        self.missing: Missing | None = None
        self.trouble = ""

    async def once(self) -> Chunk | Missing | Nothing | None:
        """Ask once. Returns an outcome, or None: ask again."""
        try:
            data, throttled = await self._fetch()
            return await self._judge(data, throttled)
        except TopicRecreatedError as error:
            return self._unsettled(error, Missing(None, None, recreated=True))
        except UnknownTopicOrPartitionError as error:
            return self._unsettled(error, Missing(None, None))
        except KafkaError as error:
            if not error.retriable:
                raise
            self.missing = None
            self.trouble = str(error)
            self._network.refresh()
            return None

    def _is_another(self) -> bool:
        present = self._network.cluster.topic_id(self._tp.topic)
        return bool(self.topic_id and present) and present != self.topic_id

    async def _fetch(self) -> tuple[Any, bool]:
        tp = self._tp
        node = self._network.cluster.leader(tp)
        if node is None:
            await self._network.refreshed()
            node = self._network.cluster.leader(tp)
        if node is None:
            self._without_leader()
        if self._is_another():
            raise TopicRecreatedError(topics=[tp.topic])
        request = self._request()
        (asked,) = request.topics
        response: FetchResponse = await self._network.ask(node, request, max_version=fetch_version(request))
        for topic in response.responses:
            for data in topic.partitions:
                if topic.topic in ("", tp.topic) and data.partition_index == tp.partition:
                    if not data.error_code and any(asked.topic_id):
                        self.topic_id = asked.topic_id
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
        topic_id = self.topic_id or self._network.cluster.topic_id(self._tp.topic) or NO_ID
        partition = FetchRequest.FetchPartition(
            partition=self._tp.partition,
            current_leader_epoch=info.leader_epoch if info else -1,
            fetch_offset=self._offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=self._config.max_partition_fetch_bytes,
        )
        return FetchRequest(
            replica_id=-1,
            # A broker whose tiered storage is slow answers without records; then it gets more time (KIP-1018).
            max_wait_ms=_WAIT_MS if self._empty_since is None else self._settle_ms,
            min_bytes=1,
            max_bytes=max(self._config.fetch_max_bytes, self._config.max_partition_fetch_bytes),
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self._tp.topic, topic_id=topic_id, partitions=[partition])],
        )

    async def _judge(self, data: Any, throttled: bool) -> Chunk | Missing | Nothing | None:
        if data.error_code == Code.OFFSET_OUT_OF_RANGE:
            start, end = await self._ends()
            missing = Missing(start, end)
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

    def _nothing_came(self, data: Any, throttled: bool) -> Missing | Nothing | None:
        end = data.last_stable_offset if self._committed else data.high_watermark
        if end >= self._until:
            self.trouble = "the broker holds records back"
            if throttled:  # left out for a quota's sake
                return None
            # For a while nothing came, and not because of a quota or tiered storage: compaction has left nothing.
            if self._empty_since is None:
                self._empty_since = self._network.now_ms()
                return None
            return Nothing() if self._network.now_ms() - self._empty_since >= self._settle_ms else None
        if self._committed and data.high_watermark >= self._until:
            self.trouble = f"a transaction that began at or before offset {end} is still open"
            return None
        return self._unsettled(KafkaError(f"the log ends at {end}"), Missing(max(data.log_start_offset, 0), end))

    def _unsettled(self, trouble: KafkaError, missing: Missing) -> Missing | None:
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
                timeout_ms=self._config.request_timeout_ms,
            )
            offset = offsets[self._tp]
            found.append(offset.offset if offset is not None else 0)
        return found[0], found[1]
