"""Fetches ahead: finds first positions, has one fetch under way for each leader, and checks for truncated logs.

Runs on the event loop, and touches partition states under the consumer's lock. `decode` decodes the records.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.client.consumer.fetch_requests import FetchSettings, fetch_request, fetch_version
from actors.client.consumer.positions import Chunk, PartitionState, Positions
from actors.client.consumer.recreation import is_of_another
from actors.client.errors import AuthenticationError, KafkaError, UnsupportedVersionError
from actors.client.net.changes import Changes
from actors.client.net.leaders import by_topic, list_offsets
from actors.client.net.network import Network
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.records.batch import iter_batches
from actors.records.errors import CorruptBatchError
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import FetchRequest, FetchResponse, OffsetForLeaderEpochRequest

log = logging.getLogger(__name__)

_MOVED = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.INCONSISTENT_TOPIC_ID,
    Code.REPLICA_NOT_AVAILABLE,
    Code.LEADER_NOT_AVAILABLE,
    Code.KAFKA_STORAGE_ERROR,
    Code.OFFSET_NOT_AVAILABLE,
)
TRUNCATED = 10_001
"""A code of chunks, not one of Kafka's: the log was truncated below the position, at the chunk's offset."""
NO_OFFSET = 10_002
"""A code of chunks, not one of Kafka's: the partition has no committed offset, and there is no reset policy."""


Committed = Callable[[Iterable[TopicPartition]], Any]


class Fetcher:
    """Fetches for all partitions. `step` starts what can start now: it is called after every change, and is cheap."""

    def __init__(
        self,
        network: Network,
        positions: Positions,
        settings: FetchSettings,
        changes: Changes,
        committed: Committed,
        tell: Callable[[], None],
        may_fetch: Callable[[], bool],
    ) -> None:
        self._network = network
        self._positions = positions
        self._settings = settings
        self._lock = changes.lock
        self._committed = committed
        self._tell = tell
        self._may_fetch = may_fetch
        self._fetching: set[int] = set()
        self._loading = False
        self._scheduled = False
        self._errors: deque[KafkaError] = deque()
        self._refused: KafkaError | None = None
        self.recreated = False
        """True if there are positions in topics that were deleted and created again."""

    def soon(self) -> None:
        """Have `step` run on the loop. May be called from any thread."""
        if not self._scheduled:
            self._scheduled = True
            self._network.soon(self.step)

    def _later(self, delay_ms: int) -> None:
        self._network.loop.call_later(max(delay_ms, 1) / 1000, self.step)

    def step(self) -> None:
        self._scheduled = False
        loop = self._network.loop
        now = self._network.now_ms()
        with self._lock:
            states = list(self._positions.states.values())
            self._load_positions(states, loop, now)
            checks: dict[Node, list[PartitionState]] = {}
            plans: dict[Node, list[PartitionState]] = {}
            full: set[int] = set()
            self._look_at_topics(states)
            room = sum(state.buffered for state in states) < self._settings.max_bytes
            for state in states:
                if state.position is None or state.busy or state.halted or state.retry_ms > now:
                    continue
                if is_of_another(state, self._network.cluster):
                    continue
                node = self._source(state, now)
                if node is None:
                    self._without_leader(state, now)
                elif self._to_check(state):
                    checks.setdefault(node, []).append(state)
                elif not state.deliverable:
                    continue
                elif not room or state.buffered >= self._settings.partition_bytes:
                    full.add(node.id)
                else:
                    plans.setdefault(node, []).append(state)
            for node, some in checks.items():
                for state in some:
                    state.busy = True
                loop.create_task(self._check_epochs(node, [(state, state.token) for state in some]))
            if self._may_fetch():
                for node, some in plans.items():
                    if node.id not in self._fetching:
                        self._fetching.add(node.id)
                        short = node.id in full
                        request = fetch_request(self._settings, self._network.cluster, some, short=short)
                        asked = {state.tp: (state, state.token, state.fetch_at) for state in some}
                        loop.create_task(self._fetch(node, request, asked))

    def _look_at_topics(self, states: list[PartitionState]) -> None:
        """Note of which topics new positions are, and whether a topic was created again, which the next poll meets."""
        cluster = self._network.cluster
        for state in states:
            if state.position is not None and not state.topic_id:
                self._positions.place(state, cluster.topic_id(state.tp.topic))
        before, self.recreated = self.recreated, any(is_of_another(state, cluster) for state in states)
        if self.recreated and not before:
            self._network.loop.call_soon(self._tell)

    def _source(self, state: PartitionState, now: int) -> Node | None:
        """The node to fetch from: the leader, or for a while the nearer replica that it has named (KIP-392)."""
        replica, until = state.preferred
        if replica >= 0 and now < until and replica in self._network.cluster.brokers:
            return self._network.cluster.brokers[replica]
        return self._network.cluster.leader(state.tp)

    def _without_leader(self, state: PartitionState, now: int) -> None:
        state.retry_ms = now + self._settings.retry_ms
        self._network.refresh()
        self._later(self._settings.retry_ms)

    # --- first positions ------------------------------------------------------------------------------------------

    def _load_positions(self, states: list[PartitionState], loop: asyncio.AbstractEventLoop, now: int) -> None:
        if self._loading:
            return
        waiting = [s for s in states if s.position is None and s.retry_ms <= now]
        load = [(s, s.token) for s in waiting if s.from_committed]
        find = [(s, s.token, s.reset_to) for s in waiting if s.reset_to is not None]
        if load or find:
            self._loading = True
            loop.create_task(self._find_positions(load, find))

    async def _find_positions(
        self, load: list[tuple[PartitionState, int]], find: list[tuple[PartitionState, int, int]]
    ) -> None:
        try:
            if load:
                partitions = [state.tp for state, _ in load]
                ids = self._ids(partitions)
                offsets: Mapping[TopicPartition, OffsetAndMetadata | None] = await self._committed(partitions)
                self._place_committed(load, offsets, ids)
            if find:
                await self._place_by_time(find)
        except KafkaError as error:
            self._position_failed([s for s, _ in load] + [s for s, _, _ in find], error)
        finally:
            self._loading = False
            self._tell()
            self.step()

    def _ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, bytes]:
        """The topics of these partitions, before their offsets are asked for: these may be of an older one."""
        return {tp: self._network.cluster.topic_id(tp.topic) for tp in partitions}

    def _place_committed(
        self,
        load: list[tuple[PartitionState, int]],
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        ids: Mapping[TopicPartition, bytes],
    ) -> None:
        with self._lock:
            for state, token in load:
                if state.token != token or state.position is not None:
                    continue
                if self._network.cluster.topic_id(state.tp.topic) != ids[state.tp]:
                    continue  # asked again: it is not known which topic these offsets are of
                offset = offsets.get(state.tp)
                if offset is not None:
                    state.seek(offset.offset, offset.leader_epoch)
                    self._positions.place(state, ids[state.tp])
                elif self._settings.reset_to is not None:
                    state.reset(self._settings.reset_to)
                else:
                    state.halted = True
                    state.from_committed = False
                    state.add(Chunk(state.token, code=NO_OFFSET))

    async def _place_by_time(self, find: list[tuple[PartitionState, int, int]]) -> None:
        wanted = {state.tp: at for state, _, at in find}
        ids = self._ids(wanted)
        # One round only, so that partitions without a leader do not hold up the others.
        offsets = await list_offsets(
            self._network,
            wanted,
            isolation=self._settings.isolation,
            timeout_ms=self._settings.retry_ms * 10,
            partial=True,
        )
        with self._lock:
            for state, token, _ in find:
                found = offsets.get(state.tp)
                if state.token == token and state.position is None and found is not None:
                    state.seek(found.offset, found.leader_epoch)
                    self._positions.place(state, ids[state.tp])

    def _position_failed(self, states: list[PartitionState], error: KafkaError) -> None:
        log.debug("positions: %s", error)
        until = self._network.now_ms() + self._settings.retry_ms
        with self._lock:
            for state in states:
                if state.position is None:
                    state.retry_ms = until
            if not (error.retriable or isinstance(error, AuthenticationError)):
                self._errors.append(error)
        if isinstance(error, AuthenticationError):
            self.refuse(error)
        self._network.refresh()
        self._later(self._settings.retry_ms)

    def refuse(self, error: KafkaError | None) -> None:
        """Note the final refusal in metadata: we are not let in, or not to some topics. None: there is none."""
        self._refused = error
        if error is not None:
            self._tell()

    def raise_error(self) -> None:
        """Raise the oldest failure that the program has to know of. Called in the user's thread."""
        if self._errors:
            raise self._errors.popleft()
        error, self._refused = self._refused, None
        if error is not None:
            raise error

    # --- truncation (KIP-320) ---------------------------------------------------------------------------------------

    def _to_check(self, state: PartitionState) -> bool:
        """True if there is a new leader epoch since the last check: the log may be truncated below the position."""
        info = self._network.cluster.partition(state.tp)
        if info is None or info.leader_epoch < 0 or state.fetch_epoch < 0:
            return False
        if state.checked_epoch < 0 and info.leader_epoch == state.fetch_epoch:
            state.checked_epoch = info.leader_epoch
        return info.leader_epoch > state.checked_epoch

    async def _check_epochs(self, node: Node, asked: list[tuple[PartitionState, int]]) -> None:
        by_tp = {state.tp: (state, token) for state, token in asked}
        current = {tp: self._network.cluster.partition(tp) for tp in by_tp}

        def partition(tp: TopicPartition) -> OffsetForLeaderEpochRequest.OffsetForLeaderPartition:
            info = current[tp]
            return OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=info.leader_epoch if info else -1,
                leader_epoch=by_tp[tp][0].fetch_epoch,
            )

        topics = [
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=parts)
            for topic, parts in by_topic(by_tp, partition).items()
        ]
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
        retry = set(by_tp)
        try:
            response = await self._network.ask(node, request, min_version=2)
            with self._lock:
                for topic in response.topics:
                    for p in topic.partitions:
                        tp = TopicPartition(topic.topic, p.partition)
                        if tp not in by_tp:
                            continue
                        state, token = by_tp[tp]
                        if p.error_code == 0:
                            retry.discard(tp)
                        if p.error_code == 0 and state.token == token:
                            info = current[tp]
                            state.checked_epoch = info.leader_epoch if info else -1
                            if 0 <= p.end_offset < state.fetch_at:
                                state.halted = True
                                state.add(Chunk(state.token, code=TRUNCATED, offset=p.end_offset))
        except UnsupportedVersionError:
            retry.clear()
            for state, _ in asked:
                state.checked_epoch = 2**31 - 1
        except KafkaError as error:
            log.debug("leader epochs: %s", error)
        with self._lock:
            for tp, (state, token) in by_tp.items():
                if state.token == token:
                    state.busy = False
                    if tp in retry:
                        state.retry_ms = self._network.now_ms() + self._settings.retry_ms
        if retry:
            self._network.refresh()
            self._later(self._settings.retry_ms)
        self.step()
        self._tell()

    # --- fetching -------------------------------------------------------------------------------------------------

    async def _fetch(
        self, node: Node, request: FetchRequest, asked: dict[TopicPartition, tuple[PartitionState, int, int]]
    ) -> None:
        try:
            response: FetchResponse = await self._network.ask(node, request, max_version=fetch_version(request))
            names = {topic.topic_id: topic.topic for topic in request.topics}
            with self._lock:
                for topic in response.responses:
                    name = topic.topic or names.get(topic.topic_id, "")
                    for data in topic.partitions:
                        found = asked.get(TopicPartition(name, data.partition_index))
                        if found is None:
                            raise KafkaError(f"{node} answers for {name}-{data.partition_index}, unasked")
                        state, token, offset = found
                        if state.token == token and state.fetch_at == offset:
                            self._take(state, data)
        except KafkaError as error:
            denied = isinstance(error, AuthenticationError)
            log.log(logging.DEBUG if error.retriable or denied else logging.WARNING, "fetch from %s: %s", node, error)
            if denied:
                self.refuse(error)
            self._fetch_failed(asked)
        finally:
            self._fetching.discard(node.id)
            self._tell()
            self.step()

    def _fetch_failed(self, asked: dict[TopicPartition, tuple[PartitionState, int, int]]) -> None:
        until = self._network.now_ms() + self._settings.retry_ms
        with self._lock:
            for state, _, _ in asked.values():
                state.retry_ms = until
                state.preferred = (-1, 0)
        self._network.refresh()
        self._later(self._settings.retry_ms)

    def _take(self, state: PartitionState, data: FetchResponse.PartitionData) -> None:
        code = data.error_code
        if is_of_another(state, self._network.cluster):
            return  # an older broker answers by name, and these may be records of the new topic
        if code == Code.NONE:
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
            if data.preferred_read_replica >= 0:
                age = self._network.settings.metadata_max_age_ms
                state.preferred = (data.preferred_read_replica, self._network.now_ms() + age)
            if data.records:
                self._take_records(state, data)
        elif code in _MOVED:
            state.retry_ms = self._network.now_ms() + self._settings.retry_ms
            state.preferred = (-1, 0)
            self._network.refresh()
            self._later(self._settings.retry_ms)
        elif code == Code.OFFSET_OUT_OF_RANGE and state.preferred[0] >= 0:
            state.preferred = (-1, 0)
        else:
            state.halted = True
            state.add(Chunk(state.token, code=code, offset=state.fetch_at))

    def _take_records(self, state: PartitionState, data: FetchResponse.PartitionData) -> None:
        records = data.records or b""
        try:
            batches = deque(iter_batches(records))
        except CorruptBatchError:
            batches = deque()
        if not batches:
            state.halted = True
            state.add(Chunk(state.token, code=Code.CORRUPT_MESSAGE, offset=state.fetch_at))
            return
        last = batches[-1][2]
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or []]
        state.add(Chunk(state.token, records, batches, aborted, offset=last.next_offset))
        state.fetch_at = last.next_offset
        state.fetch_epoch = last.leader_epoch
        state.checked_epoch = max(state.checked_epoch, last.leader_epoch)
