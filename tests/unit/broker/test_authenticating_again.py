"""A session on a SASL listener ends at its time, unless its client proves again who it is: SECURITY.md, A.6."""

from __future__ import annotations

import pytest

from actors.wire.messages import SaslHandshakeRequest
from tests.support.login_world import HANDSHAKE, METADATA, SHA_256, TOKEN, World, request


@pytest.mark.conformance("XA-54", "XA-55", "XA-57", "XA-58")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_session_goes_on_if_its_client_proves_again_who_it_is(version: int) -> None:
    client = World(10_000).connect()
    answer = client.log_in(version=version)
    assert answer.session_lifetime_ms == (10_000 if version else 0)
    loop, server = client.world.loop, client.world.server
    client.send(METADATA)
    loop.advance(9.0)
    assert client.log_in(version=version).error_code == 0
    loop.advance(9.0)
    client.send(METADATA)
    assert server.principals == ["User:user"] * 2
    loop.advance(1.0)
    assert client.connection.transport is not None, "nothing happens to a connection that sends nothing"
    client.send(METADATA)
    assert client.transport.aborted
    assert len(server.frames) == 2
    assert client.world.listener.counts == {
        "succeeded": 1,
        "repeated": 1,
        "expired": 1,
    }


@pytest.mark.conformance("XA-57")
def test_even_an_expired_session_goes_on_so() -> None:
    client = World(10_000).connect()
    client.log_in()
    client.world.loop.advance(60.0)
    assert client.log_in().error_code == 0
    client.send(METADATA)
    assert client.world.server.principals == ["User:user"]


@pytest.mark.conformance("XA-22", "XA-55")
def test_too_early_a_handshake_is_served_as_one_that_is_not_expected() -> None:
    client = World(10_000).connect()
    client.log_in()
    client.world.loop.advance(2.0)
    client.log_in()
    client.world.loop.advance(0.5)
    client.send(HANDSHAKE)
    client.send(TOKEN)
    assert client.world.server.frames == [HANDSHAKE[4:], TOKEN[4:]]
    assert client.transport.reading


@pytest.mark.conformance("XA-59")
def test_the_handshakes_answer_waits_for_those_before_it() -> None:
    client = World(10_000).connect()
    client.log_in()
    parked = client.connection.slots.open(1, 1, 11, 1)
    client.send(request(SaslHandshakeRequest(mechanism=SHA_256), 1))
    assert client.transport.written == b""
    parked.finish(b"<fetched>")
    client.connection.flush()
    assert client.transport.written.startswith(b"<fetched>")
    assert len(client.transport.written) > 20


@pytest.mark.conformance("XA-56")
def test_who_fails_to_prove_it_again_is_closed_on() -> None:
    client = World(10_000).connect()
    client.log_in()
    client.world.loop.advance(2.0)
    assert client.log_in("pen").error_code == 58
    assert client.transport.closed
    assert client.world.listener.counts == {"succeeded": 1, "repeats_failed": 1}
