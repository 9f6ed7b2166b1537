"""OffsetCommit, the request that groups send most, as columns: its bytes are cut up, not made into objects.

A partition of the request is its index, then twelve bytes that the offset record's value has, too (offset and leader
epoch), then its metadata. So the columns are slices, whose numbers nobody reads before the offset is fetched. All
versions are read here; the messages of schema.json, which clients send, say the same of the same bytes, and a test
holds the two against each other.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Final, NamedTuple, Self, TypeAlias

from actors.wire.codec import ApiMessage
from actors.wire.errors import WireError
from actors.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from actors.wire.repeated import Repeated
from actors.wire.varints import read_uvarint, short, skip_tags, too_many

NO_LEADER_EPOCH: Final = b"\xff\xff\xff\xff"
_NO_TOPIC_ID: Final = bytes(16)
WITH_EPOCH_FROM: Final = 6
_WITH_INSTANCE_FROM: Final = 7
_WITH_RETENTION_UP_TO: Final = 4
_WITH_THROTTLE_FROM: Final = 3
_WITH_TOPIC_ID_FROM: Final = 10

_new: Final = tuple.__new__  # takes half the time of a named tuple's own constructor

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_OFFSET: Final = struct.Struct(">qi")


class Committer(NamedTuple):
    """The member that commits."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class TopicColumns(NamedTuple):
    """One topic of an OffsetCommit. The columns have an entry for each partition, in the request's order."""

    name: str
    """Empty from version 10 on."""
    topic_id: bytes
    """Zero before version 10."""
    head: bytes
    """Name or id, and the number of partitions: as the request has it, and the answer repeats it."""
    partitions: Sequence[bytes]
    """Four bytes each: the index. In their order a negative one comes after all others."""
    metadata: Sequence[bytes] | None
    """Good UTF-8, empty for null. None if no partition has any."""
    offsets: Sequence[bytes]
    """Twelve bytes each: offset and leader epoch."""
    offsets_at: Sequence[int]
    """The position in the frame of each offset."""


# -- reading


class _Form(NamedTuple):
    """The layout of the fields in some versions."""

    text: Callable[[bytes, int], tuple[str | None, int]]
    """Reads a string; None for null."""
    array: Callable[[bytes, int], tuple[int, int]]
    """Reads how many elements an array has; -1 for null."""
    row: struct.Struct
    """A partition's index and its offset."""
    plain_rows: Repeated
    """The same without metadata, as most are, and so all equally long."""
    is_plain: Callable[[bytes, bytes], bool]
    """True if the two bytes after the offset say that there is no more of a partition; called for many of them."""
    flexible: bool


def _compact_text(data: bytes, at: int) -> tuple[str | None, int]:
    size = data[at]
    if size < 128:
        at += 1
    else:
        size, at = read_uvarint(data, at)
    if not size:
        return None, at
    end = at + size - 1
    if end > len(data):
        short("a string")
    return data[at:end].decode(), end


def _classic_text(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = _I16.unpack_from(data, at)
    at += 2
    if size < 0:
        return None, at
    end = at + size
    if end > len(data):
        short("a string")
    return data[at:end].decode(), end


def _compact_array(data: bytes, at: int) -> tuple[int, int]:
    size = data[at]
    if size < 128:
        return size - 1, at + 1
    size, at = read_uvarint(data, at)
    return size - 1, at


def _classic_array(data: bytes, at: int) -> tuple[int, int]:
    return _I32.unpack_from(data, at)[0], at + 4


def _is_plain_compact(lengths: bytes, tags: bytes) -> bool:
    """The metadata is null (0) or empty (1), and there are no tagged fields."""
    return not lengths.strip(b"\0\1") and not tags.strip(b"\0")


def _is_plain_classic(high: bytes, low: bytes) -> bool:
    """The metadata's length is -1 or 0."""
    return high == low and not high.strip(b"\0\xff")


_ROW: Final = struct.Struct(">4s12s")
_ROW_WITHOUT_EPOCH: Final = struct.Struct(">4s8s")
_PLAIN: Final = Repeated("4s12s2x")
_COMPACT: Final = _Form(_compact_text, _compact_array, _ROW, _PLAIN, _is_plain_compact, True)
_CLASSIC: Final = _Form(_classic_text, _classic_array, _ROW, _PLAIN, _is_plain_classic, False)
_WITHOUT_EPOCH: Final = _CLASSIC._replace(row=_ROW_WITHOUT_EPOCH, plain_rows=Repeated("4s8s2x"))


_FORMS: Final = {
    **dict.fromkeys(range(OffsetCommitRequest.min_version, WITH_EPOCH_FROM), _WITHOUT_EPOCH),
    **dict.fromkeys(range(WITH_EPOCH_FROM, OffsetCommitRequest.flexible_from), _CLASSIC),
    **dict.fromkeys(range(OffsetCommitRequest.flexible_from, OffsetCommitRequest.max_version + 1), _COMPACT),
}


class OffsetCommitColumns(ApiMessage):
    """An OffsetCommit request."""

    __slots__ = ("by", "good_answer", "head", "partition_count", "retention_time_ms", "topics")
    api_key = OffsetCommitRequest.api_key
    min_version = OffsetCommitRequest.min_version
    max_version = OffsetCommitRequest.max_version
    flexible_from = OffsetCommitRequest.flexible_from

    by: Committer
    retention_time_ms: int
    topics: list[TopicColumns]
    head: bytes
    """The number of topics: as the request has it, and the answer repeats it."""
    partition_count: int
    """Of all topics together."""
    good_answer: bytes | None
    """The body of the answer without an error, once it was made: a request that is repeated gets the same again."""

    def is_like(self, other: OffsetCommitColumns) -> bool:
        """True if both say the same but for their offsets."""
        return self.by == other.by and [topic[:5] for topic in self.topics] == [topic[:5] for topic in other.topics]

    def request_for(self, topics: Iterable[TopicColumns]) -> OffsetCommitRequest:
        """The same request for some of its topics, as a message."""
        group_id, generation_id, member_id, instance_id = self.by
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=self.retention_time_ms,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=_partitions(topic)
                )
                for topic in topics
            ],
        )

    @classmethod
    def decode(cls, data: bytes, version: int, offset: int = 0, entries_max: int = sys.maxsize) -> Self:
        """The message at `data[offset:]`. Raises WireError on anything malformed; bytes after it are ignored.

        `entries_max`: see ApiMessage.decode. Tagged fields do not count.
        """
        form = _FORMS.get(version)
        if form is None:
            raise WireError(f"OffsetCommitRequest has no version {version}")
        try:
            m = cls.__new__(cls)
            m._read(data, version, offset, form)
        except (struct.error, IndexError, ValueError) as error:
            raise WireError(f"OffsetCommitRequest v{version} is malformed: {error}") from error
        if len(m.topics) + m.partition_count > entries_max:
            too_many()
        return m

    def _read(self, data: bytes, version: int, at: int, form: _Form) -> None:
        self.by, at = _read_committer(data, version, at, form)
        self.good_answer = None
        self.retention_time_ms = -1
        if version <= _WITH_RETENTION_UP_TO:
            self.retention_time_ms = _I64.unpack_from(data, at)[0]
            at += 8
        start = at
        topics, at = form.array(data, at)
        self.head = data[start:at]
        if not 0 <= topics <= len(data) - at:
            short("the array of topics")
        self.topics = []
        self.partition_count = 0
        for _ in range(topics):
            topic, at = _read_topic(data, version, at, form)
            self.topics.append(topic)
            self.partition_count += len(topic[3])
        if form.flexible and data[at]:
            skip_tags(data, at)


def indexes(topic: TopicColumns) -> tuple[int, ...]:
    """The partitions of a topic."""
    return struct.unpack(f">{len(topic.partitions)}i", b"".join(topic.partitions))


def _partitions(topic: TopicColumns) -> list[OffsetCommitRequest.OffsetCommitRequestPartition]:
    texts = [said.decode() for said in topic.metadata] if topic.metadata is not None else repeat("")
    offsets = _OFFSET.iter_unpack(b"".join(topic.offsets))
    make = OffsetCommitRequest.OffsetCommitRequestPartition
    new = make.__new__  # the constructor takes twice as long
    made = []
    for index, (offset, epoch), text in zip(indexes(topic), offsets, texts, strict=False):
        partition = new(make)
        partition.partition_index = index
        partition.committed_offset = offset
        partition.committed_leader_epoch = epoch
        partition.committed_metadata = text
        made.append(partition)
    return made


def _read_committer(data: bytes, version: int, at: int, form: _Form) -> tuple[Committer, int]:
    text = form.text
    group_id, at = text(data, at)
    generation_id = _I32.unpack_from(data, at)[0]
    member_id, at = text(data, at + 4)
    instance_id, at = text(data, at) if version >= _WITH_INSTANCE_FROM else (None, at)
    if group_id is None or member_id is None:
        raise ValueError("the group's or the member's id is null")
    return _new(Committer, (group_id, generation_id, member_id, instance_id)), at


def _read_topic(data: bytes, version: int, at: int, form: _Form) -> tuple[TopicColumns, int]:
    text, array, row, plain_rows, is_plain, flexible = form
    start = at
    name: str | None = ""
    topic_id = _NO_TOPIC_ID
    if version < _WITH_TOPIC_ID_FROM:
        name, at = text(data, at)
        if name is None:
            raise ValueError("a topic's name is null")
    else:
        at += len(_NO_TOPIC_ID)
        topic_id = data[start:at]
    count, at = array(data, at)
    head = data[start:at]
    if not 0 <= count <= len(data) - at:
        short("the array of partitions")
    size = plain_rows.size
    end = at + count * size
    rows = data[at:end]
    metadata: list[bytes] | None = None
    if end <= len(data) and is_plain(rows[size - 2 :: size], rows[size - 1 :: size]):
        fields = plain_rows.times(count).unpack(rows)
        partitions, offsets = fields[::2], fields[1::2]
        offsets_at: Sequence[int] = range(at + 4, end, size)
    else:
        partitions, offsets, metadata, offsets_at, end = _read_each(data, at, count, form)
    if row is _ROW_WITHOUT_EPOCH:
        offsets = tuple([offset + NO_LEADER_EPOCH for offset in offsets])
    if flexible:
        end = skip_tags(data, end) if data[end] else end + 1
    return _new(TopicColumns, (name, topic_id, head, partitions, metadata, offsets, offsets_at)), end


_Column: TypeAlias = tuple[bytes, ...]


def _read_each(data: bytes, at: int, count: int, form: _Form) -> tuple[_Column, _Column, list[bytes], list[int], int]:
    """The columns of partitions of which some have metadata or tagged fields, and where they end."""
    text, unpack, size = form.text, form.row.unpack_from, form.row.size
    partitions, offsets, metadata, offsets_at = [], [], [], []
    for _ in range(count):
        partition, offset = unpack(data, at)
        offsets_at.append(at + 4)
        start = at + size
        said, at = text(data, start)
        metadata.append(said.encode() if said else b"")
        if form.flexible:
            at = skip_tags(data, at) if data[at] else at + 1
        partitions.append(partition)
        offsets.append(offset)
    return tuple(partitions), tuple(offsets), metadata, offsets_at, at


# -- answering


class OffsetCommitAnswer(ApiMessage):
    """An OffsetCommit response: the request's topics, and an error code for each of their partitions, in order."""

    __slots__ = ("error_codes", "request")
    api_key = OffsetCommitResponse.api_key
    min_version = OffsetCommitResponse.min_version
    max_version = OffsetCommitResponse.max_version
    flexible_from = OffsetCommitResponse.flexible_from

    def __init__(self, request: OffsetCommitColumns, error_codes: Sequence[int]) -> None:
        self.request = request
        self.error_codes = error_codes

    def encode_parts(self, version: int) -> list[bytes]:
        end = b"\0" if version >= self.flexible_from else b""  # no tagged fields
        no_error = _NO_ERROR + end
        errors = [_I16.pack(code) + end for code in self.error_codes] if any(self.error_codes) else None
        out = [_NO_THROTTLE if version >= _WITH_THROTTLE_FROM else b"", self.request.head]
        first = 0
        for _, _, head, partitions, _, _, _ in self.request.topics:
            if errors is not None:
                stop = first + len(partitions)
                out += (head, *chain.from_iterable(zip(partitions, errors[first:stop], strict=True)), end)
                first = stop
            elif partitions:
                out += (head, no_error.join(partitions), no_error, end)
            else:
                out += (head, end)
        out.append(end)
        return out


_NO_THROTTLE: Final = bytes(4)
_NO_ERROR: Final = bytes(2)
