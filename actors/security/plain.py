"""PLAIN, a server's end (RFC 4616): what its one token says, and what is known of passwords says of one."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from actors import CoterieError
from actors.security.scram import USUAL_ITERATIONS, ScramCredential, ScramMechanism, salted_password

PLAIN: Final = "PLAIN"
USER_BYTES_MAX: Final = 255
WRONG: Final = "Authentication failed: Invalid username or password"
OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from username"


class PlainError(CoterieError):
    """The token is refused. The text is for a log; `answer` is what the client is told."""

    def __init__(self, reason: str, answer: str = WRONG) -> None:
        super().__init__(reason)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class PlainToken:
    """A client's claim. `authorization_id` is "", or the user it wants to act as."""

    authorization_id: str
    user: str
    password: str = field(repr=False)


def read_plain(token: bytes) -> PlainToken:
    """The three parts of a token. Raises PlainError. The user it wants to act as is not looked at yet."""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise PlainError("a token that is no UTF-8") from None
    if len(parts) != 3:
        raise PlainError("a malformed token", f"Authentication failed: expected 3 parts in the token, got {len(parts)}")
    authorization_id, user, password = parts
    if not user:
        raise PlainError("no user", "Authentication failed: username not specified")
    if not password:
        raise PlainError("no password", "Authentication failed: password not specified")
    if len(user.encode()) > USER_BYTES_MAX:
        raise PlainError("a user name that is too long")
    return PlainToken(authorization_id, user, password)


def fits(password: str, mechanism: ScramMechanism, credential: ScramCredential) -> bool:
    """True if a password is the one of a credential. Takes milliseconds, with the GIL released."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    made = ScramCredential.of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)


_JAAS_USER: Final = re.compile(r'(?<!\S)user_([^\s=]+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def jaas_users(text: str) -> dict[str, str]:
    """Users and passwords as Kafka's PlainLoginModule has them in a JAAS file: `user_alice="secret"`."""
    return {name: re.sub(r"\\(.)", r"\1", password) for name, password in _JAAS_USER.findall(text)}


def kept_of(password: str, salt: bytes) -> ScramCredential:
    """The credential of a password from a file: to verify it costs as much as for others."""
    mechanism = ScramMechanism.SHA_256
    salted = salted_password(mechanism, password, salt, USUAL_ITERATIONS)
    return ScramCredential.of(mechanism, salted, salt, USUAL_ITERATIONS)
