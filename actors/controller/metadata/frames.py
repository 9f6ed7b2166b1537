"""The content of a metadata log's file: frames of length, CRC-32C and msgpack, in the layout of a level.

The first frame names the layout: `["format", 1]`, or from level 2 on `["format", LEVEL, RELEASE]`, the release that
wrote the file. From level 5 on it is `["format", LEVEL, RELEASE, DIRECTORY]`, and the others are the pieces of the
journal (`actors.quorum.durable`) of a voter, whose directory has that id. Before that, they are

- a snapshot, `["image", IMAGE]`, as the second frame if there is one;
- at level 1 the records themselves, several that commit together as `["records", [RECORD, ...]]`;
- from level 2 on an entry, `["entry", EPOCH, INDEX, [RECORD, ...]]`: the controller that decided it, and the number of
  records before it.

`placement.records` has the layouts of records, and the rules for what a reader does not know.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgpack
from crc32c import crc32c

from placement.arrays import ArrayError
from placement.records import (
    VERSIONED,
    BrokerDirectoryRecord,
    BrokerHomeRecord,
    BrokerRemovalRecord,
    ClusterSettingsRecord,
    GroupConfigsRecord,
    MetadataImage,
    PairRecord,
    PartitionsRecord,
    Record,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    read_image,
    read_record,
    write_image,
    write_record,
)
from placement.sealed_pools import PoolsKeyRecord

_HEAD: Final = struct.Struct(">II")
_OF_VERSIONED: Final = (
    BrokerDirectoryRecord,
    BrokerHomeRecord,
    BrokerRemovalRecord,
    ClusterSettingsRecord,
    GroupConfigsRecord,
    PairRecord,
    PartitionsRecord,
    PoolsKeyRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
"""The kinds that have come since records have versions."""


@dataclass(frozen=True, slots=True)
class Format:
    """The first frame of a file: the level whose layout it has, and the release that wrote it, if it is known."""

    level: int
    release: str = ""
    directory: str = ""
    """The id of the voter's directory; empty if the file is no voter's."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Records that commit together. Epoch and index are None at level 1, which does not write them."""

    epoch: int | None
    index: int | None
    records: tuple[Record, ...]


Content: TypeAlias = Format | MetadataImage | Entry


def fits(record: Record, level: int) -> bool:
    """True if the layout of a level can hold a record: the first has no versions and no kinds that came with them."""
    return level >= VERSIONED or (record.VERSION == 0 and not isinstance(record, _OF_VERSIONED))


def encode(content: Content, level: int) -> bytes:
    """The frame of this in the layout of a level."""
    return frame(packed(content, level))


def packed(content: Content, level: int) -> bytes:
    """The body of that frame."""
    body: bytes = msgpack.packb(_array(content, level))
    return body


def decode(body: bytes, level: int) -> Content:
    """The content of a frame's body, in a file of this level. Raises ArrayError, UnknownRecordError."""
    match msgpack.unpackb(body, strict_map_key=False):
        case ["format", int(found), *rest]:
            return Format(found, *map(str, rest[:2]))
        case ["image", image]:
            return read_image(image)
        case ["entry", int(epoch), int(index), list(records)] if level >= VERSIONED:
            return Entry(epoch, index, tuple(read_record(each, level) for each in records))
        case ["records", list(records)] if level < VERSIONED:
            return Entry(None, None, tuple(read_record(each, level) for each in records))
        case record if level < VERSIONED:
            return Entry(None, None, (read_record(record, level),))
        case other:
            raise ArrayError(f"no entry, but {str(other)[:60]}")


def _array(content: Content, level: int) -> list[Any]:
    match content:
        case Format(own, release, directory):
            if directory:
                return ["format", own, release, directory]
            return ["format", own, release] if own >= VERSIONED else ["format", own]
        case MetadataImage():
            return ["image", write_image(content)]
        case Entry(epoch, index, records):
            written = [write_record(each, level) for each in records]
            if level >= VERSIONED:
                return ["entry", epoch, index, written]
            return written[0] if len(written) == 1 else ["records", written]


def frame(body: bytes) -> bytes:
    """A body with its length and its checksum."""
    return _HEAD.pack(len(body), crc32c(body)) + body


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The whole frames at the beginning: where each ends, and its body."""
    position = 0
    while (body := body_at(data, position)) is not None:
        position += _HEAD.size + len(body)
        yield position, body


def body_at(data: bytes, position: int) -> bytes | None:
    """The body of the frame at a position; None if no whole frame is there. A run of zeros is not a frame."""
    if len(data) - position <= _HEAD.size:
        return None
    length, crc = _HEAD.unpack_from(data, position)
    if not 0 < length <= len(data) - position - _HEAD.size:
        return None
    body = data[position + _HEAD.size : position + _HEAD.size + length]
    return body if crc32c(body) == crc else None
