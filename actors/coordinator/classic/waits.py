"""Two waits of a classic group: for more members before its first rebalance, and for a static member's record."""

from __future__ import annotations

from actors.coordinator.classic.member import ParkedJoin


class InitialDelay:
    """The time for which the first rebalance of an empty group waits for more members (KIP-134).

    It grows while some come.
    """

    __slots__ = ("left_ms", "member_came", "step_ms", "wait_ms")

    def __init__(self, step_ms: int, rebalance_timeout_ms: int) -> None:
        self.step_ms = step_ms
        self.wait_ms = step_ms
        """The present wait, from its beginning or from when it was last prolonged."""
        self.left_ms = max(rebalance_timeout_ms - step_ms, 0)
        """The time by which it may still become longer, at most."""
        self.member_came = False

    def prolong(self) -> bool:
        """To be called when `wait_ms` is over.

        Returns True to wait once more: a member came meanwhile, and time is left.
        """
        if not self.member_came or not self.left_ms:
            return False
        self.member_came = False
        waited_ms, self.wait_ms = self.wait_ms, min(self.step_ms, self.left_ms)
        self.left_ms = max(self.left_ms - waited_ms, 0)
        return True


class Replacement:
    """A static member's next incarnation in a Stable group (KIP-345), while its record is on the way to the log.

    Only one is under way at a time, for the next record is made from what this one leaves. Later requests wait here.
    """

    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.in_flight = False
        self.waiting: list[ParkedJoin] = []

    def begin(self) -> None:
        """A replacement's record was handed to the log."""
        self.in_flight = True

    def wait(self, parked: ParkedJoin) -> None:
        """Keep a request for another replacement until `end`."""
        self.waiting.append(parked)

    def end(self) -> list[ParkedJoin]:
        """The record's outcome is known. The requests that have waited: they are to be handled anew."""
        self.in_flight = False
        waiting, self.waiting = self.waiting, []
        return waiting
