"""Tells people of the rebalances of consumer groups.

One begins when a group's epoch rises, and is over when all members have what their targets say.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.operations import Cause, Draft
from actors.coordinator.consumer.state import KnownMember
from actors.coordinator.consumer.values import CONSUMER
from actors.coordinator.groups.history import REPLACED, PlainRebalance, RebalancedGroup, note_process
from actors.coordinator.groups.reports import RebalanceEvent
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now

_RESTING = ("Stable", "Empty")
"""The states in which no member waits for anything."""


class History:
    """Keeps the rebalances of a shard's consumer groups."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def committed(self, group: ConsumerGroup, drafts: Sequence[Draft], now: Now) -> None:
        """The records of these have committed."""
        for draft in drafts:
            self._tell(group, draft)
        log = self._runtime.rebalances
        running = log.running.get(group.group_id)
        if running is not None and group.state_name in _RESTING:
            running.members = len(group.state.metadata)
            log.complete(group.group_id, now)

    def ended(self, group: ConsumerGroup, drafts: Sequence[Draft]) -> None:
        """They have, and the group is of another type by the last of them. The rebalance that ran is forgotten."""
        for draft in drafts[:-1]:
            self._tell(group, draft)
        self._runtime.rebalances.forget(group.group_id)
        last = drafts[-1]
        if last.took_over is not None:
            self._remember_replacement(group, last, last.took_over)
        self._tell_gone(group, last)

    def _tell(self, group: ConsumerGroup, draft: Draft) -> None:
        if draft.cause is not None:
            self._begin(group, draft, draft.cause)
            self._runtime.metrics.consumer_rebalances += not draft.went
        elif draft.took_over is not None:
            self._remember_replacement(group, draft, draft.took_over)
        self._tell_members(group, draft)

    def _begin(self, group: ConsumerGroup, draft: Draft, cause: Cause) -> None:
        rebalance = _rebalance(group, draft, cause)
        self._runtime.rebalances.begin(rebalance)
        group.history.append(RebalanceEvent(draft.now.wall_ms, rebalance.epoch, cause.reason, cause.member_id))

    def _remember_replacement(self, group: ConsumerGroup, draft: Draft, replaced: tuple[str, KnownMember]) -> None:
        """A static member has come back, and nothing had to be assigned anew."""
        older, member = replaced
        told = _rebalance(group, draft, Cause(REPLACED, member.member_id, member))
        told.changes.replaced.add(older)
        told.changes.came.add(member.member_id)
        note_process(told.changes, member)
        durable = self._runtime.durable.get(group.group_id)
        told.members = len(durable.persisted.members) if durable is not None and durable.persisted is not None else 0
        told.complete(draft.now)
        self._runtime.rebalances.keep(told)

    def _tell_members(self, group: ConsumerGroup, draft: Draft) -> None:
        log, group_id = self._runtime.rebalances, group.group_id
        if draft.took_over is not None and draft.cause is not None:
            older, member = draft.took_over
            log.replaced(group_id, older, member.member_id)
            log.told_process(group_id, member)
        elif draft.came is not None and draft.cause is not None:
            log.came(group_id, draft.came)
        self._tell_gone(group, draft)

    def _tell_gone(self, group: ConsumerGroup, draft: Draft) -> None:
        for member in draft.went:
            self._runtime.rebalances.went(group.group_id, member, expelled=draft.expels)
        self._runtime.metrics.members_expired += len(draft.went) if draft.expels else 0


def _rebalance(group: ConsumerGroup, draft: Draft, cause: Cause) -> PlainRebalance:
    raised = draft.cause is not None
    about = RebalancedGroup(CONSUMER, group.group_id, draft.state.group_epoch - raised, "Assigning")
    return PlainRebalance(about, cause.reason, cause.member_id, cause.member, draft.now)
