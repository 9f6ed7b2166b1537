"""The connection between whoever started a group's member and the member's actor: reports one way, calls the other.

The lines that a member's process has written go over it, too, when they are asked for, and the last ones at its end.

When the connection ends, the starter knows that the member has died; a call through Ray would say so later. Both ends
are blocking sockets in threads, because what runs at either end is the user's code. A message is its length (4 bytes,
big-endian), then the bytes that the codec makes of it. The messages carry pickles, so both ends prove first that they
know the secret that came by Ray (`proof`), and say which versions they speak (`versions`). The connection is in TLS
where it may leave the machine (`member_tls`).
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TypeAlias

from actors.links import keepalive, proof
from actors.links.codec import Codec, LinkError, UnknownKindError
from actors.links.member_counts import Committing, Done
from actors.links.member_deaths import Committed, InHand, Notes
from actors.links.member_tls import TlsStream
from actors.links.proof import CHALLENGE_BYTES, LIMIT_UNPROVED, PEERS, Challenge, Proof, Role, challenge_of, told_in
from actors.links.versions import OWN, UNTOLD, Spoken, VersionError, common, none_in_common

log = logging.getLogger(__name__)

LIMIT = (1 << 32) - 1  # the greatest length that four bytes can hold


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """The address and the process of a member, and the secret that either end proves to know."""

    host: str
    port: int
    pid: int
    node_id: str
    """Of its Ray node."""
    secret: bytes
    encrypted: bool = False


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
    """The time that the handler, or a hook of it, has been running; 0 while none does."""
    busy_ms: int = 0
    """The total time, since the member began, in which it has had records in hand."""
    again: Done = field(default_factory=Done)
    """Of the records handled and the dead letters, those whose partitions went before they were committed."""
    committing: Done = field(default_factory=Done)
    """As it was said last."""
    in_hook: str = ""
    """The name of the hook that `handling_ms` is of; "" if it is of the handler itself."""


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


@dataclass(frozen=True, slots=True)
class Join:
    """Starter -> member: join the group. For one that was told to wait when its handler is set up."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Starter -> member, again and again: end at once when this connection ends, or when nothing comes for so long.

    For starters that others take the place of when they die. Their members have to be gone by then.
    """

    silence_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a member's process has written."""

    number: int
    """Counted in the process, from 1 on."""
    wall_ms: int
    level: str
    """Of `logging`, such as WARNING; stdout or stderr for what was printed."""
    text: str


@dataclass(frozen=True, slots=True)
class ReadLines:
    """Starter -> member: the last `tail` lines with a number above `after`, not older than `since_ms` (Unix time)."""

    number: int
    after: int
    tail: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Member -> starter: the lines that ReadLines with this number has asked for; with 0 the last ones, at the end."""

    number: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class LinesKept:
    """Starter -> member: the last lines have come, and the process may end.

    One that ends with something unread would have what it sent last thrown away at the other end.
    """


MemberMessage: TypeAlias = (
    MemberReport
    | MethodCall
    | Returned
    | Raised
    | StopMember
    | Join
    | Lease
    | ReadLines
    | Lines
    | LinesKept
    | InHand
    | Committed
    | Notes
    | Committing
)

CODEC: Codec[MemberMessage] = Codec(
    "member",
    {
        1: MemberReport,
        2: MethodCall,
        3: Returned,
        4: Raised,
        5: StopMember,
        6: Lease,
        7: ReadLines,
        8: Lines,
        9: LinesKept,
        10: InHand,
        11: Committed,
        12: Notes,
        13: Committing,
        14: Join,
    },
)


class MemberConnection:
    """One end, which speaks the versions `spoken`. Any thread may send; one reads.

    `limit` is that of a message that is sent, in bytes.
    """

    def __init__(self, connection: socket.socket, limit: int = LIMIT, *, spoken: Spoken = OWN) -> None:
        self._own = spoken
        self._other = UNTOLD
        self._version = 0
        self._unknown: set[int] = set()  # kinds of messages that were refused, each said once
        self._socket = connection
        self._stream: socket.socket | TlsStream = connection
        self._file: io.BufferedReader = connection.makefile("rb")
        self._limit = limit
        self._sending = threading.Lock()

    def encrypt(self, context: ssl.SSLContext, *, accepts: bool) -> None:
        """Have everything in TLS from now on. Raises OSError, EOFError."""
        self._stream = stream = TlsStream(self._socket, context, accepts=accepts)
        self._file.close()
        self._file = io.BufferedReader(stream)

    def prove(self, role: Role, secret: bytes) -> None:
        """Prove to the other end that we know the secret, and have it prove the same, before anything else is said.

        Raises LinkError if it does not, VersionError if the two ends have no version in common; EOFError or OSError if
        the connection ends.
        """
        ours = challenge_of(os.urandom(CHALLENGE_BYTES), self._own)
        self._send(proof.CODEC.encode(Challenge(ours)))
        theirs = proof.CODEC.read(Challenge, self._body(LIMIT_UNPROVED))
        self._send(proof.CODEC.encode(Proof(proof.proof(secret, role, theirs.challenge))))
        answer = proof.CODEC.read(Proof, self._body(LIMIT_UNPROVED))
        if proof.prover(answer.proof, (secret,), role, ours) is None:
            raise LinkError(f"the {' or '.join(PEERS[role])} does not know the secret")
        self._other = told_in(theirs.challenge)
        version = common(self._own, self._other)
        if version is None:
            raise VersionError(none_in_common(role, self._own, PEERS[role][0], self._other))
        self._version = version

    def send(self, message: MemberMessage) -> None:
        """Send a message. Raises ValueError if it is too long; OSError, and the connection has then ended."""
        self._send(CODEC.encode(message, self._version))

    def offer(self, message: MemberMessage) -> bool:
        """As `send`, but not while another thread sends, which may take as long as the other end does not read."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            self._write(CODEC.encode(message, self._version))
        finally:
            self._sending.release()
        return True

    def _send(self, body: bytes) -> None:
        if len(body) > self._limit:
            raise ValueError(f"a message of {len(body)} bytes is longer than {self._limit}")
        with self._sending:
            self._write(body)

    def _write(self, body: bytes) -> None:
        try:
            self._stream.sendall(len(body).to_bytes(4, "big") + body)
        except OSError:
            self.hang_up()  # half of the message may have gone
            raise

    def has_room(self) -> bool:
        """True if a short message can probably be sent without waiting."""
        poll = select.poll()  # `select` itself takes no descriptor above 1023
        try:
            poll.register(self._socket, select.POLLOUT)
        except ValueError:  # it is closed
            return False
        return bool(poll.poll(0))

    def read(self) -> MemberMessage:
        """The next message of a kind that is known. Raises OSError; EOFError at the end; LinkError for other bytes."""
        while True:
            try:
                return CODEC.decode(self._body(LIMIT))
            except UnknownKindError as error:
                self._refuse(error)

    def _refuse(self, error: UnknownKindError) -> None:
        if error.kind not in self._unknown:
            self._unknown.add(error.kind)
            log.error("refused a message: %s: the other end %s, this one %s", error, self._other, self._own)

    def _body(self, limit: int) -> bytes:
        length = int.from_bytes(self._exactly(4), "big")
        if length > limit:
            raise EOFError(f"a message of {length} bytes is longer than {limit}")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        try:
            data = self._file.read(count)
        except ValueError as error:  # the file is closed
            raise EOFError("this end has hung up") from error
        if len(data) < count:
            raise EOFError("the other end has hung up")
        return data

    def watch_machine(self) -> None:
        """Wait for the other process however long, but see to it that `unanswered_s` knows of its machine."""
        self._socket.settimeout(None)
        keepalive.probe(self._socket)

    def unanswered_s(self) -> float:
        """The time for which the other end's machine has been silent. Its process may be silent for other reasons."""
        return keepalive.unanswered_s(self._socket)

    def limit_silence(self, seconds: float | None) -> None:
        """Have the next reads raise OSError when nothing comes for so long; None: not. For the thread that reads."""
        self._socket.settimeout(seconds)

    def hang_up(self) -> None:
        """End the connection for both ends, also while other threads read or send: the reader sees the end."""
        with contextlib.suppress(OSError):  # the other end may have been quicker
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection and give its file descriptor back."""
        self.hang_up()
        self._file.close()
        self._socket.close()
