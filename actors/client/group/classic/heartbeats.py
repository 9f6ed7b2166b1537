"""When a member of a classic group sends a heartbeat, seeks its coordinator, or leaves for want of polls. Sans-IO."""

from __future__ import annotations

from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.joining import Joining
from actors.client.group.classic.requests import heartbeat
from actors.client.group.classic.round import Kind
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.holdings import Holdings
from actors.client.group.liveness import Liveness
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Outbox
from actors.client.group.stats import Stats


class Heartbeats:
    """Does what is due by the clocks of `live`."""

    def __init__(
        self,
        config: MembershipConfig,
        standing: Standing,
        lookup: CoordinatorLookup,
        outbox: Outbox,
        holdings: Holdings,
        joining: Joining,
        live: Liveness,
        stats: Stats,
    ) -> None:
        self._config = config
        self._standing = standing
        self._lookup = lookup
        self._outbox = outbox
        self._holdings = holdings
        self._joining = joining
        self._live = live
        self._stats = stats

    def on_time(self, now_ms: int) -> None:
        """Do what is due: look for the coordinator, leave after too long without a poll, heartbeat."""
        if not self._standing.heartbeating:
            if self._keeps_partitions:
                self._look_after_kept(now_ms)
            return
        if self._lookup.coordinator is None:
            self._outbox.find_coordinator(now_ms)
        elif now_ms >= self._live.search_at_ms:
            self._outbox.coordinator_lost(self._lookup.coordinator, now_ms, drop=True)
            self._outbox.find_coordinator(now_ms)
        elif now_ms >= self._live.poll_deadline_ms:
            self._leave_unpolled(now_ms)
        elif now_ms >= self._live.next_heartbeat_ms and not self._outbox.in_flight(Kind.HEARTBEAT):
            self._stats.heartbeats += 1
            self._beat(Kind.HEARTBEAT, now_ms)

    def _look_after_kept(self, now_ms: int) -> None:
        """Heartbeat aside. Once JoinGroup has failed, nobody else looks for the coordinator, or a program that hangs.

        The program may be long at its records before its next poll sends another one.
        """
        waits = self._joining.join is not None
        if self._lookup.coordinator is None:
            self._outbox.find_coordinator(now_ms)
        elif not waits and now_ms >= self._live.poll_deadline_ms:
            self._leave_unpolled(now_ms)
        elif now_ms >= self._live.next_heartbeat_ms and not self._outbox.in_flight(Kind.ASIDE):
            self._beat(Kind.ASIDE, now_ms)

    def _leave_unpolled(self, now_ms: int) -> None:
        self._stats.poll_timeouts += 1
        self._joining.leave(now_ms, "no poll within max.poll.interval.ms")

    def _beat(self, kind: Kind, now_ms: int) -> None:
        self._live.next_heartbeat_ms = now_ms + self._config.heartbeat_interval_ms
        self._outbox.send(kind, heartbeat(self._config, self._standing.generation), now_ms)

    def next_deadline(self) -> int | None:
        """The time to call `on_time` next; None while heartbeats are off."""
        if not self._standing.heartbeating:
            return self._next_aside() if self._keeps_partitions else None
        if self._lookup.coordinator is None:
            return self._lookup.next_ms
        due = min(self._live.search_at_ms, self._live.poll_deadline_ms)
        return due if self._outbox.in_flight(Kind.HEARTBEAT) else min(due, self._live.next_heartbeat_ms)

    def _next_aside(self) -> int | None:
        if self._lookup.coordinator is None:
            return self._lookup.next_ms
        beat = None if self._outbox.in_flight(Kind.ASIDE) else self._live.next_heartbeat_ms
        if self._joining.join is not None:
            return beat
        return self._live.poll_deadline_ms if beat is None else min(beat, self._live.poll_deadline_ms)

    @property
    def _keeps_partitions(self) -> bool:
        """True if JoinGroup is out, or has failed, while partitions are kept, and their records delivered (KIP-429).

        The coordinator answers it when all have joined, which may take much longer than a session; and a Kafka
        broker looks at nothing else on its connection until then.
        """
        preparing = self._standing.state is MemberState.PREPARING_REBALANCE
        return preparing and self._standing.counted and bool(self._holdings.owned)
