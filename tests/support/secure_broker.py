"""The scripted broker of `client_broker`, in TLS and with logins: honest by default, and not if a test says so."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from actors.security.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    dummy_credential,
    salted_password,
)
from actors.wire import messages as m
from tests.support.client_broker import VERSIONS, ScriptedBroker, exactly

_SALT = b"salt of the tests"


class SecureBroker(ScriptedBroker):
    """Takes connections with `tls` only, if it is given, and asks for a login of `users` (passwords by name).

    `iterations` is the count that it tells clients of SCRAM; a login lasts `lifetime_ms`. `altered` may change each
    token before it is sent. Without `framed` it knows SaslHandshake version 0 alone, and raw tokens.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        *,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        iterations: int = ITERATIONS_MIN,
        lifetime_ms: int = 0,
        framed: bool = True,
    ) -> None:
        self.tls = tls
        self.users = None if users is None else dict(users)
        self.mechanisms = mechanisms
        self.iterations = iterations
        self.lifetime_ms = lifetime_ms
        self.framed = framed
        self.altered: Callable[[bytes], bytes] = lambda token: token
        self.logins = 0
        self.logins_by_connection: list[int] = []
        """The number of logins on each connection that has ended."""
        self._here = threading.local()
        super().__init__()
        if users is not None:
            self.versions = {**VERSIONS, m.SaslHandshakeRequest: (0, 1 if framed else 0)}
            if framed:
                self.versions[m.SaslAuthenticateRequest] = (0, 2)

    def serve(self, connection: socket.socket) -> None:
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except (OSError, ValueError):
                connection.close()
                return
            self._sockets.append(connection)
        self._here.logged_in = self.users is None
        self._here.token = None
        self._here.connection = connection
        self._here.logins = 0
        super().serve(connection)
        with self.changed:
            self.logins_by_connection.append(self._here.logins)
            self.changed.notify_all()

    def answer(self, kind: type, request: Any) -> Any:
        login = (m.ApiVersionsRequest, m.SaslHandshakeRequest, m.SaslAuthenticateRequest)
        if not self._here.logged_in and kind not in login:
            raise EOFError
        return super().answer(kind, request)

    def on_saslhandshake(self, request: Any) -> Any:
        offered = list(self.mechanisms)
        if self.users is None:
            return m.SaslHandshakeResponse(error_code=34, mechanisms=[])
        if request.mechanism not in self.mechanisms:
            return m.SaslHandshakeResponse(error_code=33, mechanisms=offered)
        self._here.token = self._begin(request.mechanism)
        self._here.raw = not self.framed
        return m.SaslHandshakeResponse(mechanisms=offered)

    def _after(self) -> None:
        """After an answer: raw tokens, if the login is to be made of them."""
        if not getattr(self._here, "raw", False):
            return
        self._here.raw = False
        while not self._here.logged_in:
            (size,) = struct.unpack(">i", exactly(self._here.connection, 4))
            token = self._take(exactly(self._here.connection, size))
            if token is None:
                raise EOFError
            self._here.connection.sendall(struct.pack(">i", len(token)) + token)

    def on_saslauthenticate(self, request: Any) -> Any:
        token = self._take(request.auth_bytes)
        if token is None:
            return m.SaslAuthenticateResponse(
                error_code=58, error_message="Authentication failed: wrong", auth_bytes=b""
            )
        lifetime = self.lifetime_ms if self._here.logged_in else 0
        return m.SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime)

    def _take(self, token: bytes) -> bytes | None:
        try:
            answer = cast(bytes, self._here.token(token))
        except (ScramError, KeyError, ValueError):
            return None
        return self.altered(answer)

    def _begin(self, name: str) -> Callable[[bytes], bytes]:
        users = self.users or {}
        if name == "PLAIN":

            def plain(token: bytes) -> bytes:
                _, user, password = token.decode().split("\0")
                if not password or users.get(user) != password:
                    raise KeyError(user)
                return self._done()

            return plain
        mechanism = next(each for each in ScramMechanism if each.wire_name == name)
        count = max(self.iterations, ITERATIONS_MIN)

        def credential(user: str) -> ScramCredential | None:
            if user not in users:
                return None
            salted = salted_password(mechanism, users[user], _SALT, count)
            return ScramCredential.of(mechanism, salted, _SALT, count)

        def dummy(user: str) -> ScramCredential:
            return dummy_credential(b"", mechanism, user, count)

        server = ScramServer(mechanism, credential, dummy, "from-the-server")
        steps = [server.final, server.first]

        def scram(token: bytes) -> bytes:
            answer = steps.pop()(token)
            if not steps:
                self._done()
            return answer

        return scram

    def _done(self) -> bytes:
        self._here.logged_in = True
        self._here.logins += 1
        self.logins += 1
        return b""


@contextlib.contextmanager
def secure_broker(*arguments: Any, **options: Any) -> Iterator[SecureBroker]:
    made = SecureBroker(*arguments, **options)
    try:
        yield made
    finally:
        made.close()
