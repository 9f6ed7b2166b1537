"""The settings of a client with their values, once these are checked. `config` has their tables, and the checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.client.net.security import Security


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of every client, and all of an Admin's. Names, units and meanings are those of the tables.

    `security` stands for those whose names begin with `security_`, `ssl_` and `sasl_`.
    """

    bootstrap_servers: str | list[str] | tuple[str, ...]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    metadata_max_age_ms: int
    allow_auto_create_topics: bool
    security: Security


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """The settings of a consumer. `group_protocol` is in lower case."""

    group_id: str | None
    group_instance_id: str | None
    group_instance_takeover: bool
    group_expected_members: int
    group_member_process: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    group_heartbeat_max_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: list[Any] | tuple[Any, ...]
    """Names of assignors, their classes and instances."""
    enable_auto_commit: bool
    """False without a group."""
    auto_commit_interval_ms: int
    auto_offset_reset: str
    client_rack: str
    isolation_level: str
    exclude_internal_topics: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    key_deserializer: Any
    value_deserializer: Any
    group_protocol: str
    group_remote_assignor: str | None

    @property
    def reads_committed(self) -> bool:
        """True if records of open and of aborted transactions are held back."""
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer. `acks` is a number, -1 for all; `compression_type` is "none" for none."""

    acks: int
    linger_ms: int
    batch_size: int
    compression_type: str
    enable_idempotence: bool
    """False where other settings rule it out."""
    retries: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    buffer_memory: int
    metadata_max_idle_ms: int
    max_block_ms: int
    max_request_size: int
    partitioner: Any
    key_serializer: Any
    value_serializer: Any
