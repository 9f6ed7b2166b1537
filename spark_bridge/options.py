"""The options of Spark's Kafka source and sink, under Spark's names, and two of ours: checked, and made typed values.

Names are case-insensitive. Values may be text, as in Spark, or Python objects. `kafka.*` are settings of
`actors.client`, with dots for underscores. No broker is asked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from actors import CoterieError
from actors.client import spellings
from actors.client.config import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
from actors.client.errors import ConfigurationError
from actors.client.net.security import SECRETS, refuse_secrets
from actors.settings import Setting, SettingType
from actors.settings.durations import parse_duration
from actors.settings.kinds import did_you_mean
from actors.settings.secret import HIDDEN, Secret
from spark_bridge.bounds import EARLIEST, LATEST, Bound, Partition

BATCH_TIMEOUT_MS: Final = 3_600_000
"""Long, because a batch that takes longer is given up, comes again, and takes as long again."""
REVOKE_WAIT_MS: Final = 10_000
POLL_TIMEOUT_MS: Final = 120_000
MAX_TRIGGER_DELAY_MS: Final = 900_000

_ENDS: Final = {"earliest": EARLIEST, "latest": LATEST}

# Spark refuses these too, or they would mean nothing here; the right way is said instead.
_REFUSED: Final = {
    "groupidprefix": "give the group its id: group_id",
    "fetchoffset.numretries": "offsets are asked for until kafka.default.api.timeout.ms",
    "fetchoffset.retryintervalms": "the pause is kafka.retry.backoff.ms",
    "kafka.auto.offset.reset": "where to begin is startingOffsets",
    "kafka.enable.auto.commit": "offsets are committed with the batches",
    "kafka.auto.commit.interval.ms": "offsets are committed with the batches",
    "kafka.key.deserializer": "keys are binary: cast the column",
    "kafka.value.deserializer": "values are binary: cast the column",
    "kafka.key.serializer": "keys are binary or string columns",
    "kafka.value.serializer": "values are binary or string columns",
    "kafka.partitioner": "give the partition in a column of that name",
    "kafka.partition.assignment.strategy": "classic groups have cooperative-sticky, and brokers divide the others",
    "kafka.max.poll.interval.ms": "how long a batch may take is batch.timeout.ms",
    "kafka.max.poll.records": "how much a batch takes is maxOffsetsPerTrigger",
    "kafka.allow.auto.create.topics": "a missing topic is an error",
    "kafka.exclude.internal.topics": "internal topics are read if they are named",
}
_OF_MEMBERS: Final = (
    *("group_instance_id", "session_timeout_ms", "heartbeat_interval_ms"),
    *("group_protocol", "group_remote_assignor", "group_instance_takeover", "group_heartbeat_max_ms"),
)
_OURS: Final = re.compile(r"\b(?:sasl|ssl)_\w+")
_PERHAPS_SECRET: Final = re.compile(r"^kafka\.(sasl|ssl)|password|passphrase|secret|token|jaas|credential|key$")


class OptionError(CoterieError, ValueError):
    """An option that does not exist, or a value that it cannot have. The message is one line and names both.

    Of a name that is not known the value is not shown if it may be a secret.
    """


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source; None: not given. `client` are settings of Consumer and Admin, also those of groups."""

    starting: Bound
    ending: Bound | None = None
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str | None = None
    assign: tuple[Partition, ...] = ()
    bootstrap_servers: str | None = None
    group_id: str | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    batch_timeout_ms: int = BATCH_TIMEOUT_MS
    revoke_wait_ms: int = REVOKE_WAIT_MS
    client: Mapping[str, Any] = field(default_factory=dict)

    @property
    def admin_settings(self) -> dict[str, Any]:
        """Those settings of `client` that Admin has."""
        return {name: value for name, value in self.client.items() if name in ADMIN_SETTINGS}

    @property
    def reader_settings(self) -> dict[str, Any]:
        """Those settings of `client` that a reader without a group has."""
        return {name: value for name, value in self.client.items() if name not in _OF_MEMBERS}

    @property
    def read_committed(self) -> bool:
        return bool(self.client.get("isolation_level") == "read_committed")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink; None: not given. `client` are settings of Producer."""

    topic: str | None = None
    bootstrap_servers: str | None = None
    client: Mapping[str, Any] = field(default_factory=dict)


def source_options(options: Mapping[str, Any] | None = None, *, streaming: bool) -> SourceOptions:
    """Read the options of a source. A stream begins at the latest records, a bounded read at the earliest.

    Raises OptionError.
    """
    given = _given(options)
    values = _taken(given, _SOURCE)
    starting = _starting(given, streaming)
    ending = _ending(given, streaming)
    _one_of_three(values)
    client = _client(given, CONSUMER_SETTINGS, [*_SOURCE, *_BOUNDS])
    taken = {name: client.pop(name) for name in ("bootstrap_servers", "group_id") if name in client}
    return SourceOptions(starting=starting, ending=ending, client=client, **values, **taken)


def sink_options(options: Mapping[str, Any] | None = None) -> SinkOptions:
    """Read the options of a sink. Raises OptionError."""
    given = _given(options)
    values = _taken(given, _SINK)
    client = _client(given, PRODUCER_SETTINGS, list(_SINK))
    for name, only in (("acks", (-1, "all", "-1")), ("enable_idempotence", (True,))):
        if client.get(name, only[0]) not in only:
            raise OptionError(
                f"kafka.{name.replace('_', '.')}={client[name]}: writes are always idempotent, with acks=all"
            )
    taken = {"bootstrap_servers": client.pop("bootstrap_servers")} if "bootstrap_servers" in client else {}
    return SinkOptions(client=client, **values, **taken)


# --- names ----------------------------------------------------------------------------------------------------------

Given = dict[str, tuple[str, Any]]
_Reader = Callable[[Any], Any]


def _given(options: Mapping[str, Any] | None) -> Given:
    """The options by lower-case name, each with its name as written and its value. None counts as not given."""
    found: Given = {}
    for name, value in (options or {}).items():
        if value is None:
            continue
        key = name.lower()
        if key in _REFUSED:
            raise OptionError(f"{name}={value}: not an option here; {_REFUSED[key]}")
        found[key] = (name, value)
    return found


def _taken(given: Given, table: Mapping[str, tuple[str, _Reader]]) -> dict[str, Any]:
    """Take the options of the table out of those given. Returns their values by attribute."""
    values: dict[str, Any] = {}
    for key, (attribute, read) in table.items():
        if key in given:
            name, value = given.pop(key)
            values[attribute] = _checked(name, value, read)
    return values


def _client(given: Given, table: Mapping[str, Setting], known: Sequence[str]) -> dict[str, Any]:
    """The options that are left, which must be `kafka.*` settings of our clients. Raises OptionError."""
    found: dict[str, Any] = {}
    for key, (name, value) in given.items():
        setting = key.removeprefix("kafka.").replace(".", "_")
        if key.startswith("kafka.") and spellings.understood(key.removeprefix("kafka.")):
            found |= _secured(key.removeprefix("kafka."), value)
            continue
        if key.startswith("kafka.") and setting in table:
            shown = HIDDEN if table[setting].sensitive or setting in SECRETS else _short(value)
            found[setting] = _checked(name, value, partial(_setting, table[setting]), shown)
            continue
        names = [_WRITTEN.get(each, each) for each in known]
        names += [full for each in table if (full := "kafka." + each.replace("_", ".")) not in _REFUSED]
        shown = HIDDEN if _PERHAPS_SECRET.search(key) else value
        raise OptionError(f"{name}={shown}: there is no such option{did_you_mean(key, names)}")
    _refuse_secrets(found)
    return found


def _secured(key: str, value: Any) -> dict[str, Any]:
    """The settings of a `kafka.*` option about security, in any spelling that people know."""
    if isinstance(value, Secret):
        value = value.reveal()
    try:
        return spellings.of(key, str(value))
    except ConfigurationError as error:
        raise OptionError(f"kafka.{error}") from None


def _refuse_secrets(client: Mapping[str, Any]) -> None:
    """A DataFrame's lineage, tasks and the arguments of actors are kept where nobody looks after secrets."""
    try:
        refuse_secrets(client, "executors and actors")
    except ConfigurationError as error:
        raise OptionError(_OURS.sub(lambda found: f"kafka.{found[0].replace('_', '.')}", str(error))) from None


def _checked(name: str, value: Any, read: Callable[[Any], Any], shown: str | None = None) -> Any:
    """Read the value by `read`. Raises OptionError, with the value or `shown` in its place."""
    try:
        return read(value)
    except OptionError:
        raise
    except (ValueError, TypeError) as error:
        raise OptionError(f"{name}={shown or _short(value)}: {error}") from None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _one_of_three(values: Mapping[str, Any]) -> None:
    given = [name for name in ("subscribe", "subscribe_pattern", "assign") if values.get(name)]
    if len(given) > 1:
        names = [{"subscribe_pattern": "subscribePattern"}.get(name, name) for name in given]
        raise OptionError(f"{' and '.join(names)} are given: only one of subscribe, subscribePattern and assign may be")


# --- values ---------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be text that is not empty")
    return value.strip()


def _boolean(value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError("must be true or false")
    return word == "true"


def _number(low: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = _whole(value)
        if number < low:
            raise ValueError(f"must be at least {low}")
        return number

    return read


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a whole number")
    try:
        return int(value)
    except ValueError:
        raise ValueError("must be a whole number") from None


def _duration_ms(value: Any) -> int:
    """Spark's "15m", "10s", "500"; a bare number is milliseconds."""
    try:
        return parse_duration(str(value).strip().lower(), bare_unit="ms") // timedelta(milliseconds=1)
    except ValueError:
        raise ValueError('must be a time such as "500ms", "10s", "15m"; a bare number is milliseconds') from None


def _topics(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else list(value)
    found = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not found:
        raise ValueError("must be topics, separated by commas")
    return found


def _pattern(value: Any) -> str:
    text = value.pattern if isinstance(value, re.Pattern) else _text(value)
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


def _assigned(value: Any) -> tuple[Partition, ...]:
    found = _json(value, 'must be JSON such as {"topic":[0,1]}')
    partitions = []
    for topic, numbers in found.items():
        if not isinstance(numbers, list | tuple) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError('must be JSON such as {"topic":[0,1]}')
        partitions += [(topic, number) for number in numbers]
    if not partitions:
        raise ValueError("names no partition")
    return tuple(dict.fromkeys(partitions))


def _json(value: Any, otherwise: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(otherwise) from None
    if not isinstance(value, Mapping) or not value:
        raise ValueError(otherwise)
    return value


def _by_partition(value: Any, example: str, low: int) -> dict[Partition, int]:
    """The numbers by partition of Spark's {"topic":{"0":23,"1":-2}}. Raises ValueError."""
    found = {}
    for topic, numbers in _json(value, f"must be JSON such as {example}").items():
        if not isinstance(numbers, Mapping) or not numbers:
            raise ValueError(f"must be JSON such as {example}")
        for partition, number in numbers.items():
            if not str(partition).isdecimal() or type(number) is not int:
                raise ValueError(f"must be JSON such as {example}")
            if number < low:
                raise ValueError(f"{topic}-{partition} has {number}, must be at least {low}")
            found[topic, int(partition)] = number
    return found


def _setting(setting: Setting, value: Any) -> Any:
    """The value of a `kafka.*` option for the client's setting. Raises ValueError if the setting cannot have it."""
    if setting.whole:
        value = _whole(value)
    elif setting.type is SettingType.BOOLEAN:
        value = _boolean(value)
    if problem := setting.problem(value):
        raise ValueError(problem)
    return value


# --- where to begin and end -----------------------------------------------------------------------------------------

_OFFSETS_EXAMPLE: Final = '{"topic":{"0":23,"1":-2}}'
_BOUNDED: Final = "a bounded read cannot begin at the latest or end at the earliest offset"
_TIMES_EXAMPLE: Final = '{"topic":{"0":1700000000000}}'


def _starting(given: Given, streaming: bool) -> Bound:
    strategy = "error"
    if "startingoffsetsbytimestampstrategy" in given:
        name, strategy = given.pop("startingoffsetsbytimestampstrategy")
        strategy = str(strategy).lower()
        if strategy not in ("error", "latest"):
            raise OptionError(f"{name}={strategy}: must be error or latest")
    forbidden = None if streaming else LATEST
    bound = _bound(given, "starting", latest_if_none=strategy == "latest", forbidden=forbidden)
    if bound is None:
        return Bound("startingOffsets", everywhere=LATEST if streaming else EARLIEST, is_default=True)
    return bound


def _ending(given: Given, streaming: bool) -> Bound | None:
    if not streaming:
        bound = _bound(given, "ending", latest_if_none=True, forbidden=EARLIEST)
        return bound or Bound("endingOffsets", everywhere=LATEST, is_default=True)
    for key in ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp"):
        if key in given:
            name, value = given[key]
            raise OptionError(f"{name}={_short(value)}: a stream has no end; it is an option of bounded reads")
    return None


def _bound(given: Given, side: str, *, latest_if_none: bool, forbidden: int | None) -> Bound | None:
    """The bound that holds. As in Spark, one time for all goes before times by partition, and these before offsets.

    Those that do not hold are checked, too.
    """
    found = []
    if f"{side}timestamp" in given:
        name, value = given.pop(f"{side}timestamp")
        found.append(Bound(name, timestamp_ms=_checked(name, value, _number(0)), latest_if_none=latest_if_none))
    if f"{side}offsetsbytimestamp" in given:
        name, value = given.pop(f"{side}offsetsbytimestamp")
        times = _checked(name, value, lambda v: _by_partition(v, _TIMES_EXAMPLE, 0))
        found.append(Bound(name, timestamps_ms=times, latest_if_none=latest_if_none))
    if f"{side}offsets" in given:
        name, value = given.pop(f"{side}offsets")
        found.append(_checked(name, value, lambda v: _offsets(name, v, forbidden)))
    return found[0] if found else None


def _offsets(name: str, value: Any, forbidden: int | None) -> Bound:
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _ENDS:
        if _ENDS[word] == forbidden:
            raise ValueError(_BOUNDED)
        return Bound(name, everywhere=_ENDS[word])
    try:
        offsets = _by_partition(value, _OFFSETS_EXAMPLE, -2)
    except ValueError as error:
        choice = "" if "must be JSON" not in str(error) else "earliest, latest or "
        raise ValueError(str(error).replace("must be JSON", f"must be {choice}JSON")) from None
    for (topic, partition), offset in offsets.items():
        if offset == forbidden:
            raise ValueError(f"{topic}-{partition} has {offset}: {_BOUNDED}")
    return Bound(name, offsets=offsets)


_SOURCE: Final[dict[str, tuple[str, _Reader]]] = {
    "subscribe": ("subscribe", _topics),
    "subscribepattern": ("subscribe_pattern", _pattern),
    "assign": ("assign", _assigned),
    "includeheaders": ("include_headers", _boolean),
    "failondataloss": ("fail_on_data_loss", _boolean),
    "minpartitions": ("min_partitions", _number(1)),
    "maxoffsetspertrigger": ("max_offsets_per_trigger", _number(1)),
    "minoffsetspertrigger": ("min_offsets_per_trigger", _number(1)),
    "maxtriggerdelay": ("max_trigger_delay_ms", _duration_ms),
    "kafkaconsumer.polltimeoutms": ("poll_timeout_ms", _number(1)),
    "batch.timeout.ms": ("batch_timeout_ms", _number(1)),
    "revoke.wait.ms": ("revoke_wait_ms", _number(0)),
}
_BOUNDS: Final = (
    *("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp", "startingoffsetsbytimestampstrategy"),
    *("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp"),
)
_SINK: Final[dict[str, tuple[str, _Reader]]] = {
    "topic": ("topic", _text),
}
_WRITTEN: Final = {
    each.lower(): each
    for each in (
        *("subscribePattern", "includeHeaders", "failOnDataLoss", "minPartitions", "maxOffsetsPerTrigger"),
        *("minOffsetsPerTrigger", "maxTriggerDelay", "kafkaConsumer.pollTimeoutMs", "startingOffsets"),
        *("startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets"),
        *("endingOffsetsByTimestamp", "endingTimestamp"),
    )
}
