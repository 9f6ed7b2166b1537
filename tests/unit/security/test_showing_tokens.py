"""A server's side of OAUTHBEARER, state by state: SECURITY.md, A.6 and B.4."""

from __future__ import annotations

import pytest

from actors.security.authentication import Authentication, CheckToken, Frame, Rule, State, Terms, TokenAnswer
from actors.security.oauth import INVALID_TOKEN, OAUTHBEARER, Bearer
from actors.security.scram import ScramCredential, ScramMechanism, dummy_credential
from tests.support.tokens import message

TERMS = Terms((OAUTHBEARER, "PLAIN"))
INVALID_CREDENTIALS = "due to invalid credentials with SASL mechanism OAUTHBEARER"


class Nobody:
    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return None

    def dummy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        return dummy_credential(b"", mechanism, user, 4096)


def agreed(longest_ms: int = 0, *, framed: bool = True) -> Authentication:
    made = Authentication(Terms(TERMS.mechanisms, {OAUTHBEARER: longest_ms}), Nobody(), lambda: "")
    made.begin(OAUTHBEARER, 0.0, framed=framed)
    return made


def shown(made: Authentication, lifetime_ms: int, user: str = "anne", now: float = 0.0) -> TokenAnswer:
    assert made.step(message("a.b.c"), now) == CheckToken("a.b.c")
    return made.shown(Bearer(user, lifetime_ms), now)


@pytest.mark.conformance("XB-26")
def test_a_valid_token_is_answered_by_an_empty_one_and_nothing_comes_before_the_verdict() -> None:
    made = agreed()
    asked = made.step(message("a.b.c"), 0.0)
    assert asked == CheckToken("a.b.c")
    assert "a.b.c" not in repr(asked)
    assert made.state(0.0) is State.CHECKING
    assert {made.rule(frame, 0.0) for frame in Frame} == {Rule.FAIL}
    assert made.shown(Bearer("anne", 60_000), 0.0) == TokenAnswer(token=b"", lifetime_ms=60_000)
    assert (made.state(0.0), made.user) == (State.READY, "anne")


@pytest.mark.conformance("XB-27")
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("last", [b"\x01", b"", message("d.e.f")])
def test_an_invalid_token_is_told_and_the_next_message_ends_it(framed: bool, last: bytes) -> None:
    made = agreed(framed=framed)
    made.step(message("a.b.c"), 0.0)
    assert made.invalid("an expired token") == TokenAnswer(0, None, b'{"status":"invalid_token"}')
    assert made.state(0.0) is (State.FRAMED if framed else State.RAW)
    assert not made.proved
    assert made.step(last, 0.0) == TokenAnswer(58, INVALID_TOKEN)
    assert (made.state(0.0), made.failure) == (State.FAILED, "an expired token")


@pytest.mark.conformance("XB-27")
def test_who_wants_to_be_somebody_else_is_refused_at_once() -> None:
    made = agreed()
    made.step(message("a.b.c", "bert"), 0.0)
    answer = made.shown(Bearer("anne", 60_000), 0.0)
    assert answer.error_code == 58
    assert answer.message is not None
    assert answer.message.endswith("authorization id that is different from username")
    assert made.state(0.0) is State.FAILED
    same = agreed()
    same.step(message("a.b.c", "anne"), 0.0)
    assert not same.shown(Bearer("anne", 60_000), 0.0).error_code


@pytest.mark.conformance("XB-26")
def test_a_malformed_message_is_told_like_wrong_credentials() -> None:
    answer = agreed().step(b"y,,\x01auth=Bearer a.b.c\x01\x01", 0.0)
    assert answer == TokenAnswer(58, f"Authentication failed during authentication {INVALID_CREDENTIALS}")


@pytest.mark.conformance("XB-30", "XA-54")
@pytest.mark.parametrize(
    ("longest_ms", "token_ms", "lifetime_ms"),
    [(0, 5000, 5000), (4000, 5000, 4000), (6000, 5000, 5000), (-1, 5000, 5000), (0, 0, 0), (4000, 0, 0)],
)
def test_the_sooner_end_of_token_and_session_counts(longest_ms: int, token_ms: int, lifetime_ms: int) -> None:
    made = agreed(longest_ms)
    assert shown(made, token_ms).lifetime_ms == lifetime_ms
    assert made.has_lifetime, "even one that is over already"
    assert made.state(lifetime_ms / 1000 - 0.001) is State.READY
    assert made.state(lifetime_ms / 1000) is State.EXPIRED
    raw = agreed(longest_ms, framed=False)
    assert shown(raw, token_ms).lifetime_ms == 0, "there is no place for it"
    assert raw.state(lifetime_ms / 1000) is State.EXPIRED


@pytest.mark.conformance("XB-30", "XA-56")
def test_a_new_token_prolongs_the_session_of_the_same_user() -> None:
    made = agreed()
    shown(made, 5000)
    made.begin(OAUTHBEARER, 4.0, framed=True)
    assert shown(made, 5000, now=4.0).lifetime_ms == 5000
    assert made.state(8.9) is State.READY
    made.begin(OAUTHBEARER, 8.0, framed=True)
    assert shown(made, 5000, "bert", now=8.0).error_code == 58
    assert made.state(8.0) is State.FAILED
