"""SCRAM, both ends: SECURITY.md, X-B.3."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.security.scram import (
    EXCHANGE_BYTES_MAX,
    AuthorizationIdError,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    dummy_credential,
    salted_password,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


@dataclass(frozen=True)
class Vector:
    """Messages that a server given 1 and 3 answers by 2 and 4."""

    mechanism: ScramMechanism
    user: str
    password: str
    salt: bytes
    messages: tuple[bytes, bytes, bytes, bytes]
    stored_key: str


RFC_7677 = Vector(
    SHA_256,
    "user",
    "pencil",
    base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
    (
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=",
)
ODD_NAME = Vector(
    SHA_512,
    "a=b,c",
    "pä,ss",
    b"0123456789abcdef",
    (
        b"n,a=a=3Db=2Cc,n=a=3Db=2Cc,r=fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
        b"c=bixhPWE9M0RiPTJDYyw=,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=7ewH8R2aGTxRpgzYdJedP+qvdIAHkL4PXiBuvEYj"
        b"W5AXInzRM0N1EjBrkPBBoOUe6Vh4tC+dMVZdkZbGvhvplw==",
        b"v=mTjqEywOJ2dKuaeMmJCcCe45cXiMOQ+j5zFUK8xTUONijjjGSzAsdIjJ/qztpncRLYBmiQ3GmKHwi0zdnIJCZg==",
    ),
    "oGMQRaM7uu9OQj1SJTLmkVOsfjZKm3jUeprJtI8WaTqDpvloCgl2dI06Z1MZxqKug3alrapZstD/zmtAtbjwxA==",
)
VECTORS = pytest.mark.parametrize("vector", [RFC_7677, ODD_NAME], ids=["sha-256", "sha-512"])


def credential_of(vector: Vector, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(vector.mechanism, vector.password, vector.salt, iterations)
    return ScramCredential.of(vector.mechanism, salted, vector.salt, iterations)


CREDENTIALS = {vector.user: credential_of(vector) for vector in (RFC_7677, ODD_NAME)}


def dummy_of(user: str) -> ScramCredential:
    return dummy_credential(b"the cluster's", SHA_256, user, 4096)


def server_of(vector: Vector) -> ScramServer:
    """A server that draws the vector's nonce."""
    client_nonce = vector.messages[0].rpartition(b"r=")[2]
    nonce = vector.messages[1][2:].partition(b",")[0].removeprefix(client_nonce)
    return ScramServer(vector.mechanism, CREDENTIALS.get, dummy_of, nonce.decode())


def served(mechanism: ScramMechanism, first: bytes, nonce: str = "server") -> tuple[ScramServer, bytes]:
    server = ScramServer(mechanism, CREDENTIALS.get, dummy_of, nonce)
    return server, server.first(first)


# --- vectors ---


@VECTORS
def test_a_server_answers_the_vectors(vector: Vector) -> None:
    one, two, three, four = vector.messages
    server = server_of(vector)
    assert server.first(one) == two
    assert server.final(three) == four
    assert server.user == vector.user
    assert base64.b64encode(CREDENTIALS[vector.user].stored_key).decode() == vector.stored_key


def test_a_client_says_what_the_vector_has_and_takes_its_end() -> None:
    one, two, three, four = RFC_7677.messages
    client = ScramClient(SHA_256, "user", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == one
    asked = client.read_first(two)
    assert (asked.salt, asked.iterations) == (RFC_7677.salt, 4096)
    assert client.final(salted_password(SHA_256, "pencil", asked.salt, asked.iterations)) == three
    client.read_final(four)


@given(
    st.sampled_from(ScramMechanism),
    st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.text(max_size=20).filter(lambda text: text.isprintable()),
)
@pytest.mark.conformance("XB-13", "XB-14")
def test_two_ends_of_ours_agree_on_any_name_and_password(mechanism: ScramMechanism, user: str, password: str) -> None:
    credential = ScramCredential.of(mechanism, salted_password(mechanism, password, b"salt", 4096), b"salt", 4096)
    server = ScramServer(mechanism, {user: credential}.get, dummy_of, "theirs")
    client = ScramClient(mechanism, user, "ours")
    asked = client.read_first(server.first(client.first()))
    client.read_final(server.final(client.final(salted_password(mechanism, password, asked.salt, asked.iterations))))
    assert server.user == user


# --- what a server refuses ---


@VECTORS
@pytest.mark.conformance("XB-18", "XB-21")
def test_each_altered_bit_of_the_last_message_fails(vector: Vector) -> None:
    one, _, three, _ = vector.messages
    for bit in range(8 * len(three)):
        altered = bytearray(three)
        altered[bit // 8] ^= 1 << bit % 8
        server = server_of(vector)
        server.first(one)
        try:
            server.final(bytes(altered))
        except ScramError:
            continue
        assert base64.b64decode(altered.rpartition(b"p=")[2]) == base64.b64decode(three.rpartition(b"p=")[2]), bit


def final(nonce: bytes, bare: bytes, server_first: bytes, salted: bytes) -> tuple[bytes, bytes]:
    """A client-final whose proof covers its nonce, whatever that is, and the server-final that is right after it."""
    without_proof = b"c=biws,r=" + nonce
    said = b",".join((bare, server_first, without_proof))
    key = SHA_256.hmac(salted, b"Client Key")
    signature = SHA_256.hmac(SHA_256.hash(key), said)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    answer = SHA_256.hmac(SHA_256.hmac(salted, b"Server Key"), said)
    return without_proof + b",p=" + base64.b64encode(proof), b"v=" + base64.b64encode(answer)


@pytest.mark.conformance("XB-17")
def test_a_nonce_may_have_more_before_it_but_nothing_less() -> None:
    """As in Kafka. The proof covers all of it."""
    for change, accepted in ((lambda nonce: b"more" + nonce, True), (lambda nonce: nonce[1:], False)):
        server = ScramServer(SHA_256, CREDENTIALS.get, dummy_of, "theirs")
        client = ScramClient(SHA_256, "user", "ours")
        first = client.first()
        challenge = server.first(first)
        asked = client.read_first(challenge)
        salted = salted_password(SHA_256, "pencil", asked.salt, asked.iterations)
        last, right = final(change(b"ourstheirs"), first.removeprefix(b"n,,"), challenge, salted)
        if accepted:
            assert server.final(last) == right
        else:
            with pytest.raises(ScramError, match="nonce"):
                server.final(last)


def test_the_last_message_counts_once() -> None:
    """XG-06: played again to the same exchange, or to another one."""
    one, _, three, four = RFC_7677.messages
    server = server_of(RFC_7677)
    server.first(one)
    assert server.final(three) == four
    with pytest.raises(ScramError, match="twice"):
        server.final(three)
    other, _ = served(SHA_256, one)
    with pytest.raises(ScramError, match="nonce"):
        other.final(three)
    with pytest.raises(ScramError, match="without a client-first"):
        server_of(RFC_7677).final(three)


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=user,r=abc",  # it could bind to the channel
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2cer,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a c",
        b"n,,n=user,r=abc,1=x",
        b"n,,n=us\xffer,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user",
        b"",
        b"n,,n=user,r=" + b"a" * EXCHANGE_BYTES_MAX,
    ],
)
@pytest.mark.conformance("XB-12", "XB-13", "XB-24")
def test_a_malformed_first_message_fails(first: bytes) -> None:
    with pytest.raises(ScramError):
        served(SHA_256, first)


@pytest.mark.conformance("XB-16")
def test_an_authorization_id_is_the_user_or_nothing() -> None:
    """Told before the user is looked up."""
    served(SHA_256, b"n,a=user,n=user,r=abc")
    served(SHA_256, b"n,a=,n=user,r=abc")
    for user in (b"user", b"nobody"):
        with pytest.raises(AuthorizationIdError):
            served(SHA_256, b"n,a=admin,n=" + user + b",r=abc")


@pytest.mark.conformance("XB-19", "XB-20")
def test_extensions_are_ignored_but_for_those_that_ask_for_a_token() -> None:
    """In any order, and the proof covers them as they were sent."""
    credential = CREDENTIALS["user"]
    for extra in (b",tokenauth=false", b",z=1,a=2", b""):
        server, answer = served(SHA_256, b"n,,m=x,n=user,r=abc" + extra)
        without = b"c=biws,r=abcserver" + extra
        auth_message = b"m=x,n=user,r=abc" + extra + b"," + answer + b"," + without
        salted = salted_password(SHA_256, "pencil", credential.salt, 4096)
        key = SHA_256.hmac(salted, b"Client Key")
        signature = SHA_256.hmac(SHA_256.hash(key), auth_message)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        assert server.final(without + b",p=" + base64.b64encode(proof)).startswith(b"v=")
    for asks in (b",tokenauth=true", b",a=b,tokenauth=TRUE,c=d"):
        with pytest.raises(ScramError, match="no delegation tokens"):
            served(SHA_256, b"n,,n=user,r=abc" + asks)


@pytest.mark.conformance("XB-22")
def test_an_unknown_user_is_answered_like_others_and_fails_at_the_end() -> None:
    """The same salt each time, as many rounds."""
    client = ScramClient(SHA_256, "nobody", "abc")
    server, answer = served(SHA_256, client.first())
    assert answer == served(SHA_256, client.first())[1]
    asked = client.read_first(answer)
    assert asked.iterations == 4096
    with pytest.raises(ScramError, match=r"^wrong credentials$"):
        server.final(client.final(salted_password(SHA_256, "pencil", asked.salt, asked.iterations)))


@pytest.mark.conformance("XB-22")
def test_what_is_made_up_depends_on_the_mechanism_the_user_and_the_clusters_secret() -> None:
    made = [dummy_credential(b"a", SHA_256, "u", 4096), dummy_credential(b"a", SHA_512, "u", 4096)]
    made += [dummy_credential(b"a", SHA_256, "v", 4096), dummy_credential(b"b", SHA_256, "u", 4096)]
    assert len({each.salt for each in made}) == 4
    assert [len(each.stored_key) for each in made] == [32, 64, 32, 32]


@pytest.mark.conformance("XB-22")
def test_even_who_knows_the_made_up_keys_of_an_unknown_user_fails() -> None:
    salted = salted_password(SHA_256, "guessed", b"salt", 4096)
    made_up = ScramCredential.of(SHA_256, salted, b"salt", 4096)
    server = ScramServer(SHA_256, lambda _: None, lambda _: made_up, "theirs")
    client = ScramClient(SHA_256, "nobody", "ours")
    client.read_first(server.first(client.first()))
    with pytest.raises(ScramError, match=r"^wrong credentials$"):
        server.final(client.final(salted))


@pytest.mark.conformance("XB-21")
def test_a_credential_of_too_few_rounds_is_as_none() -> None:
    weak = credential_of(RFC_7677, 4095)
    server = ScramServer(SHA_256, lambda _: weak, dummy_of, "theirs")
    assert b"i=4096" in server.first(b"n,,n=user,r=abc")


@given(st.data())
def test_mutated_messages_raise_nothing_else(data: st.DataObject) -> None:
    """XG-06."""
    one, _, three, _ = RFC_7677.messages
    server = server_of(RFC_7677)
    mutated = [_mutated(data, message) for message in (one, three)]
    try:
        server.first(mutated[0])
        server.final(mutated[1])
    except ScramError:
        return
    assert mutated == [one, three]


def _mutated(data: st.DataObject, message: bytes) -> bytes:
    at = data.draw(st.integers(0, len(message)))
    return message[:at] + data.draw(st.binary(max_size=3)) + message[at + data.draw(st.integers(0, 3)) :]


def test_no_key_is_shown() -> None:
    assert repr(CREDENTIALS["user"]) == "ScramCredential(iterations=4096)"


# --- what a client refuses ---


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=ours,s=c2FsdA==,i=4096", "nonce"),
        (b"r=ourstheirs,s=c2FsdA==,i=1", "iterations"),
        (b"r=ourstheirs,s=c2FsdA==,i=1000000000", "iterations"),
        (b"r=ourstheirs,s=c2Fsd,i=4096", "malformed"),
        (b"m=x,r=ourstheirs,s=c2FsdA==,i=4096", "malformed"),
        (b"e=unknown-user", "malformed"),
    ],
)
def test_a_client_refuses_what_weakens_it(answer: bytes, why: str) -> None:
    """XF-05, XG-08."""
    client = ScramClient(SHA_256, "user", "ours")
    with pytest.raises(ScramError, match=why):
        client.read_first(answer)


@pytest.mark.parametrize("end", [b"", b"v=", b"e=other-error", b"v=" + base64.b64encode(bytes(32)), b"v=6rri"])
def test_a_client_demands_the_servers_proof(end: bytes) -> None:
    """XF-05."""
    client = ScramClient(SHA_256, "user", "rOprNGfwEbeRWgbNEkqO")
    asked = client.read_first(RFC_7677.messages[1])
    client.final(salted_password(SHA_256, "pencil", asked.salt, asked.iterations))
    with pytest.raises(ScramError):
        client.read_final(end)
    with pytest.raises(ScramError):
        ScramClient(SHA_256, "user", "x").read_final(RFC_7677.messages[3])
