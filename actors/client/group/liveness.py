"""A member's clocks: when to heartbeat, when its session ends, when the last poll is too long ago. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass

from actors.client.net.backoff import Backoff


@dataclass(slots=True)
class Liveness:
    """All times are monotonic milliseconds.

    There are two session clocks. At `search_at_ms` the member looks for another coordinator; it starts anew with each
    one that is found. Until `deliver_until_ms` the coordinator itself keeps the member. That counts from when the last
    answered heartbeat was *sent*, because the coordinator received it later, and counts from then.
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
        """A request sent at `sent_ms` succeeded: the coordinator's session lasts at least from then."""
        self.failures = 0
        self.search_at_ms = max(self.search_at_ms, sent_ms + self.session_timeout_ms)
        self.counted_in(sent_ms)
        self.next_heartbeat_ms = max(now_ms, sent_ms + self.heartbeat_interval_ms)

    def counted_in(self, sent_ms: int) -> None:
        """The coordinator knew the member when it answered a request sent at `sent_ms`: its session lasts from then."""
        self.deliver_until_ms = max(self.deliver_until_ms, sent_ms + self.session_timeout_ms)

    def heartbeat_failed(self, now_ms: int) -> None:
        self.failures += 1
        self.next_heartbeat_ms = now_ms + self.backoff.delay_ms(self.failures)

    def ended(self) -> None:
        """The membership has ended: no records may be delivered."""
        self.deliver_until_ms = 0
