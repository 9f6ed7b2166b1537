"""Both ends of the connection to a member's actor, in threads: its reports, calls of its methods, and its lines.

The calls do not go through Ray: an actor that waits for Ray's calls costs more than the idle member in it
(`runtime/process.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ray import cloudpickle

from actors import CoterieError
from actors.links.codec import LinkError
from actors.links.member import (
    LIMIT,
    Join,
    Lease,
    Line,
    Lines,
    LinesKept,
    MemberAddress,
    MemberConnection,
    MemberMessage,
    MemberReport,
    MethodCall,
    Raised,
    ReadLines,
    Returned,
    StopMember,
)
from actors.links.member_counts import Committing
from actors.links.member_deaths import Committed, InHand, Notes
from actors.links.versions import VersionError
from actors.members.logs.ring import Ring
from actors.members.raised import pickled_error
from actors.members.reporting import REPORT_SECONDS, Reporting

if TYPE_CHECKING:
    from actors.links.encryption import LinkTls

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
_PROOF_SECONDS = 10.0
_LAST_SECONDS = 1.0
LAST_LINES = 200
"""The number of lines that a member sends when it ends, though nobody has asked."""
_HUNG_UP = (OSError, EOFError, LinkError)
_NEWS_SECONDS = 1.0
LEASE_SECONDS = 15.0
"""Half of the silence after which a pool gives a machine up: a member with a lease has ended by then."""
CONNECTIONS_MAX = 8
"""The most connections that a member has at a time. Its pool has one."""


class MemberEndedError(CoterieError, ConnectionError):
    """The member has ended, or has been silent for too long, before it answered."""


def _tls(secret: bytes) -> LinkTls:
    from actors.links.encryption import pool_tls  # certificates are not needed without

    return pool_tls(secret)


class MemberServer:
    """A member's end. It listens at `port`, reports, and calls the methods of `target`, each in a thread of its own.

    `ring` has what its process has written. A new connection has `proof_s` seconds for each step of the proof. A
    result of a call may have about `limit` bytes. Of too many connections the oldest goes that has not proved itself.
    `lost` is called when the member has a lease, and that or the connection has ended; it ends the process.
    `learn` gets what the pool notes of its records; `look` is called before each report, `join` when a member that
    waits may join.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        target: object,
        report: Callable[[], MemberReport],
        stop: Callable[[], None],
        *,
        ring: Ring | None = None,
        proof_s: float = _PROOF_SECONDS,
        limit: int = LIMIT,
        encrypted: bool = False,
        lost: Callable[[], None] | None = None,
        learn: Callable[[Notes], None] | None = None,
        look: Callable[[], None] | None = None,
        join: Callable[[], None] = lambda: None,
    ) -> None:
        self._secret = secret
        self._lost = lost or _end_process
        self._learn = learn
        self._look = look
        self._tls = _tls(secret).server if encrypted else None
        self._links: dict[MemberConnection, bool] = {}  # the oldest first, and whether they have proved themselves
        self._lock = threading.Lock()
        self._proof_s = proof_s
        self._limit = limit
        self._target = target
        self._report = report
        self._stop = stop
        self._join = join
        self._ring = ring
        self._reporting = Reporting()
        self._lines_kept = threading.Event()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="coterie-member-link", daemon=True).start()

    def ended(self) -> None:
        """The member has ended: its last lines and its last report go at once. Returns when one pool has the lines."""
        self._reporting.end()
        with self._lock:
            heard = any(self._links.values())
        if heard and self._ring is not None:
            self._lines_kept.wait(_LAST_SECONDS)

    def tell(self) -> None:
        """Report at once: what comes next may keep every thread of this process from saying anything."""
        self._reporting.now(_NEWS_SECONDS)

    def say(self, message: InHand | Committed | Committing) -> None:
        """Send it before this returns. A pool that takes nothing in holds up only a record that is tried alone."""
        with self._lock:
            links = [link for link, proved in self._links.items() if proved]
        for link in links:
            with contextlib.suppress(OSError):  # it has ended, as its reader notices
                if link.has_room() or (isinstance(message, InHand) and message.alone):
                    link.send(message)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            link = MemberConnection(connection, self._limit)
            self._count(link)
            threading.Thread(target=self._serve, args=(connection, link), daemon=True).start()

    def _count(self, link: MemberConnection) -> None:
        with self._lock:
            self._links[link] = False
            if len(self._links) > CONNECTIONS_MAX:
                oldest = next(each for each, proved in self._links.items() if not proved)
                del self._links[oldest]
                oldest.hang_up()

    def _serve(self, connection: socket.socket, link: MemberConnection) -> None:
        try:
            self._talk(connection, link)
        finally:
            with self._lock:
                self._links.pop(link, None)

    def _talk(self, connection: socket.socket, link: MemberConnection) -> None:
        with contextlib.suppress(*_HUNG_UP), contextlib.closing(link):
            connection.settimeout(self._proof_s)
            if self._tls is not None:
                link.encrypt(self._tls, accepts=True)
            if not self._met(link):
                return
            connection.settimeout(None)
            with self._lock:
                if link not in self._links:
                    return  # one too many, and hung up on
                self._links[link] = True
            threading.Thread(target=self._report_to, args=(link,), daemon=True).start()
            self._listen_to(connection, link)

    def _met(self, link: MemberConnection) -> bool:
        try:
            link.prove("member", self._secret)
        except VersionError as error:
            log.error("hung up: %s", error)
            return False
        return True

    def _listen_to(self, connection: socket.socket, link: MemberConnection) -> None:
        leased = False
        try:
            while True:
                match link.read():
                    case StopMember():
                        self._stop()
                    case Join():
                        self._join()
                    case MethodCall() as call:
                        threading.Thread(target=self._answer, args=(link, call), daemon=True).start()
                    case ReadLines() as wanted:
                        threading.Thread(target=self._send_lines, args=(link, wanted), daemon=True).start()
                    case LinesKept():
                        self._lines_kept.set()
                    case Notes() as notes if self._learn is not None:
                        self._learn(notes)
                    case Lease(silence_s):
                        leased = True
                        connection.settimeout(silence_s)
        except _HUNG_UP:
            if leased:
                self._lost()

    def _report_to(self, link: MemberConnection) -> None:
        with _ending(link):
            self._reporting.run(lambda: self._report_once(link))
            self._send_lines(link, ReadLines(0, 0, LAST_LINES, 0))
            while True:
                link.send(self._report())
                time.sleep(REPORT_SECONDS)

    def _report_once(self, link: MemberConnection) -> None:
        if self._look is not None:
            self._look()
        link.send(self._report())

    def _send_lines(self, link: MemberConnection, wanted: ReadLines) -> None:
        ring = self._ring
        with _ending(link):
            found = (
                ring.read(after=wanted.after, tail=wanted.tail, since_ms=wanted.since_ms) if ring is not None else ()
            )
            link.send(Lines(wanted.number, found))

    def _answer(self, link: MemberConnection, call: MethodCall) -> None:
        answer: Returned | Raised
        with _ending(link):
            try:
                value = getattr(self._target, call.method)(*cloudpickle.loads(call.arguments))
                answer = Returned(call.number, cloudpickle.dumps(value))
            except BaseException as error:  # also sys.exit, or the caller would wait for ever
                answer = Raised(call.number, pickled_error(error))
            try:
                link.send(answer)
            except OSError:
                raise
            except Exception as error:  # nothing has been sent: it is too long, most likely
                link.send(Raised(call.number, pickled_error(error)))


def _end_process() -> None:
    """End at once, in the middle of a record: a successor may begin with it any moment."""
    log.warning("whoever keeps this member has gone, or has been silent for too long: it ends")
    os._exit(1)


@contextlib.contextmanager
def _ending(link: MemberConnection) -> Iterator[None]:
    """End the connection with what failed, or the other end would wait for what does not come."""
    try:
        yield
    except OSError:  # it has ended
        return
    except BaseException:  # the thread ends with it
        log.exception("what this member has to say cannot be sent: it hangs up")
        link.hang_up()


class MemberClient:
    """The end of whoever has started the member. One thread reads `reports`; any may call.

    `link` is a connection of which both ends have proved themselves. `last_lines` are what the member has sent when it
    ended in good order. `on_records` is called, by who reads the reports, with what it says of its records.
    """

    def __init__(self, link: MemberConnection) -> None:
        self.last_lines: tuple[Line, ...] = ()
        self.on_records: Callable[[InHand | Committed | Committing], None] = lambda _: None
        self._link = link
        self._lock = threading.Lock()
        self._calls: dict[int, Future[Any]] | None = {}
        self._last = 0

    @classmethod
    def connect(cls, host: str, port: int, secret: bytes, *, encrypted: bool = False) -> MemberClient:
        """Connect to a member. Raises OSError or EOFError; LinkError if what listens there does not know the secret."""
        connection = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        link = MemberConnection(connection)
        try:
            if encrypted:
                link.encrypt(_tls(secret).client, accepts=False)
            link.prove("pool", secret)
            link.watch_machine()  # one that vanishes does not end its connections
        except BaseException:  # Ctrl-C, too: a connection that nobody has would stay open
            link.close()
            raise
        return cls(link)

    @classmethod
    def to(cls, where: MemberAddress) -> MemberClient:
        """Connect to the member that listens there. Raises as `connect`."""
        return cls.connect(where.host, where.port, where.secret, encrypted=where.encrypted)

    def reports(self) -> Iterator[MemberReport]:
        """The member's reports, until the connection ends. Its answers are taken in meanwhile."""
        with contextlib.suppress(*_HUNG_UP):
            while True:
                match self._link.read():
                    case MemberReport() as report:
                        yield report
                    case InHand() | Committed() | Committing() as said:
                        self.on_records(said)
                    case Lines(number=0, lines=lines):
                        self.last_lines = lines
                        self._link.send(LinesKept())
                    case Returned() | Raised() | Lines() as answer:
                        self._take(answer)

    def call(self, method: str, arguments: bytes) -> Future[Any]:
        """Call a method of the member; `arguments` is a pickled tuple. Raises ValueError if it is too long.

        The future's result raises what the method raises, what unpickling the answer raises, or MemberEndedError.
        """
        return self._ask(lambda number: MethodCall(number, method, arguments))

    def read_lines(self, *, after: int, tail: int, since_ms: int) -> Future[tuple[Line, ...]]:
        """The last `tail` lines with a number above `after`, not older than `since_ms`; or MemberEndedError."""
        return self._ask(lambda number: ReadLines(number, after, tail, since_ms))

    def _ask(self, question: Callable[[int], MemberMessage]) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            if self._calls is None:
                answer.set_exception(MemberEndedError("the member has ended"))
                return answer
            self._last += 1
            number = self._last
            self._calls[number] = answer
        with contextlib.suppress(OSError):  # the connection has ended then, as the reader notices
            self._link.send(question(number))
        return answer

    def _take(self, answer: Returned | Raised | Lines) -> None:
        with self._lock:
            call: Future[Any] = Future() if self._calls is None else self._calls.pop(answer.number, Future())
        try:
            match answer:
                case Lines():
                    call.set_result(answer.lines)
                case Returned():
                    call.set_result(cloudpickle.loads(answer.value))
                case Raised():
                    call.set_exception(cloudpickle.loads(answer.error))
        except BaseException as error:  # it is of a class that only the member can import, say, or of the user's own
            call.set_exception(error)

    def stop(self) -> None:
        """Have the member finish the record that is being handled, commit and close."""
        with contextlib.suppress(OSError):  # the connection has ended then, and the member is as good as stopped
            self._link.send(StopMember())

    def join(self) -> None:
        """Have a member that waits with its handler set up join the group."""
        with contextlib.suppress(OSError):  # the connection has ended then
            self._link.send(Join())

    def learn(self, notes: Notes) -> None:
        """Have the member know what is noted of the pool's records."""
        with contextlib.suppress(OSError):  # the connection has ended then
            self._link.send(notes)

    def renew_lease(self) -> None:
        """Have the member end when this connection ends, or LEASE_SECONDS after the last call of this.

        While another thread sends, what it sends does the same.
        """
        with contextlib.suppress(OSError):
            self._link.offer(Lease(LEASE_SECONDS))

    def unanswered_s(self) -> float:
        """The seconds for which the member's machine has acknowledged nothing."""
        return self._link.unanswered_s()

    def limit_silence(self, seconds: float | None) -> None:
        """Have `reports` end, too, when nothing has come for so long; None: not. For the thread that reads them."""
        with contextlib.suppress(OSError):  # it has ended
            self._link.limit_silence(seconds)

    def hang_up(self) -> None:
        """End the connection: `reports` ends, and calls without an answer fail when it is closed."""
        self._link.hang_up()

    def close(self) -> None:
        """End the connection; calls without an answer raise MemberEndedError."""
        self._link.close()
        with self._lock:
            calls, self._calls = self._calls or {}, None
        for answer in calls.values():
            answer.set_exception(MemberEndedError("the member has ended before it answered"))
