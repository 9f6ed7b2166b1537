"""The common means of all operations on the groups of a shard: the groups, durable and live, and those of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from actors.coordinator.errors import Error
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.durable import DurableState, GroupChange
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.history import RebalanceLog
from actors.coordinator.groups.metrics import GroupMetrics
from actors.coordinator.runtime import Runtime
from actors.coordinator.turn import Handle, Now, Request, Token

G = TypeVar("G", bound=Group)

NewGroup = Callable[[str, int], Group]
"""(group id, wall ms) -> a group that exists by its offsets alone."""


class Shared(Protocol):
    """The object that puts the types of groups together."""

    def handle(self, token: Token, request: Request, now: Now) -> None:
        """Have a request carried out, of whichever type it is."""

    def resume(self, group_id: str, now: Now) -> None:
        """Make the live group of a durable one."""


class GroupRuntime:
    """`new_id` makes UUIDs for member ids; `new_simple` makes the group of a commit by who is no member."""

    def __init__(
        self,
        host: Runtime,
        config: CoordinatorConfig,
        new_id: Callable[[], str],
        new_simple: NewGroup,
        shared: Shared,
    ) -> None:
        self.config = config
        self.new_id = new_id
        self.new_simple = new_simple
        self.resume = shared.resume
        self._shared = shared
        self.visits: dict[tuple[str, type], Handle] = {}
        """The handlers by which groups of a type carry out another type's requests, by the type's name and the
        request's class.
        """
        self.when_loaded: list[Callable[[Now], None]] = []
        """The further steps when the live groups have been made of the loaded state."""
        self.timers, self.writer = host.timers, host.writer
        self.replies, self.unanswered = host.replies, host.unanswered
        self.park, self.answer, self.write = host.park, host.answer, host.write
        self.metrics = GroupMetrics()
        self.rebalances = RebalanceLog()
        self.durable = DurableState()
        self.groups: dict[str, Group] = {}
        """The live groups by id. A new one is here before its record has committed; one that is being deleted stays,
        Dead, until its tombstone has."""

    def find(self, kind: type[G], group_id: str, other: Error) -> G | Error | None:
        """The live group if it is of this type; `other` if it is of another one; None if there is none."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, kind):
            return group
        return other

    def visit(self, group: Group | None, token: Token, request: Request, now: Now) -> bool:
        """Have a group carry out a request that is another type's. False if it cannot."""
        handle = None if group is None else self.visits.get((group.type_name, type(request)))
        if handle is not None:
            handle(token, request, now)
        return handle is not None

    def again(self, token: Token, request: Request, now: Now) -> None:
        """Carry out a request that is parked once more, unless its client has gone: its group is another one now."""
        if self.unanswered.pop(token, None) is not None:
            self._shared.handle(token, request, now)

    def drop_group(self, group: Group) -> None:
        """Forget a live group."""
        self.cancel_timers(group)
        self.rebalances.forget(group.group_id)
        del self.groups[group.group_id]

    @staticmethod
    def cancel_timers(group: Group) -> None:
        for timer in group.timers():
            timer.cancel()

    def bury(self, group: Group) -> None:
        """Drop a group whose tombstone has committed."""
        self.cancel_timers(group)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def revive(self, group: Group) -> None:
        """Put an empty group back in the place of one whose tombstone could not be written."""
        self.bury(group)
        self.groups[group.group_id] = group.reborn()
        self.reap(group.group_id)

    def record_of_its_own(self, group_id: str) -> Sequence[GroupChange]:
        """A record for a group that exists by its offsets alone, to be written before these are deleted.

        Kafka keeps such a group in memory until it is deleted or expires. Here a group needs something in the log.
        """
        group, durable = self.groups.get(group_id), self.durable.get(group_id)
        if group is None or (durable is not None and durable.persisted is not None):
            return []
        return group.own_record()

    def reap(self, group_id: str) -> None:
        """Drop a live group that has no record, no offset, no member and no write under way."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.is_empty
            and group.is_vacant
            and self.durable.get(group_id) is None
            and not self.writer.pending_changes(group_id)
        ):
            self.drop_group(group)
