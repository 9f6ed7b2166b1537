"""A server's side of SASL lets in who proves by SCRAM or PLAIN who it is: SECURITY.md, A.3, B.1 and B.2."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.security.authentication import MECHANISMS, Authentication, CheckPassword, State, TokenAnswer
from actors.security.plain import PlainError, fits, jaas_users, kept_of, read_plain
from actors.security.scram import ITERATIONS_MIN, ScramClient, ScramMechanism, salted_password
from tests.support.sasl_exchange import ALL, INVALID, PLAIN, SALT, SHA_256, SHA_512, USERS, Users, agreed, scram

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
    assert not [part for part in vars(made).values() if hasattr(part, "step")], "nothing of it is kept"


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
