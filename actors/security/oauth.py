"""OAUTHBEARER, a server's end (RFC 7628, KIP-768): what the client's message says, and whether its token is valid.

A token is a JWT in three parts (RFC 7519, RFC 7515). Only the keys that are handed in count: what a token's header says
of keys elsewhere is not looked at. `now` is in seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actors import CoterieError
from actors.security.jwks import ALGORITHMS, Keys, from_base64url, read_object

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
"""The first answer to a client whose token is not valid."""
TOKEN_BYTES_MAX: Final = 16_384
SUBJECT_BYTES_MAX: Final = 255
_LATEST: Final = 253_402_300_800
"""The year 10000: no time of a token lies beyond it."""

_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NAME: Final = r"(?:[^\x00-\x1f\x7f,=]|=2C|=3D)+"
_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME})?)?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[!-~]+)", re.IGNORECASE)


class BearerError(CoterieError):
    """A client's message is none of OAUTHBEARER. The text is for a log, and has nothing of the message."""


class TokenError(CoterieError):
    """A token is not valid. The text is for a log, and has nothing of the token."""


class UnknownKeyError(TokenError):
    """A token is signed by a key that we do not have. It may be a new one."""


@dataclass(frozen=True, slots=True)
class BearerMessage:
    """A client's first message. `authorization_id` is "", or the user it wants to act as."""

    authorization_id: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """The user of a valid token, and the time for which it still is valid; 0: by the clock's tolerance alone."""

    user: str
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The rules of a listener for tokens. Without an issuer any will do, and without audiences those for anybody."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    subject_claim: str = "sub"
    skew_seconds: int = 30


def read_message(message: bytes) -> BearerMessage:
    """The token in a client's first message. Raises BearerError. Extensions are passed over."""
    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise BearerError("a message that is no UTF-8") from None
    if found is None:
        raise BearerError("a malformed message")
    pairs = [pair.partition("=") for pair in found["pairs"].split("\x01")]
    values = [value for key, _, value in pairs if key.lower() == "auth"]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if bearer is None:
        raise BearerError("a message without a bearer's token")
    wanted = (found["authorization_id"] or "").replace("=2C", ",").replace("=3D", "=")
    return BearerMessage(wanted, bearer["token"])


def check_token(token: str, keys: Keys, rules: TokenRules, now: float) -> Bearer:
    """The user of a token. Raises TokenError if it is not valid, UnknownKeyError if these keys do not tell."""
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenError("a token that is too long")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("a token that has not three parts")
    try:
        header, payload, signature = (from_base64url(part) for part in parts)
        fields = read_object(header)
    except ValueError:
        raise TokenError("a token that cannot be read") from None
    _check_signature(fields, f"{parts[0]}.{parts[1]}".encode(), signature, keys)
    try:
        claims = read_object(payload)
    except ValueError:
        raise TokenError("a token whose claims cannot be read") from None
    return _bearer(claims, rules, now)


def _check_signature(header: Mapping[str, Any], signed: bytes, signature: bytes, keys: Keys) -> None:
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError("a token with an algorithm that is not allowed")
    if "crit" in header:  # RFC 7515, 4.1.11: what it names has to be understood, and none is
        raise TokenError("a token with a header that is not understood")
    if not isinstance(kid, str):
        raise TokenError("a token that names no key")
    if kid not in keys:
        raise UnknownKeyError("a token with an unknown key")
    fitting = [key for key in keys[kid] if key.fits(algorithm)]
    if not fitting:
        raise TokenError("a token with an algorithm that does not fit its key")
    if not any(key.verifies(algorithm, signed, signature) for key in fitting):
        raise TokenError("a token with a wrong signature")


def _bearer(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Bearer:
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    begins = _time(claims, "nbf") if "nbf" in claims else issued
    if now - rules.skew_seconds >= expires:
        raise TokenError("an expired token")
    if max(issued, begins) > now + rules.skew_seconds:
        raise TokenError("a token of the future")
    if issued > expires:
        raise TokenError("a token that expired before it was issued")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError("a token of another issuer")
    if rules.audiences and not set(rules.audiences) & _audiences(claims.get("aud")):
        raise TokenError("a token for another audience")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenError(f"a token without the claim {rules.subject_claim}")
    if _NOT_IN_NAMES.search(subject) or len(subject.encode()) > SUBJECT_BYTES_MAX:
        raise TokenError(f"a token whose claim {rules.subject_claim} is too long, or has control characters")
    return Bearer(subject, max(0, int((expires - now) * 1000)))


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:
        raise TokenError(f"a token without a time as its claim {name}")
    return float(value)


def _audiences(value: Any) -> set[str]:
    items = value if isinstance(value, list) else [value]
    return {item for item in items if isinstance(item, str)}
