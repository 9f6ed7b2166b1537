"""The leash of a member: it may have ended by it, for want of a word from its pool. No I/O, no clock."""

from __future__ import annotations

from typing import Final

from actors.members.member_link import LEASH_SECONDS

HOLD_SECONDS: Final = LEASH_SECONDS / 4
"""The time between two calls that tell a member to go on."""
_SLACK_SECONDS: Final = LEASH_SECONDS - HOLD_SECONDS
"""After so long a silence of ours a member may be ending: what it heard last may be a hold older."""


class Held:
    """The last time a member was told to go on. A network, or a pool that did not run, may keep that from it."""

    def __init__(self) -> None:
        self._told_s: float | None = None
        self._slack_s: float | None = None

    def look(self, now_s: float, unanswered_s: float) -> bool:
        """True if it is to be told again; it counts as told then.

        Its machine has acknowledged nothing for `unanswered_s`.
        """
        if self._lapsed(now_s) or unanswered_s >= _SLACK_SECONDS:
            self._slack_s = now_s
        due = self._told_s is None or now_s - self._told_s >= HOLD_SECONDS
        if due:
            self._told_s = now_s
        return due

    def may_have_ended(self, now_s: float) -> bool:
        """True if its process may have ended for that reason by now, or a moment ago."""
        recently = self._slack_s is not None and now_s - self._slack_s < LEASH_SECONDS
        return recently or self._lapsed(now_s)

    def _lapsed(self, now_s: float) -> bool:
        return self._told_s is not None and now_s - self._told_s >= _SLACK_SECONDS
