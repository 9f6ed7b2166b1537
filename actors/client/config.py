"""The settings of the three clients: one table each, with type, default, range and meaning, and their checks."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.client.errors import ConfigurationError
from actors.client.group.assignors import BUILT_IN, Assignor
from actors.client.group.member_types import MembershipConfig
from actors.client.net.network import NetworkSettings, parse_bootstrap

_INT_MAX = 2**31 - 1
_INSTANCE_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `kind` is what its value must be; numbers have a range, words a choice. Times are in ms."""

    default: Any
    kind: Any
    doc: str
    low: int | None = None
    high: int | None = None
    choices: tuple[Any, ...] = ()
    check: Callable[[Any], str | None] | None = None


def _ms(default: int, doc: str, low: int = 0) -> Setting:
    return Setting(default, int, doc, low, _INT_MAX)


def _instance_id(value: str | None) -> str | None:
    if value is None or (_INSTANCE_ID.fullmatch(value) and value not in (".", "..")):
        return None
    return "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"


def _bootstrap(value: Any) -> str | None:
    try:
        parse_bootstrap(value)
    except ValueError as error:
        return str(error)
    return None


def _callable(value: Any) -> str | None:
    ok = value is None or callable(value) or hasattr(value, "serialize") or hasattr(value, "deserialize")
    return None if ok else "must be a function or have a serialize or deserialize method"


def _strategies(value: Any) -> str | None:
    for entry in value:
        name = entry if isinstance(entry, str) else getattr(entry, "name", None)
        is_class = isinstance(entry, type) and issubclass(entry, Assignor)
        if not (isinstance(entry, Assignor) or is_class or name in BUILT_IN):
            return f"has {entry!r}; known are {', '.join(BUILT_IN)} and instances of Assignor"
    return None


_TEXT: tuple[type, ...] = (str, type(None))
_FUNCTION = Setting(None, object, "How keys or values become bytes, or come out of them", check=_callable)

_COMMON: dict[str, Setting] = {
    "bootstrap_servers": Setting(
        "localhost:9092", (str, list, tuple), "HOST:PORT of some brokers, to find the others", check=_bootstrap
    ),
    "client_id": Setting("coterie", str, "A name for logs and quotas"),
    "request_timeout_ms": _ms(30_000, "How long one request may take"),
    "default_api_timeout_ms": _ms(60_000, "How long a call without a timeout of its own may take"),
    "retry_backoff_ms": _ms(100, "Wait before the first repeat; doubles with each"),
    "retry_backoff_max_ms": _ms(1_000, "The longest wait before a repeat"),
    "reconnect_backoff_ms": _ms(50, "Wait before the first new connection to a broker; doubles with each"),
    "reconnect_backoff_max_ms": _ms(1_000, "The longest wait before a new connection"),
    "socket_connection_setup_timeout_ms": _ms(10_000, "How long connecting may take", 1),
    "metadata_max_age_ms": _ms(300_000, "Metadata older than this is asked for again"),
    "allow_auto_create_topics": Setting(True, bool, "Whether asking for a topic may create it"),
}

CONSUMER_SETTINGS: dict[str, Setting] = _COMMON | {
    "group_id": Setting(None, _TEXT, "The group; needed to subscribe and to commit"),
    "group_instance_id": Setting(
        None, _TEXT, "Makes the member static: a restart within the session moves nothing", check=_instance_id
    ),
    "session_timeout_ms": _ms(45_000, "Without a heartbeat for so long, a member is out", 1),
    "heartbeat_interval_ms": _ms(3_000, "Time between heartbeats", 1),
    "max_poll_interval_ms": _ms(300_000, "Without a poll for so long, the member leaves", 1),
    "max_poll_records": Setting(500, int, "Most records of one poll", 1, _INT_MAX),
    "partition_assignment_strategy": Setting(
        ("range", "cooperative-sticky"), (list, tuple), "Assignors, the preferred one first", check=_strategies
    ),
    "enable_auto_commit": Setting(True, bool, "Commit what poll returned, now and then"),
    "auto_commit_interval_ms": _ms(5_000, "Time between such commits"),
    "auto_offset_reset": Setting(
        "latest", str, "Where to begin without a committed offset", choices=("latest", "earliest", "none")
    ),
    "client_rack": Setting("", str, "Where this client is, for rack-aware assignment"),
    "isolation_level": Setting(
        "read_uncommitted",
        str,
        "Whether records of open transactions are returned",
        choices=("read_uncommitted", "read_committed"),
    ),
    "exclude_internal_topics": Setting(True, bool, "Whether a pattern leaves internal topics out"),
    "fetch_min_bytes": Setting(1, int, "A fetch waits for so much", 0, _INT_MAX),
    "fetch_max_bytes": Setting(52_428_800, int, "Most bytes of one fetch, and of all that is fetched ahead", 1),
    "fetch_max_wait_ms": _ms(500, "How long a fetch waits for fetch_min_bytes"),
    "max_partition_fetch_bytes": Setting(1_048_576, int, "Most bytes of one partition in one fetch", 1, _INT_MAX),
    "check_crcs": Setting(True, bool, "Whether checksums of records are verified"),
    "key_deserializer": _FUNCTION,
    "value_deserializer": _FUNCTION,
    "group_protocol": Setting("classic", str, "Which group protocol to speak", choices=("classic",)),
}

PRODUCER_SETTINGS: dict[str, Setting] = _COMMON | {
    "acks": Setting("all", (int, str), "Who must have a record: 0 nobody, 1 the leader, all the in-sync replicas"),
    "linger_ms": _ms(0, "Wait so long for a batch to fill"),
    "batch_size": Setting(16_384, int, "Most bytes of one batch before compression", 1, _INT_MAX),
    "compression_type": Setting(
        None, _TEXT, "How batches are compressed", choices=(None, "none", "gzip", "snappy", "lz4", "zstd")
    ),
    "enable_idempotence": Setting(True, bool, "Whether a repeat can never write a record twice"),
    "retries": Setting(_INT_MAX, int, "Most repeats of a batch within delivery_timeout_ms", 0, _INT_MAX),
    "delivery_timeout_ms": _ms(120_000, "From send to success or failure", 1),
    "max_in_flight_requests_per_connection": Setting(5, int, "Requests on their way to one broker", 1, _INT_MAX),
    "buffer_memory": Setting(33_554_432, int, "Bytes of records waiting to be sent", 1),
    "metadata_max_idle_ms": _ms(300_000, "Without a send for so long, a topic's metadata is not kept any more", 5_000),
    "max_block_ms": _ms(60_000, "How long send may wait for metadata or room in the buffer"),
    "max_request_size": Setting(1_048_576, int, "Most bytes of one record and of one request", 1, _INT_MAX),
    "partitioner": Setting(None, object, "partitioner(key_bytes, all_partitions, available) -> partition"),
    "key_serializer": _FUNCTION,
    "value_serializer": _FUNCTION,
}

ADMIN_SETTINGS: dict[str, Setting] = dict(_COMMON)


def resolve(table: Mapping[str, Setting], given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings with their values. Raises ConfigurationError naming the setting, the value and what is wrong."""
    for name in given:
        if name not in table:
            raise ConfigurationError(_unknown(name, table))
    values = {name: given.get(name, setting.default) for name, setting in table.items()}
    for name, value in values.items():
        problem = problem_of(table[name], value)
        if problem:
            raise ConfigurationError(f"{name}={value!r}: {problem}")
    return values


def _unknown(name: str, table: Mapping[str, Setting]) -> str:
    close = difflib.get_close_matches(name.replace(".", "_"), table, n=1)
    return f"unknown setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def problem_of(setting: Setting, value: Any) -> str | None:
    """What is wrong with a value of this setting, in words; None if it will do."""
    if setting.choices:
        if value not in setting.choices:
            return f"must be one of {', '.join(map(str, setting.choices))}"
        return None
    if not isinstance(value, setting.kind) or (isinstance(value, bool) and setting.kind is int):
        kinds = setting.kind if isinstance(setting.kind, tuple) else (setting.kind,)
        return f"must be {' or '.join('None' if k is type(None) else k.__name__ for k in kinds)}"
    if setting.low is not None and value < setting.low:
        return f"must be at least {setting.low}"
    if setting.high is not None and value > setting.high:
        return f"must be at most {setting.high}"
    return setting.check(value) if setting.check else None


def consumer_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The consumer's settings, checked one by one and together."""
    values = resolve(CONSUMER_SETTINGS, given)
    heartbeat, session = values["heartbeat_interval_ms"], values["session_timeout_ms"]
    if heartbeat >= session:
        raise ConfigurationError(
            f"heartbeat_interval_ms={heartbeat} must be below session_timeout_ms={session}: a third of it is usual"
        )
    if session < 3 * heartbeat:
        warnings.warn(
            f"session_timeout_ms={session} is less than three times heartbeat_interval_ms={heartbeat}: "
            "one or two late heartbeats expel this member",
            stacklevel=3,
        )
    if values["group_id"] == "":
        raise ConfigurationError("group_id='': must not be empty; leave it out to read without a group")
    if values["group_id"] is None:
        if given.get("group_instance_id") is not None:
            raise ConfigurationError("group_instance_id needs a group_id")
        if given.get("enable_auto_commit"):
            raise ConfigurationError("enable_auto_commit needs a group_id to commit for")
        values["enable_auto_commit"] = False
    return values


def producer_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The producer's settings, checked one by one and together; `acks` becomes a number."""
    values = resolve(PRODUCER_SETTINGS, given)
    acks = values["acks"]
    if acks not in (0, 1, -1, "0", "1", "-1", "all"):
        raise ConfigurationError(f"acks={acks!r}: must be 0, 1 or 'all'")
    values["acks"] = -1 if acks == "all" else int(acks)
    values["compression_type"] = values["compression_type"] or "none"
    if values["acks"] != -1 or values["max_in_flight_requests_per_connection"] > 5 or values["retries"] == 0:
        if given.get("enable_idempotence"):
            raise ConfigurationError(
                "enable_idempotence=True needs acks='all', retries above 0 and "
                "max_in_flight_requests_per_connection of at most 5"
            )
        values["enable_idempotence"] = False
    if values["delivery_timeout_ms"] < values["linger_ms"] + values["request_timeout_ms"]:
        if "delivery_timeout_ms" in given:
            raise ConfigurationError(
                f"delivery_timeout_ms={values['delivery_timeout_ms']} must be at least linger_ms + request_timeout_ms "
                f"({values['linger_ms']} + {values['request_timeout_ms']})"
            )
        values["delivery_timeout_ms"] = values["linger_ms"] + values["request_timeout_ms"]
    return values


def make_assignors(strategies: list[Any] | tuple[Any, ...]) -> tuple[Assignor, ...]:
    """Names, classes and instances as instances."""
    made = []
    for entry in strategies:
        if isinstance(entry, str):
            entry = BUILT_IN[entry]
        made.append(entry() if isinstance(entry, type) else entry)
    return tuple(made)


def membership_config(config: Mapping[str, Any]) -> MembershipConfig:
    """The group's part of a consumer's settings. Raises IllegalStateError if the assignors share no protocol."""
    made = MembershipConfig(
        group_id=config["group_id"] or "",
        assignors=make_assignors(config["partition_assignment_strategy"]),
        group_instance_id=config["group_instance_id"],
        client_rack=config["client_rack"] or None,
        session_timeout_ms=config["session_timeout_ms"],
        heartbeat_interval_ms=config["heartbeat_interval_ms"],
        max_poll_interval_ms=config["max_poll_interval_ms"],
        request_timeout_ms=config["request_timeout_ms"],
        retry_backoff_ms=config["retry_backoff_ms"],
        retry_backoff_max_ms=config["retry_backoff_max_ms"],
        auto_commit=config["enable_auto_commit"],
        exclude_internal_topics=config["exclude_internal_topics"],
    )
    _ = made.protocol  # fails here and not in the first poll
    return made


def network_settings(config: Mapping[str, Any]) -> NetworkSettings:
    """The network's part of a client's settings."""
    return NetworkSettings(
        bootstrap=parse_bootstrap(config["bootstrap_servers"]),
        client_id=config["client_id"],
        request_timeout_ms=config["request_timeout_ms"],
        connect_timeout_ms=config["socket_connection_setup_timeout_ms"],
        reconnect_backoff_ms=config["reconnect_backoff_ms"],
        reconnect_backoff_max_ms=config["reconnect_backoff_max_ms"],
        retry_backoff_ms=config["retry_backoff_ms"],
        retry_backoff_max_ms=config["retry_backoff_max_ms"],
        metadata_max_age_ms=config["metadata_max_age_ms"],
        allow_auto_create_topics=config["allow_auto_create_topics"],
    )
