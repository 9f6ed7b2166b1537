"""A server's side of SASL, state by state: SECURITY.md, A.3, A.6, B.1 and B.2."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.security.authentication import (
    ILLEGAL_SASL_STATE,
    MECHANISMS,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    Authentication,
    CheckPassword,
    Frame,
    HandshakeAnswer,
    Rule,
    State,
    Terms,
    TokenAnswer,
    WrongMomentError,
)
from actors.security.plain import PlainError, fits, jaas_users, kept_of, read_plain
from actors.security.scram import (
    ITERATIONS_MIN,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    dummy_credential,
    salted_password,
)

PLAIN, SHA_256, SHA_512, OAUTHBEARER = MECHANISMS
SALT = b"0123456789abcdef"
ALL = Terms(MECHANISMS)
LIFETIME_MS = 10_000
LIMITED = Terms(MECHANISMS, dict.fromkeys(MECHANISMS, LIFETIME_MS))
INVALID = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"


class Users:
    """Everybody here has the password `pencil`."""

    def __init__(self, *names: str, iterations: int = ITERATIONS_MIN) -> None:
        self._credentials = {
            (name, mechanism): ScramCredential.of(
                mechanism, salted_password(mechanism, "pencil", SALT, iterations), SALT, iterations
            )
            for name in names
            for mechanism in ScramMechanism
        }

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._credentials.get((user, mechanism))

    def dummy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        return dummy_credential(b"secret", mechanism, user, ITERATIONS_MIN)


USERS = Users("user", "other")


def machine(terms: Terms = ALL, users: Users = USERS) -> Authentication:
    return Authentication(terms, users, lambda: "theirs")


def agreed(
    mechanism: str = SHA_256, *, framed: bool = True, terms: Terms = ALL, users: Users = USERS
) -> Authentication:
    made = machine(terms, users)
    made.begin(mechanism, 0.0, framed=framed)
    return made


def scram(
    made: Authentication, user: str = "user", password: str = "pencil", now: float = 0.0, digest: str = SHA_256
) -> TokenAnswer:
    """Both steps; the answer to the last one."""
    mechanism = next(each for each in ScramMechanism if each.wire_name == digest)
    client = ScramClient(mechanism, user, "ours")
    first = made.step(client.first(), now)
    assert isinstance(first, TokenAnswer)
    if first.error_code:
        return first
    asked = client.read_first(first.token)
    last = made.step(client.final(salted_password(mechanism, password, asked.salt, asked.iterations)), now)
    assert isinstance(last, TokenAnswer)
    return last


def logged_in(terms: Terms = ALL) -> Authentication:
    made = agreed(terms=terms)
    assert not scram(made).error_code
    return made


def checking() -> Authentication:
    made = agreed(PLAIN)
    made.step(b"\0user\0pencil", 0.0)
    return made


def failed() -> Authentication:
    made = machine()
    made.fail("for a test")
    return made


def told() -> Authentication:
    made = machine()
    made.versions_told()
    return made


# --- the table ---

_IN: dict[State, Callable[[], Authentication]] = {
    State.INITIAL: machine,
    State.VERSIONS_TOLD: told,
    State.FRAMED: agreed,
    State.RAW: lambda: agreed(framed=False),
    State.CHECKING: checking,
    State.READY: logged_in,
    State.EXPIRED: lambda: logged_in(LIMITED),
    State.FAILED: failed,
}
_TABLE = {
    #                      ApiVersions  SaslHandshake  SaslAuthenticate  token       other
    State.INITIAL: (Rule.TELL, Rule.BEGIN, Rule.FAIL, Rule.FAIL, Rule.FAIL),
    State.VERSIONS_TOLD: (Rule.CLOSE, Rule.BEGIN, Rule.FAIL, Rule.FAIL, Rule.FAIL),
    State.FRAMED: (Rule.FAIL, Rule.FAIL, Rule.STEP, Rule.FAIL, Rule.FAIL),
    State.RAW: (Rule.FAIL, Rule.FAIL, Rule.FAIL, Rule.STEP, Rule.FAIL),
    State.CHECKING: (Rule.FAIL, Rule.FAIL, Rule.FAIL, Rule.FAIL, Rule.FAIL),
    State.READY: (Rule.SERVE, Rule.ILLEGAL, Rule.ILLEGAL, Rule.SERVE, Rule.SERVE),
    State.EXPIRED: (Rule.CLOSE, Rule.BEGIN, Rule.CLOSE, Rule.CLOSE, Rule.CLOSE),
    State.FAILED: (Rule.CLOSE, Rule.CLOSE, Rule.CLOSE, Rule.CLOSE, Rule.CLOSE),
}
_LATER = LIFETIME_MS / 1000


@pytest.mark.conformance("XA-13", "XA-16", "XA-17", "XA-19", "XA-20", "XA-21", "XA-22", "XA-57")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("frame", Frame)
def test_each_frame_in_each_state_has_its_rule(state: State, frame: Frame) -> None:
    made = _IN[state]()
    assert made.state(_LATER) is state
    assert made.rule(frame, _LATER) is _TABLE[state][list(Frame).index(frame)]
    assert made.state(_LATER) is state, "a rule changes nothing"


@pytest.mark.parametrize("state", State)
def test_an_owner_who_does_not_keep_to_the_rules_changes_nothing(state: State) -> None:
    steps: dict[Rule | str, Callable[[Authentication], object]] = {
        Rule.TELL: lambda each: each.versions_told(),
        Rule.BEGIN: lambda each: each.begin(SHA_256, _LATER, framed=True),
        Rule.STEP: lambda each: each.step(b"n,,n=user,r=ours", _LATER),
        "verdict": lambda each: each.verified(True, _LATER),
    }
    allowed = set(_TABLE[state]) | ({"verdict"} if state is State.CHECKING else set())
    if state in (State.READY, State.EXPIRED):
        allowed.add(Rule.BEGIN)
    for rule, step in steps.items():
        if rule in allowed:
            continue
        made = _IN[state]()
        with pytest.raises(WrongMomentError, match=made._state.value):
            step(made)
        assert made.state(_LATER) is state


# --- agreeing on a mechanism ---


@pytest.mark.conformance("XA-17", "XB-03")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("before", [machine, told])
def test_an_enabled_mechanism_is_agreed_on(mechanism: str, before: Callable[[], Authentication]) -> None:
    made = before()
    assert made.begin(mechanism, 0.0, framed=True) == HandshakeAnswer(0, MECHANISMS)
    assert made.state(0.0) is State.FRAMED
    assert not made.raw


@pytest.mark.conformance("XB-02")
def test_after_the_first_version_of_the_handshake_tokens_come_by_themselves() -> None:
    made = agreed(framed=False)
    assert made.raw
    assert made.state(0.0) is State.RAW


@pytest.mark.conformance("XA-18", "XB-03", "XB-04")
@pytest.mark.parametrize("mechanism", ["", "plain", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-512", "SCRAM-SHA-256-PLUS"])
def test_a_mechanism_that_is_not_enabled_fails_and_those_that_are_get_told(mechanism: str) -> None:
    made = machine(Terms((PLAIN, SHA_256)))
    assert made.begin(mechanism, 0.0, framed=True) == HandshakeAnswer(33, (PLAIN, SHA_256))
    assert made.state(0.0) is State.FAILED
    assert made.failure == "a mechanism that is not enabled"


# --- SCRAM ---


@pytest.mark.conformance("XA-20", "XB-01")
@pytest.mark.parametrize("digest", [SHA_256, SHA_512])
@pytest.mark.parametrize("framed", [True, False])
def test_who_knows_the_password_is_let_in(digest: str, framed: bool) -> None:
    made = agreed(digest, framed=framed)
    answer = scram(made, digest=digest)
    assert (answer.error_code, answer.message, answer.token[:2], answer.lifetime_ms) == (0, None, b"v=", 0)
    assert made.state(1e9) is State.READY
    assert (made.user, made.proved, made.settled, made.has_lifetime) == ("user", True, True, False)


@pytest.mark.conformance("XB-05", "XB-06")
@pytest.mark.parametrize(("user", "password"), [("user", "pen"), ("nobody", "pencil"), ("nobody", "")])
def test_who_does_not_is_told_the_same_whatever_was_wrong(user: str, password: str) -> None:
    made = agreed()
    answer = scram(made, user, password)
    assert answer == TokenAnswer(58, INVALID.format("authentication", SHA_256))
    assert made.state(0.0) is State.FAILED
    assert (made.proved, made.user) == (False, user)


@pytest.mark.conformance("XB-05", "XB-06")
@pytest.mark.parametrize(
    "token", [b"", b"\0", b"y,,n=user,r=x", b"n,,n=u=ser,r=x", b"p=tls-unique,,n=user,r=x", b"\xff"]
)
def test_a_malformed_token_is_told_the_same_too(token: bytes) -> None:
    made = agreed(SHA_512)
    assert made.step(token, 0.0) == TokenAnswer(58, INVALID.format("authentication", SHA_512))
    assert made.state(0.0) is State.FAILED


@pytest.mark.conformance("XB-05", "XB-16")
def test_who_wants_to_act_as_another_one_is_told_so_before_anything_of_him_is_known() -> None:
    for user in (b"user", b"nobody"):
        made = agreed()
        answer = made.step(b"n,a=other,n=%b,r=ours" % user, 0.0)
        assert isinstance(answer, TokenAnswer)
        assert answer.error_code == 58
        assert answer.message == (
            "Authentication failed: Client requested an authorization id that is different from username"
        )


@pytest.mark.conformance("XB-21")
def test_a_credential_of_too_few_iterations_lets_nobody_in() -> None:
    made = agreed(users=Users("user", iterations=ITERATIONS_MIN - 1))
    assert scram(made).error_code == 58


@pytest.mark.conformance("XB-24")
def test_the_credential_of_the_first_step_holds_for_the_second() -> None:
    users = Users("user")
    made = agreed(users=users)
    client = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    first = made.step(client.first(), 0.0)
    assert isinstance(first, TokenAnswer)
    users._credentials.clear()
    asked = client.read_first(first.token)
    last = made.step(client.final(salted_password(ScramMechanism.SHA_256, "pencil", asked.salt, asked.iterations)), 0.0)
    assert isinstance(last, TokenAnswer)
    assert not last.error_code
    assert made._exchange is None, "nothing of it is kept"


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=2), st.sampled_from(MECHANISMS))
def test_no_token_raises_anything(tokens: list[bytes], mechanism: str) -> None:
    made = agreed(mechanism)
    for token in tokens:
        if made.state(0.0) is State.FRAMED:
            made.step(token, 0.0)
    assert not made.proved


@pytest.mark.conformance("XB-06")
def test_a_fault_of_ours_is_told_like_wrong_credentials() -> None:
    for mechanism, text in (
        (SHA_256, INVALID.format("authentication", SHA_256)),
        (PLAIN, "Authentication failed: Invalid username or password"),
    ):
        made = agreed(mechanism)
        assert made.broken() == TokenAnswer(58, text)
        assert made.state(0.0) is State.FAILED


@pytest.mark.conformance("XB-23")
def test_no_key_is_derived_from_a_password_here(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    salted = salted_password(ScramMechanism.SHA_256, "pencil", SALT, ITERATIONS_MIN)
    monkeypatch.delattr(hashlib, "pbkdf2_hmac")
    made = agreed()
    first = made.step(client.first(), 0.0)
    assert isinstance(first, TokenAnswer)
    client.read_first(first.token)
    last = made.step(client.final(salted), 0.0)
    assert isinstance(last, TokenAnswer)
    assert made.proved


# --- PLAIN ---


@pytest.mark.conformance("XB-07")
@pytest.mark.parametrize("token", [b"\0user\0pen\xc3\xa4", b"user\0user\0pen\xc3\xa4"])
@pytest.mark.parametrize("framed", [True, False])
def test_a_password_in_clear_is_verified_elsewhere(token: bytes, framed: bool) -> None:
    made = agreed(PLAIN, framed=framed)
    assert made.step(token, 0.0) == CheckPassword("user", "penä")
    assert made.state(0.0) is State.CHECKING
    assert made.verified(True, 0.0) == TokenAnswer()
    assert made.state(0.0) is State.READY
    assert made.user == "user"


@pytest.mark.conformance("XB-05", "XB-07")
def test_a_wrong_password_fails_whoever_the_client_wants_to_be() -> None:
    for token in (b"\0user\0pen", b"other\0user\0pen"):
        made = agreed(PLAIN)
        made.step(token, 0.0)
        assert made.verified(False, 0.0) == TokenAnswer(58, "Authentication failed: Invalid username or password")
        assert made.state(0.0) is State.FAILED
        assert not made.proved


@pytest.mark.conformance("XB-05", "XB-07")
def test_who_wants_to_act_as_another_one_is_told_so_once_his_password_is_verified() -> None:
    made = agreed(PLAIN)
    made.step(b"other\0user\0pencil", 0.0)
    answer = made.verified(True, 0.0)
    assert answer.message == (
        "Authentication failed: Client requested an authorization id that is different from username"
    )
    assert made.state(0.0) is State.FAILED


@pytest.mark.conformance("XB-05", "XB-07", "XB-08")
@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"\0user\0", "Authentication failed: password not specified"),
        (b"", "Authentication failed: expected 3 parts in the token, got 1"),
        (b"user\0pencil", "Authentication failed: expected 3 parts in the token, got 2"),
        (b"\0user\0pencil\0", "Authentication failed: expected 3 parts in the token, got 4"),
        (b"\0us\xffer\0pencil", "Authentication failed: Invalid username or password"),
        (b"\0" + b"u" * 256 + b"\0pencil", "Authentication failed: Invalid username or password"),
    ],
)
def test_a_token_that_cannot_be_right_is_not_verified(token: bytes, message: str) -> None:
    made = agreed(PLAIN)
    assert made.step(token, 0.0) == TokenAnswer(58, message)
    assert made.state(0.0) is State.FAILED


@pytest.mark.conformance("XB-08")
def test_the_longest_name_is_255_bytes() -> None:
    assert read_plain(b"\0" + "ä".encode() * 127 + b"u\0pencil").user.endswith("u")
    with pytest.raises(PlainError):
        read_plain(b"\0" + "ä".encode() * 128 + b"\0pencil")


def test_a_password_in_clear_is_shown_nowhere() -> None:
    assert "pencil" not in repr(read_plain(b"\0user\0pencil"))
    assert "pencil" not in repr(CheckPassword("user", "pencil"))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_password_fits_its_own_credential(mechanism: ScramMechanism) -> None:
    credential = USERS.credential("user", mechanism)
    assert credential is not None
    assert fits("pencil", mechanism, credential)
    assert not fits("Pencil", mechanism, credential)
    assert not fits("pencil", mechanism, USERS.dummy("user", mechanism))


@pytest.mark.conformance("XB-09")
def test_users_are_read_as_kafkas_files_have_them() -> None:
    text = """KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="of no use"
        user_alice="se cret" user_bob = "a\\"b\\\\c"
        user_carl="";
    };"""
    assert jaas_users(text) == {"alice": "se cret", "bob": 'a"b\\c', "carl": ""}
    assert fits("se cret", ScramMechanism.SHA_256, kept_of("se cret", b"salt"))


# --- the session's lifetime ---


@pytest.mark.conformance("XA-54")
def test_the_lifetime_is_told_with_the_last_answer_alone() -> None:
    made = agreed(terms=LIMITED)
    client = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    first = made.step(client.first(), 0.0)
    assert isinstance(first, TokenAnswer)
    assert first.lifetime_ms == 0
    assert scram(agreed(terms=LIMITED)).lifetime_ms == LIFETIME_MS
    assert scram(agreed(terms=Terms(MECHANISMS, {SHA_256: -1}))).lifetime_ms == 0
    assert scram(agreed(terms=Terms(MECHANISMS, {SHA_512: 5}))).lifetime_ms == 0, "another mechanism's"


@pytest.mark.conformance("XA-57", "XA-58", "XA-60", "XB-02")
@pytest.mark.parametrize("framed", [True, False])
def test_a_session_ends_even_of_a_client_that_is_not_told(framed: bool) -> None:
    made = agreed(terms=LIMITED, framed=framed)
    answer = scram(made, now=5.0)
    assert answer.lifetime_ms == (LIFETIME_MS if framed else 0)
    assert made.rule(Frame.OTHER, 14.9) is Rule.SERVE
    assert made.rule(Frame.OTHER, 15.0) is Rule.CLOSE
    assert made.rule(Frame.HANDSHAKE, 15.0) is Rule.BEGIN


@pytest.mark.conformance("XA-55")
@pytest.mark.parametrize("at", [2.0, 12.0])
def test_who_proves_again_who_he_is_goes_on(at: float) -> None:
    made = logged_in(LIMITED)
    assert made.rule(Frame.HANDSHAKE, at) is Rule.BEGIN
    made.begin(SHA_256, at, framed=True)
    assert made.state(at) is State.FRAMED
    assert (made.proved, made.settled, made.user) == (True, False, "user")
    assert made.rule(Frame.OTHER, at) is Rule.FAIL
    assert scram(made, now=at).lifetime_ms == LIFETIME_MS
    assert made.rule(Frame.OTHER, at + 9.9) is Rule.SERVE
    assert made.rule(Frame.OTHER, at + 10.0) is Rule.CLOSE


@pytest.mark.conformance("XA-55")
def test_it_may_be_tried_once_a_second() -> None:
    made = logged_in(LIMITED)
    made.begin(SHA_256, 2.0, framed=True)
    scram(made, now=2.0)
    assert made.rule(Frame.HANDSHAKE, 2.9) is Rule.ILLEGAL
    assert made.rule(Frame.HANDSHAKE, 3.0) is Rule.BEGIN
    short = logged_in(Terms(MECHANISMS, {SHA_256: 500}))
    short.begin(SHA_256, 2.0, framed=True)
    scram(short, now=2.0)
    assert short.rule(Frame.HANDSHAKE, 2.6) is Rule.CLOSE, "expired, and too early to begin anew"


@pytest.mark.conformance("XA-56")
def test_neither_mechanism_nor_user_can_be_changed() -> None:
    made = logged_in(LIMITED)
    assert made.begin(SHA_512, 2.0, framed=True).error_code == 0
    answer = made.step(b"n,,n=user,r=ours", 2.0)
    assert isinstance(answer, TokenAnswer)
    assert answer.error_code == 58
    assert "mechanism" in (answer.message or "")
    assert made.state(2.0) is State.FAILED

    made = logged_in(LIMITED)
    made.begin(SHA_256, 2.0, framed=True)
    assert scram(made, "other", now=2.0).error_code == 58
    assert made.state(2.0) is State.FAILED
    assert made.user == "user"


@pytest.mark.conformance("XB-05")
def test_wrong_credentials_of_one_who_was_let_in_are_told_as_such() -> None:
    made = logged_in(LIMITED)
    made.begin(SHA_256, 2.0, framed=True)
    assert scram(made, password="pen", now=2.0).message == INVALID.format("re-authentication", SHA_256)
    assert made.state(2.0) is State.FAILED


# --- what the wire calls it ---


def test_the_codes_are_kafkas() -> None:
    from actors.wire.errors import ErrorCode

    assert UNSUPPORTED_SASL_MECHANISM == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert ILLEGAL_SASL_STATE == ErrorCode.ILLEGAL_SASL_STATE
    assert SASL_AUTHENTICATION_FAILED == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_proof_that_was_heard_is_of_no_use_again() -> None:
    """XG-06."""
    client = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    made = agreed()
    first = made.step(client.first(), 0.0)
    assert isinstance(first, TokenAnswer)
    asked = client.read_first(first.token)
    last = client.final(salted_password(ScramMechanism.SHA_256, "pencil", asked.salt, asked.iterations))
    made.step(last, 0.0)
    assert made.proved
    again = Authentication(ALL, USERS, lambda: base64.b64encode(b"another nonce!").decode())
    again.begin(SHA_256, 0.0, framed=True)
    again.step(client.first(), 0.0)
    replayed = again.step(last, 0.0)
    assert isinstance(replayed, TokenAnswer)
    assert replayed.error_code == 58
