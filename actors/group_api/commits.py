"""The OffsetCommits of one client. A member commits the same partitions again and again, which is looked for first.

A request like the one before is not parsed again (`wire/commit_pattern.py`), and what is answered to it is kept. The
coordinator is asked the same either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.coordinator.groups import messages as core
from actors.group_api import decode, offset_commit
from actors.group_api.topics import Topics
from actors.wire.commit_pattern import CommitPattern
from actors.wire.framing import RequestHeader, decode_request_header
from actors.wire.offset_columns import OffsetCommitColumns

_KEPT_BYTES_MAX = 8192  # of a request: what is kept of it takes about ten times the room
_new = tuple.__new__  # takes half the time of a named tuple's own constructor

Read = tuple[RequestHeader, OffsetCommitColumns, core.OffsetCommitRequest | None]
"""A request's header, its message for the answer, and the coordinator's request, if there is any."""


class Commits:
    """Reads the commits of one client."""

    __slots__ = ("_message", "_repeated")

    def __init__(self) -> None:
        self._message: OffsetCommitColumns | None = None
        self._repeated: _Repeated | None = None

    def read(self, frame: bytes, topics: Topics) -> Read:
        """The request in a frame. Raises WireError if it is malformed or of a version not served."""
        repeated = self._repeated
        if repeated is not None and repeated.topics is topics and (read := repeated.read(frame)) is not None:
            return read
        header = decode_request_header(frame)
        message = decode(header, frame)
        assert isinstance(message, OffsetCommitColumns)
        request = offset_commit.parse(header, message, "", topics)
        if len(frame) <= _KEPT_BYTES_MAX:
            if request is not None and self._message is not None and message.is_like(self._message):
                self._repeated = _repeated(frame, header, message, request, topics)
            self._message = message
        return header, message, request


class _Repeated:
    """A request that came twice, and what is made of it."""

    __slots__ = ("_by", "_columns", "_header", "_message", "_pattern", "_retention_time_ms", "_version", "topics")

    def __init__(
        self,
        pattern: CommitPattern,
        header: RequestHeader,
        message: OffsetCommitColumns,
        request: core.OffsetCommitRequest,
        topics: Topics,
    ) -> None:
        self.topics = topics  # by these all of its partitions exist
        self._pattern = pattern
        self._header = header
        self._message = message
        self._by, (self._version, self._retention_time_ms) = request[:4], request[5:]
        self._columns: list[tuple[str, core.Partitions, Sequence[bytes] | None, bytes, slice]] = []
        first = 0
        for name, partitions, _, metadata, topic_id in request.topics:
            stop = first + len(partitions)
            self._columns.append((name, partitions, metadata, topic_id, slice(first, stop)))
            first = stop

    def read(self, frame: bytes) -> Read | None:
        """The request in a frame; None if it is another one."""
        found = self._pattern.read(frame)
        if found is None:
            return None
        correlation_id, offsets = found
        api_key, version, _, client_id, body_offset = self._header
        header = _new(RequestHeader, (api_key, version, correlation_id, client_id, body_offset))
        topics = [
            _new(core.TopicOffsets, (name, partitions, offsets[its_own], metadata, topic_id))
            for name, partitions, metadata, topic_id, its_own in self._columns
        ]
        asked = (*self._by, topics, self._version, self._retention_time_ms)
        return header, self._message, _new(core.OffsetCommitRequest, asked)


def _repeated(
    frame: bytes,
    header: RequestHeader,
    message: OffsetCommitColumns,
    request: core.OffsetCommitRequest,
    topics: Topics,
) -> _Repeated | None:
    """None if there are no partitions, or one of them does not exist."""
    wanted = sum(len(topic.partitions) for topic in request.topics)
    if not 0 < wanted == message.partition_count:
        return None
    return _Repeated(CommitPattern(frame, header.api_version, message), header, message, request, topics)
