"""Between a SASL listener's connections and the broker: what may come until a peer has proved who it is, and after it.

The rules are in actors/security/authentication.py. Here are frames, limits, waiting and logging.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.broker.connections.connection import SMALLEST_REQUEST, Connection
from actors.broker.connections.slots import Slot
from actors.broker.entrance.tokens import NoTokens, Tokens
from actors.broker.entrance.users import Passwords, StoredUsers
from actors.broker.handlers import api_versions, sasl_authenticate, sasl_handshake
from actors.links.unauthenticated import FailureLog, UnauthenticatedConnections
from actors.runtime.environment import Chance
from actors.security.authentication import (
    Authentication,
    CheckPassword,
    CheckToken,
    Frame,
    Rule,
    State,
    Terms,
    TokenAnswer,
)
from actors.security.oauth import Bearer, TokenError
from actors.security.scram import NONCE_CHARACTERS, ScramCredential
from actors.wire.api_keys import ApiKey
from actors.wire.errors import WireError
from actors.wire.framing import decode_request_header, encode_response
from actors.wire.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

log = logging.getLogger(__name__)

_HEAD: Final = struct.Struct(">hh")
_LEAVE_SECONDS: Final = 1.0  # within which a peer has to take its last answer
_USER_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a listener for peers that have not proved their identity."""

    token_bytes: int
    """The longest frame (sasl.server.max.receive.size)."""
    delay_seconds: float
    """The time that a failed peer waits for its answer (connection.failed.authentication.delay.ms)."""


@dataclass(slots=True)
class SaslListener:
    """The common parts of the connections of one SASL listener."""

    name: str
    terms: Terms
    limits: Limits
    users: StoredUsers
    passwords: Passwords
    unauthenticated: UnauthenticatedConnections
    failures: FailureLog
    loop: asyncio.AbstractEventLoop
    chance: Chance
    own_users: Mapping[str, ScramCredential] = field(default_factory=dict)
    """Users of PLAIN that this node's file names."""
    tokens: Tokens | NoTokens = field(default_factory=NoTokens)
    """The verification of OAUTHBEARER's tokens."""
    counts: Counter[str] = field(default_factory=Counter)
    """The outcomes of its clients' logins, by the names of links.status.Logins."""
    failing: dict[Connection, bool] = field(default_factory=dict)
    """Connections that will be closed, and whether their clients had logged in before."""

    def nonce(self) -> str:
        """Random, of letters, digits, - and _."""
        return base64.urlsafe_b64encode(self.chance.randbytes(NONCE_CHARACTERS * 3 // 4)).decode()


class Gate:
    """The gate of one connection of a SASL listener: it decides what the peer may send.

    It stays as long as the session has to be looked after.
    """

    def __init__(self, connection: Connection, listener: SaslListener) -> None:
        self._connection = connection
        self._listener = listener
        self.machine = Authentication(listener.terms, listener.users, listener.nonce)
        """The state of the login, and the rules for it."""
        self._again = False  # True if the peer had proved its identity before
        self._leaving: asyncio.TimerHandle | None = None
        listener.unauthenticated.add(connection)

    # --- what the connection asks ---

    def takes(self, length: int) -> bool:
        """True if the next frame may have this length."""
        machine = self.machine
        if machine.raw:
            return 0 <= length <= self._listener.limits.token_bytes
        server, limits = self._connection.server, self._listener.limits
        most = server.socket_request_max_bytes if machine.settled else limits.token_bytes
        return SMALLEST_REQUEST <= length <= most

    def refuse(self, length: int) -> None:
        """A frame of a length that it may not have has been announced."""
        if self.machine.settled:
            self._connection.close(f"a request of {length} bytes is too short or too long")
        else:
            self._fail(f"a frame of {length} bytes")

    def on_frame(self, data: bytes, start: int, end: int) -> None:
        """One whole frame is `data[start:end]`."""
        frame, now = self._kind(data, start), self._listener.loop.time()
        self._connection.last_active = now
        rule = self.machine.rule(frame, now)
        if rule in (Rule.SERVE, Rule.ILLEGAL):
            self._connection.server.on_frame(self._connection, data, start, end)
        elif rule is Rule.CLOSE:
            if self.machine.state(now) is State.EXPIRED:
                self._listener.counts["expired"] += 1
            self._connection.close()
        elif rule is Rule.FAIL:
            self._fail("an unexpected request")
        else:
            self._follow(rule, data[start:end], now)

    def gone(self) -> None:
        """The connection has ended. Nothing of it is kept: a timer would keep all that its TLS has."""
        self._listener.unauthenticated.remove(self._connection)
        self._listener.failing.pop(self._connection, None)
        if self._leaving is not None:
            self._leaving.cancel()

    # --- frames ---

    def _kind(self, data: bytes, start: int) -> Frame:
        if self.machine.raw:
            return Frame.TOKEN
        api_key, version = _HEAD.unpack_from(data, start)
        match api_key:
            case ApiKey.API_VERSIONS:
                return Frame.API_VERSIONS
            case ApiKey.SASL_HANDSHAKE if _serves(sasl_handshake.VERSIONS, version):
                return Frame.HANDSHAKE
            case ApiKey.SASL_AUTHENTICATE if _serves(sasl_authenticate.VERSIONS, version):
                return Frame.AUTHENTICATE
        return Frame.OTHER

    def _follow(self, rule: Rule, frame: bytes, now: float) -> None:
        try:
            match rule:
                case Rule.TELL:
                    self._tell(frame)
                case Rule.BEGIN:
                    self._begin(frame, now)
                case Rule.STEP:
                    self._step(frame, now)
        except WireError:
            self._fail("a malformed request")

    def _tell(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        accepted = False
        if _serves(api_versions.VERSIONS, header.api_version):
            message = ApiVersionsRequest.decode(frame, header.api_version, header.body_offset)
            accepted = api_versions.is_legal(message, header.api_version)
        self._connection.server.on_frame(self._connection, frame, 0, len(frame))
        if accepted:
            self.machine.versions_told()

    def _begin(self, frame: bytes, now: float) -> None:
        header = decode_request_header(frame)
        version = header.api_version
        message = SaslHandshakeRequest.decode(frame, version, header.body_offset)
        slot = self._connection.slots.open(0, header.api_key, version, header.correlation_id)
        self._again = self.machine.proved
        answer = self.machine.begin(message.mechanism, now, framed=version >= 1)
        response = SaslHandshakeResponse(error_code=answer.error_code, mechanisms=list(answer.mechanisms))
        encoded = encode_response(response, version, header.correlation_id)
        if answer.error_code:
            self._failed(slot, encoded)
        else:
            slot.finish(encoded)

    def _step(self, frame: bytes, now: float) -> None:
        slots, token = self._connection.slots, frame
        if self.machine.raw:
            slot = slots.open(0, ApiKey.SASL_AUTHENTICATE, 0, 0)
            encode = _raw
        else:
            header = decode_request_header(frame)
            version, correlation_id = header.api_version, header.correlation_id
            token = SaslAuthenticateRequest.decode(frame, version, header.body_offset).auth_bytes
            slot = slots.open(0, header.api_key, version, correlation_id)

            def encode(answer: TokenAnswer) -> bytes:
                return encode_response(_framed(answer), version, correlation_id)

        try:
            outcome = self.machine.step(token, now)
        except Exception:  # a bug that anybody can reach: this login fails, and no more
            log.exception("authentication at %s", self._listener.name)
            outcome = self.machine.broken()
        if isinstance(outcome, CheckPassword):
            self._check(outcome, slot, encode)
        elif isinstance(outcome, CheckToken):
            self._check_token(outcome, slot, encode)
        else:
            self._answer(outcome, slot, encode)

    # --- passwords and tokens ---

    def _check(self, asked: CheckPassword, slot: Slot, encode: Callable[[TokenAnswer], bytes]) -> None:
        listener = self._listener
        self._connection.hold()

        def done(right: bool | None) -> None:
            if self._connection.transport is None:
                return
            if right is None:
                self._fail("too many passwords to verify")
            else:
                self._answer(self.machine.verified(right, listener.loop.time()), slot, encode)
            self._go_on()

        listener.passwords.verify(asked.user, asked.password, listener.own_users, self._connection.peer, done)

    def _check_token(self, asked: CheckToken, slot: Slot, encode: Callable[[TokenAnswer], bytes]) -> None:
        listener, machine = self._listener, self.machine
        self._connection.hold()

        def done(found: Bearer | TokenError | None) -> None:
            if self._connection.transport is None:
                return
            if isinstance(found, Bearer):
                answer = machine.shown(found, listener.loop.time())
            else:
                answer = machine.broken() if found is None else machine.invalid(str(found))
            self._answer(answer, slot, encode)
            self._go_on()

        listener.tokens.judge(asked.token, done)

    def _go_on(self) -> None:
        self._connection.flush()
        self._connection.release()

    # --- how it ends ---

    def _answer(self, answer: TokenAnswer, slot: Slot, encode: Callable[[TokenAnswer], bytes]) -> None:
        if answer.error_code:
            self._failed(slot, encode(answer))
            return
        slot.finish(encode(answer))
        machine, connection, listener = self.machine, self._connection, self._listener
        if not machine.settled:
            return
        listener.counts["repeated" if self._again else "succeeded"] += 1
        listener.unauthenticated.remove(connection)
        connection.principal = f"User:{machine.user}"
        if not machine.has_lifetime:
            connection.gate = None

    def _fail(self, reason: str) -> None:
        self.machine.fail(reason)
        self._failed(None, b"")

    def _failed(self, slot: Slot | None, answer: bytes) -> None:
        """Nothing is read any more; after a while the answer, if there is one, is sent, and the connection closed."""
        machine, connection, listener = self.machine, self._connection, self._listener
        listener.counts["repeats_failed" if self._again else "failed"] += 1
        listener.failing[connection] = self._again
        user = f" of {_quoted(machine.user)}" if machine.user else ""
        by = f" by {machine.mechanism}" if machine.mechanism else ""
        by += f" with {connection.software}" if connection.software else ""
        listener.failures.note(connection.peer, listener.name, f"failed authentication{user}{by}: {machine.failure}")
        connection.hold()
        self._leaving = listener.loop.call_later(listener.limits.delay_seconds, self._leave, slot, answer)

    def _leave(self, slot: Slot | None, answer: bytes) -> None:
        connection = self._connection
        if connection.transport is None:
            return
        if slot is not None and answer:
            slot.finish(answer)
            connection.flush()
        connection.end()
        self._leaving = self._listener.loop.call_later(_LEAVE_SECONDS, connection.close)


def _serves(versions: tuple[int, int], version: int) -> bool:
    first, last = versions
    return first <= version <= last


def _framed(answer: TokenAnswer) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=answer.error_code,
        error_message=answer.message,
        auth_bytes=answer.token,
        session_lifetime_ms=answer.lifetime_ms,
    )


def _raw(answer: TokenAnswer) -> bytes:
    """The token, with its length. A failure is told by nothing but the end of the connection."""
    return b"" if answer.error_code else len(answer.token).to_bytes(4, "big") + answer.token


def _quoted(user: str) -> str:
    """A name for a log: without control characters, and not too long."""
    return ascii(user[:_USER_CHARACTERS])
