"""A connection over a transport of the test's: frames, answers, the end, and a login that has to be renewed."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import pytest

from actors.client.errors import (
    HungUpError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from actors.client.net.access import OPEN_ACCESS, Access
from actors.client.net.connection import NO_CONNECTION, Broker, Connection
from actors.client.net.exchange import Exchange
from actors.wire.framing import decode_request_header, encode_response
from actors.wire.messages import ApiMessage, HeartbeatRequest, HeartbeatResponse

VERSIONS = {HeartbeatRequest.api_key: (0, 4)}
REQUEST = HeartbeatRequest(group_id="g")
ANSWER = HeartbeatResponse(error_code=27)
TIMEOUT_MS = 60_000


class Socket:
    """The other end: the frames that were written, and whether it was closed."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data[4:])

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def numbers(self) -> list[int]:
        """The correlation ids of the requests."""
        return [decode_request_header(frame).correlation_id for frame in self.written]


class Ends:
    """An exchange, its socket, and the errors of which `on_lost` has heard."""

    def __init__(self, **options: Any) -> None:
        self.lost: list[KafkaError] = []
        self.exchange = Exchange("c", self.lost.append, **options)
        self.socket = Socket()
        self.exchange.connection_made(cast(asyncio.BaseTransport, self.socket))

    def call(self, timeout_ms: int = TIMEOUT_MS) -> asyncio.Future[Any]:
        return self.exchange.call(REQUEST, 4, timeout_ms)

    def arrive(self, data: bytes) -> None:
        while data:
            room = self.exchange.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.exchange.buffer_updated(count)
            data = data[count:]

    def answer(self, number: int, answer: ApiMessage = ANSWER) -> None:
        self.arrive(encode_response(answer, 4, number))


class Logins(Access):
    """Logins that last for so many ms each."""

    def __init__(self, *lifetimes_ms: int | KafkaError) -> None:
        self.lifetimes_ms = list(lifetimes_ms)
        self.login = self  # type: ignore[assignment]

    async def log_in(self, broker: Any) -> int:
        lifetime = self.lifetimes_ms.pop(0)
        if isinstance(lifetime, KafkaError):
            raise lifetime
        return lifetime

    def renew_after_ms(self, lifetime_ms: int) -> float:
        return lifetime_ms


def connection(ends: Ends, access: Access = OPEN_ACCESS, renew_at_s: float = math.inf) -> Connection:
    ends.exchange.trust()
    clock = asyncio.get_running_loop().time
    return Connection(Broker(ends.exchange, VERSIONS, 1_000), access, clock, renew_at_s)


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_answers_are_matched_by_correlation_id() -> None:
    ends = Ends()
    first, second = ends.call(), ends.call()
    one, two = ends.socket.numbers()
    ends.answer(two, HeartbeatResponse(error_code=2))
    ends.answer(one, HeartbeatResponse(error_code=1))
    assert [(await each).error_code for each in (first, second)] == [1, 2]
    assert ends.exchange.in_flight == 0
    assert ends.lost == []


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
async def test_frames_come_in_pieces_and_may_be_larger_than_the_buffer(piece: int) -> None:
    ends = Ends()
    ends.exchange.trust()
    calls = [ends.call() for _ in range(3)]
    small = [encode_response(ANSWER, 4, number) for number in ends.socket.numbers()]
    large = bytearray(small[1] + bytes(200_000))
    large[:4] = (len(large) - 4).to_bytes(4, "big")
    data = small[0] + bytes(large) + small[2]
    for start in range(0, len(data), piece):
        ends.arrive(data[start : start + piece])
        if piece == 1 and start > 1_000:  # byte by byte at the beginning, for that is where the lengths are
            ends.arrive(data[start + 1 :])
            break
    assert [(await call).error_code for call in calls] == [27, 27, 27]


async def test_an_answer_to_nothing_ends_the_connection() -> None:
    ends = Ends()
    call = ends.call()
    ends.answer(99)
    assert ends.socket.is_aborted
    with pytest.raises(KafkaConnectionError, match="request 99, which is not in flight"):
        await call
    assert len(ends.lost) == 1


async def test_a_request_without_an_answer_ends_the_connection_for_all() -> None:
    ends = Ends()
    late, other = ends.call(1), ends.call()
    with pytest.raises(KafkaTimeoutError, match="Heartbeat was not answered within 1 ms"):
        await late
    with pytest.raises(KafkaConnectionError, match="did not answer Heartbeat within 1 ms"):
        await other
    assert ends.socket.is_aborted
    assert len(ends.lost) == 1


async def test_nothing_can_be_sent_over_a_connection_that_was_lost() -> None:
    ends = Ends()
    made = connection(ends)
    assert made.is_usable
    ends.exchange.connection_lost(None)
    ends.exchange.connection_lost(None)
    assert len(ends.lost) == 1
    assert not made.is_usable
    for lost in (made, NO_CONNECTION):
        with pytest.raises(KafkaError):
            lost.call(REQUEST, TIMEOUT_MS)
        assert (lost.is_usable, lost.is_stale, lost.in_flight) == (False, False, 0)


async def test_before_there_is_a_socket_nothing_can_be_sent() -> None:
    with pytest.raises(KafkaConnectionError):
        Exchange("c", lambda error: None).call(REQUEST, 4, TIMEOUT_MS)


# --- before the login is done -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "kind"),
    [(b"\x15\x03\x03\x00", SecurityProtocolError), (b"HTTP", KafkaConnectionError), (bytes(4), KafkaConnectionError)],
)
async def test_who_is_no_broker_is_not_listened_to(first: bytes, kind: type[KafkaError]) -> None:
    ends = Ends()
    ends.call()
    ends.arrive(first + bytes(8))
    assert ends.socket.is_aborted
    assert [type(error) for error in ends.lost] == [kind]


@pytest.mark.parametrize(
    ("options", "answered", "hint"),
    [
        ({}, 0, "may expect TLS"),
        ({}, 1, "may expect a login"),
        ({}, 2, ""),
        ({"has_tls": True}, 0, ""),
        ({"has_tls": True}, 1, "may expect a login"),
        ({"logs_in": True}, 0, ""),
    ],
)
async def test_who_hangs_up_at_the_first_request_may_expect_something_else(
    options: dict[str, bool], answered: int, hint: str
) -> None:
    ends = Ends(**options)
    for _ in range(answered):
        ends.call()
        ends.answer(ends.socket.numbers()[-1])
    ends.call()
    ends.exchange.connection_lost(None)
    (error,) = ends.lost
    assert isinstance(error, HungUpError) == bool(hint)
    assert hint in str(error)


async def test_a_token_without_a_header_is_answered_without_one() -> None:
    ends = Ends()
    token = asyncio.ensure_future(ends.exchange.call_raw(b"me"))
    await asyncio.sleep(0)
    assert ends.socket.written == [b"me"]
    ends.arrive(bytes(4))
    assert await token == b""
    refused = asyncio.ensure_future(ends.exchange.call_raw(b"me again"))
    await asyncio.sleep(0)
    ends.exchange.connection_lost(None)
    with pytest.raises(SaslAuthenticationError, match="user or password"):
        await refused


# --- a login that ends ------------------------------------------------------------------------------------------------


async def test_a_login_that_ended_is_renewed_once_all_answers_are_there() -> None:
    ends = Ends()
    made = connection(ends, Logins(0))
    call = made.call(REQUEST, TIMEOUT_MS)
    stale = connection(ends, Logins(0), renew_at_s=0.0)
    assert (stale.is_usable, stale.is_stale) == (False, True)
    with pytest.raises(KafkaConnectionError, match="renewed first"):
        stale.call(REQUEST, TIMEOUT_MS)
    renewal = asyncio.ensure_future(stale.renew())
    await asyncio.sleep(0)
    assert not renewal.done()
    ends.answer(ends.socket.numbers()[0])
    assert (await call).error_code == 27
    await renewal
    assert (stale.is_usable, stale.is_stale) == (True, False)


async def test_an_answer_that_nobody_waits_for_any_more_holds_up_no_renewal() -> None:
    """The renewal waited for it for ever, and with it every request to that broker."""
    ends = Ends()
    call = connection(ends).call(REQUEST, TIMEOUT_MS)
    renewal = asyncio.ensure_future(connection(ends, Logins(0), renew_at_s=0.0).renew())
    await asyncio.sleep(0)
    call.cancel()
    ends.answer(ends.socket.numbers()[0])
    async with asyncio.timeout(10):
        await renewal


async def test_a_renewal_that_fails_closes_the_connection() -> None:
    ends = Ends()
    with pytest.raises(SaslAuthenticationError, match="not any more"):
        await connection(ends, Logins(SaslAuthenticationError("not any more")), renew_at_s=0.0).renew()
    assert ends.socket.is_aborted
    assert [type(error) for error in ends.lost] == [SaslAuthenticationError]
