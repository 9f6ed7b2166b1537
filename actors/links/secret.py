"""The cluster's secret: where it stands, how one tells which it is without saying it, and how another one follows it.

While the secret is changed two are valid. First every process learns the `next` one; then that is the secret, and the
`previous` one is still believed until every process has been started again; then it is forgotten. Everybody who shows
that he knows a secret is believed by all others at every moment, because all have learned it before anybody shows it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.runtime.data_folder import read_trusted

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secret that a process proves to know, `current`, and the others that it accepts, if any."""

    current: bytes = field(repr=False)
    next: bytes | None = field(default=None, repr=False)
    previous: bytes | None = field(default=None, repr=False)

    @property
    def known(self) -> tuple[bytes, ...]:
        """All that are valid."""
        return tuple(each for each in (self.current, self.next, self.previous) if each is not None)

    @property
    def marks(self) -> Marks:
        """The marks by which others recognize these secrets."""
        return Marks(
            mark(self.current),
            None if self.next is None else mark(self.next),
            None if self.previous is None else mark(self.previous),
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a process's secrets. A process that knows these, too, recognizes them; others learn nothing."""

    current: bytes
    next: bytes | None = None
    previous: bytes | None = None

    def among(self, found: Iterable[bytes]) -> Secrets | None:
        """Those of these secrets that have been found; None without the current one."""
        by_mark: dict[bytes | None, bytes] = {mark(secret): secret for secret in found}
        current = by_mark.get(self.current)
        return None if current is None else Secrets(current, by_mark.get(self.next), by_mark.get(self.previous))


def next_of(path: Path) -> Path:
    """The path of the secret that is to follow the one in `path`."""
    return path.with_name(f"{path.name}.next")


def previous_of(path: Path) -> Path:
    """The path of the secret that was valid before the one in `path`, and is there as long as it is believed."""
    return path.with_name(f"{path.name}.previous")


def read_secret(path: Path) -> bytes:
    """The secret in a file: 64 hexadecimal digits. Raises OSError, and ValueError without what stands there."""
    text = read_trusted(path).decode(errors="replace").strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"{path} has to hold {2 * SECRET_BYTES} hexadecimal digits and nothing else")
    return secret


def read_secrets(path: Path) -> Secrets:
    """The secret in a file, and those beside it. Raises OSError, ValueError."""
    current, previous = read_secret(path), _read_if_there(previous_of(path))
    return Secrets(current, _read_if_there(next_of(path)), None if previous == current else previous)


def found_at(path: Path) -> list[bytes]:
    """All secrets that stand in a file and beside it, in whatever order they follow each other."""
    found = []
    for each in (path, next_of(path), previous_of(path)):
        with suppress(OSError, ValueError):
            found.append(read_secret(each))
    return found


def _read_if_there(path: Path) -> bytes | None:
    try:
        return read_secret(path)
    except FileNotFoundError:
        return None


def mark(secret: bytes) -> bytes:
    """A digest that tells this secret from others, and may be known."""
    return hmac.digest(secret, b"which secret", "sha256")
