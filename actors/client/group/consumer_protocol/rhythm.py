"""A member's clocks: when a heartbeat is due, and when the last poll is too long ago. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.client.net.backoff import Backoff

SESSION_MS: Final = 45_000
"""Kafka's default of group.consumer.session.timeout.ms. It is the coordinator's setting, and no answer names it."""

_LONG_SESSION: Final = 2
"""In intervals: a group whose members beat more seldom than sessions last by default must have longer ones."""

SILENCE_MS: Final = 7_000
"""Whoever looks after a process sends no heartbeat for it before (`members/pools/watch`), whatever the interval."""
WHOLE_MS: Final = 30_000
"""A watcher may take a process for silent while its member sends heartbeats, and be given the answers for the member.
So a member with a `heartbeat_max_ms` says, and is told, everything as often as this.
"""
_BRISK: Final = 4
_BRISK_MS: Final = 3_000
"""For so long after a move a member with a `heartbeat_max_ms` sends four heartbeats in that time.

A coordinator divides at most once a second (group.consumer.assignment.interval.ms), and gives a member what others
have given up in the answer to its next heartbeat.
"""


@dataclass(slots=True)
class Rhythm:
    """All times are monotonic milliseconds. The interval is the coordinator's, and counts from sending to sending.

    Until `deliver_until_ms` the coordinator keeps the member, even if it hears nothing more of it. That counts from
    when the last answered heartbeat was *sent*, because the coordinator received it later, and counts from then.
    """

    max_poll_interval_ms: int
    backoff: Backoff
    heartbeat_max_ms: int = 0
    """The longest time between two heartbeats, if the coordinator's interval is longer; 0: it is the coordinator's."""
    interval_ms: int = 0
    last_poll_ms: int = 0
    deliver_until_ms: int = 0
    failures: int = 0
    _sent_ms: int = 0
    _whole_ms: int = 0
    _at_once: bool = True
    _not_before_ms: int = 0
    _brisk_until_ms: int = 0

    @property
    def poll_deadline_ms(self) -> int:
        return self.last_poll_ms + self.max_poll_interval_ms

    def due_ms(self, *, at_once: bool) -> int:
        """The time at which the next heartbeat may be sent; `at_once`: without the interval."""
        if at_once or self._at_once:
            return self._not_before_ms
        return max(self._not_before_ms, self._sent_ms + self._between_ms)

    @property
    def _between_ms(self) -> int:
        if not self.heartbeat_max_ms:
            return self.interval_ms
        brisk = self._sent_ms < self._brisk_until_ms
        longest_ms = max(1, self.heartbeat_max_ms // _BRISK) if brisk else self.heartbeat_max_ms
        return min(self.interval_ms, longest_ms)

    def in_doubt(self, now_ms: int) -> bool:
        """True if an answer may have gone to somebody else: one that sends heartbeats in this member's name.

        The next heartbeat is so late that another will have been sent, or it is long ago that one said everything.
        """
        is_old = self.heartbeat_max_ms > 0 and now_ms - self._whole_ms >= WHOLE_MS
        return is_old or now_ms - self._sent_ms > SILENCE_MS

    def moved(self, now_ms: int) -> None:
        """The member has joined, or was given another assignment: others are about to move, too, most likely."""
        self._brisk_until_ms = now_ms + _BRISK_MS

    def sent(self, now_ms: int, *, whole: bool = False) -> None:
        """A heartbeat was sent: the interval begins. `whole`: it says everything."""
        self._sent_ms = now_ms
        if whole:
            self._whole_ms = now_ms
        self._at_once = False

    def confirmed(self, sent_ms: int, interval_ms: int) -> None:
        """A heartbeat sent at `sent_ms` succeeded."""
        self.failures = 0
        self._not_before_ms = 0
        self.interval_ms = interval_ms
        session_ms = SESSION_MS if interval_ms < SESSION_MS else _LONG_SESSION * interval_ms
        self.deliver_until_ms = max(self.deliver_until_ms, sent_ms + session_ms)

    def failed(self, now_ms: int) -> None:
        """A heartbeat failed: the next one is due after a backoff, whatever the interval."""
        self.failures += 1
        self._at_once = True
        self._not_before_ms = now_ms + self.backoff.delay_ms(self.failures)

    def hurry(self) -> None:
        """The next heartbeat is due as soon as it can be sent."""
        self._at_once = True

    def ended(self) -> None:
        """The membership has ended: no records may be delivered, and a join need not wait for the interval."""
        self.deliver_until_ms = 0
        self._at_once = True
