"""The authentication of clients: a server's side of SASL on one connection (KIP-43, KIP-152, KIP-368).

A machine without I/O. Its owner tells it what kind of frame has come, and is told by which rule it goes on; only what
the rule wants read is read. `now` is monotonic time in seconds. The table of rules is SECURITY.md's A.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

from actors import CoterieError
from actors.security.oauth import INVALID_TOKEN, OAUTHBEARER, Bearer, BearerError, read_message
from actors.security.plain import OTHER_IDENTITY, PLAIN, WRONG, PlainError, read_plain
from actors.security.scram import AuthorizationIdError, ScramCredential, ScramError, ScramMechanism, ScramServer

UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
SASL_AUTHENTICATION_FAILED: Final = 58

MECHANISMS: Final = (PLAIN, *(each.wire_name for each in ScramMechanism), OAUTHBEARER)
"""The mechanisms that can be enabled, by the names on the wire."""
_OTHER_MECHANISM: Final = "Authentication failed: the mechanism cannot be changed during re-authentication"
_OTHER_PRINCIPAL: Final = "Authentication failed: the user cannot be changed during re-authentication"
_ATTEMPT_SECONDS: Final = 1.0
"""Re-authentication may be tried once within this."""
_SCRAM: Final = {each.wire_name: each for each in ScramMechanism}


class State(Enum):
    """The states of a connection's authentication."""

    INITIAL = "INITIAL"
    """Nothing has been agreed. ApiVersions or SaslHandshake ends it."""
    VERSIONS_TOLD = "VERSIONS_TOLD"
    """ApiVersions has been answered. SaslHandshake ends it."""
    FRAMED = "FRAMED"
    """A mechanism is agreed; its tokens come in SaslAuthenticate. The last token ends it."""
    RAW = "RAW"
    """The same after SaslHandshake v0: the tokens come by themselves, with a length each."""
    CHECKING = "CHECKING"
    """A password or a token is being verified elsewhere; nothing may come. The verdict ends it."""
    READY = "READY"
    """The peer has proved who it is. The end of its session's lifetime ends it, if it has one."""
    EXPIRED = "EXPIRED"
    """The session is over; the peer may prove who it is once more."""
    FAILED = "FAILED"
    """Nothing may come. The connection is closed after a while."""


class Frame(Enum):
    """The kinds of frames, as their first bytes say."""

    API_VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake of a version that is served"
    AUTHENTICATE = "SaslAuthenticate of a version that is served"
    TOKEN = "a token without a header"
    OTHER = "any other"


class Rule(Enum):
    """The ways in which a connection goes on with a frame."""

    TELL = "answer ApiVersions, and call `versions_told` unless it was refused"
    BEGIN = "read the mechanism, and call `begin`"
    STEP = "read the token, and call `step`"
    ILLEGAL = "answer ILLEGAL_SASL_STATE; the connection stays"
    SERVE = "handle it as any request"
    FAIL = "call `fail`: close after the delay, without an answer"
    CLOSE = "close at once, without an answer"


_RULES: Final[Mapping[State, Mapping[Frame, Rule]]] = {
    State.INITIAL: {Frame.API_VERSIONS: Rule.TELL, Frame.HANDSHAKE: Rule.BEGIN},
    State.VERSIONS_TOLD: {Frame.API_VERSIONS: Rule.CLOSE, Frame.HANDSHAKE: Rule.BEGIN},
    State.FRAMED: {Frame.AUTHENTICATE: Rule.STEP},
    State.RAW: {Frame.TOKEN: Rule.STEP},
    State.CHECKING: {},
    State.READY: {Frame.HANDSHAKE: Rule.ILLEGAL, Frame.AUTHENTICATE: Rule.ILLEGAL},
    State.EXPIRED: {Frame.HANDSHAKE: Rule.BEGIN},
    State.FAILED: {},
}
_OTHERWISE: Final = {State.READY: Rule.SERVE, State.EXPIRED: Rule.CLOSE, State.FAILED: Rule.CLOSE}
"""The rule for frames that a state's row does not name; FAIL where none stands here."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A listener's terms: its mechanisms, and the longest session of each in ms (0: for ever)."""

    mechanisms: tuple[str, ...]
    lifetimes_ms: Mapping[str, int] = field(default_factory=dict)


class Users(Protocol):
    """The users, and the stored credentials of their passwords."""

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None: ...

    def dummy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """The credential that stands for a user who does not exist."""


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """The answer to SaslHandshake."""

    error_code: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The answer to a token. After an error the connection fails; in RAW only the token is sent, and no error."""

    error_code: int = 0
    message: str | None = None
    token: bytes = field(default=b"", repr=False)
    lifetime_ms: int = 0


@dataclass(frozen=True, slots=True)
class CheckPassword:
    """A password has to be verified, which takes time; then `verified`."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CheckToken:
    """A token has to be looked at, which may take time; then `shown` or `invalid`."""

    token: str = field(repr=False)


class WrongMomentError(CoterieError):
    """The owner has not kept to the rules. Nothing was changed."""


_Exchange: TypeAlias = "_ScramExchange | _PlainExchange | _BearerExchange"


class Authentication:
    """The authentication of one connection. `nonce` draws a random one (scram.NONCE_CHARACTERS)."""

    def __init__(self, terms: Terms, users: Users, nonce: Callable[[], str]) -> None:
        self._terms = terms
        self._users = users
        self._nonce = nonce
        self._state = State.INITIAL
        self._framed = True
        self._exchange: _Exchange | None = None
        self._expires: float | None = None
        self._attempted: float | None = None
        self._proved: tuple[str, str] | None = None
        self.mechanism = ""
        """The mechanism that was agreed last."""
        self.failure = ""
        """The reason of a failure: for a log, and for nobody else."""

    # --- where it stands ---

    def state(self, now: float) -> State:
        """The state; READY becomes EXPIRED by time alone."""
        if self._state is State.READY and self._expires is not None and now >= self._expires:
            return State.EXPIRED
        return self._state

    @property
    def raw(self) -> bool:
        """True if the next frame is a token without a header."""
        return self._state is State.RAW

    @property
    def proved(self) -> bool:
        """True if the peer has proved its identity, even if it is proving it again just now."""
        return self._proved is not None

    @property
    def settled(self) -> bool:
        """True if the peer has proved its identity, and is not proving it again; the session may have expired."""
        return self._state is State.READY

    @property
    def has_lifetime(self) -> bool:
        """True if the session ends by itself."""
        return self._expires is not None

    @property
    def user(self) -> str:
        """The user that the peer is or, before it has proved that, says it is; "" before it has said so."""
        if self._proved is not None:
            return self._proved[1]
        return self._exchange.user if self._exchange is not None else ""

    def rule(self, frame: Frame, now: float) -> Rule:
        """The rule for a frame that has come."""
        state = self.state(now)
        if frame is Frame.HANDSHAKE and self.has_lifetime and state in (State.READY, State.EXPIRED):
            if self._attempted is None or now - self._attempted >= _ATTEMPT_SECONDS:
                return Rule.BEGIN
            return Rule.ILLEGAL if state is State.READY else Rule.CLOSE
        return _RULES[state].get(frame, _OTHERWISE.get(state, Rule.FAIL))

    # --- what has come ---

    def versions_told(self) -> None:
        """ApiVersions was answered with all versions."""
        self._expect(State.INITIAL)
        self._state = State.VERSIONS_TOLD

    def begin(self, mechanism: str, now: float, *, framed: bool) -> HandshakeAnswer:
        """SaslHandshake: agree on a mechanism. After an error the connection fails."""
        self._expect(State.INITIAL, State.VERSIONS_TOLD, State.READY)
        if self.proved:
            self._attempted = now
        if mechanism not in self._terms.mechanisms:
            self.fail("a mechanism that is not enabled")
            return HandshakeAnswer(UNSUPPORTED_SASL_MECHANISM, self._terms.mechanisms)
        self.mechanism = mechanism
        if mechanism == PLAIN:
            self._exchange = _PlainExchange()
        elif mechanism == OAUTHBEARER:
            self._exchange = _BearerExchange()
        else:
            self._exchange = _ScramExchange(_SCRAM[mechanism], self._users, self._nonce())
        self._framed = framed
        self._state = State.FRAMED if framed else State.RAW
        return HandshakeAnswer(0, self._terms.mechanisms)

    def step(self, token: bytes, now: float) -> TokenAnswer | CheckPassword | CheckToken:
        """The client's next token."""
        self._expect(State.FRAMED, State.RAW)
        exchange = self._exchange
        assert exchange is not None
        if self._proved is not None and self._proved[0] != self.mechanism:
            return self._refused(_OTHER_MECHANISM, "another mechanism than before")
        try:
            answer = exchange.step(token)
        except AuthorizationIdError as error:
            return self._refused(OTHER_IDENTITY, str(error))
        except PlainError as error:
            return self._refused(error.answer, str(error))
        except _InvalidTokenError as error:
            return self._refused(INVALID_TOKEN, str(error))
        except (ScramError, BearerError) as error:
            return self._refused(self._invalid_credentials(), str(error))
        if isinstance(answer, CheckPassword | CheckToken):
            self._state = State.CHECKING
            return answer
        return self._succeeded(answer, now) if exchange.over else TokenAnswer(token=answer)

    def verified(self, right: bool, now: float) -> TokenAnswer:
        """The password has been found right or wrong."""
        self._expect(State.CHECKING)
        exchange = self._exchange
        assert isinstance(exchange, _PlainExchange)
        if not right:
            return self._refused(WRONG, "wrong credentials")
        if exchange.authorization_id not in ("", exchange.user):
            return self._refused(OTHER_IDENTITY, "the authorization id is another one than the user's name")
        return self._succeeded(b"", now)

    def shown(self, bearer: Bearer, now: float) -> TokenAnswer:
        """The token has been found valid."""
        exchange = self._bearers()
        exchange.user = bearer.user
        if exchange.authorization_id not in ("", bearer.user):
            return self._refused(OTHER_IDENTITY, "the authorization id is another one than the token's user")
        return self._succeeded(b"", now, bearer.lifetime_ms)

    def invalid(self, reason: str) -> TokenAnswer:
        """The token has been found not to be valid. The client is told, and has to send a token more (RFC 7628)."""
        self._bearers().fault = reason
        self._state = State.FRAMED if self._framed else State.RAW
        return TokenAnswer(token=INVALID_TOKEN.encode())

    def _bearers(self) -> _BearerExchange:
        self._expect(State.CHECKING)
        assert isinstance(self._exchange, _BearerExchange)
        return self._exchange

    def fail(self, reason: str) -> None:
        """Nothing may come any more."""
        self._state = State.FAILED
        self.failure = reason

    def broken(self) -> TokenAnswer:
        """A fault of ours: to the peer it looks as wrong credentials do."""
        wrong = WRONG if self.mechanism == PLAIN else self._invalid_credentials()
        return self._refused(wrong, "a fault of ours")

    # --- how it ends ---

    def _succeeded(self, token: bytes, now: float, credential_ms: int | None = None) -> TokenAnswer:
        """`credential_ms` is for how long what was shown is good; None: for ever."""
        assert self._exchange is not None
        proof = (self.mechanism, self._exchange.user)
        if self._proved not in (None, proof):
            return self._refused(_OTHER_PRINCIPAL, "another user than before")
        self._exchange = None
        self._proved = proof
        self._state = State.READY
        longest_ms = max(self._terms.lifetimes_ms.get(self.mechanism, 0), 0)
        lifetime_ms = longest_ms if credential_ms is None else min(credential_ms, longest_ms or credential_ms)
        ends = lifetime_ms > 0 or credential_ms is not None  # at once, if the clock's tolerance was needed
        self._expires = now + lifetime_ms / 1000 if ends else None
        return TokenAnswer(token=token, lifetime_ms=lifetime_ms if self._framed else 0)

    def _refused(self, message: str, reason: str) -> TokenAnswer:
        self.fail(reason)
        return TokenAnswer(SASL_AUTHENTICATION_FAILED, message)

    def _invalid_credentials(self) -> str:
        during = "re-authentication" if self.proved else "authentication"
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self.mechanism}"

    def _expect(self, *states: State) -> None:
        if self._state not in states:
            raise WrongMomentError(f"not in {self._state.value}")


class _ScramExchange:
    def __init__(self, mechanism: ScramMechanism, users: Users, nonce: str) -> None:
        self._server = ScramServer(
            mechanism,
            lambda user: users.credential(user, mechanism),
            lambda user: users.dummy(user, mechanism),
            nonce,
        )
        self._begun = False
        self.over = False

    @property
    def user(self) -> str:
        return self._server.user

    def step(self, token: bytes) -> bytes:
        if not self._begun:
            self._begun = True
            return self._server.first(token)
        answer = self._server.final(token)
        self.over = True
        return answer


class _PlainExchange:
    over = False  # the verdict comes from elsewhere

    def __init__(self) -> None:
        self.user = ""
        self.authorization_id = ""

    def step(self, token: bytes) -> CheckPassword:
        read = read_plain(token)
        self.user, self.authorization_id = read.user, read.authorization_id
        return CheckPassword(read.user, read.password)


class _InvalidTokenError(CoterieError):
    """The exchange ends about a token that was not valid. The text says what was wrong with it."""


class _BearerExchange:
    over = False  # the verdict comes from elsewhere

    def __init__(self) -> None:
        self.user = ""
        self.authorization_id = ""
        self.fault = ""

    def step(self, token: bytes) -> CheckToken:
        if self.fault:
            raise _InvalidTokenError(self.fault)
        read = read_message(token)
        self.authorization_id = read.authorization_id
        return CheckToken(read.token)
