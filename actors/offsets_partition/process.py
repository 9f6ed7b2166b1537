"""The process of an offsets partition: a loop that drives one coordinator shard over the relay to its broker.

It keeps no files. A spare waits until it is told what to host. When the broker closes the connection, the process
forgets everything and offers itself to the broker's successor, or to another broker of its machine. No Ray here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

from actors.coordinator.group_types import GroupShard, group_shard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, MaySleepRequest, MaySleepResponse
from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now
from actors.group_api import MODULES, Topics, heartbeat, offset_commit
from actors.links.group_status import GroupStatus, Rebalance
from actors.links.relay import (
    PAYLOADS,
    Assignment,
    ChangedLevels,
    DeletedTopics,
    Figures,
    Greeting,
    Kind,
    KnownTopics,
    RelayProtocol,
)
from actors.offsets_partition.clients import Client
from actors.offsets_partition.rebalances import RebalanceNews, log_rebalances
from actors.offsets_partition.replaying import replay
from actors.records.batch import HEADER_BYTES, assembled, read_header
from actors.records.building import build_keyed_batch, recompressed
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.liveness import SharedClock
from actors.runtime.log_levels import THIS_PROCESS, LogLevels
from actors.runtime.logs import Fields, at
from actors.wire.errors import WireError
from actors.wire.framing import RequestHeader, encode_response, frame_response
from actors.wire.messages import ApiMessage
from placement.metadata import OFFSETS_TOPIC

log = logging.getLogger(__name__)

_READ_SECONDS = 0.001
_FIGURES_SECONDS = 1.0  # how old the figures may be that a broker is sent


_BROKER = 0  # as a connection: it asks itself
_REQUEST = int(Kind.REQUEST)  # an enum's member costs more to look up
_RESPONSE = int(Kind.RESPONSE)


class _Asked:
    """A request that the shard has not answered yet. It is its token in the shard."""

    __slots__ = ("client", "header", "message", "slot", "topics")

    def __init__(self, client: Client, slot: int, header: RequestHeader, message: ApiMessage, topics: Topics) -> None:
        self.client = client
        self.slot = slot
        self.header = header
        self.message = message
        self.topics = topics  # it was parsed by these; answered by others its errors would go to other partitions


class _TopicsGone:
    """The token of our own request to drop the offsets of deleted topics; nobody waits for its answer."""

    __slots__ = ()


class _MaySleep:
    """The token of the broker's question whether the process is needed."""

    __slots__ = ("question",)

    def __init__(self, question: int) -> None:
        self.question = question


class ShardProcess:
    """One connection to a broker and, when the process hosts a partition, one shard."""

    def __init__(
        self,
        socket_path: str,
        name: str,
        code_version: str,
        environment: Environment = REAL,
        log_levels: LogLevels = THIS_PROCESS,
    ) -> None:
        self._path = socket_path
        self._name = name
        self._code_version = code_version
        self._environment = environment
        self._log_levels = log_levels
        self._monotonic_ms, self._wall_ms = environment.clock.monotonic_ms, environment.clock.wall_ms
        self._loop = asyncio.get_running_loop()
        self._protocol: RelayProtocol | None = None
        self._lost = asyncio.Event()
        self._ended = False
        self._shard: GroupShard | None = None
        self._partition = -1
        self._epoch = -1
        self._topics = Topics()
        self._gone: frozenset[str] = frozenset()  # topics deleted before the shard has loaded
        self._clients: dict[int, Client] = {}  # by connection
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._turn_time: Now | None = None
        self._clock = SharedClock(self._monotonic_ms())
        self._config = CoordinatorConfig()
        self._requests = 0
        self._errors: Counter[int] = Counter()  # answers to clients since the partition is hosted, by API key
        self._said_active = False
        self._news = RebalanceNews()
        self._figures = Figures()
        self._figures_due = 0.0

    async def run(self, orphan_seconds: float = 15.0) -> None:
        """Serve until no broker has answered for `orphan_seconds`, or one says that it is enough."""
        deadline = self._loop.time() + orphan_seconds
        while self._loop.time() < deadline and not self._ended:
            self._lost.clear()
            if not await self._connect(_others(self._path, self._environment.kernel.pid())):
                await asyncio.sleep(0.05)
                continue
            self._say_hello()
            await self._lost.wait()
            deadline = self._loop.time() + orphan_seconds
        log.info("no broker needs this shard process: it ends")

    async def _connect(self, others: list[str]) -> bool:
        """Connect to our broker or, if it is gone, to another one of this machine. Whether that succeeded.

        The broker that takes over its partitions needs processes.
        """
        for path in (self._path, *others):
            with contextlib.suppress(OSError):
                await self._loop.create_unix_connection(self._new_protocol, path)
                return True
        return False

    def _new_protocol(self) -> RelayProtocol:
        self._protocol = RelayProtocol(
            self._loop, self._on_message, self._on_turn, self._on_lost, self._environment.kernel.is_ours
        )
        return self._protocol

    def _say_hello(self) -> None:
        greeting = Greeting(self._environment.kernel.pid(), self._code_version, self._name)
        self._send(Kind.HELLO, payload=PAYLOADS.encode(greeting))

    def _send(self, kind: int, a: int = 0, b: int = 0, payload: bytes = b"") -> None:
        if self._protocol is not None:
            self._protocol.send(kind, a, b, payload)

    def _now(self) -> Now:
        """The time of this turn of the loop, the same for all that came in together."""
        now = self._turn_time
        if now is None:
            now = self._turn_time = Now(self._clock.now_ms(self._monotonic_ms()), self._wall_ms())
        return now

    # --- the relay ---

    def _on_lost(self, protocol: RelayProtocol) -> None:
        self._protocol = None
        self._log_levels.take_over({})
        self._forget()
        self._lost.set()

    def _forget(self) -> None:
        self._shard = None
        self._partition = -1
        self._said_active = False
        self._figures, self._figures_due = Figures(), 0.0
        self._errors.clear()
        self._clients.clear()
        gc.unfreeze()  # what was loaded is garbage now
        gc.enable()  # a load may have been broken off
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        if self._turn_time is None:
            self._clock.heard(self._monotonic_ms())
        if kind == _REQUEST:
            client = self._clients.get(a)
            if client is None:
                client = self._clients[a] = Client("", many=a == _BROKER)
            try:
                self._request(client, b, payload)
            except Exception:
                # A bug: the shard is loaded again. What the request holds is a client's, and is not logged.
                log.exception(
                    "a request of %s failed: %s",
                    client.host or "?",
                    _kind(payload),
                    extra=self._here(peer=client.host or "?"),
                )
                raise
        elif kind == Kind.APPENDED:
            base = int.from_bytes(payload[:8], "big")
            self._with_shard(lambda shard: shard.appended(b, base, int.from_bytes(payload[8:], "big"), self._now()))
        elif kind == Kind.HIGH_WATERMARK:
            self._with_shard(lambda shard: shard.high_watermark(b, self._now()))
            if not self._said_active and self._shard is not None:
                self._say_if_active(self._shard)
        elif kind == Kind.OPEN:
            self._clients[a] = Client("/" + payload.decode())
        elif kind == Kind.CLOSE:
            self._close(a)
        elif kind == Kind.PING:
            self._pong()
        elif kind == Kind.REFUSED:
            self._with_shard(lambda shard: shard.append_refused(b, a, self._now()))
        elif kind == Kind.TOPICS:
            self._note_topics(Topics(PAYLOADS.read(KnownTopics, payload).topics))
        elif kind == Kind.TOPICS_DELETED:
            self._drop_offsets(frozenset(PAYLOADS.read(DeletedTopics, payload).names))
        elif kind == Kind.MAY_SLEEP:
            self._with_shard(lambda shard: shard.handle(_MaySleep(b), MaySleepRequest(), self._now()))
        elif kind == Kind.LOAD:
            self._load(payload)
        elif kind == Kind.LOADED:
            self._loaded(b)
        elif kind == Kind.BECOME:
            self._become(a, b, PAYLOADS.read(Assignment, payload))
        elif kind == Kind.LOG_LEVELS:
            self._log_levels.take_over(PAYLOADS.read(ChangedLevels, payload).levels)
        elif kind == Kind.DESCRIBE:
            self._describe(b, payload.decode())
        elif kind == Kind.END:
            self._ended = True
            protocol.close()
        elif kind == Kind.RESIGN:
            self._say_last_figures()
            self._forget()
            self._say_hello()  # after all that was said for the partition

    def _with_shard(self, act: Any) -> None:
        if self._shard is not None:
            act(self._shard)

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self._turn()

    def _become(self, partition: int, epoch: int, told: Assignment) -> None:
        self._forget()
        self._config = told.config
        self._topics = Topics(told.topics)
        self._gone = frozenset()
        self._partition, self._epoch = partition, epoch
        self._news = RebalanceNews()
        self._shard = group_shard(self._config, lambda: str(new_uuid(self._environment.chance)))
        self._shard.start_loading(epoch, self._now())
        gc.disable()  # loading makes millions of objects, none of them garbage

    def _load(self, piece: bytes) -> None:
        if self._shard is not None:
            replay(self._shard, piece)
            self._send(Kind.LOAD_MORE, self._partition)

    def _loaded(self, log_end_offset: int) -> None:
        shard = self._shard
        if shard is None:
            return
        self._turn_time = None  # loading took its time
        shard.finish_loading(self._now(), log_end_offset, 0)
        gc.enable()
        gc.freeze()  # what was loaded stays; collections need not walk it
        if shard.state is ShardState.FAILED:
            log.error("offsets partition %d cannot be loaded: %s", self._partition, shard.failure, extra=self._here())
        self._say_if_active(shard)

    def _say_if_active(self, shard: GroupShard) -> None:
        # One that could not be loaded serves, too: it says NOT_COORDINATOR to everything.
        if not self._said_active and shard.state in (ShardState.ACTIVE, ShardState.FAILED):
            self._said_active = True
            if shard.state is ShardState.ACTIVE:
                took = shard.metrics.load_time_ms
                log.info("offsets partition %d: loaded in %d ms", self._partition, took, extra=self._here())
            # Topics may have been deleted while nobody served the partition. An image of the shard's own election
            # or later has every topic that its former leaders took commits for, unless it is gone.
            self._drop_offsets((shard.coordinator.topics() - self._topics.ids.keys()) | self._gone)
            self._send(Kind.ACTIVE, self._partition)

    def _note_topics(self, topics: Topics) -> None:
        gone = topics.deleted_since(self._topics)
        self._topics = topics
        self._drop_offsets(gone)

    def _drop_offsets(self, gone: frozenset[str]) -> None:
        if not self._said_active:
            self._gone |= gone  # once all is loaded
        elif gone and self._shard is not None:
            self._shard.handle(_TopicsGone(), DeleteTopicOffsetsRequest(gone), self._now())

    def _pong(self) -> None:
        shard = self._shard
        if shard is not None and (news := self._news.take(shard, self._now())) is not None:
            log_rebalances(news, self._here)
            self._send(Kind.REBALANCES, payload=PAYLOADS.encode(news))
        if shard is not None and self._loop.time() >= self._figures_due:
            self._figures = self._figures_of(shard)  # it may have a hundred thousand groups to look at
            self._figures_due = self._loop.time() + _FIGURES_SECONDS
        self._send(Kind.PONG, payload=PAYLOADS.encode(replace(self._figures, requests=self._requests)))

    def _say_last_figures(self) -> None:
        """Before the partition is given up: what was counted since the last ping."""
        self._figures_due = 0.0
        self._pong()

    def _describe(self, question: int, group_id: str) -> None:
        found = self._shard.coordinator.group_status(group_id, self._now()) if self._shard is not None else None
        payload = b""
        if found is not None:
            rebalances = tuple(Rebalance(*event) for event in found.rebalances)
            status = GroupStatus(found.generation_id, tuple(found.awaited_members), found.phase_ends_in_ms, rebalances)
            payload = PAYLOADS.encode(status)
        self._send(Kind.DESCRIBED, 0, question, payload)

    def _here(self, **more: Unpack[Fields]) -> dict[str, Fields]:
        """The `extra` of a log call in which the partition has a part."""
        return at(OFFSETS_TOPIC, self._partition, **(Fields(epoch=self._epoch) | more))

    def _figures_of(self, shard: GroupShard) -> Figures:
        groups = shard.coordinator
        errors = {str(key): count for key, count in self._errors.items()}
        counters = asdict(groups.metrics) | asdict(shard.metrics)
        counts = groups.group_counts()
        return Figures(0, str(shard.state), counts, groups.offset_count(), counters, errors, groups.parked())

    # --- requests ---

    def _request(self, client: Client, slot: int, frame: bytes) -> None:
        shard = self._shard
        if shard is None:
            return  # the broker has taken the partition away, and answers for us
        if client.has_to_wait(frame):
            client.after_commits.append((slot, frame))
            return
        self._requests += 1
        try:
            header, message, request = client.read(frame, self._topics)
        except WireError as error:
            log.warning(
                "a malformed group request from %s: %s",
                client.host or "?",
                error,
                extra=self._here(peer=client.host or "?"),
            )
            self._send(_RESPONSE, 0, slot, b"")  # an empty answer: the broker closes that connection
            return
        if request is None:
            answer = MODULES[header.api_key].answer(message, None, header.api_version, self._topics)
            self._send(_RESPONSE, 0, slot, encode_response(answer, header.api_version, header.correlation_id))
            return
        client.open_commits += header.api_key == offset_commit.API.api_key
        shard.handle(_Asked(client, slot, header, message, self._topics), request, self._now())

    def _close(self, connection: int) -> None:
        client = self._clients.pop(connection, None)
        if self._shard is not None:
            self._shard.drop(lambda token: isinstance(token, _Asked) and token.client is client)

    # --- a turn ---

    def _turn(self) -> None:
        """End a turn, when all that was read has been handled: send answers and records, and set the timer."""
        shard = self._shard
        if shard is None:
            self._turn_time = None
            return
        self._flush(shard)
        self._turn_time = None
        if shard.needs_reload and self._protocol is not None:
            text = "offsets partition %d: its log and its state disagree, loading again"
            log.error(text, self._partition, extra=self._here())
            self._protocol.flush()
            self._protocol.close()  # the broker gives the partition to the next process, this one comes back as a spare
            return
        self._arm(shard)

    def _flush(self, shard: GroupShard) -> None:
        while replies := shard.take_replies():
            for token, response in replies:
                if isinstance(token, _Asked):
                    self._answer(token, response)
                elif isinstance(token, _MaySleep) and isinstance(response, MaySleepResponse):
                    self._send(Kind.RESTS, self._partition, token.question, PAYLOADS.encode(response))
        while (append := shard.take_records()) is not None:
            batch = build_keyed_batch(append.keys, append.values, self._wall_ms())
            if codec := self._config.offsets_topic_compression_codec:
                batch = _compressed(batch, codec)
            self._send(Kind.APPEND, self._partition, append.batch_id, batch)

    def _answer(self, asked: _Asked, response: Any) -> None:
        api_key, version, correlation_id, _, _ = asked.header
        module = MODULES[api_key]
        error: int
        if module is offset_commit:
            body = offset_commit.body(asked.message, response, version, asked.topics)  # type: ignore[arg-type]
            error = any(response.error_codes)
        elif module is heartbeat:
            error = response.error_code
            body = heartbeat.body(error, version)
        else:
            body = module.answer(asked.message, response, version, asked.topics).encode(version)
            error = getattr(response, "error_code", 0)
        if error and not asked.client.many:  # the broker counts those of its own requests
            self._errors[api_key] += 1
        self._send(_RESPONSE, 0, asked.slot, frame_response(body, api_key, version, correlation_id))
        if module is offset_commit:
            self._committed(asked.client)

    def _committed(self, client: Client) -> None:
        client.open_commits -= 1
        if client.after_commits and not client.open_commits:
            waiting, client.after_commits = client.after_commits, []
            for slot, frame in waiting:
                self._request(client, slot, frame)

    def _arm(self, shard: GroupShard) -> None:
        due = shard.next_deadline()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        delay = max(due - self._clock.now_ms(self._monotonic_ms()), 1) / 1000
        self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        """A deadline may have come. A second timer follows, so that input that is here already is read first."""
        self._timer = self._loop.call_later(_READ_SECONDS, self._fire)

    def _fire(self) -> None:
        shard = self._shard
        self._timer = self._turn_time = None
        if shard is not None:
            shard.on_time(self._now())
            self._turn()


def _compressed(batch: bytes, codec: int) -> bytes:
    """The batch with its records compressed; the batch itself if that is not smaller, because its size is limited."""
    header, payload = recompressed(read_header(batch), memoryview(batch)[HEADER_BYTES:], codec)
    return assembled(header, payload) if HEADER_BYTES + len(payload) < len(batch) else batch


def _kind(frame: bytes) -> str:
    """Which request a frame has, without anything that a client wrote into it."""
    key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
    return f"API key {key}, version {version}, {len(frame)} bytes"


def _others(path: str, pid: int) -> list[str]:
    """The other sockets beside a broker's. Each process begins with another of them, so that they spread."""
    own = Path(path)
    found = sorted(str(each) for each in own.parent.glob("*") if each != own)
    first = pid % len(found) if found else 0
    return found[first:] + found[:first]
