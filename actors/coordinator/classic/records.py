"""The record of a classic group, of type 2: its typed form and Kafka's bytes for it, both ways.

Reads every version there has been of its value (0 to 4), and writes version 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from actors.coordinator.groups.durable import GroupRecords
from actors.coordinator.record_fields import I32, I64, FieldReader, nullable_string, string, with_length
from actors.coordinator.records import CorruptRecordError, Record, RecordType

NO_TIMESTAMP = -1
GROUP_KEY_TYPE = 2
CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the selected protocol only."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group as its record keeps it."""

    group_type: ClassVar[str] = CLASSIC
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: tuple[MemberMetadata, ...] = ()

    @property
    def persisted_state(self) -> str:
        return "Stable" if self.members else "Empty"


class GroupPut(NamedTuple):
    """A classic group's record."""

    group_id: str
    metadata: GroupMetadata

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(group_key(self.group_id), group_value(self.metadata))]

    def apply(self, group: GroupRecords) -> None:
        group.persisted = self.metadata


class GroupDeleted(NamedTuple):
    """A classic group's tombstone."""

    group_id: str

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(group_key(self.group_id), None)]

    def apply(self, group: GroupRecords) -> None:
        """A group that is of another type by now has nothing to do with it."""
        if group.persisted is None or isinstance(group.persisted, GroupMetadata):
            group.end()


def group_key(group_id: str) -> bytes:
    return b"\x00\x02" + string(group_id)


def group_value(group: GroupMetadata) -> bytes:
    parts = [
        b"\x00\x03",
        string(group.protocol_type),
        I32.pack(group.generation_id),
        nullable_string(group.protocol_name),
        nullable_string(group.leader_id),
        I64.pack(group.state_timestamp_ms),
        I32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            string(member.member_id),
            nullable_string(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            I32.pack(member.rebalance_timeout_ms),
            I32.pack(member.session_timeout_ms),
            with_length(member.subscription),
            with_length(member.assignment),
        )
    return b"".join(parts)


def decode_group_key(key: bytes) -> str:
    return FieldReader(key, 2).string(False)


def decode_group_value(value: bytes) -> GroupMetadata:
    reader = FieldReader(value)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise CorruptRecordError(f"group value of unknown version {version}")
    flexible = version >= 4
    protocol_type = reader.string(flexible)
    generation_id = reader.i32()
    protocol_name = reader.nullable_string(flexible)
    leader_id = reader.nullable_string(flexible)
    state_timestamp_ms = reader.i64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_decode_member(reader, version) for _ in range(reader.count(flexible)))
    reader.tags(flexible)
    return GroupMetadata(protocol_type, generation_id, protocol_name, leader_id, state_timestamp_ms, members)


def _decode_member(reader: FieldReader, version: int) -> MemberMetadata:
    flexible = version >= 4
    member_id = reader.string(flexible)
    group_instance_id = reader.nullable_string(flexible) if version >= 3 else None
    client_id = reader.string(flexible)
    client_host = reader.string(flexible)
    rebalance_timeout_ms = reader.i32() if version >= 1 else -1
    session_timeout_ms = reader.i32()
    subscription = reader.bytes(flexible)
    assignment = reader.bytes(flexible)
    reader.tags(flexible)
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _decode(key: bytes, value: bytes | None) -> GroupPut | GroupDeleted:
    group_id = decode_group_key(key)
    return GroupDeleted(group_id) if value is None else GroupPut(group_id, decode_group_value(value))


GROUP_RECORD = RecordType(GROUP_KEY_TYPE, _decode, tombstones_ordered=True)
"""An offset written before its group's tombstone does not bring the group back, so tombstones have their place."""


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription, or None when it cannot be read.

    Every version begins as version 0 does, so only that much is parsed.
    """
    reader = FieldReader(subscription, 2)
    try:
        if FieldReader(subscription).i16() < 0:
            return None
        return frozenset(reader.string(False) for _ in range(reader.count(False)))
    except CorruptRecordError:
        return None
