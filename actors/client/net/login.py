"""The login of a client at a broker: SaslHandshake, then the mechanism's tokens (KIP-43, KIP-152, KIP-255, KIP-368).

The mechanism is the configured one and no other, and with SCRAM the broker proves that it knows the user, too.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from actors.client.error_codes import error_for
from actors.client.errors import (
    ConfigurationError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from actors.client.net.security import OAUTHBEARER, Sasl
from actors.client.net.versions import Ranges
from actors.runtime.environment import Chance
from actors.security.scram import ScramClient, ScramError, ScramMechanism, salted_password
from actors.settings.secret import Secret
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, SaslAuthenticateRequest, SaslHandshakeRequest

T = TypeVar("T")

_NONCE_BYTES: Final = 18  # 24 characters
_SALTED_MAX: Final = 16
_AUTHENTICATE_MAX: Final = 2
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+")

Send = Callable[[bytes], Awaitable[bytes]]
"""Sends a token to the broker; returns its token."""


class Speaks(Protocol):
    """The connection that the login is about."""

    @property
    def versions(self) -> Ranges:
        """The versions of each request that the broker serves."""

    async def ask(self, request: ApiMessage, version: int) -> Any:
        """The answer to a request in this version."""

    async def ask_raw(self, token: bytes) -> bytes:
        """The answer to a token that is sent without a header."""


class Login:
    """The logins of one client. It remembers salted passwords: all its connections cost one derivation."""

    def __init__(self, sasl: Sasl, chance: Chance) -> None:
        self._sasl = sasl
        self._chance = chance
        self._salted: dict[tuple[bytes, bytes, int], bytes] = {}
        self._one_at_a_time = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Login({self._sasl.named})"

    async def log_in(self, broker: Speaks) -> int:
        """Log in, or prove it again. Returns the lifetime of the session in ms, 0: it does not end.

        Raises AuthenticationError, also if the password is not where it should be.
        """
        password = await self._read(self._sasl.secret) if self._sasl.password is None else self._sasl.password
        mechanism = self._sasl.mechanism
        newest = broker.versions.get(ApiKey.SASL_AUTHENTICATE, (0, -1))[1]
        if ApiKey.SASL_HANDSHAKE not in broker.versions:
            raise IllegalSaslStateError("the broker has no logins: security_protocol may have to be PLAINTEXT or SSL")
        answer = await broker.ask(SaslHandshakeRequest(mechanism=mechanism), 1 if newest >= 0 else 0)
        if answer.error_code:
            raise self._refused(answer.error_code, answer.mechanisms)
        if newest < 0:
            await self._exchange(broker.ask_raw, password)
            return 0
        framed = _Framed(broker, min(newest, _AUTHENTICATE_MAX), self._sasl)
        await self._exchange(framed.send, password)
        return framed.lifetime_ms

    async def _read(self, what: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(what)
        except ConfigurationError as error:
            raise SaslAuthenticationError(str(error)) from error

    def _refused(self, code: int, offered: list[str]) -> KafkaError:
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            has = ", ".join(sorted(offered)) or "none"
            return UnsupportedSaslMechanismError(
                f"the broker does not offer sasl_mechanism={self._sasl.mechanism} here; it offers {has}"
            )
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            return IllegalSaslStateError(
                "the broker expects no login at this address: security_protocol may have to be PLAINTEXT or SSL"
            )
        return error_for(code, "beginning the login")

    async def _exchange(self, send: Send, password: Secret) -> None:
        if self._sasl.mechanism == "PLAIN":
            await self._plain(send, password)
            return
        if self._sasl.mechanism == OAUTHBEARER:
            await self._bearer(send, password)
            return
        mechanism = next(each for each in ScramMechanism if each.wire_name == self._sasl.mechanism)
        try:
            await self._scram(mechanism, send, password)
        except ScramError as error:
            raise SaslAuthenticationError(f"the broker's part of {mechanism.wire_name} is wrong: {error}") from error

    async def _plain(self, send: Send, password: Secret) -> None:
        text = password.reveal()
        if "\0" in text:
            raise SaslAuthenticationError("with PLAIN the password must not contain a NUL character")
        await send(f"\0{self._sasl.username}\0{text}".encode())

    async def _bearer(self, send: Send, token: Secret) -> None:
        message = bearer_message(token, await self._read(self._sasl.extensions))
        if await send(message):  # the fault; the broker says it once more, as an error, after the next message
            await send(b"\x01")
            raise SaslAuthenticationError("the broker refused the token, and then went on")

    async def _scram(self, mechanism: ScramMechanism, send: Send, password: Secret) -> None:
        nonce = base64.b64encode(self._chance.randbytes(_NONCE_BYTES)).decode()
        client = ScramClient(mechanism, self._sasl.username, nonce)
        wanted = client.read_first(await send(client.first()))
        salted = await self._salt(mechanism, password, wanted.salt, wanted.iterations)
        client.read_final(await send(client.final(salted)))

    async def _salt(self, mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
        key = (password.digest(), salt, iterations)
        async with self._one_at_a_time:
            found = self._salted.get(key)
            if found is None:
                found = await asyncio.to_thread(salted_password, mechanism, password.reveal(), salt, iterations)
                if len(self._salted) >= _SALTED_MAX:
                    self._salted.clear()
                self._salted[key] = found
            return found


def bearer_message(token: Secret, extensions: Mapping[str, str]) -> bytes:
    """The first message of OAUTHBEARER (RFC 7628). Raises SaslAuthenticationError, and shows nothing of the token."""
    if not _TOKEN.fullmatch(token.reveal()):
        raise SaslAuthenticationError("the token is empty, or has characters that no bearer's token has")
    pairs = [f"auth=Bearer {token.reveal()}"]
    for key, value in extensions.items():
        if key.lower() == "auth" or not _EXTENSION.fullmatch(f"{key}={value}"):
            raise SaslAuthenticationError(f"sasl_oauth_token_provider: {key!r} cannot be sent as an extension")
        pairs.append(f"{key}={value}")
    return f"n,,\x01{chr(1).join(pairs)}\x01\x01".encode()


class _Framed:
    """Tokens in SaslAuthenticate requests."""

    def __init__(self, broker: Speaks, version: int, sasl: Sasl) -> None:
        self._broker = broker
        self._version = version
        self._sasl = sasl
        self.lifetime_ms = 0

    async def send(self, token: bytes) -> bytes:
        answer = await self._broker.ask(SaslAuthenticateRequest(auth_bytes=token), self._version)
        if answer.error_code:
            error = error_for(answer.error_code, self._sasl.named, answer.error_message)
            raise SaslAuthenticationError(f"{error}; check {self._sasl.source}")
        self.lifetime_ms = max(0, answer.session_lifetime_ms)
        return bytes(answer.auth_bytes)
