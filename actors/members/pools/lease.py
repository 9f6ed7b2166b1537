"""A member's lease, which its pool renews: without a renewal in time the member ends itself. No I/O, no clock."""

from __future__ import annotations

from typing import Final

from actors.members.member_link import LEASE_SECONDS

RENEW_SECONDS: Final = LEASE_SECONDS / 4
"""The time between two renewals."""
_SLACK_SECONDS: Final = LEASE_SECONDS - RENEW_SECONDS
"""After so long a silence of ours a member may be ending: the renewal that it heard last may be older by this."""


class Lease:
    """The last renewal of a member's lease. A network, or a pool that did not run, may keep that from it."""

    def __init__(self) -> None:
        self._renewed_s: float | None = None
        self._slack_s: float | None = None

    def look(self, now_s: float, unanswered_s: float) -> bool:
        """True if it is to be renewed; it counts as renewed then.

        Its machine has acknowledged nothing for `unanswered_s`.
        """
        if self._lapsed(now_s) or unanswered_s >= _SLACK_SECONDS:
            self._slack_s = now_s
        due = self._renewed_s is None or now_s - self._renewed_s >= RENEW_SECONDS
        if due:
            self._renewed_s = now_s
        return due

    def may_have_ended(self, now_s: float) -> bool:
        """True if its process may have ended for that reason by now, or a moment ago."""
        recently = self._slack_s is not None and now_s - self._slack_s < LEASE_SECONDS
        return recently or self._lapsed(now_s)

    def _lapsed(self, now_s: float) -> bool:
        return self._renewed_s is not None and now_s - self._renewed_s >= _SLACK_SECONDS
