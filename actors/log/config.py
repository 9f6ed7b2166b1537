"""The topic settings that a log goes by, with Kafka's names, defaults and ranges: the fields of LogConfig."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, cast

from actors.log.errors import LogConfigError
from actors.records.compression import CODEC_IDS

MAX_LONG: Final = 2**63 - 1
MAX_INT: Final = 2**31 - 1
DAY_MS: Final = 86_400_000
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""Kafka's key for tests, which want segments smaller than users may have."""

Parser = Callable[[str], Any]


def _integer(low: int, high: int) -> Parser:
    def parse(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}")
        return number

    return parse


def _ratio(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("must be between 0 and 1")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _one_of(*choices: str) -> Parser:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _policies(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if names - {"delete", "compact"}:
        raise ValueError("must be delete, compact, both separated by a comma, or nothing")
    return names


def _key(name: str, default: Any, parse: Parser, doc: str) -> Any:
    return field(default=default, metadata={"key": name, "parse": parse, "doc": doc})


_LONG: Final = _integer(0, MAX_LONG)
_LONG_OR_UNLIMITED: Final = _integer(-1, MAX_LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic. Times are ms, sizes bytes; -1 in retention means no limit."""

    cleanup_policy: frozenset[str] = _key(
        "cleanup.policy", frozenset({"delete"}), _policies, "delete old segments, compact by key, both or neither"
    )
    compression_type: str = _key(
        "compression.type",
        "producer",
        _one_of("producer", "uncompressed", *(name for name in CODEC_IDS if name != "none")),
        "codec batches are kept in; producer keeps them as they came",
    )
    delete_retention_ms: int = _key(
        "delete.retention.ms", DAY_MS, _LONG, "how long compaction keeps a tombstone it has seen"
    )
    flush_messages: int = _key("flush.messages", MAX_LONG, _integer(1, MAX_LONG), "fsync after this many records")
    flush_ms: int = _key("flush.ms", MAX_LONG, _LONG, "fsync at the latest after this time, looked at every 2 s")
    file_delete_delay_ms: int = _key(
        "file.delete.delay.ms", 60_000, _LONG, "how long the files of a deleted segment stay"
    )
    index_interval_bytes: int = _key(
        "index.interval.bytes", 4096, _integer(0, MAX_INT), "bytes of log between two index entries"
    )
    max_compaction_lag_ms: int = _key(
        "max.compaction.lag.ms", MAX_LONG, _integer(1, MAX_LONG), "compact at the latest after this time"
    )
    max_decompressed_message_bytes: int = _key(
        "max.decompressed.message.bytes",
        MAX_INT - 8,
        _integer(1, MAX_INT - 8),
        "largest record accepted in a compressed batch, when it is decompressed",
    )
    max_message_bytes: int = _key("max.message.bytes", 1_048_588, _integer(0, MAX_INT), "largest record batch accepted")
    message_timestamp_after_max_ms: int = _key(
        "message.timestamp.after.max.ms", 3_600_000, _LONG, "how far ahead of the broker a CreateTime may be"
    )
    message_timestamp_before_max_ms: int = _key(
        "message.timestamp.before.max.ms", MAX_LONG, _LONG, "how far behind the broker a CreateTime may be"
    )
    message_timestamp_type: str = _key(
        "message.timestamp.type",
        "CreateTime",
        _one_of("CreateTime", "LogAppendTime"),
        "whose clock a record's timestamp is: the producer's or the broker's",
    )
    min_cleanable_dirty_ratio: float = _key(
        "min.cleanable.dirty.ratio", 0.5, _ratio, "share of not yet compacted bytes that starts a compaction"
    )
    min_compaction_lag_ms: int = _key("min.compaction.lag.ms", 0, _LONG, "records younger than this are not compacted")
    min_insync_replicas: int = _key(
        "min.insync.replicas", 1, _integer(1, MAX_INT), "replicas acks=all needs; judged by the leader's broker"
    )
    producer_id_expiration_ms: int = _key(
        "producer.id.expiration.ms", DAY_MS, _integer(1, MAX_INT), "when a silent producer's state is dropped"
    )
    retention_bytes: int = _key("retention.bytes", -1, _LONG_OR_UNLIMITED, "size above which old segments are deleted")
    retention_ms: int = _key("retention.ms", 7 * DAY_MS, _LONG_OR_UNLIMITED, "age above which old segments are deleted")
    segment_bytes: int = _key(
        "segment.bytes", 1 << 30, _integer(-MAX_INT - 1, MAX_INT), "size at which a new segment is begun"
    )
    segment_index_bytes: int = _key(
        "segment.index.bytes", 10 << 20, _integer(4, MAX_INT), "size of an index at which a new segment is begun"
    )
    segment_jitter_ms: int = _key(
        "segment.jitter.ms", 0, _LONG, "at most so much earlier than segment.ms, another time for each segment"
    )
    segment_ms: int = _key("segment.ms", 7 * DAY_MS, _integer(1, MAX_LONG), "age at which a new segment is begun")
    unclean_leader_election_enable: bool = _key(
        "unclean.leader.election.enable", False, _flag, "whether a replica outside the in-sync set may lead"
    )

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment ends. Only a segment that has ended can be compacted (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def target_codec(self) -> int | None:
        """The number of the codec that batches are rewritten to; None if they stay as produced."""
        if self.compression_type == "producer":
            return None
        return CODEC_IDS.get(self.compression_type, 0)

    @classmethod
    def from_configs(cls, configs: Mapping[str, str]) -> "LogConfig":
        """Make a LogConfig of Kafka's topic settings. LogConfigError names the first bad key and its value.

        A value of internal.segment.bytes takes the place of that of segment.bytes.
        """
        texts = dict(configs)
        if (internal := texts.pop(INTERNAL_SEGMENT_BYTES, None)) is not None:
            texts["segment.bytes"] = internal
        values = dict(_parsed(key, text) for key, text in texts.items())
        return replace(cls(), **values)

    def to_configs(self) -> dict[str, str]:
        """Every setting under Kafka's name, as text: what DescribeConfigs shows."""
        return {each.metadata["key"]: _text(getattr(self, each.name)) for each in fields(self)}


def config_docs() -> dict[str, str]:
    """Kafka's name of each setting and what it does."""
    return {key: cast(str, each.metadata["doc"]) for key, each in _BY_KEY.items()}


def _parsed(key: str, text: str) -> tuple[str, Any]:
    setting = _BY_KEY.get(key)
    if setting is None:
        raise LogConfigError(f"unknown topic config {key}={text!r}")
    try:
        return setting.name, setting.metadata["parse"](text.strip())
    except (ValueError, AttributeError) as error:
        raise LogConfigError(f"invalid value {text!r} for topic config {key}: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


_BY_KEY: Final[dict[str, Field[Any]]] = {each.metadata["key"]: each for each in fields(LogConfig)}
