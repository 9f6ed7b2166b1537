"""Taking over what the coordinator has assigned, as far as its topics have names. Sans-IO."""

from __future__ import annotations

from actors.client.group.consumer_protocol.assignments import Assignments, IdPartitions, Received, Resolved
from actors.client.group.consumer_protocol.handover import Handover
from actors.client.group.consumer_protocol.standing import Happening, MemberState, Standing
from actors.client.group.outbox import Outbox
from actors.client.group.stats import Stats
from actors.client.net.backoff import Backoff
from actors.client.net.metadata import MetadataView


class Reconciling:
    """Gives `handover` what there is to do, and asks for metadata while ids have no names."""

    def __init__(
        self,
        standing: Standing,
        assignments: Assignments,
        handover: Handover,
        outbox: Outbox,
        stats: Stats,
        backoff: Backoff,
    ) -> None:
        self._standing = standing
        self._assignments = assignments
        self._handover = handover
        self._outbox = outbox
        self._stats = stats
        self._backoff = backoff
        self._asked = 0
        self.view = MetadataView()
        self.look_again_ms = 0
        """The time to ask for names once more."""

    def received(self, now_ms: int) -> None:
        """The coordinator has named an assignment."""
        if self._stats.rebalance_started_ms is None:
            self._stats.rebalance_started_ms = now_ms
        self._asked, self.look_again_ms = 0, now_ms

    @property
    def due(self) -> bool:
        """True if there is an assignment to take over."""
        return self._standing.state is MemberState.RECONCILING and self._progress() is not None

    @property
    def coming(self) -> IdPartitions:
        """The partitions that the user's thread is given, or will be: it may have them at any moment."""
        target = self._assignments.target
        if target is None or self._assignments.settled:
            return frozenset()
        return target.partitions | self._handover.taken_over

    def step(self, now_ms: int) -> None:
        """Have the user's thread take over what was received. Topics that have no names yet stay for later.

        If nothing changes for the user's thread, it is acknowledged at once.
        """
        if self._standing.state is not MemberState.RECONCILING:
            return
        resolved = self._progress()
        if resolved is None or not resolved.whole:
            self._ask_for_names(now_ms)
        if resolved is None:
            return
        current = self._assignments.current
        same = current is not None and current.partitions == resolved.received.partitions
        if same and not self._handover.interrupted:
            self.taken_over(resolved.received, now_ms)
        else:
            self._handover.take_over(resolved, now_ms)

    def _progress(self) -> Resolved | None:
        """The part of the target that can be taken over, if that is more than was."""
        resolved = self._assignments.resolve(self.view)
        if resolved.received == self._assignments.current and not self._handover.interrupted:
            return None
        return resolved

    def _ask_for_names(self, now_ms: int) -> None:
        if now_ms >= self.look_again_ms:
            self._asked += 1
            self.look_again_ms = now_ms + self._backoff.delay_ms(self._asked)
            self._outbox.want_metadata()

    def taken_over(self, received: Received, now_ms: int) -> None:
        """The user's thread is done with it: the next heartbeat acknowledges it."""
        self._assignments.take_over(received)
        self._standing.happened(Happening.TAKEN_OVER)
        self._stats.rebalanced(now_ms)
