"""A server's side of SASL, brought to each of its states. Holds no tests."""

from __future__ import annotations

from actors.security.authentication import MECHANISMS, Authentication, Terms, TokenAnswer
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
