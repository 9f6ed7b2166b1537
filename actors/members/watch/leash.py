"""Whether a member on a leash may have ended by it, for want of a word from its pool. No I/O, no clock."""

from __future__ import annotations

from typing import Final

from actors.members.member_link import LEASH_SECONDS

HOLD_SECONDS: Final = LEASH_SECONDS / 4
"""How often a member is told to go on."""
_SLACK_SECONDS: Final = LEASH_SECONDS - HOLD_SECONDS
"""After so long a silence of ours a member may be ending: what it heard last may be a hold older."""


class Held:
    """When a member was last told to go on. A pool whose process did not run, or a network, keeps that from it."""

    def __init__(self) -> None:
        self._told_s: float | None = None
        self._slack_s: float | None = None

    def look(self, now_s: float, unanswered_s: float) -> bool:
        """Whether it is to be told again, which then happens. Its machine has acknowledged nothing for so long."""
        if self._lapsed(now_s) or unanswered_s >= _SLACK_SECONDS:
            self._slack_s = now_s
        due = self._told_s is None or now_s - self._told_s >= HOLD_SECONDS
        if due:
            self._told_s = now_s
        return due

    def may_have_ended(self, now_s: float) -> bool:
        """Whether it may be for that that its process has ended by now, or a moment ago."""
        recently = self._slack_s is not None and now_s - self._slack_s < LEASH_SECONDS
        return recently or self._lapsed(now_s)

    def _lapsed(self, now_s: float) -> bool:
        return self._told_s is not None and now_s - self._told_s >= _SLACK_SECONDS
