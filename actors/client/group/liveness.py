"""A member's clocks: when to heartbeat, when its session ends, when its user has been away too long. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass

from actors.client.net.backoff import Backoff


@dataclass(slots=True)
class Liveness:
    """All times are monotonic milliseconds.

    Two session clocks: `search_at_ms` decides when to look for another coordinator and starts anew with each one
    found; `deliver_until_ms` is what the coordinator itself grants, and counts from when the last successful
    heartbeat was *sent*: the coordinator cannot have heard of us later than that plus the way there.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    backoff: Backoff
    last_poll_ms: int = 0
    next_heartbeat_ms: int = 0
    search_at_ms: int = 0
    deliver_until_ms: int = 0
    failures: int = 0

    @property
    def poll_deadline_ms(self) -> int:
        return self.last_poll_ms + self.max_poll_interval_ms

    def joined(self, now_ms: int) -> None:
        """JoinGroup was answered: heartbeats begin."""
        self.failures = 0
        self.next_heartbeat_ms = now_ms + self.heartbeat_interval_ms
        self.search_at_ms = now_ms + self.session_timeout_ms

    def coordinator_found(self, now_ms: int) -> None:
        self.search_at_ms = now_ms + self.session_timeout_ms
        self.next_heartbeat_ms = min(self.next_heartbeat_ms, now_ms + self.heartbeat_interval_ms)

    def confirmed(self, sent_ms: int, now_ms: int) -> None:
        """What was sent at `sent_ms` was answered: the coordinator counts us in from then on."""
        self.failures = 0
        self.search_at_ms = max(self.search_at_ms, sent_ms + self.session_timeout_ms)
        self.counted_in(sent_ms)
        self.next_heartbeat_ms = max(now_ms, sent_ms + self.heartbeat_interval_ms)

    def counted_in(self, sent_ms: int) -> None:
        """The coordinator has answered something sent at `sent_ms`: it grants a session from then on."""
        self.deliver_until_ms = max(self.deliver_until_ms, sent_ms + self.session_timeout_ms)

    def heartbeat_failed(self, now_ms: int) -> None:
        self.failures += 1
        self.next_heartbeat_ms = now_ms + self.backoff.delay_ms(self.failures)

    def ended(self) -> None:
        """The membership is gone: nothing may be delivered on its strength."""
        self.deliver_until_ms = 0
