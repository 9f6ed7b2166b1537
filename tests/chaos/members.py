"""Members of groups in a chaos run, of confluent-kafka's client and of our own, of either group protocol.

Each handles records, commits what it has handled, and writes down what it takes and gives up, and what was committed.
One that changes over closes its consumer after a while, and goes on with one of the other protocol.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import struct
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException

from actors.client import Consumer, ConsumerRebalanceListener, TopicPartition
from actors.client.errors import KafkaError
from tests.chaos.history import History
from tests.chaos.load import Load
from tests.support.librdkafka import KEEPS_BROKERS

CLASSIC, CONSUMER = "classic", "consumer"
_WARNING = 4
"""A level of syslog, as librdkafka uses them."""


@dataclass(frozen=True, slots=True)
class Role:
    """The group of a member, and the protocols that it speaks: one after another, each for `life_s`."""

    group: str
    protocols: tuple[str, ...] = (CLASSIC,)
    life_s: float = float("inf")


class Member(Load):
    """A member that writes down what it does, whichever client it has."""

    def __init__(self, name: str, history: History, servers: str, topic: str, role: Role) -> None:
        super().__init__(name, history, servers)
        self.topic, self.role = topic, role
        self._until = 0.0
        self._heard: tuple[str, int] = "", 0

    def run(self) -> None:
        for protocol in itertools.cycle(self.role.protocols):
            self._until = time.monotonic() + self.role.life_s
            self.live(protocol)
            self._note("left")
            if self.stopping.is_set():
                return

    @abstractmethod
    def live(self, protocol: str) -> None:
        """Work with one consumer, until it is to stop or to change over."""

    @property
    def goes_on(self) -> bool:
        """True while the current consumer is to go on."""
        return not self.stopping.is_set() and time.monotonic() < self._until

    def _note(self, event: str, **more: Any) -> None:
        self.history.note(event, client=self.name, group=self.role.group, **more)

    def took(self, partitions: Iterable[int]) -> None:
        """It uses these from now on."""
        self._note("took", partitions=sorted(partitions))

    def gave(self, partitions: Iterable[int]) -> None:
        """It uses these no more."""
        self._note("gave", partitions=sorted(partitions))

    def lost(self, partitions: Iterable[int]) -> None:
        """Its membership has ended without its doing."""
        self._note("lost", partitions=sorted(partitions))

    def timed_out(self, silence_s: float) -> None:
        """Its client gives its membership up by itself: for so long no coordinator has answered it."""
        self._note("timed_out", silence_s=silence_s)

    def handled(self, partition: int, offsets: list[int]) -> None:
        self._note("handled", partition=partition, offsets=offsets)

    def heard(self, member_id: str, epoch: int) -> None:
        """It is this member of a consumer group, and its client knows of this epoch. Called after each poll.

        librdkafka may know of it for a moment longer than it is a member: that is not noted again.
        """
        if epoch > 0 and self._heard != (member_id, epoch):
            self._heard = member_id, epoch
            self._note("heard", member=member_id, epoch=epoch)

    def kept(self, offsets: Mapping[int, int]) -> None:
        """A commit was acknowledged."""
        self._note("kept", offsets={str(partition): offset for partition, offset in offsets.items()})


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: OwnMember, consumer: Consumer) -> None:
        self._member, self._consumer = member, consumer

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._member.took(tp.partition for tp in assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        with contextlib.suppress(KafkaError):
            self._consumer.commit(timeout_ms=5000)
        self._member.gave(tp.partition for tp in revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._member.lost(tp.partition for tp in lost)


class OwnMember(Member):
    """Our own client."""

    def live(self, protocol: str) -> None:
        assignors = {"partition_assignment_strategy": ["range"]} if len(self.role.protocols) > 1 else {}
        with Consumer(
            bootstrap_servers=self.servers,
            group_id=self.role.group,
            client_id=self.name,
            group_protocol=protocol,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **(assignors if protocol == CLASSIC else {}),
        ) as consumer:
            consumer.subscribe([self.topic], listener=_Listener(self, consumer))
            while self.goes_on:
                for tp, records in consumer.poll(200).items():
                    self.handled(tp.partition, [record.offset for record in records])
                if protocol == CONSUMER:
                    known = consumer.group_metadata()
                    self.heard(known.member_id, known.generation_id)
                with contextlib.suppress(KafkaError):
                    consumer.commit_async(callback=self._committed)

    def _committed(self, offsets: Mapping[TopicPartition, Any], error: BaseException | None) -> None:
        if error is None:
            self.kept({tp.partition: meta.offset for tp, meta in offsets.items()})


def epoch_of(metadata: bytes) -> tuple[str, int]:
    """The member id and the epoch that librdkafka's opaque metadata of a group has: magic, epoch, and three texts."""
    magic = b"CGMDv2:"
    if not metadata.startswith(magic):
        raise ValueError(f"metadata of a group of another version: {metadata!r}")
    (epoch,) = struct.unpack_from("=i", metadata, len(magic))
    _, member_id, _ = metadata[len(magic) + 4 :].split(b"\0", 2)
    return member_id.decode(), epoch


class _Timeouts(logging.Handler):
    """Hears librdkafka say that its session has timed out without an answer, and after how many milliseconds."""

    _SAID = re.compile(r"session timed out .* after (\d+) ms without a successful response")

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member

    def emit(self, record: logging.LogRecord) -> None:
        if said := self._SAID.search(record.getMessage()):
            self._member.timed_out(int(said[1]) / 1000)


def _logger(member: Member) -> logging.Logger:
    logger = logging.Logger(member.name)  # without a parent: other lines of librdkafka are not wanted
    logger.addHandler(_Timeouts(member))
    return logger


class ConfluentMember(Member):
    """confluent-kafka's client. librdkafka may repeat an older commit after a newer one, if several are under way."""

    _is_committing = False

    def live(self, protocol: str) -> None:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.role.group,
                "client.id": self.name,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "on_commit": self._committed,
                "log_level": _WARNING,
                "socket.timeout.ms": 10_000,  # else a host that falls silent is waited for longer than a session
                **KEEPS_BROKERS,
            },
            logger=_logger(self),
        )
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.took(p.partition for p in partitions),
            on_revoke=self._revoked,
            on_lost=lambda _, partitions: self.lost(p.partition for p in partitions),
        )
        while self.goes_on:
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self.handled(message.partition(), [message.offset()])
            if protocol == CONSUMER:
                self.heard(*epoch_of(consumer.consumer_group_metadata()))
            if not self._is_committing:
                with contextlib.suppress(KafkaException):
                    consumer.commit(asynchronous=True)
                    self._is_committing = True
        consumer.close()
        self._is_committing = False

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self.gave(p.partition for p in partitions)

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        self._is_committing = False
        if error is None:
            self.kept({p.partition: p.offset for p in partitions if p.error is None and p.offset >= 0})
