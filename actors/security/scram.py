"""SCRAM-SHA-256 and SCRAM-SHA-512, both ends (RFC 5802, RFC 7677, and what Kafka makes of them).

The messages of one exchange; nothing here waits, draws a nonce or derives a key from a password unless it is called for
that. Where Kafka parts from the RFC, so do we, but for what is a weakness: the channel binding is compared, and the
proof covers the bytes that were received, not what was read from them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from actors import CoterieError

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""The most that a cluster stores (Kafka's limit)."""
CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""The most that a client computes for a server, which could keep it busy otherwise."""
NONCE_CHARACTERS: Final = 24
"""The length of a nonce of letters and digits with at least 128 random bits."""
EXCHANGE_BYTES_MAX: Final = 8192
"""The longest message that a server reads."""
SALT_BYTES_MAX: Final = 65_536
"""The longest salt that a cluster stores. Whoever names the user is sent it. Kafka takes what fits into a record."""
SERVER_MESSAGE_BYTES_MAX: Final = 2 * SALT_BYTES_MAX
"""The longest message that a client reads."""
SALT_BYTES: Final = 24
"""The length of the salts that we make."""
USUAL_ITERATIONS: Final = 8192
"""The iterations of the credentials that we make, unless others are asked for."""


class ScramMechanism(Enum):
    """A mechanism: its name on the wire, its hash, and its code in the credentials' APIs (KIP-554)."""

    SHA_256 = ("SCRAM-SHA-256", "sha256", 32, 1)
    SHA_512 = ("SCRAM-SHA-512", "sha512", 64, 2)

    def __init__(self, wire_name: str, digest: str, digest_bytes: int, code: int) -> None:
        self.wire_name = wire_name
        self.digest = digest
        self.digest_bytes = digest_bytes
        self.code = code

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """HMAC with the mechanism's hash."""
        return hmac.digest(key, message, self.digest)

    def hash(self, data: bytes) -> bytes:
        """The mechanism's hash."""
        return hashlib.new(self.digest, data).digest()


class ScramError(CoterieError):
    """The exchange has failed. The text is for a log: it has no secret, and the other end is not told it."""


class AuthorizationIdError(ScramError):
    """The client wants to act as somebody else, which nobody may. This is told, for it says nothing about the user."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A server's record of a password: enough to check a proof, not to make one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """The credential of a salted password, which is worth as much as the password and is not kept."""
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(salt, mechanism.hash(client_key), server_key, iterations)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password's UTF-8 bytes, without SASLprep as in Kafka. Takes milliseconds, with the GIL released."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


_NAME = rb"(?:[^\x00,=]|=2C|=3D)+"
_NONCE = rb"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = rb"(?:,[A-Za-z]+=[^\x00,]+)*"
_BASE64 = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_CLIENT_FIRST = re.compile(
    rb"(?P<gs2>n,(?:a=(?P<authorization_id>%b)?)?,)"
    rb"(?P<bare>(?:m=[^\x00,]+,)?n=(?P<name>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_NAME, _NAME, _NONCE, _EXTENSIONS)
)
_CLIENT_FINAL = re.compile(
    rb"(?P<without_proof>c=(?P<binding>%b),r=(?P<nonce>%b)(?P<extensions>%b)),p=(?P<proof>%b)"
    % (_BASE64, _NONCE, _EXTENSIONS, _BASE64)
)
_SERVER_FIRST = re.compile(
    rb"r=(?P<nonce>%b),s=(?P<salt>%b),i=(?P<iterations>[1-9][0-9]{0,9})(?:%b)" % (_NONCE, _BASE64, _EXTENSIONS)
)
_SERVER_FINAL = re.compile(rb"v=(?P<signature>%b)(?:%b)" % (_BASE64, _EXTENSIONS))


class ScramServer:
    """A server's end of one exchange: `first`, then `final`.

    `credential_of` looks a user up. For one that it does not know, `dummy_of` makes up what he could have: he is
    answered like others and fails at the end, so that nobody learns which users there are. `nonce` is random, of
    printable characters without a comma.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        dummy_of: Callable[[str], ScramCredential],
        nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._dummy_of = dummy_of
        self._own_nonce = nonce.encode()
        self._nonce = b""
        self._binding = b""
        self._messages = b""
        self._credential: ScramCredential | None = None
        self._known = False
        self.user = ""
        """The user that the client says it is. It is true once `final` has returned."""

    def first(self, message: bytes) -> bytes:
        """Read client-first; server-first. Raises ScramError."""
        found = _matched(_CLIENT_FIRST, message, "client-first")
        user = _name(found["name"])
        authorization_id = found["authorization_id"]
        if authorization_id and _name(authorization_id) != user:
            raise AuthorizationIdError("the authorization id is another one than the user's name")
        if re.search(rb",tokenauth=true(?:,|$)", found["extensions"], re.IGNORECASE):
            raise ScramError("there are no delegation tokens")
        self.user = user
        # Everything is done for every user, and chosen from without a branch, so that nobody takes longer.
        stored, dummy = self._credential_of(user), self._dummy_of(user)
        either = stored or dummy
        self._known = (stored is not None) & (either.iterations >= ITERATIONS_MIN)
        credential = self._credential = (dummy, either)[self._known]
        self._nonce = found["nonce"] + self._own_nonce
        self._binding = base64.b64encode(found["gs2"])
        answer = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(credential.salt), credential.iterations)
        self._messages = found["bare"] + b"," + answer
        return answer

    def final(self, message: bytes) -> bytes:
        """Read client-final; server-final. Raises ScramError unless the client knows the password."""
        credential, self._credential = self._credential, None
        if credential is None:
            raise ScramError("client-final without a client-first, or twice")
        found = _matched(_CLIENT_FINAL, message, "client-final")
        mechanism = self._mechanism
        proof = base64.b64decode(found["proof"])
        auth_message = self._messages + b"," + found["without_proof"]
        wrong = (
            not hmac.compare_digest(found["binding"], self._binding)
            or not found["nonce"].endswith(self._nonce)  # as Kafka: the proof covers what stands before it
            or len(proof) != mechanism.digest_bytes
        )
        if wrong:
            raise ScramError("client-final has another channel binding or nonce, or a proof of another length")
        client_key = _xor(proof, mechanism.hmac(credential.stored_key, auth_message))
        if not hmac.compare_digest(mechanism.hash(client_key), credential.stored_key) or not self._known:
            raise ScramError("wrong credentials")
        return b"v=" + base64.b64encode(mechanism.hmac(credential.server_key, auth_message))


@dataclass(frozen=True, slots=True)
class Derivation:
    """The parameters with which a client derives the salted password."""

    salt: bytes
    iterations: int


class ScramClient:
    """A client's end of one exchange: `first`, `read_first`, `final`, `read_final`. `nonce` is random."""

    def __init__(self, mechanism: ScramMechanism, user: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._nonce = nonce.encode()
        escaped = user.replace("=", "=3D").replace(",", "=2C").encode()
        self._bare = b"n=%b,r=%b" % (escaped, self._nonce)
        self._server_first = b""
        self._whole_nonce = b""
        self._signature = b""

    def first(self) -> bytes:
        """client-first."""
        return b"n,," + self._bare

    def read_first(self, message: bytes) -> Derivation:
        """Read server-first: what the password is to be salted with. Raises ScramError."""
        found = _matched(_SERVER_FIRST, message, "server-first", SERVER_MESSAGE_BYTES_MAX)
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's nonce does not go on from ours")
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise ScramError(f"{iterations} iterations are not within {ITERATIONS_MIN} and {CLIENT_ITERATIONS_MAX}")
        self._server_first, self._whole_nonce = message, nonce
        return Derivation(base64.b64decode(found["salt"]), iterations)

    def final(self, salted: bytes) -> bytes:
        """client-final, with the salted password that was asked for."""
        mechanism = self._mechanism
        without_proof = b"c=%b,r=%b" % (base64.b64encode(b"n,,"), self._whole_nonce)
        auth_message = b",".join((self._bare, self._server_first, without_proof))
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), auth_message))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), auth_message)
        return without_proof + b",p=" + base64.b64encode(proof)

    def read_final(self, message: bytes) -> None:
        """Read server-final. Raises ScramError unless the server knows the password's keys, too."""
        found = _matched(_SERVER_FINAL, message, "server-final")
        if not self._signature or not hmac.compare_digest(base64.b64decode(found["signature"]), self._signature):
            raise ScramError("the server has not proved that it knows this user")


def _matched(
    form: re.Pattern[bytes], message: bytes, what: str, bytes_max: int = EXCHANGE_BYTES_MAX
) -> dict[str, bytes]:
    match = form.fullmatch(message) if len(message) <= bytes_max else None
    if match is None:
        raise ScramError(f"a malformed {what} of {len(message)} bytes")
    return {name: value or b"" for name, value in match.groupdict().items()}


def _name(escaped: bytes) -> str:
    """A name as it is stored. UTF-8, which Kafka does not take, without normalization."""
    try:
        return escaped.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    except UnicodeDecodeError as error:
        raise ScramError("a name is no UTF-8") from error


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


_HASHED_SALT_BYTES: Final = 256


def dummy_credential(
    secret: bytes, mechanism: ScramMechanism, user: str, iterations: int, salt_bytes: int = SALT_BYTES
) -> ScramCredential:
    """The credential of a user who does not exist: always the same, like a real one, and nobody's password fits."""
    salt = b""
    for block in range(-(-min(salt_bytes, _HASHED_SALT_BYTES) // 32)):
        salt += hmac.digest(secret, f"{mechanism.wire_name}:{block}:{user}".encode(), "sha256")
    if salt_bytes > _HASHED_SALT_BYTES:  # in one go, for it is made at each login
        salt += hashlib.shake_256(salt).digest(salt_bytes - _HASHED_SALT_BYTES)
    nothing = bytes(mechanism.digest_bytes)
    return ScramCredential(salt[:salt_bytes], nothing, nothing, iterations)
