"""Since when a client waits for metadata in vain, and why. Written on the event loop, read from any thread."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Outage:
    """`since_ms` (monotonic) is when metadata was first asked for that has not come yet; None while it comes.

    `reason` is why the last attempt failed; empty while the first one is under way.
    """

    since_ms: int | None = None
    reason: str = ""

    def asked(self, now_ms: int) -> None:
        """Metadata is asked for."""
        if self.since_ms is None:
            self.since_ms = now_ms

    def failed(self, reason: str) -> None:
        """It was not given. It is asked for again."""
        self.reason = reason

    def over(self) -> None:
        """It has come."""
        self.since_ms = None
        self.reason = ""

    def lasts_ms(self, now_ms: int) -> int:
        """For how long metadata has been waited for; 0 while it comes."""
        since = self.since_ms
        return 0 if since is None else now_ms - since
