"""Both ends of the connection to a member's actor, in threads: its reports, and calls of its methods.

The calls do not go through Ray: an actor that waits for Ray's calls costs more than the idle member in it
(`runtime/process.py`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from ray import cloudpickle

from actors import CoterieError
from actors.links.codec import LinkError
from actors.links.member import (
    Introduction,
    MemberConnection,
    MemberMessage,
    MemberReport,
    MethodCall,
    Raised,
    Returned,
    StopMember,
)

_REPORT_SECONDS = 0.2
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
_HUNG_UP = (OSError, EOFError, LinkError)


class MemberEndedError(CoterieError, ConnectionError):
    """The member has ended, or has been silent for too long, before it answered."""


class MemberServer:
    """A member's end. It listens at `port`, reports, and calls the methods of `target`, each in a thread of its own."""

    def __init__(
        self, host: str, secret: bytes, target: object, report: Callable[[], MemberReport], stop: Callable[[], None]
    ) -> None:
        self._secret = secret
        self._target = target
        self._report = report
        self._stop = stop
        self._ended = threading.Event()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="coterie-member-link", daemon=True).start()

    def ended(self) -> None:
        """The member has ended: its last report goes at once."""
        self._ended.set()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(MemberConnection(connection),), daemon=True).start()

    def _serve(self, link: MemberConnection) -> None:
        with contextlib.suppress(*_HUNG_UP), contextlib.closing(link):
            if not link.introduced(self._secret):
                return
            threading.Thread(target=self._report_to, args=(link,), daemon=True).start()
            while True:
                match link.read():
                    case StopMember():
                        self._stop()
                    case MethodCall() as call:
                        threading.Thread(target=self._answer, args=(link, call), daemon=True).start()

    def _report_to(self, link: MemberConnection) -> None:
        with contextlib.suppress(OSError):
            while True:
                link.send(self._report())
                if self._ended.is_set():
                    time.sleep(_REPORT_SECONDS)
                else:
                    self._ended.wait(_REPORT_SECONDS)

    def _answer(self, link: MemberConnection, call: MethodCall) -> None:
        answer: MemberMessage
        try:
            value = getattr(self._target, call.method)(*cloudpickle.loads(call.arguments))
            answer = Returned(call.number, cloudpickle.dumps(value))
        except BaseException as error:  # also sys.exit, or the caller would wait for ever
            answer = Raised(call.number, _pickled(error))
        with contextlib.suppress(OSError):
            link.send(answer)


def _pickled(error: BaseException) -> bytes:
    """The error as it can be raised elsewhere, with the traceback it has here."""
    error.add_note(f"In the member:\n{''.join(traceback.format_tb(error.__traceback__))}")
    try:
        data: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(data)
    except Exception:  # pickling runs code of the error's class, which may raise anything
        data = cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


class MemberClient:
    """The end of whoever has started the member. One thread reads `reports`; any may call. Raises OSError."""

    def __init__(self, connection: socket.socket, secret: bytes) -> None:
        connection.settimeout(_SILENCE_SECONDS)  # a machine that vanishes does not end its connections
        self._link = MemberConnection(connection)
        self._lock = threading.Lock()
        self._calls: dict[int, Future[Any]] | None = {}
        self._last = 0
        self._link.send(Introduction(secret))

    @classmethod
    def connect(cls, host: str, port: int, secret: bytes) -> MemberClient:
        """Connect to a member. Raises OSError."""
        return cls(socket.create_connection((host, port), timeout=_CONNECT_SECONDS), secret)

    def reports(self) -> Iterator[MemberReport]:
        """The member's reports, until the connection ends. Its answers are taken in meanwhile."""
        with contextlib.suppress(*_HUNG_UP):
            while True:
                match self._link.read():
                    case MemberReport() as report:
                        yield report
                    case Returned(number, value):
                        self._take(number).set_result(cloudpickle.loads(value))
                    case Raised(number, error):
                        self._take(number).set_exception(cloudpickle.loads(error))

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the member. The future's result raises what the method raises, or MemberEndedError."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._calls is None:
                answer.set_exception(MemberEndedError("the member has ended"))
                return answer
            self._last += 1
            number = self._last
            self._calls[number] = answer
        with contextlib.suppress(OSError):  # the reader notices, too
            self._link.send(MethodCall(number, method, cloudpickle.dumps(arguments)))
        return answer

    def _take(self, number: int) -> Future[Any]:
        with self._lock:
            return Future() if self._calls is None else self._calls.pop(number, Future())

    def stop(self) -> None:
        """Have the member finish the record that is being handled, commit and close."""
        with contextlib.suppress(OSError):
            self._link.send(StopMember())

    def close(self) -> None:
        """End the connection; calls without an answer raise MemberEndedError."""
        self._link.close()
        with self._lock:
            calls, self._calls = self._calls or {}, None
        for answer in calls.values():
            answer.set_exception(MemberEndedError("the member has ended before it answered"))
