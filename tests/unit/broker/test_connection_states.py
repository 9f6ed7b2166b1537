"""Every frame in every state of SECURITY.md's A.3, in one segment with the bytes before it, and cut at every byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from actors.wire.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.login_world import (
    DELAY,
    HANDSHAKE,
    METADATA,
    PLAIN,
    REQUEST_BYTES,
    TOKEN,
    Client,
    World,
    framed,
    request,
)

LIFETIME_MS = 10_000
SERVED, ANSWERED, REFUSED, FAILED, CLOSED = "served", "answered", "refused", "failed", "closed"
"""Served by the broker; answered by the login, which goes on; refused after the delay, then closed; closed after the
delay; closed at once."""


def in_version(frame: bytes, version: int) -> bytes:
    return frame[:6] + version.to_bytes(2, "big") + frame[8:]


VERSIONS = request(ApiVersionsRequest(), 0)
FRAMES: Final = {
    "versions": VERSIONS,
    "versions 3": request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
    "versions of a wrong name": request(ApiVersionsRequest(client_software_name=" ", client_software_version="1"), 3),
    "versions 99": in_version(request(ApiVersionsRequest(client_software_name="a"), 3), 99),
    "handshake": HANDSHAKE,
    "handshake 0": request(SaslHandshakeRequest(mechanism=PLAIN), 0),
    "handshake for another": request(SaslHandshakeRequest(mechanism="GSSAPI"), 1),
    "handshake 9": in_version(HANDSHAKE, 9),
    "token": TOKEN,
    "wrong token": request(SaslAuthenticateRequest(auth_bytes=b"\0user"), 1),
    "token 9": in_version(TOKEN, 9),
    "raw token": framed(b"\0user\0pencil"),
    "metadata": METADATA,
    "unknown": METADATA[:4] + b"\x03\xe7" + METADATA[6:],
    "other protocol": framed(b"GET / HTTP/1.1\r\n\r\n"),
    "short": framed(b"\0\x03\0\0"),
    "long": (REQUEST_BYTES + 1).to_bytes(4, "big"),
    "negative": (-5).to_bytes(4, "big", signed=True),
}
OF_VERSIONS = [name for name in FRAMES if name.startswith("versions")]
LENGTHS = ("short", "long", "negative")
OF_A_HANDSHAKE = {"handshake": ANSWERED, "handshake 0": ANSWERED, "handshake for another": REFUSED}


@dataclass(frozen=True)
class State:
    """The bytes that bring a connection there, and the reactions to frames in it; `others` is that to all others."""

    before: bytes
    reactions: dict[str, str]
    others: str
    lifetime_ms: int = 0
    later: float = 0.0
    """Seconds between the two."""


STATES: Final = {
    "INITIAL": State(b"", dict.fromkeys(OF_VERSIONS, SERVED) | OF_A_HANDSHAKE, FAILED),
    "VERSIONS_TOLD": State(VERSIONS, dict.fromkeys(OF_VERSIONS, CLOSED) | OF_A_HANDSHAKE, FAILED),
    "FRAMED": State(HANDSHAKE, {"token": ANSWERED, "wrong token": REFUSED}, FAILED),
    "RAW": State(FRAMES["handshake 0"], {"raw token": ANSWERED}, FAILED),
    "READY": State(HANDSHAKE + TOKEN, dict.fromkeys(LENGTHS, CLOSED), SERVED),
    "READY, for a while": State(
        HANDSHAKE + TOKEN, dict.fromkeys(LENGTHS, CLOSED) | OF_A_HANDSHAKE, SERVED, LIFETIME_MS
    ),
    "EXPIRED": State(HANDSHAKE + TOKEN, OF_A_HANDSHAKE, CLOSED, LIFETIME_MS, later=LIFETIME_MS / 1000),
    "FAILED": State(METADATA, {}, FAILED),
}
CASES = [(state, frame) for state in STATES for frame in FRAMES]


def reaction(state: State, segments: list[bytes]) -> tuple[str, str]:
    """The reaction to the last frame, and the client's principal then."""
    client = World(state.lifetime_ms).connect()
    if state.later:
        send(client, state.before)
        client.world.loop.advance(state.later)
    for segment in segments:
        send(client, segment)
    return outcome(client, served=1 if state.before.startswith(VERSIONS) else 0), client.connection.principal


def send(client: Client, segment: bytes) -> None:
    client.send(segment)
    while client.world.passwords.unanswered:
        client.world.passwords.say(True)


def outcome(client: Client, served: int) -> str:
    transport, written = client.transport, len(client.transport.written)
    if transport.aborted:
        return CLOSED
    if not transport.reading:
        client.world.loop.advance(DELAY)
        assert transport.closed
        return REFUSED if len(transport.written) > written else FAILED
    return SERVED if len(client.world.server.frames) > served else ANSWERED


def cuts(state: State, frame: bytes) -> Iterator[list[bytes]]:
    stream = frame if state.later else state.before + frame
    yield [stream]
    yield [bytes([byte]) for byte in stream]
    for at in range(1, len(stream)):
        yield [stream[:at], stream[at:]]


@pytest.mark.conformance("XG-04", "XA-27")
@pytest.mark.parametrize(("state_name", "frame_name"), CASES)
def test_a_frame_has_its_states_reaction_however_it_comes(state_name: str, frame_name: str) -> None:
    state, frame = STATES[state_name], FRAMES[frame_name]
    expected = state.reactions.get(frame_name, state.others)
    proves = expected == ANSWERED and "token" in frame_name
    user = "User:user" if proves or state.before == HANDSHAKE + TOKEN else "User:ANONYMOUS"
    for segments in cuts(state, frame):
        assert reaction(state, segments) == (expected, user), segments


def test_nothing_is_looked_at_while_a_password_is_verified() -> None:
    for frame in FRAMES.values():
        client = World().connect()
        client.send(HANDSHAKE + TOKEN + frame)
        assert client.world.server.frames == []
        assert not client.transport.reading
        assert not client.transport.aborted
