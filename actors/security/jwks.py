"""The public keys of who issues tokens (RFC 7517), and the signatures that they verify (RFC 7515, RFC 7518).

Signatures by a private key alone are known: none that needs a shared secret, and not the absence of one.
`cryptography` is imported when there are keys to be read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

from actors import OutsideError

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_RSA: Final = "RSA"
_RSA_BITS_MIN: Final = 2048
_RSA_BITS_MAX: Final = 16_384
_COORDINATE_BYTES: Final = {"P-256": 32, "P-384": 48, "P-521": 66}


class JwksError(OutsideError, ValueError):
    """A document has no key that could be used. The text says why."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A signature algorithm: the kind of key that it takes, the bits of its SHA-2, and whether RSA uses PSS."""

    kind: str
    digest_bits: int
    pss: bool = False


ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    **{f"RS{bits}": Algorithm(_RSA, bits) for bits in (256, 384, 512)},
    **{f"PS{bits}": Algorithm(_RSA, bits, pss=True) for bits in (256, 384, 512)},
    "ES256": Algorithm("P-256", 256),
    "ES384": Algorithm("P-384", 384),
    "ES512": Algorithm("P-521", 512),
}
"""All that are allowed, by their names."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key: RSA, or of the curve that `kind` names. `only` is the one algorithm it is for, if it says so."""

    kind: str
    only: str | None
    public: Any = field(repr=False)

    def fits(self, algorithm: str) -> bool:
        """True if this key can make signatures of an algorithm, one of those that are allowed."""
        return ALGORITHMS[algorithm].kind == self.kind and self.only in (None, algorithm)

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """True if this key made a signature of an algorithm that fits."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        wanted = ALGORITHMS[algorithm]
        digest: hashes.HashAlgorithm = getattr(hashes, f"SHA{wanted.digest_bits}")()
        try:
            if self.kind == _RSA:
                scheme = padding.PSS(padding.MGF1(digest), digest.digest_size) if wanted.pss else padding.PKCS1v15()
                self.public.verify(signature, signed, scheme, digest)
            else:
                size = _COORDINATE_BYTES[self.kind]
                if len(signature) != 2 * size:
                    return False
                r, s = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
                self.public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
        except InvalidSignature:
            return False
        return True


Keys: TypeAlias = Mapping[str, tuple[VerificationKey, ...]]
"""Keys by their ids. Two of different kinds may share one."""


def read_keys(document: bytes) -> Keys:
    """The keys of a JWK set that can be used. Raises JwksError if there is none.

    Others are passed over: those without an id, for encryption, too short, of a kind we do not know.
    """
    try:
        given = read_object(document)["keys"]
    except (ValueError, KeyError):
        raise JwksError("it is no JSON object with `keys`") from None
    found: dict[str, tuple[VerificationKey, ...]] = {}
    for key in given if isinstance(given, list) else ():
        if isinstance(key, dict) and (made := _key(key)) is not None:
            found[key["kid"]] = (*found.get(key["kid"], ()), made)
    if not found:
        raise JwksError("it has no RSA or EC key with a `kid` that could verify signatures")
    return found


def _key(given: Mapping[str, Any]) -> VerificationKey | None:
    kid, only, operations = given.get("kid"), given.get("alg"), given.get("key_ops", ["verify"])
    if not isinstance(kid, str) or given.get("use", "sig") != "sig":
        return None
    if only is not None and (not isinstance(only, str) or only not in ALGORITHMS):
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    kind = _RSA if given.get("kty") == _RSA else given.get("crv")
    try:
        public = _MAKE[given.get("kty")](given)
    except (KeyError, TypeError, ValueError):
        return None
    return VerificationKey(str(kind), only, public)


def _rsa(given: Mapping[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus, exponent = (int.from_bytes(from_base64url(given[name]), "big") for name in ("n", "e"))
    if not _RSA_BITS_MIN <= modulus.bit_length() <= _RSA_BITS_MAX:
        raise ValueError("too short or too long")
    return RSAPublicNumbers(exponent, modulus).public_key()


def _elliptic(given: Mapping[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    x, y = (int.from_bytes(from_base64url(given[name]), "big") for name in ("x", "y"))
    return ec.EllipticCurvePublicNumbers(x, y, curves[given["crv"]]).public_key()


_MAKE: Final[Mapping[Any, Callable[[Mapping[str, Any]], Any]]] = {_RSA: _rsa, "EC": _elliptic}


def from_base64url(text: str) -> bytes:
    """The bytes that a text without padding stands for. Raises ValueError, also if another text means the same."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not of base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("not the shortest base64url")
    return data


def read_object(data: bytes) -> dict[str, Any]:
    """A JSON object in which no name stands twice. Raises ValueError."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that stands twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
