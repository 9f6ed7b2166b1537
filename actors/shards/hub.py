"""A broker's side of its offsets partitions: which shard process serves which partition, and the relay to each.

A process that connects to our Unix socket is a spare until it is told to BECOME a partition. The broker reads the
log for it, appends for it, and passes requests and answers through. A shard that hangs up, or is silent for too
long, is answered for (NOT_COORDINATOR) and succeeded by another spare. No Ray here: more spares are asked of the
controller.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import msgpack

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.slots import Slot
from actors.coordinator.config import CoordinatorConfig
from actors.group_api import error_answer
from actors.links.relay import Kind, RelayProtocol
from actors.log.errors import LogError
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_request_header, decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, TopicInfo

log = logging.getLogger(__name__)

_SURPLUS_SECONDS = 30.0
_LOAD_WINDOW = 4  # pieces of log on their way to a shard at once
_LOAD_ERRORS = (LogError, OSError, RuntimeError)
_REFUSED_APPEND = 6  # Kafka's NOT_LEADER_OR_FOLLOWER
_KNOWN_GROUPS_MAX = 100_000
_KNOWN_GROUP_BYTES = 256  # longer ids are hashed each time: a cache of them would be anyone's way to our memory
_PATIENCE = 10  # so many times the silence are allowed to a shard that loads, or that waits for a CPU


class Question:
    """A request of the broker's own to a shard, in the place where a client's request has a slot."""

    __slots__ = ("done", "frame", "response", "version")

    def __init__(
        self, response: type[ApiMessage], version: int, frame: bytes, done: Callable[[ApiMessage], None]
    ) -> None:
        self.response = response
        self.version = version
        self.frame = frame
        self.done = done


class ShardLink:
    """One shard process: a spare, or the host of `partition`."""

    __slots__ = (
        "active",
        "epoch",
        "figures",
        "last_heard",
        "load_end",
        "load_offset",
        "opened",
        "partition",
        "pending",
        "pid",
        "pieces_wanted",
        "protocol",
        "reading",
    )  # fmt: skip

    def __init__(self, protocol: RelayProtocol, now: float) -> None:
        self.protocol = protocol
        self.partition = -1
        self.epoch = -1
        self.active = False
        self.pid = 0
        self.figures: dict[str, Any] = {}
        self.last_heard = now
        self.load_offset = 0
        self.load_end = 0
        self.pieces_wanted = 0
        self.reading: asyncio.Future[bytes] | None = None
        self.opened: set[int] = set()  # client connections the shard has been told of
        self.pending: dict[int, tuple[Slot | Question, bytes]] = {}  # what it owes us, with the request's frame


@dataclass(slots=True)
class ShardStatus:
    """A row of `coterie status`."""

    partition: int
    pid: int
    state: str
    epoch: int
    figures: dict[str, Any] = field(default_factory=dict)


class ShardHub:
    """All shards of one broker. Everything runs on the broker's loop."""

    def __init__(self, context: BrokerContext, want_spares: Callable[[int], None]) -> None:
        self.context = context
        self._want_spares = want_spares
        self._spare_target = context.config.integer("coterie.spare.shards")
        self._silence_s = context.config.integer("coterie.shard.silence.ms") / 1000
        self._load_bytes = context.config.integer("offsets.load.buffer.size")
        self._links: dict[int, ShardLink] = {}  # by partition
        self._spares: list[ShardLink] = []
        self._by_protocol: dict[RelayProtocol, ShardLink] = {}
        self._waiting: deque[int] = deque()  # partitions that want a process
        self._groups: dict[bytes, int] = {}  # group id's bytes -> partition: a cache
        self._partition_count = 0
        self._next_slot = 0
        self._dirty: set[Connection] = set()
        self._holding: dict[ShardLink, list[Connection]] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._told: dict[str, tuple[bytes, int]] = {}
        self._last_tick = 0.0
        self._surplus_since = 0.0
        self.closed = False

    # --- what the listener calls ---

    def partition_of(self, group_id: bytes) -> int:
        """The offsets partition of a group, from the id's UTF-8 bytes. Raises ValueError if they are not UTF-8."""
        count = self.context.offsets_partition_count()
        if count != self._partition_count or len(self._groups) > _KNOWN_GROUPS_MAX:
            self._groups.clear()
            self._partition_count = count
        found = self._groups.get(group_id)
        if found is None:
            found = partition_for_group(group_id.decode(), count)
            if len(group_id) <= _KNOWN_GROUP_BYTES:
                self._groups[group_id] = found
        return found

    def relay(self, connection: Connection, partition: int, frame: bytes, version: int, api: int, corr: int) -> None:
        """Pass a client's request to the shard of `partition`, or answer why that cannot be."""
        slot = connection.slots.open(self._slot_id(), api, version, corr)
        link = self._links.get(partition)
        if link is None or not link.active:
            code = self._unavailable(partition)
            slot.finish(error_answer(decode_request_header(frame), frame, code))
            return
        if not self._serves(partition):
            slot.finish(error_answer(decode_request_header(frame), frame, ErrorCode.NOT_COORDINATOR))
            return
        protocol = link.protocol
        if connection.id not in link.opened:
            link.opened.add(connection.id)
            protocol.send(Kind.OPEN, connection.id, 0, connection.peer.encode())
        link.pending[slot.id] = (slot, frame)
        protocol.send(Kind.REQUEST, connection.id, slot.id, frame)
        held = self._holding.get(link)
        if held is not None and connection not in held:
            held.append(connection)
            connection.hold()

    def disconnected(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone: its shards forget what they owed it."""
        for link in self._links.values():
            if connection.id in link.opened:
                link.opened.discard(connection.id)
                link.protocol.send(Kind.CLOSE, connection.id)
                for slot in unanswered:
                    link.pending.pop(slot.id, None)

    # --- what handlers call (context.Shards) ---

    def ask(self, partition: int, message: ApiMessage, version: int, done: Callable[[ApiMessage], None]) -> None:
        """Send a request of the broker's own; `done` gets the answer, in this turn if there is no shard."""
        frame = encode_request(message, version, 0, "coterie")[4:]
        question = Question(response_class(message.api_key), version, frame, done)
        link = self._links.get(partition)
        if link is None or not link.active:
            self._answer(question, frame, self._unavailable(partition))
            return
        slot_id = self._slot_id()
        link.pending[slot_id] = (question, frame)
        link.protocol.send(Kind.REQUEST, 0, slot_id, frame)

    def ensure(self, partition: int) -> bool:
        """Whether the shard of a partition led here serves; starts it if it does not."""
        return self._unavailable(partition) is ErrorCode.NONE

    def reload(self, partition: int) -> None:
        """The log is not what the shard of a partition knew: another process loads it."""
        link = self._links.get(partition)
        if link is not None:
            self._resign(link)
            self._want(partition, urgent=True)

    def led(self) -> list[int]:
        """Offsets partitions led here that have a shard, or records to have one for."""
        topic = self.context.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        me = self.context.broker_id
        return [
            index
            for index, p in enumerate(topic.partitions)
            if p.leader == me and (index in self._links or index in self._waiting or self._has_records(index))
        ]

    def note_topics(self) -> None:
        """The image changed: tell the shards what topics there are, give up partitions led elsewhere, start others."""
        topics = self.context.metadata.topics
        now = {t.name: (t.id, len(t.partitions)) for t in topics.values()}
        if now != self._told:
            self._told = now
            payload = self._topics_payload()
            for link in self._links.values():
                link.protocol.send(Kind.TOPICS, 0, 0, payload)
        for partition, link in list(self._links.items()):
            info = self.context.metadata.partition(OFFSETS_TOPIC, partition)
            if not self._serves(partition) or info is None or info.leader_epoch != link.epoch:
                self._resign(link)
        for partition in self.led():
            if partition not in self._links:
                self._want(partition, urgent=False)

    # --- the state of a partition ---

    def _serves(self, partition: int) -> bool:
        info = self.context.metadata.partition(OFFSETS_TOPIC, partition)
        return info is not None and self.context.leads(OFFSETS_TOPIC, partition, info)

    def _has_records(self, partition: int) -> bool:
        found = self.context.data_dir.logs.get((OFFSETS_TOPIC, partition))
        return found is not None and found.log_end_offset > 0

    def _unavailable(self, partition: int) -> ErrorCode:
        """Why a partition's shard cannot be asked now; NONE if it can. One that should be here is started."""
        if OFFSETS_TOPIC not in self.context.metadata.topics:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self._serves(partition):
            return ErrorCode.NOT_COORDINATOR
        link = self._links.get(partition)
        if link is not None and link.active:
            return ErrorCode.NONE
        self._want(partition, urgent=True)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _want(self, partition: int, *, urgent: bool) -> None:
        if partition in self._links:
            return
        if partition in self._waiting:
            if urgent and self._waiting[0] != partition:
                self._waiting.remove(partition)
                self._waiting.appendleft(partition)
        elif urgent:
            self._waiting.appendleft(partition)
        else:
            self._waiting.append(partition)
        self._match()

    def _match(self) -> None:
        while self._waiting and self._spares:
            self._become(self._spares.pop(0), self._waiting.popleft())
        missing = len(self._waiting) + self._spare_target - len(self._spares)
        if missing > 0 and not self.closed:
            self._want_spares(missing)

    def _become(self, link: ShardLink, partition: int) -> None:
        info = self.context.metadata.partition(OFFSETS_TOPIC, partition)
        if info is None or info.leader != self.context.broker_id:
            self._spares.append(link)
            return
        link.partition, link.epoch = partition, info.leader_epoch
        link.last_heard = self.context.loop.time()
        self._links[partition] = link
        try:
            self._begin_load(link, info.leader_epoch)
        except _LOAD_ERRORS:
            self._load_failed(link)

    def _begin_load(self, link: ShardLink, epoch: int) -> None:
        partition = link.partition
        partition_log = self.context.log(OFFSETS_TOPIC, partition)
        link.load_offset = partition_log.log_start_offset
        link.load_end = partition_log.log_end_offset
        settings = {"config": _group_settings(self.context.config), "topics": self._topics_list()}
        link.protocol.send(Kind.BECOME, partition, epoch, msgpack.packb(settings))
        link.pieces_wanted = _LOAD_WINDOW
        self._read_piece(link)

    def _read_piece(self, link: ShardLink) -> None:
        """Read the next piece off the loop, one at a time: a cold disk may take its time over megabytes."""
        if link.load_offset < 0:
            return
        partition_log = self.context.log(OFFSETS_TOPIC, link.partition)
        if link.load_offset >= link.load_end:
            link.load_offset = -1
            link.protocol.send(Kind.LOADED, link.partition, link.load_end)
            link.protocol.send(Kind.HIGH_WATERMARK, 0, partition_log.high_watermark)
            return
        extent = partition_log.locate(link.load_offset, self._load_bytes, link.load_end)
        if extent is None:
            raise RuntimeError(f"{partition_log.directory}: nothing at {link.load_offset} of {link.load_end}")
        link.reading = self.context.loop.run_in_executor(None, extent.read)
        link.reading.add_done_callback(partial(self._piece_read, link, extent.next_offset))

    def _piece_read(self, link: ShardLink, next_offset: int, read: asyncio.Future[bytes]) -> None:
        if link.reading is not read or self.closed:
            return  # for a partition the link has given up meanwhile
        link.reading = None
        try:
            link.protocol.send(Kind.LOAD, link.partition, 0, read.result())
            link.load_offset = next_offset
            link.pieces_wanted -= 1
            if link.pieces_wanted > 0:
                self._read_piece(link)
        except _LOAD_ERRORS:
            self._load_failed(link)

    def _load_failed(self, link: ShardLink) -> None:
        """The log cannot be read now. The next request of a client tries again, not we in a circle."""
        log.exception("offsets partition %d cannot be loaded", link.partition)
        self._resign(link)

    def _resign(self, link: ShardLink) -> None:
        """What the process owed is answered for it; it becomes a spare again once it has said HELLO.

        Until then it may still send what it meant for the partition, and that must not reach another one.
        """
        self._drop(link)
        link.protocol.send(Kind.RESIGN)

    def _drop(self, link: ShardLink) -> None:
        if link.partition >= 0:
            self._links.pop(link.partition, None)
            log.info("offsets partition %d: shard pid %d no longer serves", link.partition, link.pid)
        link.partition = -1
        link.active = False
        link.reading = None
        link.opened.clear()
        owed, link.pending = link.pending, {}
        for waiter, frame in owed.values():
            self._answer(waiter, frame, ErrorCode.NOT_COORDINATOR)
        for connection in self._holding.pop(link, ()):
            connection.release()
        self._flush()

    def _answer(self, waiter: Slot | Question, frame: bytes, code: ErrorCode) -> None:
        answer = error_answer(decode_request_header(frame), frame, code)
        if isinstance(waiter, Question):
            _tell(waiter, answer)
        else:
            waiter.finish(answer)
            self._dirty.add(waiter.queue.connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for connection in dirty:
            connection.flush()

    def _slot_id(self) -> int:
        self._next_slot += 1
        return self._next_slot

    # --- the relay ---

    def accept(self) -> RelayProtocol:
        """A protocol for a process that connects; the Unix server's factory."""
        protocol = RelayProtocol(
            self.context.loop,
            self._on_message,
            self._on_turn,
            self._on_lost,
            self._on_backlog,
            self.context.config.integer("coterie.relay.queue.max.bytes"),
        )
        self._by_protocol[protocol] = ShardLink(protocol, self.context.loop.time())
        return protocol

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        link = self._by_protocol[protocol]
        if kind == Kind.RESPONSE:
            waiter = link.pending.pop(b, None)
            if waiter is None:
                return  # the client has gone
            slot = waiter[0]
            if isinstance(slot, Slot):
                if not payload:  # the shard could not make sense of it
                    slot.queue.connection.close("a malformed group request")
                    return
                slot.finish(payload)
                self._dirty.add(slot.queue.connection)
            else:
                _tell(slot, payload)
        elif kind == Kind.APPEND:
            self._append(link, a, b, payload)
        elif kind == Kind.LOAD_MORE:
            if a == link.partition:
                link.pieces_wanted += 1
                if link.reading is None:
                    try:
                        self._read_piece(link)
                    except _LOAD_ERRORS:
                        self._load_failed(link)
        elif kind == Kind.ACTIVE:
            if a == link.partition:
                link.active = True
                log.info("offsets partition %d: shard pid %d serves", a, link.pid)
        elif kind == Kind.PONG:
            link.figures = msgpack.unpackb(payload)
        elif kind == Kind.HELLO:
            hello = msgpack.unpackb(payload)
            link.pid = hello["pid"]
            self._spares.append(link)
            self._match()

    def _append(self, link: ShardLink, partition: int, number: int, batch: bytes) -> None:
        """The one place where group state reaches the disk. Only the partition's present shard, at its epoch, may."""
        if link.partition != partition:
            return  # sent before it heard that it must resign; it has forgotten by now
        info = self.context.metadata.partition(OFFSETS_TOPIC, partition)
        if info is None or info.leader_epoch != link.epoch or not self._serves(partition):
            link.protocol.send(Kind.REFUSED, _REFUSED_APPEND, number)
            return
        if len(info.isr) < self.context.min_insync_replicas(OFFSETS_TOPIC):
            link.protocol.send(Kind.REFUSED, ErrorCode.NOT_ENOUGH_REPLICAS, number)
            return
        try:
            partition_log = self.context.log(OFFSETS_TOPIC, partition)
            result = partition_log.append_as_leader(batch, info.leader_epoch, self.context.now_ms())
        except LogError as error:
            link.protocol.send(Kind.REFUSED, int(error.error_code), number)
            return
        except OSError as error:
            # Out of here it would end the relay: the shard would load again and run into it again, in a circle.
            log.error("%s-%d: %s", OFFSETS_TOPIC, partition, error)
            link.protocol.send(Kind.REFUSED, ErrorCode.KAFKA_STORAGE_ERROR, number)
            return
        next_offset = result.last_offset + 1
        payload = result.base_offset.to_bytes(8, "big") + next_offset.to_bytes(8, "big")
        link.protocol.send(Kind.APPENDED, partition, number, payload)
        self.context.appended(OFFSETS_TOPIC, partition, partition_log, info)
        if len(info.replicas) == 1:  # else it is told when the followers have it
            link.protocol.send(Kind.HIGH_WATERMARK, 0, partition_log.high_watermark)

    def watermark(self, partition: int, offset: int) -> None:
        """All of a partition's log below `offset` has committed."""
        link = self._links.get(partition)
        if link is not None:
            link.protocol.send(Kind.HIGH_WATERMARK, 0, offset)

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self._by_protocol[protocol].last_heard = self.context.loop.time()
        self._flush()

    def _on_lost(self, protocol: RelayProtocol) -> None:
        link = self._by_protocol.pop(protocol)
        if link in self._spares:
            self._spares.remove(link)
        partition = link.partition
        self._drop(link)
        if self.closed:
            return
        if partition >= 0:
            log.warning("offsets partition %d: shard pid %d has died", partition, link.pid)
            if self._serves(partition):
                self._want(partition, urgent=True)
        self._match()

    def _on_backlog(self, protocol: RelayProtocol, full: bool) -> None:
        """The shard's queue is full: clients that send to it are not read until it has drained."""
        link = self._by_protocol[protocol]
        if full:
            self._holding.setdefault(link, [])
        else:
            for connection in self._holding.pop(link, ()):
                connection.release()

    def tick(self) -> None:
        """Once in a while: ping the shards, and end one that has been silent for too long."""
        now = self.context.loop.time()
        stalled = now - self._last_tick > self._silence_s / 2  # then it is us who were silent
        self._last_tick = now
        for link in list(self._by_protocol.values()):
            silent = now - link.last_heard
            # One that loads is busy, one that is starved of CPU is not hung: killing it would only cost more CPU.
            if stalled or silent <= self._silence_s:
                patient = True
            else:
                patient = silent <= _PATIENCE * self._silence_s and (not link.active or _wants_cpu(link.pid))
            if not patient:
                log.warning("offsets partition %d: shard pid %d silent, killed", link.partition, link.pid)
                link.protocol.close()
                _kill(link.pid)
            else:
                link.protocol.send(Kind.PING)
        self._match()  # also asks again for spares, should the controller not have heard
        self._end_surplus(now)

    def _end_surplus(self, now: float) -> None:
        """Processes that came from another broker, or resigned, are kept for a while: one may be needed again soon."""
        surplus = len(self._spares) - self._spare_target
        if surplus <= 0 or self._waiting:
            self._surplus_since = now
        elif now - self._surplus_since > _SURPLUS_SECONDS:
            for link in self._spares[-surplus:]:
                link.protocol.send(Kind.END)

    def _topics_list(self) -> list[list[Any]]:
        return [[t.name, t.id, len(t.partitions)] for t in self.context.metadata.topics.values()]

    def _topics_payload(self) -> bytes:
        payload: bytes = msgpack.packb(self._topics_list())
        return payload

    def status(self) -> list[ShardStatus]:
        """The shards this broker has, spares last."""
        rows = []
        for partition, link in sorted(self._links.items()):
            info = self.context.metadata.partition(OFFSETS_TOPIC, partition)
            state = "Active" if link.active else "Loading"
            rows.append(ShardStatus(partition, link.pid, state, info.leader_epoch if info else -1, link.figures))
        rows += [ShardStatus(-1, link.pid, "Spare", -1) for link in self._spares]
        return rows

    def close(self) -> None:
        """Hang up on every shard."""
        self.closed = True
        for protocol in list(self._by_protocol):
            protocol.close()


def _group_settings(config: BrokerConfig) -> dict[str, int]:
    """The settings a shard goes by, named as in CoordinatorConfig."""
    keys = {"max_message_bytes": "message.max.bytes"}
    return {f.name: config.integer(keys.get(f.name, f.name.replace("_", "."))) for f in fields(CoordinatorConfig)}


def _tell(question: Question, frame: bytes) -> None:
    """Hand an answer to whoever asked. What goes wrong there is not the shard's fault: its link stays."""
    try:
        question.done(decode_response(question.response, question.version, frame[4:])[1])
    except Exception:
        log.exception("an answer to %s could not be used", question.response.__name__)


def _wants_cpu(pid: int) -> bool:
    """Whether any thread of a process is runnable, or waits for a disk, rather than asleep or stopped (proc(5))."""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return False
    return any(stat.rpartition(")")[2].split()[0] in ("R", "D") for stat in stats)


def _kill(pid: int) -> None:
    if pid > 0:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            log.debug("pid %d had already gone", pid)
