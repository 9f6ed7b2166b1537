"""Helpers of the handlers' tests: a broker whose loop, clock, controller and shards are driven by hand.

Requests go through the wire's encoder and decoder both ways; logs are real ones in a temporary folder.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import actors.records.columns  # noqa: F401 - at first use a thread imports it, and a request would be parked
from actors.broker.authorization import Authorization
from actors.broker.beside.guest import GuestKind
from actors.broker.beside.host import Guests
from actors.broker.commits import Commits
from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext
from actors.broker.entrance.clients import Clients
from actors.broker.fetches import ParkedFetches
from actors.broker.handlers.auto_creation import AutoCreation
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.idle_settings import IdleSettings
from actors.broker.handlers.internal_topics import InternalTopics
from actors.broker.handlers.producer_ids import ProducerIds
from actors.broker.handlers.registry import ADVERTISED, APIS
from actors.broker.led import LedPartitions
from actors.controller.decisions.operations import decide
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.operations import Operation
from actors.links.unauthenticated import FailureLog
from actors.log.data_dir import DataDir
from actors.runtime.environment import REAL
from actors.security.acl import Acl
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from actors.wire.framing import Part, decode_request_header, decode_response, encode_large_response, encode_request
from actors.wire.messages import response_class
from placement.metadata import AclRow, BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, ClusterRecord, TopicRecord
from tests.support.calls import name_of
from tests.support.left_open import LEFT_OPEN
from tests.support.log_helpers import machine

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NOW_MS = 1_700_000_000_000


def _read_now(answer: bytes | list[Part]) -> bytes:
    """The bytes of an answer that may be in parts."""
    parts = [answer] if isinstance(answer, bytes) else answer
    return b"".join(part if isinstance(part, bytes) else part.read(len(part)) for part in parts)


class Timer:
    def __init__(self, when: float, call: Callable[[], Any]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop without events: callbacks run in `turn` and `advance`, jobs for a thread in `end_job`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []
        self.soon: list[Callable[[], Any]] = []
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        loop: Any = self
        return asyncio.Future(loop=loop)

    def run_in_executor(self, executor: Any, job: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        self.jobs.append((future, lambda: job(*args)))
        return future

    def end_job(self, number: int = 0) -> None:
        """Have the thread end one of its jobs, and run the callbacks of that."""
        future, job = self.jobs.pop(number)
        try:
            future.set_result(job())
        except Exception as error:
            future.set_exception(error)
        while self.turn():
            pass

    def call_soon(self, call: Callable[..., Any], *args: Any, context: Any = None) -> None:
        self.soon.append(lambda: call(*args))

    def call_later(self, delay: float, call: Callable[..., Any], *args: Any) -> Timer:
        timer = Timer(self.now + delay, lambda: call(*args))
        self.timers.append(timer)
        return timer

    def turn(self) -> int:
        """Run the callbacks that wait for the next turn; their number."""
        soon, self.soon = self.soon, []
        for call in soon:
            call()
        return len(soon)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in sorted(self.timers, key=lambda each: each.when):
            if timer.when <= self.now and not timer.cancelled:
                timer.cancelled = True
                timer.call()
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        self.turn()


class Transport:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1234)

    def get_write_buffer_size(self) -> int:
        return 0


class Server:
    socket_request_max_bytes = 1 << 20

    def __init__(self) -> None:
        self.failures = FailureLog(lambda: 0.0)

    def on_connect(self, connection: Connection) -> bool:
        return True

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None: ...


class Controller:
    """Keeps calls until `answer` or `fail`; with `prompt` it answers at once, by the real rules."""

    connected = True

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.metadata = ClusterMetadata()
        self.calls: list[tuple[Operation[Any], Callable[[Any, str | None], None]]] = []
        self.operations: list[str] = []
        self.prompt = True
        self.connected = True
        self._ids = itertools.count(1)

    def call(self, operation: Operation[Any], done: Callable[[Any, str | None], None], by: str = "") -> None:
        self.operations.append(name_of(operation))
        self.calls.append((operation, done))
        if self.prompt:
            self.answer()

    def answer(self) -> None:
        """Decide the oldest call, and answer it once the broker has the image."""
        operation, done = self.calls.pop(0)
        result, records = decide(self.metadata, self.config, operation, lambda: next(self._ids).to_bytes(16, "big"))
        for record in records:
            self.metadata.apply(record)
        done(result, None)

    def fail(self, error: str) -> None:
        self.calls.pop(0)[1](None, error)


class Shards:
    """Shards that serve, but those in `starting`: `waiters` has the callbacks of those who wait for one of them.

    They are the coordinators of a broker, too: those of groups alone.
    """

    def __init__(self) -> None:
        self.awaited: list[int] = []
        self.starting: set[int] = set()
        self.waiters: dict[int, list[Callable[[ErrorCode], None]]] = {}
        self.log_levels: list[dict[str, int]] = []

    def __getitem__(self, kind: CoordinatorKind) -> Any:
        assert kind is GROUPS
        return self

    def __iter__(self) -> Iterator[CoordinatorKind]:
        return iter((GROUPS,))

    def await_serving(self, partition: int, done: Callable[[ErrorCode], None]) -> None:
        self.awaited.append(partition)
        if partition in self.starting:
            self.waiters.setdefault(partition, []).append(done)
        else:
            done(ErrorCode.NONE)

    def set_log_levels(self, changed: Mapping[str, int]) -> None:
        self.log_levels.append(dict(changed))

    def settle(self, partition: int, code: ErrorCode = ErrorCode.NONE) -> None:
        for done in self.waiters.pop(partition, []):
            done(code)


class Replication:
    """The replication of the partitions; the test says when a record has committed."""

    def __init__(self) -> None:
        self.registered = True
        self.leading = True
        self.known = True
        self.lags: dict[tuple[str, int], int] = {}
        self.appends: list[tuple[str, int]] = []
        self.waiters: list[tuple[str, int, int, Callable[[ErrorCode], None]]] = []
        self.start_waiters: list[tuple[str, int, int, Callable[[ErrorCode], None]]] = []

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        return self.leading

    def appended(self, topic: str, index: int, partition: PartitionInfo) -> None:
        self.appends.append((topic, index))

    def await_commit(self, topic: str, index: int, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        self.waiters.append((topic, index, next_offset, done))

    def await_start(
        self, topic: str, index: int, partition: PartitionInfo, start: int, done: Callable[[ErrorCode], None]
    ) -> None:
        self.start_waiters.append((topic, index, start, done))

    def watermark_is_known(self, topic: str, index: int) -> bool:
        return self.known

    def lag(self, topic: str, index: int) -> int:
        return self.lags.get((topic, index), 0)


class Pending:
    """A request that was sent; `response` once it has been answered."""

    def __init__(self, slot: Slot | None, api_key: int, version: int) -> None:
        self.slot = slot
        self._api_key = api_key
        self._version = version

    @property
    def answered(self) -> bool:
        return self.slot is not None and self.slot.answer is not None

    @property
    def response(self) -> Any:
        assert self.slot is not None
        assert self.slot.answer is not None, "the request is still parked"
        return decode_response(response_class(self._api_key), self._version, _read_now(self.slot.answer)[4:])[1]


class Broker:
    """Broker 0 of a cluster of `brokers`, all alive."""

    def __init__(self, path: Path, brokers: int = 1, guests: Sequence[GuestKind] = (), **settings: str) -> None:
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.from_mapping(texts)
        self.loop = Loop()
        self.controller = Controller(self.config)
        self.metadata = self.controller.metadata
        self.metadata.apply(ClusterRecord("cluster-of-tests"))
        for i in range(brokers):
            self.metadata.apply(BrokerRecord(BrokerInfo(i, f"host{i}", 9092 + i, None, 0)))
        self.data_dir = DataDir.open(path / "data", "cluster-of-tests", 0, machine())
        LEFT_OPEN.callback(self.data_dir.abandon)
        self.shards = Shards()
        self.now_ms = NOW_MS
        loop: Any = self.loop
        shards: Any = self.shards
        self.replication: Any = Replication()
        self.context = BrokerContext(
            0,
            self.config,
            self.data_dir,
            self.controller,
            loop,
            lambda: self.now_ms,
            self.metadata,
            ParkedFetches(loop),
            Commits(),
            replace(REAL, clock=replace(REAL.clock, monotonic=self.loop.time)),
            Authorization.of(self.config, self.metadata, self.loop.time),
        )
        self.led = LedPartitions(self.context, self.replication)
        self.clients = Clients(self.context)
        self.handlers = handler_context(self.context, self.led, self.replication, shards, self.clients, guests)
        self.connection = self.connect()

    def connect(self) -> Connection:
        server: Any = Server()
        transport: Any = Transport()
        connection = Connection(server, 1, 0.0)
        connection.connection_made(transport)
        return connection

    def allow(self, *acls: Acl) -> None:
        """These are the cluster's ACLs from now on."""
        assert self.context.authorizer.checks, "it needs authorizer_class_name=AUTHORIZER"
        self.metadata.acls = {repr(acl.row).encode(): AclRow(*acl.row) for acl in acls}
        self.context.authorizer.update(self.metadata.acls)

    def topic(self, name: str, *partitions: PartitionInfo, topic_id: int = 0, **configs: str) -> TopicInfo:
        """A topic in the metadata; one partition led by broker 0 if none are given."""
        number = topic_id or 1000 + len(self.metadata.topics)
        info = TopicInfo(
            name,
            number.to_bytes(16, "big"),
            partitions or (led_by(0),),
            {key.replace("_", "."): value for key, value in configs.items()},
        )
        self.metadata.apply(TopicRecord(info))
        return self.metadata.topics[name]

    def send(self, message: Any, version: int, connection: Connection | None = None) -> Pending:
        """Have a request handled as the broker does, from its bytes to its answer's bytes."""
        frame = encode_request(message, version, 7, "tests")[4:]
        header = decode_request_header(frame)
        handler = APIS[header.api_key]
        assert handler.serves(version)
        assert handler.handle is not None
        decoded: Any = type(message).decode(frame, version, header.body_offset)
        connection = connection or self.connection
        silent = header.api_key == 0 and decoded.acks == 0
        slot = None if silent else connection.slots.open(0, header.api_key, version, header.correlation_id)
        response = handler.handle(self.handlers, Request(header, decoded, connection, slot))
        if response is not None:
            assert slot is not None, "nobody waits for this answer"
            slot.finish(_read_now(encode_large_response(response, version, header.correlation_id)))
        connection.flush()
        return Pending(slot, header.api_key, version)

    def ask(self, message: Any, version: int) -> Any:
        """The answer to a request that is answered at once."""
        return self.send(message, version).response


def handler_context(
    context: BrokerContext,
    led: LedPartitions,
    replication: Any,
    coordinators: Any,
    clients: Clients,
    guests: Sequence[GuestKind] = (),
) -> HandlerContext:
    """The context of handlers, made of these parts as a broker does it."""
    controller = context.controller
    return HandlerContext(
        context,
        led,
        replication,
        coordinators,
        clients,
        ProducerIds(controller),
        InternalTopics(controller),
        AutoCreation(controller),
        IdleSettings(),
        Guests(context, led, guests),
        ADVERTISED,
    )


def answer_to_a_bug(message: Any, version: int) -> Any:
    """The answer to a request whose handler has raised."""
    failed = APIS[message.api_key].failed
    assert failed is not None
    return failed(message, version, ErrorCode.UNKNOWN_SERVER_ERROR)


def led_by(leader: int, *others: int, epoch: int = 0, isr: tuple[int, ...] | None = None) -> PartitionInfo:
    """A partition; -1 leads none."""
    replicas = (leader, *others) if leader >= 0 else others
    return PartitionInfo(leader, epoch, replicas, isr if isr is not None else (replicas[0],))
