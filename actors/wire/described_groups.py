"""ConsumerGroupDescribe's answer as bytes: it is cut into its groups, of which only the names of topics are read.

An answer about many members takes long to decode, and as long to encode again. Here it is walked through, a piece at a
time. The messages of schema.json say the same of the same bytes, and a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.wire.varints import read_uvarint, skip_tags

PIECE_VALUES: Final = 2_000
"""The number of groups, members, names and topics in a piece of the walk: a few milliseconds. No member is cut."""
_MEMBER_TYPE_FROM: Final = 1
_HEAD_BYTES: Final = 8
"""The length of the frame, and the correlation id; tags follow."""
OPERATIONS_BYTES: Final = 4


class GroupBytes(NamedTuple):
    """A group of the answer."""

    group_id: str
    error_code: int
    topics: frozenset[str]
    """The names of all topics that its members have or are to have."""
    before: bytes
    """Its bytes up to its members, these included."""
    operations: bytes
    """The authorized operations, which come next."""
    tags: bytes
    """The end of it."""


def read_groups(frame: bytes, version: int, found: list[GroupBytes]) -> Iterator[None]:
    """Read all groups of a whole response frame into `found`. Yields after each piece."""
    at = skip_tags(frame, _HEAD_BYTES) + 4  # the throttle time
    count, at = read_uvarint(frame, at)
    left = PIECE_VALUES
    for _ in range(count - 1):
        begin = at
        error_code = int.from_bytes(frame[at : at + 2], "big", signed=True)
        id_at = _past(frame, at + 2)
        at = _past(frame, id_at)
        group_id = _text(frame, id_at, at)
        at = _past(frame, _past(frame, at) + 8)  # state, epochs, and assignor
        members, at = read_uvarint(frame, at)
        topics: dict[bytes, str] = {}
        left -= 1
        for _ in range(members - 1):
            if left <= 0:
                left = PIECE_VALUES
                yield
            at, work = _past_member(frame, at, version, topics)
            left -= work
        if left <= 0:
            left = PIECE_VALUES
            yield
        end = at + OPERATIONS_BYTES
        after = skip_tags(frame, end)
        names = frozenset(topics.values())
        found.append(GroupBytes(group_id, error_code, names, frame[begin:at], frame[at:end], frame[end:after]))
        at = after


def _past_member(frame: bytes, at: int, version: int, topics: dict[bytes, str]) -> tuple[int, int]:
    """The position after a member, whose topics are added by their ids, and how many values it has."""
    for _ in range(3):  # its id, its instance, and its rack
        at = _past(frame, at)
    at = _past(frame, _past(frame, at + 4))  # its epoch, the client's id and host
    count, at = read_uvarint(frame, at)
    work = max(count, 1)
    for _ in range(count - 1):
        at = _past(frame, at)
    at = _past(frame, at)  # the regular expression
    for _ in range(2):  # its assignment, and its target assignment
        count, at = read_uvarint(frame, at)
        work += count
        for _ in range(count - 1):
            topic_id, at = frame[at : at + 16], at + 16
            after = _past(frame, at)
            if topic_id not in topics:
                topics[topic_id] = _text(frame, at, after)
            partitions, at = read_uvarint(frame, after)
            at = skip_tags(frame, at + 4 * (partitions - 1))
        at = skip_tags(frame, at)
    if version >= _MEMBER_TYPE_FROM:
        at += 1
    return skip_tags(frame, at), work


def _past(frame: bytes, at: int) -> int:
    """The position after a text, or a null."""
    size = frame[at]
    if size < 128:
        return at + (size or 1)
    size, at = read_uvarint(frame, at)
    return at + size - 1


def _text(frame: bytes, at: int, end: int) -> str:
    """The text that ends there."""
    return frame[read_uvarint(frame, at)[1] : end].decode()
