"""A second kind of coordinator, as small as one can be: named counters, which are counted up and never forgotten.

All that a host knows of it stands here. An InitProducerId of its name counts a counter up, and is answered with the
count as producer id once the record is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from actors.coordinator.groups.messages import MaySleepResponse
from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now
from actors.coordinator.writer import Append
from actors.coordinator_kinds.kind import (
    CoordinatorKind,
    Hosted,
    RecordCodec,
    RelayedRequests,
    SleepRule,
    Surroundings,
    Tell,
)
from actors.links.operations import Operation, Result
from actors.links.relay import Figures, Kind
from actors.records.building import build_keyed_batch
from actors.records.reading import iter_key_values
from actors.security.acl import ResourceType
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader, decode_request_header, encode_response
from actors.wire.messages import InitProducerIdRequest, InitProducerIdResponse
from placement.metadata import ClusterMetadata

COUNTERS_TOPIC: Final = "__counters"
VERSION: Final = 4


@dataclass(slots=True)
class _Count:
    """A count that has not committed yet, and the answer that waits for it."""

    name: str
    count: int
    token: object
    batch_id: int = 0
    next_offset: int | None = None


class CounterShard:
    """The counters of one partition."""

    def __init__(self, step: int) -> None:
        self.state = ShardState.UNLOADED
        self.needs_reload = False
        self.failure = ""
        self.counts: dict[str, int] = {}
        self.replies: list[tuple[object, int, int]] = []
        """Token, error, count."""
        self._step = step
        self._pending: list[_Count] = []
        self._new: list[_Count] = []
        self._batches = 0
        self._active_from = 0

    def start_loading(self, epoch: int, now: Now | None = None) -> None:
        self.state = ShardState.LOADING

    def finish_loading(self, now: Now, log_end_offset: int, high_watermark: int | None = None) -> None:
        self._active_from = log_end_offset
        self.high_watermark(high_watermark or 0, now)

    def high_watermark(self, offset: int, now: Now) -> None:
        if self.state is ShardState.LOADING and offset >= self._active_from:
            self.state = ShardState.ACTIVE
        while self._pending and (self._pending[0].next_offset or offset + 1) <= offset:
            done = self._pending.pop(0)
            self.counts[done.name] = done.count
            self.replies.append((done.token, ErrorCode.NONE, done.count))

    def count(self, token: object, name: str) -> None:
        before = next((each.count for each in reversed(self._pending + self._new) if each.name == name), None)
        before = self.counts.get(name, 0) if before is None else before
        self._new.append(_Count(name, before + self._step, token))

    def take_records(self) -> Append | None:
        new, self._new = self._new, []
        if not new:
            return None
        self._batches += 1
        for each in new:
            each.batch_id = self._batches
        self._pending += new
        return Append(
            self._batches, [each.name.encode() for each in new], [each.count.to_bytes(8, "big") for each in new]
        )

    def appended(self, batch_id: int, base_offset: int, next_offset: int, now: Now) -> None:
        for each in self._pending:
            if each.batch_id == batch_id:
                each.next_offset = next_offset

    def append_refused(self, batch_id: int, error_code: int, now: Now) -> None:
        refused = [each for each in self._pending if each.batch_id == batch_id]
        self._pending = [each for each in self._pending if each.batch_id != batch_id]
        self.replies += [(each.token, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1) for each in refused]

    def next_deadline(self) -> int | None:
        return None

    def on_time(self, now: Now) -> None: ...

    @property
    def busy(self) -> bool:
        return bool(self._pending or self._new)


class CounterService:
    """Reads InitProducerId, and answers it."""

    def __init__(self, shard: CounterShard, around: Surroundings) -> None:
        self.requests = 0
        self.handlers: Mapping[int, Tell] = {Kind.MAY_SLEEP: self._may_sleep}
        self._shard = shard
        self._around = around

    def request(self, connection: int, slot: int, frame: bytes, now: Now) -> None:
        self.requests += 1
        header = decode_request_header(frame)
        asked = InitProducerIdRequest.decode(frame, header.api_version, header.body_offset)
        self._shard.count((slot, header), asked.transactional_id or "")

    def peer(self, connection: int) -> str:
        return ""

    def loaded(self, now: Now) -> None: ...

    def send_answers(self, now: Now) -> None:
        replies, self._shard.replies = self._shard.replies, []
        for token, code, count in replies:
            slot, header = token  # type: ignore[misc]
            self._around.send(Kind.RESPONSE, 0, slot, _answer(header, code, count))

    def send_news(self, now: Now) -> None: ...

    def figures(self) -> Figures:
        return Figures(state=str(self._shard.state))

    def _may_sleep(self, _a: int, question: int, _payload: bytes, now: Now) -> None:
        rests = MaySleepResponse(busy="it counts" if self._shard.busy else "")
        self._around.say(Kind.RESTS, rests, self._around.partition, question)


def _answer(header: RequestHeader, code: int, count: int = -1) -> bytes:
    answer = InitProducerIdResponse(error_code=code, producer_id=count, producer_epoch=0)
    return encode_response(answer, header.api_version, header.correlation_id)


@dataclass(frozen=True, slots=True)
class CountersTopicCreated(Result):
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateCountersTopic(Operation[CountersTopicCreated]):
    """Create `__counters` unless it exists."""


def _assignment(config: BrokerConfig, metadata: ClusterMetadata, version: int) -> bytes:
    return config.integer("num.partitions").to_bytes(4, "big")  # the step of a counter


def _host(assignment: bytes, around: Surroundings) -> Hosted:
    shard = CounterShard(int.from_bytes(assignment, "big"))
    return Hosted(shard, CounterService(shard, around))


def _replay(shard: CounterShard, piece: bytes) -> None:
    for key, value in iter_key_values(piece):
        shard.counts[(key or b"").decode()] = int.from_bytes(value or b"", "big")


def _batch(append: Append, now_ms: int, compression: int) -> bytes:
    return bytes(build_keyed_batch(append.keys, append.values, now_ms))


def _by_length(name: str, count: int) -> int:
    return len(name) % count


def _error_answer(header: RequestHeader, frame: bytes, code: ErrorCode) -> bytes:
    return _answer(header, code)


COUNTERS: Final = CoordinatorKind(
    name="counters",
    key_type=7,
    resource=ResourceType.TRANSACTIONAL_ID,
    topic=COUNTERS_TOPIC,
    partition_name="counters",
    partitions_setting="num.partitions",
    partition_of=_by_length,
    creation=CreateCountersTopic,
    assignment=_assignment,
    settings=None,
    remarks=lambda made, before: (),
    host=_host,
    codec=RecordCodec(_replay, _batch),
    requests=RelayedRequests(_error_answer, never_parked=frozenset(), rouse_nobody=frozenset()),
    sleep=SleepRule("coterie.shard.idle.ms", "a counter ends"),
)


def count_up(name: str) -> InitProducerIdRequest:
    """The request that counts a counter up."""
    return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
