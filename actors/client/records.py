"""The values that programs pass and get: topic partitions, records, offsets. They have no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then number."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `from_offset` on, up to but not including `until_offset`.

    `topic_id` is the topic that is meant, which may be deleted and created again; b"" is any of that name. Ranges are
    the same without it.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    topic_id: bytes = field(default=b"", compare=False, repr=False)

    @property
    def size(self) -> int:
        """The number of offsets that the range spans; it may have fewer records."""
        return max(0, self.until_offset - self.from_offset)


class ConsumerRecord(NamedTuple):
    """A record as `Consumer.poll` returns it. Times are Unix milliseconds (-1 = none), sizes bytes (-1 = null).

    `headers`: names and values. A name is text if it is UTF-8, else bytes.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str | bytes, bytes | None]]
    serialized_key_size: int
    serialized_value_size: int


class OffsetAndMetadata(NamedTuple):
    """An offset that is or will be committed: the next one to read, metadata, and the epoch of the record before."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time: its offset and its timestamp in Unix milliseconds."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """The place of a produced record. `offset` is -1 when the broker was not asked (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class BatchMetadata(NamedTuple):
    """The place of a produced record batch: its first offset (-1 when the broker was not asked) and its length."""

    topic: str
    partition: int
    base_offset: int
    record_count: int
    timestamp: int


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a member to the coordinator; generation -1 and an empty member id outside a group."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class GroupMembershipOperation(Enum):
    """The ways in which a consumer that closes parts with its group (KIP-1092).

    DEFAULT: a dynamic member leaves; a static one is expected back within its session.
    LEAVE_GROUP: the member leaves, a static one, too.
    REMAIN_IN_GROUP: the member says nothing that would end its membership; its session does.
    """

    DEFAULT = "DEFAULT"
    LEAVE_GROUP = "LEAVE_GROUP"
    REMAIN_IN_GROUP = "REMAIN_IN_GROUP"


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the broker matches against whole names of topics, in the language of RE2.

    It needs group_protocol="consumer". A pattern in Python's own language is matched by the consumer itself.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError(f"SubscriptionPattern({self.pattern!r}): must be a text")
        if not self.pattern:
            raise ValueError("SubscriptionPattern(''): must not be empty")


class Node(NamedTuple):
    """A broker's address."""

    id: int
    host: str
    port: int
    rack: str | None = None
