"""OffsetCommits that are alike: what is the same in their frames is compared at once, what differs is cut out.

The same are all bytes but the correlation id and the offsets, which a reader copies and does not look at. So a frame
that fits a pattern is read as the frame that the pattern was made of, with other offsets.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from actors.wire.offset_columns import NO_LEADER_EPOCH, WITH_EPOCH_FROM, OffsetCommitColumns

_CORRELATION_ID_AT: Final = 4


class CommitPattern:
    """A request's frame without its correlation id and its offsets."""

    __slots__ = ("_fixed", "_has_epoch", "_struct")

    def __init__(self, frame: bytes, version: int, message: OffsetCommitColumns) -> None:
        self._has_epoch = version >= WITH_EPOCH_FROM
        self._struct = _struct(frame, message, 12 if self._has_epoch else 8)
        self._fixed = self._struct.unpack(frame)[::2]

    def read(self, frame: bytes) -> tuple[int, tuple[bytes, ...]] | None:
        """The frame's correlation id, and the offsets of all topics in their order; None if it does not fit."""
        if len(frame) != self._struct.size:
            return None
        fields = self._struct.unpack(frame)
        if fields[::2] != self._fixed:
            return None
        offsets = fields[3::2]
        return fields[1], offsets if self._has_epoch else tuple([offset + NO_LEADER_EPOCH for offset in offsets])


def _struct(frame: bytes, message: OffsetCommitColumns, offset_size: int) -> Struct:
    """Takes a frame apart into fixed and varying parts, in turns."""
    layout, at = [f">{_CORRELATION_ID_AT}si"], _CORRELATION_ID_AT + 4
    for topic in message.topics:
        for offset_at in topic.offsets_at:
            layout.append(f"{offset_at - at}s{offset_size}s")
            at = offset_at + offset_size
    layout.append(f"{len(frame) - at}s")
    return Struct("".join(layout))
