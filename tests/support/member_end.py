"""A member's end of the connection to its pool, in this process. Holds no tests."""

from __future__ import annotations

import threading
from typing import Any

from ray import cloudpickle

from actors.links.member import MemberReport
from actors.members.logs.ring import Ring
from actors.members.member_link import MemberServer

SECRET = b"s" * 16


class Handler:
    """A user's handler with a state."""

    def __init__(self) -> None:
        self.total = 0
        self.entered, self.left = threading.Event(), threading.Event()

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def wait(self) -> str:
        self.entered.set()
        assert self.left.wait(60)
        return "waited"

    def fail(self) -> None:
        raise ValueError("not so")

    def leave(self) -> None:
        raise SystemExit(3)

    def lock(self) -> threading.Lock:
        return threading.Lock()

    def fail_badly(self, error: type[Exception], *arguments: object) -> None:
        raise error(*arguments)

    def zeros(self, count: int) -> bytes:
        return bytes(count)


class Member:
    """A member's end in this process."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.stopped = threading.Event()
        self.ring = Ring(lambda: 5)
        self.server = self.listen()

    def listen(self, **options: Any) -> MemberServer:
        return MemberServer("127.0.0.1", SECRET, self.handler, self.report, self.stopped.set, ring=self.ring, **options)

    def report(self) -> MemberReport:
        return MemberReport("Stopped" if self.stopped.is_set() else "Running", handled=self.handler.total)


def pickled(*arguments: object) -> bytes:
    data: bytes = cloudpickle.dumps(arguments)
    return data
