"""The heartbeats of one client: all are alike but for their correlation ids, so only a new one is decoded."""

from __future__ import annotations

from actors.coordinator.classic import messages as core
from actors.group_api import decode, heartbeat
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader, decode_request_header
from actors.wire.messages import HeartbeatRequest

_NO_TOPICS = Topics()
_BODY_AT = 8
"""Before it: API key and version, then the correlation id, four bytes each."""
_KEPT_BYTES_MAX = 1024  # of a request: nearly all are shorter
_new = tuple.__new__  # takes half the time of a named tuple's own constructor

Read = tuple[RequestHeader, HeartbeatRequest, core.HeartbeatRequest]
"""A request's header, what its answer is made of, and what the coordinator is asked."""


class Heartbeats:
    """Reads the heartbeats of one client."""

    __slots__ = ("_begin", "_last", "_rest", "_size")

    def __init__(self) -> None:
        self._begin = self._rest = b""
        self._size = 0
        self._last: Read | None = None

    def read(self, frame: bytes) -> Read:
        """The request in a frame. Raises WireError if it is malformed or of a version not served."""
        last = self._last
        if (
            last is not None
            and len(frame) == self._size
            and frame.startswith(self._begin)
            and frame.endswith(self._rest)
        ):
            (api_key, version, _, client_id, body_offset), message, request = last
            correlation_id = int.from_bytes(frame[4:_BODY_AT], "big", signed=True)
            return _new(RequestHeader, (api_key, version, correlation_id, client_id, body_offset)), message, request
        header = decode_request_header(frame)
        message = decode(header, frame)  # type: ignore[assignment]
        request = heartbeat.parse(header, message, "", _NO_TOPICS)
        if len(frame) <= _KEPT_BYTES_MAX:
            self._begin, self._rest, self._size = frame[:4], frame[_BODY_AT:], len(frame)
            self._last = header, message, request
        return header, message, request
