"""The settings by which a member consumes, as they travel to its actor; and the errors that stop a member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from actors import CoterieError
from actors.client.by_default import by_default
from actors.client.config import (
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SECURITY_NAMES,
    consumer_config,
    producer_config,
    resolve,
)
from actors.links.member_deaths import Notes
from actors.runtime.process import error_text

BatchFormat = Literal["record", "records", "pyarrow"]
MAX_BATCH_RECORDS = 10_000  # a rebalance waits for the batch in hand
REVOKE_WAIT_MS = 20_000  # less than a pool's stop waits
DESERIALIZERS = ("key_deserializer", "value_deserializer")
_OURS = ("bootstrap_servers", "acks", "enable_idempotence", "key_serializer", "value_serializer", *SECURITY_NAMES)
_OF_THE_POOL = ("enable_auto_commit", "group_instance_id")


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """The settings by which a member consumes. `options` are those of actors.client.Consumer."""

    topics: tuple[str, ...]
    group_id: str
    bootstrap_servers: str
    batch_format: BatchFormat = "record"
    max_batch_records: int = MAX_BATCH_RECORDS
    batch_max_ms: int = 0
    """The milliseconds that a batch waits for more records; 0: not at all."""
    concurrency: int = 1
    """The number of records, or batches, that are handled at a time."""
    revoke_wait_ms: int = REVOKE_WAIT_MS
    """The milliseconds that a rebalance, or a stop, waits for what is handled side by side."""
    max_retries: int = 3
    retry_backoff_ms: int = 100
    dead_letter_topic: str | None = None
    handler_args: tuple[Any, ...] = ()
    producer_options: dict[str, Any] = field(default_factory=dict)
    """Settings of the producer of outputs and dead letters, such as compression_type."""
    setup_overlap: bool = True
    """True if a new version's member may be set up while the one before still works; of a deployed pool."""
    options: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    """Of a deployed pool, 1, 2, ...; 0 if it is none."""
    notes: Notes = field(default_factory=Notes)
    """The notes of the pool's records when the member is started; it hears of changes."""

    def problem(self) -> str | None:
        """The problem with these settings, in words, or None. Raises ConfigurationError for what clients refuse."""
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                return f"{name} must be at least {least}, got {getattr(self, name)}"
        if self.setup_overlap not in (True, False):
            return f"setup_overlap must be True or False, got {self.setup_overlap!r}"
        if self.batch_max_ms and self.batch_format == "record":
            return "batch_max_ms is for batches: set batch_format to 'records' or 'pyarrow'"
        for name in self.producer_options:
            if name in _OURS or name not in PRODUCER_SETTINGS:
                return f"producer_options: {name!r} is not to be set here"
        producer_config(self.producer_options)
        for name in _OF_THE_POOL:
            if name in self.options:
                return f"{name} is not to be set here: a pool's members have their own"
        consumer_config({name: value for name, value in self.options.items() if name not in DESERIALIZERS})
        return None

    @property
    def max_poll_interval_ms(self) -> int:
        """The milliseconds that a handler may run."""
        return self._consumers("max_poll_interval_ms")

    @property
    def session_timeout_ms(self) -> int:
        """The milliseconds for which its coordinator keeps a member that sends no heartbeat."""
        return self._consumers("session_timeout_ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """The milliseconds between two heartbeats of a member."""
        return self._consumers("heartbeat_interval_ms")

    @property
    def always_classic(self) -> bool:
        """True if its members speak the classic group protocol, whatever their brokers can."""
        return bool(by_default(self.options)["group_protocol"] == "classic")

    @property
    def auto_commit_interval_ms(self) -> int:
        """The milliseconds that the commit of handled records waits, at most, for the rest of a poll to be handled."""
        return self._consumers("auto_commit_interval_ms")

    def _consumers(self, name: str) -> int:
        """A setting of its consumer, given or by default."""
        given = {name: self.options[name]} if name in self.options else {}
        return int(resolve(CONSUMER_SETTINGS, given)[name])

    @property
    def side_by_side(self) -> bool:
        """True if polls go on while records are handled, or wait for more of their batch."""
        return self.concurrency > 1 or self.batch_max_ms > 0


_LEAST = {"max_batch_records": 1, "batch_max_ms": 0, "concurrency": 1, "revoke_wait_ms": 0, "max_retries": 0}


class HandlerFailedError(CoterieError):
    """The handler has raised for one record each time it was tried."""

    def __init__(self, topic: str, partition: int, offset: int, cause: BaseException) -> None:
        what = f"{type(cause).__name__}: {error_text(cause)}"
        super().__init__(f"the handler failed at {topic}-{partition} offset {offset}: {what}")
        self.topic, self.partition, self.offset = topic, partition, offset

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.topic, self.partition, self.offset, self.__cause__ or Exception(str(self))))


class OutputError(CoterieError):
    """A record that a handler produced was not acknowledged, so what it was made from is not committed."""
