"""The interface of real clients to tests: a driver, and its members, which poll in the background. No asserts here."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

Records = list[tuple[bytes, bytes]]

SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 300
OPERATION_TIMEOUT_S = 60.0


class Member(Protocol):
    """A member of a group that polls in the background. Partitions are numbers: groups here read one topic."""

    def owned(self) -> frozenset[int]: ...

    def seen(self) -> Records:
        """Keys and values received so far."""
        ...

    def commit(self) -> None:
        """Commit the received records, or leave it to `close` where the client commits only then."""
        ...

    def close(self) -> None: ...


class Client(Protocol):
    """One client library or tool."""

    name: str

    def create_topic(self, servers: str, topic: str, partitions: int) -> None: ...

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None: ...

    def join(self, servers: str, group: str, topic: str) -> Member: ...


class Driver(Client, Protocol):
    """One that can do without a group, too."""

    def consume(self, servers: str, topic: str, count: int) -> Records:
        """`count` records from the beginning of all partitions, without a group where the client can."""
        ...


class Known:
    """A client with the settings of a login, which may name the servers to use.

    The servers that its methods are given take requests without a login.
    """

    servers = "bootstrap_servers"

    def __init__(self, login: Mapping[str, Any] | None = None) -> None:
        self._login = login or {}

    def settings(self, servers: str) -> dict[str, Any]:
        return {self.servers: servers, **self._login}


class Polling(ABC):
    """A member whose consumer lives in a thread: subclasses implement one turn, a commit and an end."""

    def __init__(self) -> None:
        self._records: Records = []
        self._owned: frozenset[int] = frozenset()
        self._commits: list[Future[None]] = []
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def owned(self) -> frozenset[int]:
        self._check()
        return self._owned

    def seen(self) -> Records:
        self._check()
        return list(self._records)

    def commit(self) -> None:
        done: Future[None] = Future()
        self._commits.append(done)
        done.result(OPERATION_TIMEOUT_S)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(OPERATION_TIMEOUT_S)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"{type(self).__name__} failed") from self._failure

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as failure:
            self._failure = failure
            for done in self._commits:
                done.set_exception(failure)

    @abstractmethod
    def _loop(self) -> None:
        """The thread's work, until `_stop` is set."""


def answer(done: Future[None], action: Any) -> None:
    try:
        action()
        done.set_result(None)
    except Exception as failure:
        done.set_exception(failure)


def collected(count: int, poll: Callable[[], Records]) -> Records:
    """The records that `poll` returns, until there are `count` of them or OPERATION_TIMEOUT_S is over."""
    records: Records = []
    deadline = time.monotonic() + OPERATION_TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        records += poll()
    return records


@contextlib.contextmanager
def all_closed(members: Iterable[Member]) -> Any:
    """At the end of the block, close the members that are then in the list, also after an error."""
    try:
        yield
    finally:
        for member in members:
            with contextlib.suppress(Exception):
                member.close()
