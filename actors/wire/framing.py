"""Frames and headers: a 4-byte length, a request or response header, a body. No sockets here."""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from actors.wire.api_keys import ApiKey
from actors.wire.codec import ApiMessage
from actors.wire.errors import WireError
from actors.wire.messages import request_class
from actors.wire.varints import read_uvarint, skip_tags

_API_VERSIONS = ApiKey.API_VERSIONS
_request_head = struct.Struct(">ihhih")
_head = struct.Struct(">hhih")
_response_head = struct.Struct(">ii")
_flexible_response_head = struct.Struct(">iib")
LARGE_BYTES = 1 << 16
"""Small answers are copied together; larger ones are written in the parts they have."""
M = TypeVar("M", bound=ApiMessage)


class FilePart(Protocol):
    """A part of an answer that is read when it is written. It is longer than LARGE_BYTES."""

    def __len__(self) -> int:
        """The bytes that have not been read yet."""

    def read(self, most_bytes: int) -> bytes:
        """The next bytes."""


Part: TypeAlias = bytes | FilePart


@cache
def _flexible_from(api_key: int) -> int:
    return request_class(api_key).flexible_from


class RequestHeader(NamedTuple):
    """The header of a request, and where in the frame its body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def encode_request(message: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame, its length first."""
    body = message.encode(version)
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if version >= message.flexible_from else b""
    head = _request_head.pack(
        10 + len(name) + len(tags) + len(body),
        message.api_key,
        version,
        correlation_id,
        -1 if client_id is None else len(name),
    )
    return b"".join((head, name, tags, body))


def encode_response(message: ApiMessage, version: int, correlation_id: int) -> bytes:
    """A whole response frame, its length first. ApiVersions has the plain header in every version (KIP-511)."""
    return frame_response(message.encode(version), message.api_key, version, correlation_id)


def encode_large_response(message: ApiMessage, version: int, correlation_id: int) -> bytes | list[Part]:
    """The same frame; a large one in parts, which can be written without being copied together."""
    parts = message.encode_parts(version)
    size = sum(map(len, parts))
    parts.insert(0, _head_of_response(size, message.api_key, version, correlation_id))
    return [*parts] if size > LARGE_BYTES else b"".join(parts)


def frame_response(body: bytes, api_key: int, version: int, correlation_id: int) -> bytes:
    """The frame around a response body that is encoded already."""
    return _head_of_response(len(body), api_key, version, correlation_id) + body


def _head_of_response(body_bytes: int, api_key: int, version: int, correlation_id: int) -> bytes:
    if version >= _flexible_from(api_key) and api_key != _API_VERSIONS:
        return _flexible_response_head.pack(5 + body_bytes, correlation_id, 0)
    return _response_head.pack(4 + body_bytes, correlation_id)


def decode_request_header(frame: bytes, offset: int = 0) -> RequestHeader:
    """The header of the frame whose first byte after the length is at `offset`. Raises WireError."""
    try:
        api_key, version, correlation_id, length = _head.unpack_from(frame, offset)
        pos = offset + 10
        client_id = None
        if length >= 0:
            client_id = frame[pos : pos + length].decode()
            pos += length
            if pos > len(frame):
                raise WireError("the client id reaches beyond the frame")
        if version >= _flexible_from(api_key):
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos)
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise WireError(f"malformed request header: {error}") from error
    # tuple's own constructor takes half the time of a named tuple's
    return tuple.__new__(RequestHeader, (api_key, version, correlation_id, client_id, pos))


def decode_response(cls: type[M], version: int, frame: bytes) -> tuple[int, M]:
    """(correlation id, message) of a response frame without its length. Raises WireError."""
    if len(frame) < 4:
        raise WireError(f"a response of {len(frame)} bytes has no header")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    pos = 4
    if version >= cls.flexible_from and cls.api_key != _API_VERSIONS:
        try:
            pos = skip_tags(frame, pos)
        except (IndexError, ValueError) as error:
            raise WireError(f"malformed response header: {error}") from error
    return correlation_id, cls.decode(frame, version, pos)


__all__ = [
    "FilePart",
    "Part",
    "RequestHeader",
    "decode_request_header",
    "decode_response",
    "encode_large_response",
    "encode_request",
    "encode_response",
    "frame_response",
    "read_uvarint",
]
