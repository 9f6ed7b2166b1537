"""A SASL listener's connection without a socket: its client, its users, and a clock that is set by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.entrance.authenticating import Gate, Limits, SaslListener
from actors.links.unauthenticated import FailureLog, UnauthenticatedConnections
from actors.security.authentication import MECHANISMS, Terms
from actors.security.scram import ScramClient, ScramCredential, ScramMechanism, dummy_credential, salted_password
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import (
    ApiMessage,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    response_class,
)
from tests.support.handler_helpers import Loop

PLAIN, SHA_256, SHA_512, OAUTHBEARER = MECHANISMS
SALTED = salted_password(ScramMechanism.SHA_256, "pencil", b"salt", 4096)
DELAY = 0.1
TOKEN_BYTES = 2000
REQUEST_BYTES = 10_000


class Transport:
    """A socket that takes everything; `closed` once it was ended with what was written, `aborted` without."""

    def __init__(self, address: str) -> None:
        self.connection: Connection
        self._address = address
        self.written = b""
        self.reading = True
        self.closed = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        assert not self.aborted
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True
        if self.connection.transport is not None:
            self.connection.connection_lost(None)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return (self._address, 5555)

    def get_write_buffer_size(self) -> int:
        return 0


class Server:
    """Notes what it is given, and who gave it; answers nothing."""

    socket_request_max_bytes = REQUEST_BYTES

    def __init__(self) -> None:
        self.failures = FailureLog(lambda: 0.0)
        self.frames: list[bytes] = []
        self.principals: list[str] = []

    def on_connect(self, connection: Connection) -> bool:
        return True

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        self.frames.append(data[start:end])
        self.principals.append(connection.principal)

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        if isinstance(connection.gate, Gate):
            connection.gate.gone()


class Users:
    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        if user != "user" or mechanism is not ScramMechanism.SHA_256:
            return None
        return ScramCredential.of(mechanism, SALTED, b"salt", 4096)

    def dummy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        return dummy_credential(b"secret", mechanism, user, 4096)


class Passwords:
    """The verdict comes when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.unanswered: list[Callable[[bool | None], None]] = []

    def verify(
        self,
        user: str,
        password: str,
        own: Mapping[str, ScramCredential],
        peer: str,
        done: Callable[[bool | None], None],
    ) -> None:
        self.asked.append((user, password))
        self.unanswered.append(done)

    def say(self, right: bool | None) -> None:
        self.unanswered.pop(0)(right)


class World:
    """One listener, on a clock that is set by hand."""

    def __init__(
        self, lifetime_ms: int = 0, mechanisms: tuple[str, ...] = MECHANISMS, users: Any = None, passwords: Any = None
    ) -> None:
        self.loop = Loop()
        self.server = Server()
        self.passwords = passwords or Passwords()
        failures = FailureLog(self.loop.time)
        self.unauthenticated = UnauthenticatedConnections("SASL", 3, 30.0, self.loop.time, failures)
        parts: Any = (users or Users(), self.passwords)
        loop: Any = self.loop
        self.listener = SaslListener(
            "SASL",
            Terms(mechanisms, dict.fromkeys(mechanisms, lifetime_ms)),
            Limits(TOKEN_BYTES, DELAY),
            *parts,
            self.unauthenticated,
            failures,
            loop,
            random.Random(1),
        )

    def connect(self, address: str = "10.0.0.7") -> Client:
        return Client(self, address)


class Client:
    """One connection, and what its client knows."""

    def __init__(self, world: World, address: str) -> None:
        self.world = world
        self.connection = Connection(world.server, 1, 0.0)
        self.transport = Transport(address)
        self.transport.connection = self.connection
        made: Any = self.transport
        self.connection.connection_made(made)
        self.connection.gate = Gate(self.connection, world.listener)

    def send(self, data: bytes) -> None:
        if self.transport.reading and self.connection.transport is not None:
            self.connection.data_received(data)

    def ask(self, message: ApiMessage, version: int) -> Any:
        """The answer that is there at once."""
        self.send(request(message, version))
        return self.answer(message, version)

    def answer(self, message: ApiMessage, version: int) -> Any:
        frame, self.transport.written = self.transport.written[4:], b""
        return decode_response(response_class(message.api_key), version, frame)[1]

    def log_in(self, password: str = "pencil", version: int = 2) -> Any:
        """The answer to the last token."""
        self.ask(SaslHandshakeRequest(mechanism=SHA_256), 1)
        client = ScramClient(ScramMechanism.SHA_256, "user", "ours")
        first = self.ask(SaslAuthenticateRequest(auth_bytes=client.first()), version)
        asked = client.read_first(first.auth_bytes)
        salted = salted_password(ScramMechanism.SHA_256, password, asked.salt, asked.iterations)
        last = SaslAuthenticateRequest(auth_bytes=client.final(salted))
        self.send(request(last, version))
        if not self.transport.written:
            self.world.loop.advance(DELAY)
        return self.answer(last, version)

    def expect_failure(self, answered: bool) -> None:
        """Nothing is read; the answer, if there is one, and the end come after the delay."""
        loop, transport = self.world.loop, self.transport
        assert not transport.reading
        assert not transport.closed
        assert transport.written == b""
        loop.advance(DELAY * 0.99)
        assert not transport.closed
        loop.advance(DELAY * 0.02)
        assert transport.closed
        assert bool(transport.written) is answered
        assert self.world.server.frames == [], "nothing is served"
        assert self.connection.principal == "User:ANONYMOUS"
        loop.advance(1.0)
        assert transport.aborted, "whether or not the client has taken its answer"
        assert self.connection.held == b""


def request(message: ApiMessage, version: int, correlation_id: int = 7) -> bytes:
    return encode_request(message, version, correlation_id, "cl")


def framed(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


HANDSHAKE = request(SaslHandshakeRequest(mechanism=PLAIN), 1)
TOKEN = request(SaslAuthenticateRequest(auth_bytes=b"\0user\0pencil"), 1, 8)
METADATA = request(MetadataRequest(), 4, 9)
