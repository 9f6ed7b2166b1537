"""A client's connection finds frames however the bytes arrive, and sends answers in order."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.connections.connection import Connection
from actors.wire.errors import WireError
from tests.support.client_connection import HEAD, Server, bodies, connect, request

# --- framing ---


def test_frames_are_found_wherever_the_bytes_are_cut() -> None:
    stream = request("one") + request("") + request("three" * 20)
    for cut in range(len(stream) + 1):
        connection, server, _ = connect()
        for piece in (stream[:cut], stream[cut:]):
            if piece:
                connection.data_received(piece)
        assert bodies(server) == [b"one", b"", b"three" * 20], f"cut at {cut}"


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_frames_are_found_in_any_division_into_reads(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(request, payloads))
    connection, server, _ = connect()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        connection.data_received(stream[:size])
        stream = stream[size:]
    assert bodies(server) == payloads


def test_byte_by_byte_is_a_division_too() -> None:
    connection, server, _ = connect()
    for value in request("slow") + request("client"):
        connection.data_received(bytes([value]))
    assert bodies(server) == [b"slow", b"client"]


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, 1, 9, 10_001, (1 << 31) - 1])
def test_a_length_no_request_can_have_closes_the_connection(length: int, caplog: pytest.LogCaptureFixture) -> None:
    connection, server, transport = connect()
    with caplog.at_level(logging.WARNING):
        connection.data_received(request("good") + length.to_bytes(4, "big", signed=True) + b"x" * 50)
    assert transport.aborted
    assert bodies(server) == [b"good"]
    assert "socket.request.max.bytes=10000" in caplog.text
    assert "10.0.0.7" in caplog.text


def test_a_request_of_exactly_the_limit_is_taken() -> None:
    connection, server, transport = connect()
    connection.data_received(request(b"x" * (10_000 - len(HEAD))))
    assert len(server.frames[0]) == 10_000
    assert not transport.aborted


def test_a_malformed_request_closes_its_connection_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    connection, server, transport = connect()

    def refuse(connection: Connection, frame: bytes) -> None:
        raise WireError("this makes no sense")

    server.react = refuse
    with caplog.at_level(logging.WARNING):
        connection.data_received(request("bad") + request("never looked at"))
    assert transport.aborted
    assert bodies(server) == [b"bad"]
    assert "this makes no sense" in caplog.text


def test_what_follows_a_frame_that_closed_the_connection_is_not_looked_at() -> None:
    connection, server, _ = connect()
    server.react = lambda connection, frame: connection.close("enough")
    connection.data_received(request("last") + request("unseen"))
    assert bodies(server) == [b"last"]


def test_a_refused_client_is_hung_up_on() -> None:
    server = Server()
    server.accepts = False
    _, _, transport = connect(server)
    assert transport.aborted


# --- order ---


def test_pipelined_requests_are_answered_in_their_order() -> None:
    connection, server, transport = connect()
    connection.data_received(b"".join(request(str(i)) for i in range(5)))
    for number in (3, 1, 4):
        server.slots[number].finish(b"<%d>" % number)
        connection.flush()
    assert transport.written == []
    server.slots[0].finish(b"<0>")
    connection.flush()
    assert b"".join(transport.written) == b"<0><1>"
    server.slots[2].finish(b"<2>")
    connection.flush()
    assert b"".join(transport.written) == b"<0><1><2><3><4>"


def test_the_answers_of_one_read_leave_in_one_write() -> None:
    connection, server, transport = connect()

    def echo(connection: Connection, frame: bytes) -> None:
        server.slots[-1].finish(frame[len(HEAD) :])

    server.react = echo
    connection.data_received(request("a") + request("b") + request("c"))
    assert transport.written == [b"abc"]


def test_a_client_that_goes_takes_its_unanswered_slots_along() -> None:
    connection, server, _ = connect()
    connection.data_received(request("a") + request("b"))
    server.slots[1].finish(b"too late")
    connection.connection_lost(None)
    assert server.gone == [[server.slots[0]]]
    server.slots[0].finish(b"nobody is there")
    connection.flush()  # harmless


def test_a_request_that_runs_into_a_bug_closes_its_connection_and_leaves_a_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The event loop closed it, and said so in a log that no broker has."""
    connection, server, transport = connect()

    def buggy(*_: Any) -> None:
        raise KeyError("no such thing")

    server.react = buggy
    with caplog.at_level(logging.WARNING):
        connection.data_received(request("a"))
    assert transport.aborted
    assert "KeyError: 'no such thing'" in caplog.text
    assert "closing connection" in caplog.text
