"""The relay between a broker and its shards: frames of many clients over one Unix socket, written once a turn.

A message is `length u32, kind u8, a u32, b u64, payload`; `Kind` says what a and b mean. A payload is bytes that
are passed on as they are, or one of the dataclasses below, encoded by `PAYLOADS`. Both ends use `RelayProtocol`, and
hand it a function that deals with messages. The broker says first which `versions` it speaks, the shard in its HELLO.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias, cast

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import MaySleepResponse
from actors.links.codec import Codec, since
from actors.links.group_status import GROUP_CLASSES, GROUP_CLASSES_SINCE, WITHOUT_TAG, ClassicStatus, GroupReport
from actors.links.known_topics import DeletedTopics, KnownTopics, TopicLeaders, TopicNames, TopicRacks, TopicRow
from actors.links.rebalances import Rebalances
from actors.links.versions import OWN, UNTOLD, Spoken, common, decoded, encoded, none_in_common
from actors.wire.gathering import Gathering

log = logging.getLogger(__name__)

HEAD = struct.Struct(">IBIQ")
_BODY_HEAD = HEAD.size - 4
OFFSETS = struct.Struct(">QQ")
"""The payload of APPENDED: one for each append, so that it is not worth a dataclass."""
RELAY_QUEUE_MAX_BYTES = 8 << 20


class Kind(IntEnum):
    """The kinds of messages. `a` and `b` are 0 in kinds that do not mention them."""

    HELLO = 1  # shard -> broker; a is the range of versions it speaks (`packed_range`); payload: Greeting
    BECOME = 2  # broker -> shard: host partition a at leader epoch b; payload: what its kind says; of groups Assignment
    LOAD = 3  # broker -> shard: a piece of the partition's log; payload: record batches
    LOADED = 4  # broker -> shard: that was all; b is the log end offset
    ACTIVE = 5  # shard -> broker: partition a serves
    OPEN = 6  # broker -> shard: connection a has come; payload: the peer's address
    CLOSE = 7  # broker -> shard: connection a has gone
    REQUEST = 8  # broker -> shard: slot b of connection a; payload: a request frame without its length
    RESPONSE = 9  # shard -> broker: slot b; payload: a whole response frame
    APPEND = 10  # shard -> broker: append number b; payload: one record batch
    APPENDED = 11  # broker -> shard: append number b; payload: base and next offset (`OFFSETS`)
    REFUSED = 12  # broker -> shard: append number b was refused with error a; nothing was written
    HIGH_WATERMARK = 13  # broker -> shard: all below offset b has committed
    TOPICS = 14  # broker -> shard: the topics have changed; payload: KnownTopics
    PING = 15  # broker -> shard
    PONG = 16  # shard -> broker; payload: Figures
    RESIGN = 17  # broker -> shard: you are a spare again
    LOAD_MORE = 18  # shard -> broker: send the next piece
    END = 19  # broker -> shard: this process is not needed; payload: none
    DESCRIBE = 20  # broker -> shard: question b; payload: a group's id
    DESCRIBED = 21  # shard -> broker: answer to question b; payload: a GroupStatus, or nothing if there is no group
    MAY_SLEEP = 22  # broker -> shard: question b: does partition a need a process now?
    RESTS = 23  # shard -> broker: answer to question b about partition a; payload: MaySleepResponse
    TOPICS_DELETED = 24  # broker -> shard that loads partition a: deleted since it was served; payload: DeletedTopics
    REBALANCES = 25  # shard -> broker, before a PONG, if there is something to tell; payload: Rebalances
    LOG_LEVELS = 26  # broker -> shard: levels of loggers have changed; payload: ChangedLevels
    HOST = 27  # broker -> shard, before BECOME: what it is to host; payload: the name of a kind of coordinator
    VERSIONS = 28  # broker -> shard, before anything else; payload: what the broker speaks (`versions`)
    SETTINGS = 29  # broker -> shard: settings have changed; payload: what its kind says; of groups ConsumerSettings
    MATCHED = 30  # shard -> broker: question b: which of these may connection a describe? payload: TopicNames
    VISIBLE = 31  # broker -> shard: answer to question b; payload: TopicNames, or nothing if the client has gone


@dataclass(frozen=True, slots=True)
class Greeting:
    """A shard process, the version of the code it runs, and the name that its launcher knows it by."""

    pid: int
    code_version: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChangedLevels:
    """Python's level of each logger of the broker that was changed while it ran; 0 if it inherits."""

    levels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The settings for a shard that is to host an offsets partition, and all topics of the cluster."""

    config: CoordinatorConfig
    topics: tuple[TopicRow, ...]
    consumer: ConsumerSettings = since(1, ConsumerSettings())
    topics_version: int = since(1, 0)
    """Of the metadata that has these topics."""
    racks: tuple[TopicRacks, ...] = since(1, ())
    leaders: tuple[TopicLeaders, ...] = since(1, ())

    @property
    def known_topics(self) -> KnownTopics:
        return KnownTopics(self.topics, self.topics_version, self.racks, self.leaders)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a shard process since its start, and what it holds. `state` is None if it hosts no partition."""

    requests: int = 0
    state: str | None = None
    groups: Mapping[str, int] = field(default_factory=dict)
    """The number of groups in each state, of all types together."""
    offsets: int = 0
    """Partitions that have a committed offset."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """The counters of `coordinator/metrics.py`, by name."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Answers with an error since the process hosts the partition, by API key."""
    parked: Mapping[str, int] = field(default_factory=dict)
    """Members that wait for an answer, by the request: of classic groups `join` and `sync`."""
    group_types: Mapping[str, Mapping[str, int]] = field(default_factory=dict, metadata={"since": 1})
    """The number of groups in each state, by the names of their types."""


Payload: TypeAlias = (
    Greeting
    | Assignment
    | ConsumerSettings
    | KnownTopics
    | DeletedTopics
    | TopicNames
    | MaySleepResponse
    | Figures
    | GroupReport
    | Rebalances
    | ChangedLevels
)

PAYLOADS: Codec[Payload] = Codec(
    "relay",
    {
        Kind.HELLO: Greeting,
        Kind.BECOME: Assignment,
        Kind.TOPICS: KnownTopics,
        Kind.TOPICS_DELETED: DeletedTopics,
        Kind.RESTS: MaySleepResponse,
        Kind.PONG: Figures,
        Kind.DESCRIBED: ClassicStatus,
        Kind.REBALANCES: Rebalances,
        Kind.LOG_LEVELS: ChangedLevels,
        Kind.SETTINGS: ConsumerSettings,
        Kind.MATCHED: TopicNames,
        **GROUP_CLASSES,
    },
    since={ConsumerSettings: 1, TopicNames: 1, **GROUP_CLASSES_SINCE},
    without_tag=WITHOUT_TAG,
)


class ForAll:
    """A payload for several shards, encoded once for each version that is used with one of them."""

    __slots__ = ("_encoded", "message")

    def __init__(self, message: Payload) -> None:
        self.message = message
        self._encoded: dict[int, bytes] = {}

    def at(self, version: int) -> bytes:
        """The bytes for an end with which this version is used."""
        found = self._encoded.get(version)
        if found is None:
            found = self._encoded[version] = PAYLOADS.encode(self.message, version)
        return found


def packed_range(spoken: Spoken) -> int:
    """A range of versions in 32 bits; 0 is the range of builds that say nothing."""
    return spoken.first << 16 | spoken.last


class RelayProtocol(asyncio.Protocol):
    """One end of the link. `send` queues; everything queued in one turn of the loop leaves in one write.

    `spoken` are the versions that this end speaks. The end that `accepts`, the broker's, says so at once.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[RelayProtocol, int, int, int, bytes], None],
        on_turn: Callable[[RelayProtocol], None],
        on_lost: Callable[[RelayProtocol], None],
        is_ours: Callable[[asyncio.BaseTransport], bool],
        on_backlog: Callable[[RelayProtocol, bool], None] | None = None,
        queue_max_bytes: int = RELAY_QUEUE_MAX_BYTES,
        *,
        accepts: bool = False,
        spoken: Spoken = OWN,
    ) -> None:
        self._accepts = accepts
        self._own = spoken
        self._us, self._them = ("broker", "shard") if accepts else ("shard", "broker")
        self._unknown: set[int] = set()  # kinds of messages that were refused, each said once
        self.spoken = UNTOLD
        """The versions that the other end speaks."""
        self.version: int | None = None
        """The version that both ends use; None before the other end has said what it speaks."""
        self._is_ours = is_ours
        self._queue_max_bytes = queue_max_bytes
        self._loop = loop
        self._on_message = on_message
        self._on_turn = on_turn
        self._on_lost = on_lost
        self._on_backlog = on_backlog
        self.transport: asyncio.Transport | None = None
        self._closed = False
        self._out: list[bytes] = []
        self._scheduled = False
        self._gathering = Gathering()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self._closed:
            self.transport.abort()
            return
        if not self._is_ours(transport):
            log.error("hung up on a process of another user at the relay's socket")
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(high=self._queue_max_bytes, low=self._queue_max_bytes // 4)
        if self._accepts:
            self.send(Kind.VERSIONS, payload=encoded(self._own))

    def greeted(self, range_packed: int, build: str) -> bool:
        """The shard has said which versions it speaks, and its build. See `meet`."""
        first, last = range_packed >> 16, range_packed & 0xFFFF
        return self.meet(Spoken(first, last, build))

    def told(self, payload: bytes) -> bool:
        """The broker has said which versions it speaks. See `meet`. Raises LinkError."""
        return self.meet(decoded(payload))

    def meet(self, other: Spoken) -> bool:
        """Use the highest version that both ends speak. False if there is none, and the link ends."""
        self.spoken, self.version = other, common(self._own, other)
        if self.version is None:
            log.error("hung up: %s", none_in_common(self._us, self._own, self._them, other))
            self.flush()
            self.close()
        return self.version is not None

    def refuse(self, kind: int) -> None:
        """A message of a kind that is not known here has come. It is dropped, and said once."""
        if kind not in self._unknown:
            self._unknown.add(kind)
            text = "refused a message of kind %d of the relay: the %s %s, this %s %s"
            log.error(text, kind, self._them, self.spoken, self._us, self._own)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        if self._on_backlog:
            self._on_backlog(self, True)

    def resume_writing(self) -> None:
        if self._on_backlog:
            self._on_backlog(self, False)

    def data_received(self, data: bytes) -> None:
        data = self._gathering.whole(data)
        if not data:
            return
        position, size = 0, len(data)
        head, unpack, on_message = HEAD.size, HEAD.unpack_from, self._on_message
        need = head
        while size - position >= head:
            length, kind, a, b = unpack(data, position)
            end = position + 4 + length
            if end > size:
                need = 4 + length
                break
            on_message(self, kind, a, b, data[position + head : end])
            position = end
        if position < size:
            self._gathering.keep(data[position:], need)
        self._on_turn(self)

    def send(self, kind: int, a: int = 0, b: int = 0, payload: bytes = b"") -> None:
        """Queue one message; it leaves at the end of this turn of the loop."""
        out = self._out
        out.append(HEAD.pack(_BODY_HEAD + len(payload), kind, a, b))
        if payload:
            out.append(payload)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def say(self, kind: int, payload: Payload | ForAll, a: int = 0, b: int = 0) -> None:
        """Queue one message, its payload in the version that both ends use; the lowest as long as that is not known."""
        version = self.version or 0
        self.send(kind, a, b, payload.at(version) if isinstance(payload, ForAll) else PAYLOADS.encode(payload, version))

    def flush(self) -> None:
        """Write what is queued."""
        self._scheduled = False
        out, self._out = self._out, []
        if self.transport is not None and out:
            self.transport.write(b"".join(out))

    def close(self) -> None:
        """End the link at once; one that is still being made, as soon as it is."""
        self._closed = True
        if self.transport is not None:
            self.transport.abort()
