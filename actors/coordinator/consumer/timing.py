"""The timers of the members of consumer groups.

A member has to be heard within its session. It has to give back, in its rebalance timeout, the partitions that it is
told to give back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.coordinator.consumer.group import ConsumerGroup, MemberTimers
from actors.coordinator.consumer.leaving import EndOfRebalance, EndOfSession, EndOfWait, Tidy
from actors.coordinator.consumer.operations import Cluster, Operation
from actors.coordinator.consumer.records import CurrentAssignment, MemberRecord
from actors.coordinator.consumer.values import Current, MemberState
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.timers import Timer, Timers, nothing
from actors.coordinator.turn import Now

AGAIN_MS = 1_000
"""The delay before a removal whose records were not written is tried again."""

Submit = Callable[[ConsumerGroup, Operation, Now], None]


class Timing:
    """Sets the timers. A member that is due is removed by an operation, handed to `submit`."""

    def __init__(self, timers: Timers, cluster: Cluster, submit: Submit) -> None:
        self._timers = timers
        self._cluster = cluster
        self._submit = submit

    def of(self, group: ConsumerGroup, member_id: str) -> MemberTimers:
        """The timers of a member."""
        found = group.members.get(member_id)
        if found is None:
            session = Timer(
                lambda now: self._submit(group, EndOfSession(member_id, lambda: self._is_over(group, member_id)), now)
            )
            found = group.members[member_id] = MemberTimers(session, Timer(nothing), Timer(nothing))
        return found

    @staticmethod
    def _is_over(group: ConsumerGroup, member_id: str) -> bool:
        """True if the member's session is over: that of the moment, for it may have left and joined again."""
        found = group.members.get(member_id)
        return found is None or found.session.due_ms is None

    def heard(self, group: ConsumerGroup, member_id: str, now: Now, timeout_ms: int | None = None) -> None:
        """A member has given a sign of life: its session begins anew. Classic members have timeouts of their own."""
        if timeout_ms is None:
            timeout_ms = self._cluster.settings.of_group(group.group_id).session_timeout_ms
        self._timers.arm(self.of(group, member_id).session, now.monotonic_ms + timeout_ms)

    def took_over(
        self, group: ConsumerGroup, member_id: str, timeout_ms: int, heard_until_ms: int | None, now: Now
    ) -> None:
        """A member is of this group now. That is no sign of life: a session that ran until then does not begin anew."""
        self.heard(group, member_id, now, timeout_ms)
        if heard_until_ms is not None:
            session = self.of(group, member_id).session
            self._timers.arm(session, min(heard_until_ms, now.monotonic_ms + timeout_ms))

    def watch(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        """Give a member that was loaded all the time that it can have."""
        self.heard(group, member_id, now)
        self._moved(group, member_id, now)

    def committed(self, group: ConsumerGroup, changes: Iterable[GroupChange], since: Now) -> None:
        """Do what follows from records that have committed. Times count from `since`, when they were decided."""
        for change in changes:
            if isinstance(change, MemberRecord) and change.member_id not in group.state.metadata:
                self._forget(group, change.member_id)
            elif isinstance(change, CurrentAssignment) and change.current == group.state.current.get(change.member_id):
                self._moved(group, change.member_id, since)

    def _moved(self, group: ConsumerGroup, member_id: str, since: Now) -> None:
        """Watch a member that has to give something back. Nobody is expelled because of what others hold."""
        member, current = group.state.metadata.get(member_id), group.state.current_of(member_id)
        if member is None:
            return
        if current.state is MemberState.UNREVOKED_PARTITIONS and current.epoch > 0 and member.classic is None:
            self._arm(group, member_id, current, since.monotonic_ms + member.rebalance_timeout_ms)
        else:
            self.of(group, member_id).rebalance.cancel()

    def _arm(self, group: ConsumerGroup, member_id: str, current: Current, due_ms: int) -> None:
        def end(now: Now) -> None:
            self._submit(group, EndOfRebalance(member_id, current), now)

        self._timers.start(self.of(group, member_id).rebalance, due_ms, end)

    def failed(self, group: ConsumerGroup, operations: Iterable[Operation], now: Now) -> None:
        """Nothing was written: forget whom it would have let in, and try again to remove whom it would have removed."""
        for member_id in group.members.keys() - group.state.metadata.keys():
            self._forget(group, member_id)
        due_ms = now.monotonic_ms + AGAIN_MS
        for operation in operations:
            if isinstance(operation, EndOfSession) and operation.member_id in group.members:
                session = group.members[operation.member_id].session
                if session.due_ms is None:
                    self._timers.arm(session, due_ms)
            elif isinstance(operation, EndOfRebalance) and operation.is_due(group.state):
                self._arm(group, operation.member_id, operation.since, due_ms)
            elif isinstance(operation, EndOfWait) and operation.member_id in group.members:
                operation.retry(due_ms)
            elif isinstance(operation, Tidy):
                self._timers.start(group.tidying, due_ms, lambda now: self._submit(group, Tidy(), now))

    @staticmethod
    def _forget(group: ConsumerGroup, member_id: str) -> None:
        for timer in group.members.pop(member_id, ()):
            timer.cancel()
