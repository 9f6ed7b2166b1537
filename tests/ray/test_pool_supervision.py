"""What a pool does about a member's reports. No Ray is started: the actor is a socket."""

from __future__ import annotations

import socket
import threading

from actors.links.member import MemberConnection, MemberReport
from actors.members.handler_member import MemberSpec
from actors.members.member_link import MemberClient
from actors.members.pool import ConsumerPool, _Slot


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
        client = MemberClient(ours, b"secret")
        member = MemberConnection(theirs)
        assert member.introduced(b"secret")
        for report in self._reports:
            member.send(report)
        member.close()
        return client

    def _remove_members(self, instance_ids: list[str]) -> None:
        self.removed += instance_ids


def test_a_member_that_failed_for_good_leaves_the_group() -> None:
    """As a static member it would keep its partitions, and every rebalance waiting, until its session ends."""
    pool = Pool(MemberReport("Running"), MemberReport("Failed", "bad record"))
    slot = _Slot(0, "g-1-0")
    pool._supervise(slot)
    assert pool.removed == ["g-1-0"]
    assert slot.report.state == "Failed"
