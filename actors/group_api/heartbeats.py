"""The heartbeats of one client: all are alike but for their correlation ids, so only a new one is decoded.

They are those of a classic group or of a consumer group, whose members say something new in few of them. Few answers
to these tell anything new, and such an answer is encoded once.
"""

from __future__ import annotations

from typing import Final

from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatResponse
from actors.coordinator.turn import Request
from actors.group_api import consumer_group_heartbeat, decode, heartbeat
from actors.group_api.topics import Topics
from actors.wire.api_keys import ApiKey
from actors.wire.framing import RequestHeader, decode_request_header
from actors.wire.messages import ApiMessage

KEYS: Final = (ApiKey.HEARTBEAT.to_bytes(2, "big"), ApiKey.CONSUMER_GROUP_HEARTBEAT.to_bytes(2, "big"))
"""The first bytes of heartbeats' frames."""

_NO_TOPICS = Topics()
_BODY_AT = 8
"""Before it: API key and version, then the correlation id, four bytes each."""
_KEPT_BYTES_MAX = 1024  # of a request: nearly all are shorter
_new = tuple.__new__  # takes half the time of a named tuple's own constructor

Read = tuple[RequestHeader, ApiMessage, Request]
"""A request's header, its message, from which the answer is made, and the coordinator's request."""


class Heartbeats:
    """Reads the heartbeats of one client, and encodes the answers. `host` is its address."""

    __slots__ = ("_begin", "_body", "_host", "_last", "_response", "_rest", "_size")

    def __init__(self, host: str = "") -> None:
        self._host = host
        self._response: ConsumerGroupHeartbeatResponse | None = None
        self._body = b""
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
        message = decode(header, frame)
        module = heartbeat if frame.startswith(KEYS[0]) else consumer_group_heartbeat
        request = module.parse(header, message, self._host, _NO_TOPICS)
        if len(frame) <= _KEPT_BYTES_MAX:
            self._begin, self._rest, self._size = frame[:4], frame[_BODY_AT:], len(frame)
            self._last = header, message, request
        return header, message, request

    def body(self, message: ApiMessage, response: ConsumerGroupHeartbeatResponse, version: int) -> bytes:
        """The encoded answer to a heartbeat of a consumer group's member.

        One response object answers requests of one version alone, so that it is enough to know the object.
        """
        if response is self._response:
            return self._body
        body = consumer_group_heartbeat.answer(message, response, version, _NO_TOPICS).encode(version)  # type: ignore[arg-type]
        if response.assignment is None:
            self._response, self._body = response, body
        return body
