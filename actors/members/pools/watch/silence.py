"""The silence of one member, and what follows from it. Sans-IO; the caller says how much time has passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from actors.links.member import MemberReport
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.watch.overrun import overrun

_FIRST_MS: Final = (400, 1_000)
"""A heartbeat is sent for a member after so much silence: two reports or five, by how much its session has to spare."""
_FIRST_ASSIGNED_MS: Final = 10_000
"""The same where the member itself should have the answer. A session lasts 45 seconds there, unless brokers differ."""
_LINK_SECONDS: Final = 7.0
"""A machine that answers does so at least every five seconds (`links/keepalive`). After so long the link may be cut."""
LOGGED_MS: Final = 10_000
"""From so much silence on it is no accident. Reports are late where many processes want the CPU."""
_JOINED: Final = ("Running", "Failing")


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a member that its silence is measured by."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    may_be_assigned: bool = False
    """True if an answer to a heartbeat may be an assignment (KIP-848), which the member itself should have."""

    @classmethod
    def of(cls, spec: MemberSpec) -> Self:
        return cls(
            spec.session_timeout_ms, spec.heartbeat_interval_ms, spec.max_poll_interval_ms, not spec.always_classic
        )

    @property
    def first_ms(self) -> int:
        """The silence before the first heartbeat. The member's own last one may be an interval old by then."""
        if self.may_be_assigned:
            return _FIRST_ASSIGNED_MS
        least, most = _FIRST_MS
        return max(least, min(most, (self.session_timeout_ms - self.heartbeat_interval_ms) // 2))


class Silence:
    """The silence of one process since its last report."""

    def __init__(self, limits: Limits, report: MemberReport) -> None:
        self._limits = limits
        self._report = report
        self._beat_at_ms: float = limits.first_ms
        self.silent_ms = 0.0

    def looked(self, report: MemberReport, passed_ms: float) -> None:
        """The last report is this one by now, and so much time has passed since the last look."""
        if report is self._report:
            self.silent_ms += passed_ms
            return
        self._report = report
        self.silent_ms = 0.0
        self._beat_at_ms = self._limits.first_ms

    def take_heartbeat(self, unanswered_s: float = 0.0) -> bool:
        """True if a heartbeat is due. It counts as sent then. The machine has acknowledged nothing for `unanswered_s`.

        None is due in the consumer protocol for a member that may well send its own: one that only this process does
        not hear. The answer would be lost to it, and with a new epoch its place, too.
        """
        if self._limits.may_be_assigned and unanswered_s >= _LINK_SECONDS:
            return False
        joined = self._report.state in _JOINED and self._report.member_id and self._report.generation_id >= 0
        if not joined or self.silent_ms < self._beat_at_ms:
            return False
        self._beat_at_ms = self.silent_ms + self._limits.heartbeat_interval_ms
        return True

    @property
    def lasts(self) -> bool:
        """True if it is worth a line in the log."""
        return self.silent_ms >= LOGGED_MS

    @property
    def too_long(self) -> str:
        """In words, what has been running for longer than it may; "" if nothing has."""
        return overrun(self._report, self._limits.max_poll_interval_ms, self.silent_ms) if self.lasts else ""
