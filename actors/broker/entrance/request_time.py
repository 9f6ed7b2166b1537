"""The time that requests take on the broker's loop, for clients with a `request_percentage` (KIP-124).

A broker has one loop, so per cent are per cent of that. The time counts in which a request is read, handled or passed
on to a shard, and answered if that happens at once; not that of the shard or a thread, nor TLS and sockets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Final

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot, SlotQueue
from actors.broker.context import BrokerContext
from actors.broker.quotas import TimeAccount
from actors.wire.framing import Part, encode_response
from actors.wire.messages import response_class

_HEAD_BYTES: Final = 10  # of a request, up to the client id
_LENGTH: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_MARK: Final = 0x5EED_0042
_HEADS_OF_RESPONSES: Final = (8, 9)  # with its length; the longer one is that of flexible versions

Serve = Callable[[Connection, bytes, int, int], None]


class RequestTime:
    """Serves the requests of clients with such a quota by the clock. `serve` serves any request."""

    def __init__(self, context: BrokerContext, serve: Serve) -> None:
        self._context = context
        self._serve = serve
        self._timing = False

    def serves(self, connection: Connection, data: bytes, start: int, end: int) -> bool:
        """Serve a request if its time counts. False: it does not, and the request is to be served as any other.

        It is so, too, for the call of `serve` in here.
        """
        quotas = self._context.quotas
        if self._timing or not quotas.have_time:
            return False
        clock = self._context.environment.clock.monotonic
        account = quotas.time_begins(connection, client_id_of(data, start), clock)
        if account is None:
            return False
        slots = connection.slots
        self._timing, slots.make = True, partial(_TimedSlot, account)
        try:
            self._serve(connection, data, start, end)
        finally:
            self._timing, slots.make = False, Slot
            quotas.time_ends(connection)
        return True


class _TimedSlot(Slot):
    """A request whose answer tells for how long its connection will not be read."""

    __slots__ = ("_account",)

    def __init__(
        self, account: TimeAccount, queue: SlotQueue, slot_id: int, api_key: int, version: int, correlation_id: int
    ) -> None:
        super().__init__(queue, slot_id, api_key, version, correlation_id)
        self._account = account

    def finish(self, answer: bytes | list[Part]) -> None:
        throttle_ms = self._account.throttle_ms()
        super().finish(_telling(answer, self.api_key, self.version, throttle_ms) if throttle_ms else answer)


def client_id_of(data: bytes, start: int) -> str:
    """The client id in the header of a request, which begins there."""
    at = start + _HEAD_BYTES
    (length,) = _LENGTH.unpack_from(data, at - _LENGTH.size)
    return data[at : at + max(length, 0)].decode(errors="replace")


def _telling(answer: bytes | list[Part], api_key: int, version: int, throttle_ms: int) -> bytes | list[Part]:
    """The answer with that throttle time, if it has a shorter one.

    An answer without one, or with one not in front, stays.
    """
    at = _place_of_throttle(api_key, version)
    if at is None:
        return answer
    if isinstance(answer, bytes):
        return _put(answer, at, throttle_ms)
    head, body, *rest = answer
    assert isinstance(head, bytes)
    assert isinstance(body, bytes), "only records are in files"
    return [_put(head + body, at, throttle_ms), *rest]


def _put(frame: bytes, at: int, throttle_ms: int) -> bytes:
    told = max(throttle_ms, *_INT.unpack_from(frame, at))
    return b"".join((frame[:at], _INT.pack(told), frame[at + _INT.size :]))


@cache
def _place_of_throttle(api_key: int, version: int) -> int | None:
    """The position of an answer's throttle time, if it is the first field, as in nearly all.

    Produce has it at the end, and its handler sets it.
    """
    response = response_class(api_key)()
    if not hasattr(response, "throttle_time_ms"):
        return None
    response.throttle_time_ms = _MARK
    frame = encode_response(response, version, 0)
    return next((at for at in _HEADS_OF_RESPONSES if frame[at : at + 4] == _INT.pack(_MARK)), None)
