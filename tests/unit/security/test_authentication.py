"""A server's side of SASL goes from state to state, and its sessions end: SECURITY.md, A.3, A.6 and B.1."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.security.authentication import (
    ILLEGAL_SASL_STATE,
    MECHANISMS,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    Authentication,
    Frame,
    HandshakeAnswer,
    Rule,
    State,
    Terms,
    TokenAnswer,
    WrongMomentError,
)
from actors.security.scram import ScramClient, ScramMechanism
from tests.support.sasl_exchange import (
    INVALID,
    LIFETIME_MS,
    LIMITED,
    PLAIN,
    SHA_256,
    SHA_512,
    agreed,
    checking,
    failed,
    logged_in,
    machine,
    scram,
    told,
)

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
        with pytest.raises(WrongMomentError, match=(State.READY if state is State.EXPIRED else state).value):
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
