"""What a pool does with the connections to its members. No Ray is started: a member's end is in this process."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import ray

from actors.client import ConsumerRecord
from actors.links.member import MemberConnection, MemberReport
from actors.members.handler_member import MemberSpec
from actors.members.member_link import MemberClient, MemberServer
from actors.members.pool import ConsumerPool, _Slot

SECRET = b"s" * 16


class Pool(ConsumerPool):
    """A pool whose one actor is a socket that says what the test wants."""

    def __init__(self, *reports: MemberReport) -> None:
        self._spec = MemberSpec(("t",), "g", "host:1")
        self._max_poll_interval_ms = 300_000
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self.removed: list[str] = []
        self._reports = reports

    def _start(self, slot: _Slot) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        for report in self._reports:
            member.send(report)
        member.close()
        theirs.close()
        return MemberClient(MemberConnection(ours))

    def _remove_members(self, instance_ids: list[str]) -> None:
        self.removed += instance_ids


def test_a_member_that_failed_for_good_leaves_the_group() -> None:
    """As a static member it would keep its partitions, and every rebalance waiting, until its session ends."""
    pool = Pool(MemberReport("Running"), MemberReport("Failed", "bad record"))
    slot = _Slot(0, "g-1-0")
    pool._supervise(slot)
    assert pool.removed == ["g-1-0"]
    assert slot.report.state == "Failed"


def test_a_call_after_a_members_death_waits_for_its_successor() -> None:
    """Until the successor was started it went to the dead member's link, and said that the member had ended."""

    class Dying(Pool):
        _monotonic = time.monotonic

        def _start(self, slot: _Slot) -> MemberClient:
            links.append(slot.link)
            if len(links) == 2:
                slot.retiring.set()
                raise ConnectionError("enough has been seen")
            slot.link = super()._start(slot)
            return slot.link

    links: list[MemberClient | None] = []
    Dying(MemberReport("Running"))._supervise(_Slot(0, "g-1-0"))
    assert links == [None, None]


class Counter:
    """A member and its handler. A call is answered only after a report that was made later than the call came."""

    def __init__(self) -> None:
        self._calls = 0
        self._reports = 0
        self._reported = threading.Condition()
        self.stopped = threading.Event()

    def count(self) -> int:
        with self._reported:
            enough = self._reports + 2  # when the second is made, the first has been sent
            assert self._reported.wait_for(lambda: self._reports >= enough, 60)
            self._calls += 1
            return self._calls

    def report(self) -> MemberReport:
        with self._reported:
            self._reports += 1
            self._reported.notify_all()
        return MemberReport("Stopped" if self.stopped.is_set() else "Running")


class LinkedPool(ConsumerPool):
    """A pool whose members listen in this process."""

    def _start(self, slot: _Slot) -> MemberClient:
        counter = Counter()
        server = MemberServer("127.0.0.1", SECRET, counter, counter.report, counter.stopped.set)
        link = MemberClient.connect("127.0.0.1", server.port, SECRET)
        with self._changed:
            slot.link = link
            self._changed.notify_all()
        return link

    def _remove_members(self, instance_ids: list[str]) -> None: ...


def ignore(_: ConsumerRecord) -> None: ...


def test_what_a_pool_waits_for_may_be_what_its_members_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait` kept the pool's lock while it asked, and the answers came behind a report that needed the lock."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    pool = LinkedPool("t", "g", ignore, 2, bootstrap_servers="localhost:1")
    over: list[bool] = []

    def wait() -> None:
        over.append(pool.wait(until=lambda: sum(pool.call("count")) >= 4, timeout_s=60))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert over == [True]  # not in a `with` of the pool: while `wait` is stuck, `stop` would be, too
    pool.stop()
