"""The rules for valid tokens, and the client's message of OAUTHBEARER: SECURITY.md, B.4."""

from __future__ import annotations

import hmac
import json
import random
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from actors.security.jwks import JwksError, read_keys
from actors.security.oauth import (
    Bearer,
    BearerError,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
    read_message,
)
from tests.support.tokens import (
    ALGORITHMS,
    AUDIENCE,
    ISSUER,
    NOW,
    base64url,
    claims,
    everything,
    jwk,
    jwks,
    kind_of,
    message,
    number,
    private_key,
    sealed,
    token,
)

KEYS = read_keys(everything())
RULES = TokenRules(ISSUER, (AUDIENCE, "others"))
HOUR_MS = 3_600_000


def checked(text: str, rules: TokenRules = RULES, now: float = NOW) -> Bearer:
    return check_token(text, KEYS, rules, now)


def fault(text: str, rules: TokenRules = RULES, now: float = NOW) -> str:
    with pytest.raises(TokenError) as raised:
        checked(text, rules, now)
    return str(raised.value)


# --- signatures ---


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_right_token_of_each_algorithm_says_whose_it_is_and_for_how_long(algorithm: str) -> None:
    assert checked(token(algorithm=algorithm)) == Bearer("anne", HOUR_MS)


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_flipped_bit_of_any_part_is_noticed(algorithm: str) -> None:
    parts = token(algorithm=algorithm).split(".")
    for number_of, part in enumerate(parts):
        at = len(part) // 2
        other = part[:at] + ("A" if part[at] != "A" else "B") + part[at + 1 :]
        assert fault(".".join([*parts[:number_of], other, *parts[number_of + 1 :]])).startswith("a token ")


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("claimed", ALGORITHMS)
def test_an_algorithm_that_another_one_claims_to_be_is_refused(algorithm: str, claimed: str) -> None:
    text = token(algorithm=algorithm, alg=claimed)
    if claimed == algorithm:
        assert checked(text).user == "anne"
    else:
        assert "algorithm" in fault(text) or "signature" in fault(text)


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize(
    "name", ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS1", "rs256", "EdDSA", None, 1]
)
def test_no_other_algorithm_is_allowed(name: Any) -> None:
    header = {"typ": "JWT", "kid": "RSA", "alg": name}
    unsigned = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims()).encode())}"
    for text in (f"{unsigned}.", f"{unsigned}.{base64url(b'signature')}", token(alg=name)):
        assert fault(text) == "a token with an algorithm that is not allowed"


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("claimed", ["HS256", "RS256"])
def test_the_public_key_is_no_shared_secret(claimed: str) -> None:
    public = private_key("RSA").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = json.dumps({"alg": claimed, "kid": "RSA"}).encode()
    signed = f"{base64url(header)}.{base64url(json.dumps(claims()).encode())}"
    assert "a token with" in fault(f"{signed}.{base64url(hmac.digest(public, signed.encode(), 'sha256'))}")


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_key_of_the_same_kind_will_not_do(algorithm: str) -> None:
    assert fault(token(algorithm=algorithm, which=1)) == "a token with a wrong signature"


@pytest.mark.conformance("XB-28")
def test_a_key_of_another_kind_does_not_fit() -> None:
    for algorithm in ALGORITHMS:
        for kid in ("RSA", "ES256", "ES384", "ES512"):
            if kid != kind_of(algorithm):
                assert "does not fit its key" in fault(token(algorithm=algorithm, kid=kid))


@pytest.mark.conformance("XB-28")
def test_a_key_for_one_algorithm_is_for_that_one() -> None:
    keys = read_keys(jwks(jwk("RSA", "RSA", alg="PS256")))
    assert check_token(token(algorithm="PS256"), keys, RULES, NOW).user == "anne"
    with pytest.raises(TokenError, match="does not fit"):
        check_token(token(algorithm="RS256"), keys, RULES, NOW)


@pytest.mark.conformance("XB-28", "XB-29")
def test_an_unknown_key_is_told_apart_from_none() -> None:
    with pytest.raises(UnknownKeyError):
        checked(token(kid="new"))
    for kid in (None, 1, ["RSA"], {}):
        assert fault(token(kid=kid)) == "a token that names no key"


@pytest.mark.conformance("XB-29")
def test_keys_that_a_token_brings_along_are_not_looked_at() -> None:
    own = jwk("RSA", "RSA", 1)
    more = {"jwk": own, "jku": "https://evil.example.com/keys", "x5u": "https://evil.example.com/x", "x5c": ["AA=="]}
    assert fault(token(which=1, **more)) == "a token with a wrong signature"
    assert checked(token(**more)).user == "anne"


def test_a_header_that_has_to_be_understood_is_not() -> None:
    assert fault(token(crit=["b64"], b64=False)) == "a token with a header that is not understood"


# --- claims ---


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize(
    ("altered", "reason"),
    [
        ({"exp": None}, "without a time as its claim exp"),
        ({"exp": "1900000000"}, "without a time as its claim exp"),
        ({"exp": True}, "without a time as its claim exp"),
        ({"exp": -1}, "without a time as its claim exp"),
        ({"exp": 10**400}, "without a time as its claim exp"),
        ({"exp": 1e300}, "without a time as its claim exp"),
        ({"exp": [NOW + 60]}, "without a time as its claim exp"),
        ({"exp": NOW - 30}, "an expired token"),
        ({"exp": NOW - 29.5, "iat": NOW - 20}, "expired before it was issued"),
        ({"iat": None}, "without a time as its claim iat"),
        ({"iat": "0"}, "without a time as its claim iat"),
        ({"iat": NOW + 31}, "of the future"),
        ({"iat": NOW + 20, "exp": NOW + 10}, "expired before it was issued"),
        ({"nbf": NOW + 31}, "of the future"),
        ({"nbf": "soon"}, "without a time as its claim nbf"),
        ({"iss": None}, "of another issuer"),
        ({"iss": ISSUER + "/"}, "of another issuer"),
        ({"iss": [ISSUER]}, "of another issuer"),
        ({"aud": None}, "for another audience"),
        ({"aud": "kafk"}, "for another audience"),
        ({"aud": []}, "for another audience"),
        ({"aud": [1, None, ["kafka"]]}, "for another audience"),
        ({"aud": {"kafka": 1}}, "for another audience"),
        ({"sub": None}, "without the claim sub"),
        ({"sub": ""}, "without the claim sub"),
        ({"sub": "  "}, "without the claim sub"),
        ({"sub": 7}, "without the claim sub"),
        ({"sub": "a\nb"}, "too long, or has control characters"),
        ({"sub": "\ud800"}, "too long, or has control characters"),
        ({"sub": "ä" * 128}, "too long, or has control characters"),
    ],
)
def test_each_claim_counts(altered: dict[str, Any], reason: str) -> None:
    assert reason in fault(token(claims(**altered)))


@pytest.mark.conformance("XB-28")
def test_clocks_may_be_apart_by_what_is_set() -> None:
    assert checked(token(claims(exp=NOW - 29, iat=NOW - 60))) == Bearer("anne", 0)
    assert checked(token(claims(iat=NOW + 29, nbf=NOW + 30))).user == "anne"
    strict = TokenRules(ISSUER, (AUDIENCE,), skew_seconds=0)
    assert fault(token(claims(exp=NOW)), strict) == "an expired token"
    assert fault(token(claims(iat=NOW + 1)), strict) == "a token of the future"
    assert checked(token(claims(exp=NOW + 1.5)), strict).lifetime_ms == 1500


@pytest.mark.conformance("XB-28")
def test_an_audience_among_several_will_do_and_without_rules_any() -> None:
    assert checked(token(claims(aud=["x", "others"]))).user == "anne"
    anybody = TokenRules()
    for altered in ({"iss": None}, {"iss": "x"}, {"aud": None}, {"aud": ["x"]}):
        assert checked(token(claims(**altered)), anybody).user == "anne"


@pytest.mark.conformance("XB-26")
def test_the_user_is_the_claim_that_is_set() -> None:
    text = token(claims(client_id="shop", sub=None))
    assert checked(text, TokenRules(subject_claim="client_id")).user == "shop"


# --- form ---


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize("text", ["", ".", "..", "...", "a.b", "a.b.c.d.e", "....", "!.!.!", "e30.e30.", "\udc80.a.b"])
def test_what_is_no_token_is_refused(text: str) -> None:
    assert fault(text).startswith("a token ")


@pytest.mark.conformance("XB-28")
def test_a_token_has_one_form() -> None:
    right = token()
    head, payload, seal = right.split(".")
    for text in (f"{head}=.{payload}.{seal}", f" {right}", f"{right}\n", f"{head}.{payload}.{seal}="):
        assert fault(text) == "a token that cannot be read"
    header = json.dumps({"alg": "RS256", "kid": "RSA"}).encode()
    twice = header[:-1] + b', "alg": "none"}'
    assert fault(sealed(twice, json.dumps(claims()).encode())) == "a token that cannot be read"
    for payload_bytes in (
        b"[]",
        b"1",
        b"\xff",
        b"{",
        b'{"exp": NaN}',
        b'{"a": 1, "a": 2}',
        b"[" * 5000,
        b'{"exp": %s}' % (b"9" * 5000),
    ):
        assert fault(sealed(header, payload_bytes)) == "a token whose claims cannot be read"


@pytest.mark.conformance("XB-28")
def test_a_token_of_more_than_16_kib_is_refused_unread() -> None:
    assert checked(token(claims(more="x" * 11_000))).user == "anne"
    assert fault(token(claims(more="x" * 13_000))) == "a token that is too long"


@pytest.mark.conformance("XB-28")
def test_10_000_mutated_tokens_raise_nothing_else_and_are_nobodys() -> None:
    chance = random.Random(4711)
    right = [token(algorithm=each) for each in ALGORITHMS]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=\x00\xe4"
    for _ in range(10_000):
        text = chance.choice(right)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text) + 1)
            gone = chance.choice((0, 1, 1, 5))
            text = text[:at] + "".join(chance.choices(alphabet, k=chance.randint(0, 2))) + text[at + gone :]
        if text in right:
            continue
        with pytest.raises(TokenError):
            checked(text)
        try:
            read_message(message(text))
        except BearerError:
            continue


# --- keys ---


@pytest.mark.conformance("XB-29")
def test_keys_that_cannot_be_used_are_passed_over() -> None:
    short = {"kty": "RSA", "kid": "short", "n": number((1 << 1023) + 1), "e": "AQAB"}
    off = {**jwk("ES256", "off"), "y": base64url(bytes(32))}
    without = {name: value for name, value in jwk("RSA", "x").items() if name != "kid"}
    odd: list[Any] = [
        short,
        off,
        without,
        jwk("RSA", "for encryption", use="enc"),
        jwk("RSA", "for signing", key_ops=["sign"]),
        jwk("RSA", "of none", alg="none"),
        jwk("RSA", "odd", alg=["RS256"]),
        {**jwk("RSA", "even"), "e": "Ag"},
        {"kty": "oct", "kid": "shared", "k": base64url(b"secret")},
        {"kty": "OKP", "kid": "edwards", "crv": "Ed25519", "x": base64url(bytes(32))},
        {**jwk("ES256", "other curve"), "crv": "secp256k1"},
        {**jwk("ES256", "no text"), "x": 7},
        {"kty": ["RSA"], "kid": "list"},
        "text",
        None,
    ]
    assert list(read_keys(jwks(*odd, jwk("RSA", "good", use="sig", key_ops=["verify"])))) == ["good"]
    with pytest.raises(JwksError, match="no RSA or EC key"):
        read_keys(jwks(*odd))


@pytest.mark.conformance("XB-29")
@pytest.mark.parametrize(
    "document", [b"", b"<html>", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b"\xff", b"[" * 9999]
)
def test_what_is_no_set_of_keys_is_an_error(document: bytes) -> None:
    with pytest.raises(JwksError):
        read_keys(document)


def test_two_keys_of_different_kinds_may_share_an_id() -> None:
    keys = read_keys(jwks(jwk("RSA", "k"), jwk("ES256", "k")))
    for algorithm in ("RS256", "ES256"):
        assert check_token(token(algorithm=algorithm, kid="k"), keys, RULES, NOW).user == "anne"


# --- messages ---


@pytest.mark.conformance("XB-26")
@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", ""),
        (b"n,a=,\x01auth=bearer a.b.c\x01\x01", ""),
        (b"n,a=anne,\x01auth=BEARER   a.b.c\x01\x01", "anne"),
        (b"n,a=a=3Db=2Cc,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01pool=x y\x01\x01", "a=b,c"),
        (b"n,,\x01host=h\x01port=1\x01Auth=Bearer a.b.c\x01\x01", ""),
        ("n,a=jürgen,\x01auth=Bearer a.b.c\x01\x01".encode(), "jürgen"),
    ],
)
def test_a_message_has_a_token(sent: bytes, wanted: str) -> None:
    found = read_message(sent)
    assert (found.authorization_id, found.token) == (wanted, "a.b.c")
    assert "a.b.c" not in repr(found)


@pytest.mark.conformance("XB-26")
@pytest.mark.parametrize(
    "sent",
    [
        *(b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer a.b.c\x01", b"n,,\x01auth=Bearer a.b.c"),
        *(
            b"y,,\x01auth=Bearer a.b.c\x01\x01",
            b"p=tls,,\x01auth=Bearer a.b.c\x01\x01",
            b"n,,auth=Bearer a.b.c\x01\x01",
        ),
        *(b"n,,\x01auth=Basic a.b.c\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Bearer\x01\x01"),
        *(b"n,,\x01other=Bearer a.b.c\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"n,,\x01auth=Bearer \xff\x01\x01"),
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.d\x01\x01",
        *(b"n,a=x=y,\x01auth=Bearer a.b.c\x01\x01", b"n,,\x01auth=Bearer a.b.c\x01\x01more", b"n,,\x01x1=y\x01\x01"),
    ],
)
def test_another_message_is_refused(sent: bytes) -> None:
    with pytest.raises(BearerError):
        read_message(sent)
