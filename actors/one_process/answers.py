"""Answers that are delayed or refused: they stand between clients' connections and the socket servers of all brokers.

A request that is refused is not handled. One whose answer is delayed is handled at once, so that a client that waits no
longer does not know what has become of it; what it sends meanwhile on the same connection is handled, too, and answered
after it. A produce with acks=0 has no answer. Clients with a quota of time are not delayed: theirs are other slots.
The cluster's own requests, by which it carries out orders, are left alone.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from actors.broker.connections.connection import Connection, Failures, Server
from actors.broker.connections.slots import Slot, SlotQueue
from actors.broker.entrance.socket_server import SocketServer
from actors.broker.handlers.group_requests.offset_fetch import GROUPS_FROM
from actors.broker.handlers.registry import APIS
from actors.coordinator_kinds.groups import GROUPS
from actors.group_api import MODULES
from actors.one_process.orders import OrderError
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import Part, RequestHeader, decode_request_header, encode_large_response
from actors.wire.messages import OffsetFetchRequest, OffsetFetchResponse

_HEAD: Final = struct.Struct(">hh")  # the API key and the version of a request


@dataclass(slots=True)
class _Rule:
    """The treatment of the next `left` requests of an API: an error, or a delay."""

    left: int
    error: ErrorCode | None = None
    seconds: float = 0.0


class Answers:
    """The rules for all brokers of a cluster, by API key; of several for one API the first one given counts first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, own: str) -> None:
        """`own` is the client id of the cluster's own requests."""
        self._loop = loop
        self._own = own
        self._rules: dict[int, list[_Rule]] = {}
        self.met = 0
        """The number of requests that were refused, or whose answers were delayed."""

    def before(self, server: SocketServer) -> Server:
        """The server that a socket server's connections give their requests to."""
        return _Interfering(self, server, self._loop)

    def delay(self, api: str, seconds: float, times: int) -> None:
        """Have the next answers wait. Raises OrderError."""
        self._add(_named(api), _Rule(times, seconds=seconds))

    def refuse(self, api: str, error: str, times: int) -> None:
        """Refuse the next requests. Raises OrderError."""
        key, code = _named(api), _code(error)
        row = APIS[key]
        if row.failed is None and key not in MODULES:
            raise OrderError(f"{api} has no answer that says an error")
        self._add(key, _Rule(times, error=code))

    def _add(self, key: ApiKey, rule: _Rule) -> None:
        if rule.left < 1:
            raise OrderError("times is at least 1")
        self._rules.setdefault(int(key), []).append(rule)

    def leave_alone(self) -> None:
        """Delay and refuse no more."""
        self._rules.clear()

    def next(self, data: bytes, start: int, end: int) -> _Rule | None:
        """The rule for a request that has come now, `data[start:end]`; it is used up by one. Raises WireError."""
        key, version = _HEAD.unpack_from(data, start)
        rules = self._rules.get(key)
        if not rules or not APIS[key].serves(version):
            return None
        if decode_request_header(data[start:end]).client_id == self._own:
            return None
        rule = rules[0]
        rule.left -= 1
        self.met += 1
        if not rule.left:
            rules.pop(0)
        return rule


def _named(api: str) -> ApiKey:
    """The API of this name, as Kafka writes it. Raises OrderError."""
    for key in APIS:
        if ApiKey(key).label == api:
            return ApiKey(key)
    names = ", ".join(ApiKey(key).label for key in APIS)
    raise OrderError(f"there is no API {api!r}: one of {names}")


def _code(error: str) -> ErrorCode:
    """The error of this name, as Kafka writes it. Raises OrderError."""
    try:
        code = ErrorCode[error]
    except KeyError:
        raise OrderError(f"Kafka has no error {error!r}: one as NOT_COORDINATOR") from None
    if code is ErrorCode.NONE:  # clients would take what was not done for done
        raise OrderError(f"{error} is no error: one as NOT_COORDINATOR")
    return code


class _Interfering:
    """Stands before one socket server."""

    def __init__(self, answers: Answers, server: SocketServer, loop: asyncio.AbstractEventLoop) -> None:
        self._answers = answers
        self._server = server
        self._loop = loop
        self.socket_request_max_bytes = server.socket_request_max_bytes
        self.on_connect = server.on_connect
        self.on_disconnect = server.on_disconnect

    @property
    def failures(self) -> Failures:
        return self._server.failures

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        rule = self._answers.next(data, start, end)
        if rule is None:
            self._server.on_frame(connection, data, start, end)
        elif rule.error is None:
            self._delay(rule.seconds, connection, data, start, end)
        else:
            _refuse(rule.error, connection, data[start:end])

    def _delay(self, seconds: float, connection: Connection, data: bytes, start: int, end: int) -> None:
        slots = connection.slots
        before, slots.make = slots.make, partial(_LateSlot, self._loop, seconds)
        try:
            self._server.on_frame(connection, data, start, end)
        finally:
            slots.make = before


def _refuse(code: ErrorCode, connection: Connection, frame: bytes) -> None:
    header = decode_request_header(frame)
    answer = _refusal(code, header, frame)
    if answer is not None:
        connection.slots.open(0, header.api_key, header.api_version, header.correlation_id).finish(answer)


def _refusal(code: ErrorCode, header: RequestHeader, frame: bytes) -> bytes | list[Part] | None:
    """The whole response frame that says the error; None if nobody expects one."""
    api, version = APIS[header.api_key], header.api_version
    if api.failed is None and not _names_groups(header):
        return GROUPS.requests.error_answer(header, frame, code)
    message: Any = api.request.decode(frame, version, header.body_offset)
    if header.api_key == ApiKey.PRODUCE and message.acks == 0:
        return None
    response = _of_groups(message, code) if api.failed is None else api.failed(message, version, code)
    return encode_large_response(response, version, header.correlation_id)


def _names_groups(header: RequestHeader) -> bool:
    return header.api_key == ApiKey.OFFSET_FETCH and header.api_version >= GROUPS_FROM


def _of_groups(message: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    """The error for each of the groups, which may be several."""
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    return OffsetFetchResponse(groups=[group(group_id=each.group_id, error_code=code) for each in message.groups])


class _LateSlot(Slot):
    """A request whose answer leaves so many seconds after it is there."""

    __slots__ = ("_loop", "_seconds")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        queue: SlotQueue,
        slot_id: int,
        api_key: int,
        version: int,
        correlation_id: int,
    ) -> None:
        super().__init__(queue, slot_id, api_key, version, correlation_id)
        self._loop = loop
        self._seconds = seconds

    def finish(self, answer: bytes | list[Part]) -> None:
        self._loop.call_later(self._seconds, self._leave, answer)

    def _leave(self, answer: bytes | list[Part]) -> None:
        connection = self.queue.connection
        if connection is not None and connection.transport is not None:
            super().finish(answer)
            connection.flush()
