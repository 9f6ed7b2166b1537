"""The connection between whoever started a group's member and the member's actor: reports one way, calls the other.

When the connection ends, the starter knows that the member has died; a call through Ray would say so later. Both ends
are blocking sockets in threads, because what runs at either end is the user's code. A message is its length (4 bytes,
big-endian), then the bytes that the codec makes of it.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
from dataclasses import dataclass
from typing import TypeAlias

from actors.links.codec import Codec

_LIMIT_UNPROVED = 4096


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """Where a member listens, whose process it is, and the secret that it wants to hear first."""

    host: str
    port: int
    pid: int
    node_id: str
    """Of its Ray node."""
    secret: bytes


@dataclass(frozen=True, slots=True)
class Introduction:
    """Starter -> member: the first message. Nobody else knows the secret, which came by Ray."""

    secret: bytes


@dataclass(frozen=True, slots=True)
class MemberReport:
    """Member -> starter, several times a second: how the member is doing."""

    state: str = "Starting"
    error: str | None = None
    member_id: str = ""
    generation_id: int = -1
    assignment: tuple[tuple[str, int], ...] = ()
    """Topic and partition, in order."""
    handled: int = 0
    dead_letters: int = 0
    handling_ms: int = 0
    """How long the handler has been running; 0 while it does not."""


@dataclass(frozen=True, slots=True)
class MethodCall:
    """Starter -> member: call a method. `arguments` is a pickled tuple."""

    number: int
    method: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Returned:
    """Member -> starter: the pickled result of a call."""

    number: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Raised:
    """Member -> starter: the pickled exception that a call has raised."""

    number: int
    error: bytes


@dataclass(frozen=True, slots=True)
class StopMember:
    """Starter -> member: finish the record that is being handled, commit and close. The last report is the answer."""


MemberMessage: TypeAlias = Introduction | MemberReport | MethodCall | Returned | Raised | StopMember

CODEC: Codec[MemberMessage] = Codec(
    "member", {1: Introduction, 2: MemberReport, 3: MethodCall, 4: Returned, 5: Raised, 6: StopMember}
)


class MemberConnection:
    """One end. Any thread may send; one reads."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: MemberMessage) -> None:
        """Send a message. Raises OSError."""
        body = CODEC.encode(message)
        with self._sending:
            self._socket.sendall(len(body).to_bytes(4, "big") + body)

    def read(self, limit: int | None = None) -> MemberMessage:
        """The next message. Raises OSError; EOFError at the end or above `limit` bytes; LinkError for other bytes."""
        length = int.from_bytes(self._exactly(4), "big")
        if limit is not None and length > limit:
            raise EOFError(f"a message of {length} bytes is longer than {limit}")
        return CODEC.decode(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError("the other end has hung up")
        return data

    def introduced(self, secret: bytes) -> bool:
        """Whether the other end's first message has the secret."""
        first = self.read(_LIMIT_UNPROVED)
        return isinstance(first, Introduction) and hmac.compare_digest(first.secret, secret)

    def close(self) -> None:
        """End the connection, also while other threads read or send."""
        with contextlib.suppress(OSError):  # the other end may have been quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()
