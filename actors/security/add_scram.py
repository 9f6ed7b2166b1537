"""The first users of a cluster as text: `SCRAM-SHA-256=[name=alice,password-file=/path]`, as Kafka's tools write them.

Beside Kafka's password, salt, saltedpassword and iterations there is password-file, and `password=-` for one that is
asked for.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from actors import OutsideError
from actors.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    SALT_BYTES_MAX,
    ScramCredential,
    ScramMechanism,
    salted_password,
)

ASKED_FOR: Final = "-"
NAME_BYTES_MAX: Final = 255
_WHOLE: Final = re.compile(r"\s*([A-Za-z0-9-]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_PAIR: Final = re.compile(r'\s*([a-z-]+)\s*=\s*(?:"([^"]*)"|([^,"]*?))\s*(?:,|$)', re.DOTALL)
_KEYS: Final = ("name", "password", "password-file", "salt", "saltedpassword", "iterations")


class AddScramError(OutsideError, ValueError):
    """A first user that is not written as it has to be. The text has no password."""


@dataclass(frozen=True, slots=True)
class AddScram:
    """One first user. Of `password`, `password_file` and `salted` one is set."""

    mechanism: ScramMechanism
    name: str
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    salted: bytes | None = field(default=None, repr=False)
    salt: bytes | None = None
    iterations: int = ITERATIONS_MIN

    def credential(self, password: str | None, new_salt: Callable[[int], bytes]) -> ScramCredential:
        """The credential to be kept."""
        salt = self.salt if self.salt is not None else new_salt(SALT_BYTES)
        salted = self.salted
        if salted is None:
            assert password is not None
            salted = salted_password(self.mechanism, password, salt, self.iterations)
        return ScramCredential.of(self.mechanism, salted, salt, self.iterations)


def parse_add_scram(text: str) -> AddScram:
    """Read one first user. Raises AddScramError."""
    whole = _WHOLE.fullmatch(text)
    mechanism = next((each for each in ScramMechanism if whole and each.wire_name == whole[1]), None)
    if whole is None or mechanism is None:
        names = " or ".join(each.wire_name for each in ScramMechanism)
        raise AddScramError(f"a first user is {names}=[name=NAME,password-file=PATH]")
    values = _pairs(whole[2])
    name = values.get("name")
    if name is None or (wrong := name_problem(name)) is not None:
        raise AddScramError("a first user needs name=" if name is None else wrong or "")
    given = [key for key in ("password", "password-file", "saltedpassword") if key in values]
    if len(given) != 1:
        raise AddScramError(f"first user {name!r} needs one of password=, password-file= and saltedpassword=")
    salt = _bytes(values, "salt")
    salted = _bytes(values, "saltedpassword")
    if salted is not None and (salt is None or not salted):
        raise AddScramError(f"the saltedpassword of first user {name!r} needs salt=, and a byte or more, in base64")
    if salt is not None and len(salt) > SALT_BYTES_MAX:
        raise AddScramError(f"the salt of first user {name!r} must have at most {SALT_BYTES_MAX} bytes")
    if values.get("password") == "" or values.get("password-file") == "":
        raise AddScramError(f"the {given[0]} of first user {name!r} is empty")
    return AddScram(
        mechanism,
        name,
        values.get("password"),
        values.get("password-file"),
        salted,
        salt,
        _iterations(values.get("iterations", str(ITERATIONS_MIN))),
    )


def name_problem(name: str) -> str | None:
    """The fault of a user's name, or None."""
    if not name:
        return "a user's name cannot be empty"
    if len(name.encode()) > NAME_BYTES_MAX or any(ord(each) < 32 or ord(each) == 127 for each in name):
        return f"a user's name has at most {NAME_BYTES_MAX} bytes, and no control characters"
    return None


def _pairs(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise AddScramError('a first user is KEY=VALUE,... with "" around values that have a comma')
        key = match[1]
        if key not in _KEYS:
            raise AddScramError(f"a first user has no {key}=, but {'=, '.join(_KEYS)}=")
        if key in values:
            raise AddScramError(f"a first user has {key}= twice")
        values[key] = match[3] if match[2] is None else match[2]
        position = match.end()
    return values


def _bytes(values: dict[str, str], key: str) -> bytes | None:
    if key not in values:
        return None
    try:
        return base64.b64decode(values[key], validate=True)
    except ValueError:
        raise AddScramError(f"the {key} of a first user is no base64") from None


def _iterations(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise AddScramError(f"iterations must be within {ITERATIONS_MIN} and {ITERATIONS_MAX}")
    return int(text)
