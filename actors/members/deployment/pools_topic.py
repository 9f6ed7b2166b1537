"""The topic `__coterie_pools` at the brokers: made when it is needed, read to its end, followed, written.

It has one partition, so that all see the records in one order. On a Ray without the brokers, whoever may write to it
has code run there (`home`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.admin.types import ConfigResource, NewTopic
from actors.client.errors import (
    KafkaTimeoutError,
    MessageTooLargeError,
    TopicAlreadyExistsError,
    TopicAuthorizationError,
)
from actors.members.deployment.book import Book
from actors.members.deployment.names import TOPIC
from actors.members.deployment.records import Record, encode, key_of
from actors.members.pools.plan import PoolError
from actors.runtime.environment import REAL, Environment
from actors.wire.config_resources import ConfigResourceType

_PARTITION: Final = TopicPartition(TOPIC, 0)
_READ_MS: Final = 60_000
_STEP_MS: Final = 500
_ROOM_BYTES: Final = 1 << 20  # beside the longest value
_WAIT_MS: Final = 5_000


class PoolsTopic:
    """The topic of one Kafka cluster. `settings` are those of a client's logins and TLS.

    Methods raise KafkaError if the brokers do not answer.
    """

    def __init__(self, bootstrap_servers: str, environment: Environment = REAL, **settings: Any) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": "coterie-pools",
            "allow_auto_create_topics": False,
            **settings,
        }
        self._environment = environment

    # --- the cluster ---

    def cluster_id(self) -> str:
        """The id of the Kafka cluster; "" if its brokers give none."""
        with self._admin() as admin:
            return admin.describe_cluster().cluster_id or ""

    def exists(self) -> bool:
        """True if the topic exists."""
        with self._admin() as admin:
            return TOPIC in admin.list_topics()

    def create(self) -> None:
        """Make the topic if there is none. Raises PoolError if there is one that would forget pools."""
        with self._admin() as admin:
            if TOPIC not in admin.list_topics():
                wanted = NewTopic(TOPIC, 1, topic_configs={"cleanup.policy": "compact"})
                with contextlib.suppress(TopicAlreadyExistsError):  # two programs have wanted it
                    admin.create_topics([wanted])
                return
            with contextlib.suppress(TopicAuthorizationError):  # a program that may write need not know its settings
                policy = _config(admin, "cleanup.policy")
                if policy != "compact":
                    why = f"must have cleanup.policy=compact, and has {policy}: it would forget pools"
                    raise PoolError(f"topic {TOPIC} {why}")

    def _admin(self) -> Admin:
        return Admin(environment=self._environment, **self._settings)

    # --- reading ---

    def read(self) -> Book:
        """All pools, up to what is written now."""
        if not self.exists():
            return Book()
        with self.follow() as following:
            return following.book

    @contextlib.contextmanager
    def follow(self, only: str | None = None) -> Iterator[Following]:
        """Yield a Following of all pools, or of the one called `only`, that has read all records written by now.

        Raises KafkaError if the topic does not exist.
        """
        settings = {
            **self._settings,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": _WAIT_MS,  # nothing comes for days
        }
        with contextlib.closing(Consumer(environment=self._environment, **settings)) as consumer:
            yield Following.at_end(consumer, self._environment, only)

    # --- writing ---

    def write(self, name: str, *records: Record) -> int:
        """Write records of a pool in this order. Returns the offset of the last, when all are safe.

        Raises PoolError if one makes no sense, or is too long for the topic.
        """
        for record in records:
            record.check()
        return self._send((key_of(name, record), encode(record)) for record in records)

    def remove(self, keys: Iterable[bytes]) -> None:
        """Have these keys forgotten, in this order."""
        self._send((key, None) for key in keys)

    def _send(self, wanted: Iterable[tuple[bytes, bytes | None]]) -> int:
        pairs = list(wanted)
        size = sum(len(value or b"") for _, value in pairs)
        room = size + _ROOM_BYTES
        settings = {**self._settings, "max_request_size": room, "buffer_memory": 2 * room, "compression_type": "gzip"}
        with Producer(environment=self._environment, **settings) as producer:
            try:
                # One after the other: a batch of its own for each, or together they might be too long.
                for key, value in pairs:
                    offset: int = producer.send(TOPIC, value, key=key, partition=0).get().offset
            except MessageTooLargeError:
                raise PoolError(self._too_long(size)) from None
        return offset

    def _too_long(self, size: int) -> str:
        with self._admin() as admin:
            limit = _config(admin, "max.message.bytes")
        return (
            f"the handler and its arguments take {size} bytes, and even compressed more than max.message.bytes={limit} "
            f"of topic {TOPIC}: raise that, or have the handler load what is large in its setup"
        )


class Following:
    """The pools of the topic as its records come. `book` has all that was written by the end of the last `poll`."""

    def __init__(self, consumer: Consumer, only: str | None = None) -> None:
        self.book = Book(only)
        self._consumer = consumer

    @classmethod
    def at_end(cls, consumer: Consumer, environment: Environment, only: str | None = None) -> Self:
        """Read what has been written by now."""
        deadline = environment.clock.monotonic_ms() + _READ_MS
        # Before anything is fetched: the answer would wait behind that of a fetch which waits for records.
        end = consumer.end_offsets([_PARTITION])[_PARTITION]
        consumer.assign([_PARTITION])
        made = cls(consumer, only)
        while consumer.position(_PARTITION) < end:
            if environment.clock.monotonic_ms() > deadline:
                raise KafkaTimeoutError(f"{TOPIC} could not be read to its end within {_READ_MS // 1000} s")
            made.poll(_STEP_MS)
        return made

    def poll(self, timeout_ms: int) -> set[str]:
        """Wait for more records, and take them in. Returns the pools that they are about."""
        polled = self._consumer.poll(timeout_ms=timeout_ms)
        found = (record for records in polled.values() for record in records)
        return {self.book.apply(record.offset, record.key or b"", record.value) for record in found}


def _config(admin: Admin, name: str) -> str | None:
    topic = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    (found,) = admin.describe_configs([topic], [name]).values()
    return found[name].value if name in found else None
