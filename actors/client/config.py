"""The settings of the three clients: one table each, with type, default, range and meaning, and their checks."""

from __future__ import annotations

import re
import ssl
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from actors.client.errors import ConfigurationError
from actors.client.group.assignors import BUILT_IN, Assignor
from actors.client.group.protocols import PROTOCOLS
from actors.client.net.security import MECHANISMS, SECRETS, Security
from actors.client.net.security import PROTOCOLS as SECURITY_PROTOCOLS
from actors.client.net.settings import NetworkSettings, parse_bootstrap
from actors.client.settings import ClientConfig, ConsumerConfig, ProducerConfig
from actors.settings.kinds import MAX_INT, Setting, SettingType, did_you_mean
from actors.settings.secret import HIDDEN, Secret

_INSTANCE_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Settings = Mapping[str, Setting]


def _int(name: str, default: int, doc: str, low: int = 0) -> Setting:
    return Setting(name=name, type=SettingType.INT, default=default, doc=doc, low=low)


def _long(name: str, default: int, doc: str, low: int = 0) -> Setting:
    return Setting(name=name, type=SettingType.LONG, default=default, doc=doc, low=low)


def _flag(name: str, default: bool, doc: str) -> Setting:
    return Setting(name=name, type=SettingType.BOOLEAN, default=default, doc=doc)


def _text(name: str, default: str | None, doc: str, **more: Any) -> Setting:
    """A text setting; with the default None its value may be None, too."""
    return Setting(name=name, type=SettingType.STRING, default=default, doc=doc, nullable=default is None, **more)


def _secret(name: str, doc: str) -> Setting:
    return Setting(name=name, type=SettingType.PASSWORD, default=None, doc=doc, nullable=True)


def _function(name: str, doc: str, check: Callable[[Any], str | None] | None = None) -> Setting:
    return Setting(name=name, type=SettingType.CLASS, default=None, doc=doc, nullable=True, check=check)


def _serde(name: str) -> Setting:
    return _function(name, "The conversion of keys or values to bytes, or from them.", check=_converts)


def _instance_id(value: str) -> str | None:
    if _INSTANCE_ID.fullmatch(value) and value not in (".", ".."):
        return None
    return "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"


def _not_empty(value: str) -> str | None:
    return None if value else "must not be empty"


def _bootstrap(value: Any) -> str | None:
    try:
        parse_bootstrap(value)
    except ValueError as error:
        return str(error)
    return None


def _is_context(value: Any) -> str | None:
    return None if isinstance(value, ssl.SSLContext) else "must be an ssl.SSLContext"


def _has_token(value: Any) -> str | None:
    return None if callable(getattr(value, "token", None)) else "must be an object with a method token()"


def _converts(value: Any) -> str | None:
    ok = callable(value) or hasattr(value, "serialize") or hasattr(value, "deserialize")
    return None if ok else "must be a function or have a serialize or deserialize method"


def _strategies(value: Any) -> str | None:
    for entry in value:
        name = entry if isinstance(entry, str) else getattr(entry, "name", None)
        is_class = isinstance(entry, type) and issubclass(entry, Assignor)
        if not (isinstance(entry, Assignor) or is_class or name in BUILT_IN):
            return f"has {entry!r}; known are {', '.join(BUILT_IN)} and instances of Assignor"
    return None


def _table(*settings: Setting) -> Settings:
    return MappingProxyType({setting.name: setting for setting in settings})


_SECURITY: Final = (
    _text("security_protocol", "PLAINTEXT", "TLS and login of connections.", choices=SECURITY_PROTOCOLS),
    _text("ssl_cafile", None, "PEM file of the certificates that brokers' are signed with; the system's if not given."),
    _text("ssl_cadata", None, "The same as PEM text."),
    _text("ssl_certfile", None, "PEM file of the client's certificate and its chain; the key may be in it, too."),
    _text("ssl_certdata", None, "The same as PEM text."),
    _text("ssl_keyfile", None, "PEM file of the certificate's key."),
    _secret("ssl_keydata", "The same as PEM text."),
    _secret("ssl_password", "The password of the key if it is encrypted."),
    _flag("ssl_check_hostname", True, "If true, a broker's certificate must be for the name that is dialled."),
    _text("ssl_crlfile", None, "PEM file of revoked certificates."),
    _text("ssl_ciphers", None, "The ciphers of TLS 1.2, in OpenSSL's or in Java's spelling."),
    _function(
        "ssl_context", "An ssl.SSLContext, used as it is in place of the other ssl_ settings.", check=_is_context
    ),
    _text("sasl_mechanism", None, "The mechanism of the login; needed with SASL_*.", choices=MECHANISMS),
    _text("sasl_plain_username", None, "The user, for PLAIN and for SCRAM."),
    _secret("sasl_plain_password", "The user's password, for PLAIN and for SCRAM."),
    _text("sasl_password_file", None, "File with the password, read at each login on the machine that logs in."),
    _text("sasl_password_env", None, "Variable with the password, in the environment of the process that logs in."),
    _text("sasl_oauth_token_file", None, "File with the token of OAUTHBEARER, read at each login where that happens."),
    _function(
        "sasl_oauth_token_provider",
        "An object whose token() returns the token of OAUTHBEARER, called in a thread at each login.",
        check=_has_token,
    ),
)

SECURITY_NAMES: Final = tuple(setting.name for setting in _SECURITY)

# Times are in milliseconds.
_COMMON: Final = (
    Setting(
        name="bootstrap_servers",
        type=SettingType.LIST,
        also=(str,),
        default="localhost:9092",
        doc="HOST:PORT of some brokers, to find the others.",
        check=_bootstrap,
    ),
    _text("client_id", "coterie", "A name for logs and quotas."),
    _int("request_timeout_ms", 30_000, "The longest that one request may take."),
    _int("default_api_timeout_ms", 60_000, "The longest that a call without a timeout of its own may take."),
    _int("retry_backoff_ms", 100, "Wait before the first repeat; doubles with each."),
    _int("retry_backoff_max_ms", 1_000, "The longest wait before a repeat."),
    _int("reconnect_backoff_ms", 50, "Wait before the first new connection to a broker; doubles with each."),
    _int("reconnect_backoff_max_ms", 1_000, "The longest wait before a new connection."),
    _int("socket_connection_setup_timeout_ms", 10_000, "The longest that connecting may take.", low=1),
    _int("metadata_max_age_ms", 300_000, "Metadata older than this is asked for again."),
    _flag("allow_auto_create_topics", True, "If true, asking for a topic may create it."),
    *_SECURITY,
)

CONSUMER_SETTINGS: Final = _table(
    *_COMMON,
    _text("group_id", None, "The group; needed to subscribe and to commit."),
    _text(
        "group_instance_id",
        None,
        "Makes the member static (KIP-345): a restart within the session timeout moves no partition.",
        check=_instance_id,
    ),
    _flag(
        "group_instance_takeover",
        False,
        "If true, a new static member takes its place from who has it, also with the consumer protocol: there it is "
        "otherwise refused until the other one has left, or its session has ended. In a classic group the newer one "
        "always has the place.",
    ),
    _int(
        "group_expected_members",
        0,
        "The number of members that join about now, if that is known. A broker of Coterie then begins the first "
        "generation of an empty group when they all have joined, and not after group.initial.rebalance.delay.ms. "
        "Kafka ignores it.",
    ),
    _text(
        "group_member_process",
        "consumer",
        "The kind and place of the member, in words, as `pool on node 9510e81edd52`. With its pid a broker of "
        "Coterie shows it to operators. Kafka ignores it.",
    ),
    _int("session_timeout_ms", 45_000, "A member that sends no heartbeat for this long is expelled.", low=1),
    _int("heartbeat_interval_ms", 3_000, "Time between heartbeats.", low=1),
    _int(
        "group_heartbeat_max_ms",
        0,
        "The longest time between two heartbeats of the consumer protocol, where the broker's interval is longer: so "
        "much sooner a member hears of what has changed. 0: the broker's interval alone.",
    ),
    _int("max_poll_interval_ms", 300_000, "A member that does not poll for this long leaves the group.", low=1),
    _int("max_poll_records", 500, "Most records of one poll.", low=1),
    Setting(
        name="partition_assignment_strategy",
        type=SettingType.LIST,
        default=("range", "cooperative-sticky"),
        doc="Assignors, the preferred one first.",
        check=_strategies,
    ),
    _flag("enable_auto_commit", True, "If true, polls commit what earlier polls returned."),
    _int("auto_commit_interval_ms", 5_000, "Time between such commits."),
    _text(
        "auto_offset_reset",
        "latest",
        "The place to begin at without a committed offset.",
        choices=("latest", "earliest", "none"),
    ),
    _text("client_rack", "", "The rack this client is in, for rack-aware assignment."),
    _text(
        "isolation_level",
        "read_uncommitted",
        "The treatment of records of open transactions.",
        choices=("read_uncommitted", "read_committed"),
    ),
    _flag("exclude_internal_topics", True, "If true, a pattern leaves internal topics out."),
    _int("fetch_min_bytes", 1, "The bytes that a broker waits for before it answers a fetch."),
    _long("fetch_max_bytes", 52_428_800, "Most bytes of one fetch, and of all that is fetched ahead.", low=1),
    _int("fetch_max_wait_ms", 500, "The time that a broker waits for fetch_min_bytes."),
    _int("max_partition_fetch_bytes", 1_048_576, "Most bytes of one partition in one fetch.", low=1),
    _flag("check_crcs", True, "If true, checksums of records are verified."),
    _serde("key_deserializer"),
    _serde("value_deserializer"),
    _text(
        "group_protocol",
        "classic",
        f"The group protocol to speak: {', '.join(PROTOCOLS)}. Auto is consumer, or classic where the group's "
        "coordinator does not serve that, or cannot turn the group into one of it.",
    ),
    _text(
        "group_remote_assignor",
        None,
        "The broker's assignor that this member votes for, uniform or range; not with group_protocol='classic'.",
        check=_not_empty,
    ),
)

OF_CLASSIC_GROUPS: Final = ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms")
"""Settings that the consumer protocol has no place for: the broker sets or does that."""
_NOT_WITH: Final = MappingProxyType({"classic": ("group_remote_assignor",), "consumer": OF_CLASSIC_GROUPS})
"""Settings that mean nothing to a group protocol, and are refused with it, as in Kafka."""

PRODUCER_SETTINGS: Final = _table(
    *_COMMON,
    _text("acks", "all", "Replicas that must have a record: 0 none, 1 the leader, all those in sync.", also=(int,)),
    _int("linger_ms", 0, "The time that a batch waits for more records."),
    _int("batch_size", 16_384, "Most bytes of one batch before compression.", low=1),
    _text(
        "compression_type",
        None,
        "The compression of batches.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    _flag("enable_idempotence", True, "If true, a repeat can never write a record twice."),
    _int("retries", MAX_INT, "Most repeats of a batch within delivery_timeout_ms."),
    _int("delivery_timeout_ms", 120_000, "The longest time from send to success or failure.", low=1),
    _int("max_in_flight_requests_per_connection", 5, "Most requests on their way to one broker.", low=1),
    _long("buffer_memory", 33_554_432, "Most bytes of records that wait to be sent.", low=1),
    _int("metadata_max_idle_ms", 300_000, "A topic's metadata is forgotten this long after its last send.", low=5_000),
    _int("max_block_ms", 60_000, "The longest that send may wait for metadata or room in the buffer."),
    _int("max_request_size", 1_048_576, "Most bytes of one record and of one request.", low=1),
    _function("partitioner", "partitioner(key_bytes, all_partitions, available) -> partition."),
    _serde("key_serializer"),
    _serde("value_serializer"),
)

ADMIN_SETTINGS: Final = _table(*_COMMON)

C = TypeVar("C", bound=ClientConfig)


def resolve(table: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings with their values. Raises ConfigurationError naming the setting, the value and what is wrong."""
    for name in given:
        if name not in table:
            raise ConfigurationError(f"unknown setting {name!r}{did_you_mean(name.replace('.', '_'), table)}")
    values = {name: given.get(name, setting.default) for name, setting in table.items()}
    for name, value in values.items():
        if problem := table[name].problem(value):
            shown = HIDDEN if name in SECRETS else table[name].shown(value)
            raise ConfigurationError(f"{name}={shown}: {problem}")
        if table[name].sensitive and isinstance(value, str):
            values[name] = Secret(value)
    if "security_protocol" in table:
        Security.of(values)  # raises here, with the settings that contradict one another
    return values


def consumer_config(given: Mapping[str, Any], protocols: Collection[str] = PROTOCOLS) -> ConsumerConfig:
    """The consumer's settings, checked one by one and against one another. Raises ConfigurationError.

    `protocols` are those that `group_protocol` may name.
    """
    values = resolve(CONSUMER_SETTINGS, given)
    values["group_protocol"] = values["group_protocol"].lower()  # Kafka takes either
    if values["group_protocol"] not in protocols:
        raise ConfigurationError(f"group_protocol={values['group_protocol']!r}: must be one of {', '.join(protocols)}")
    _refuse_strangers(values["group_protocol"], given)
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
    return _made(ConsumerConfig, values)


def _refuse_strangers(protocol: str, given: Mapping[str, Any]) -> None:
    strangers = [name for name in _NOT_WITH.get(protocol, ()) if given.get(name) is not None]
    if strangers:
        raise ConfigurationError(
            f"{', '.join(strangers)}: cannot be set with group_protocol={protocol!r}"
            + (", in which the broker sets or does that" if protocol == "consumer" else "")
        )


def producer_config(given: Mapping[str, Any]) -> ProducerConfig:
    """The producer's settings, checked one by one and against one another; `acks` becomes a number.

    Raises ConfigurationError.
    """
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
    return _made(ProducerConfig, values)


def admin_config(given: Mapping[str, Any]) -> ClientConfig:
    """The settings of an Admin, checked one by one and against one another. Raises ConfigurationError."""
    return _made(ClientConfig, resolve(ADMIN_SETTINGS, given))


def _made(kind: type[C], values: Mapping[str, Any]) -> C:
    names = {field.name for field in fields(kind)} - {"security"}
    return kind(security=Security.of(values), **{name: values[name] for name in names})


def security_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a client's settings that are about security, for another client that asks the same brokers."""
    return {name: settings[name] for name in SECURITY_NAMES if name in settings}


def network_settings(config: ClientConfig) -> NetworkSettings:
    """Those of a client's settings that its connections need."""
    return NetworkSettings(
        bootstrap=parse_bootstrap(config.bootstrap_servers),
        client_id=config.client_id,
        request_timeout_ms=config.request_timeout_ms,
        connect_timeout_ms=config.socket_connection_setup_timeout_ms,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        allow_auto_create_topics=config.allow_auto_create_topics,
        security=config.security,
    )
