"""What all operations of a shard share: its groups, its timers, its way to the log and to the clients."""

from __future__ import annotations

from collections.abc import Callable

from actors.coordinator.config import CoordinatorConfig
from actors.coordinator.durable import DurableState
from actors.coordinator.errors import Error
from actors.coordinator.group import Group, GroupState
from actors.coordinator.messages import Now, Request, Response, Token, error_response
from actors.coordinator.metrics import Metrics
from actors.coordinator.records import Change, GroupPut, encode
from actors.coordinator.timers import Timers
from actors.coordinator.writer import Write, Writer


class Runtime:
    def __init__(self, config: CoordinatorConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.new_id = new_id
        self.metrics = Metrics()
        self.timers = Timers()
        self.durable = DurableState()
        self.writer = Writer(config, self.durable, self.timers, self.metrics)
        self.groups: dict[str, Group] = {}
        """The latest of each group: a new one is here before its record commits, and a group being
        deleted stays, Dead, until its tombstone has."""
        self.replies: list[tuple[Token, Response]] = []
        self.unanswered: dict[Token, Request] = {}

    # -- answers

    def park(self, token: Token, request: Request) -> None:
        """The answer comes later; whatever happens to the shard, there will be one."""
        self.unanswered[token] = request

    def answer(self, token: Token, response: Response) -> None:
        """Answer a parked request, unless it has been answered already or its client has gone."""
        if self.unanswered.pop(token, None) is not None:
            self.replies.append((token, response))

    def answer_all(self, error: Error) -> None:
        for token, request in list(self.unanswered.items()):
            self.answer(token, error_response(request, error))

    # -- writes

    def write(self, write: Write, now: Now) -> None:
        self.writer.submit(write, encode(write.changes), now)

    # -- groups

    def cancel_timers(self, group: Group) -> None:
        group.join_timer.cancel()
        group.sync_timer.cancel()
        for timer in group.pending_joins.values():
            timer.cancel()
        for member in group.members.values():
            member.session.cancel()

    def record_of_its_own(self, group_id: str) -> list[Change]:
        """What lets a group live on that exists by its offsets alone, when some of these are about to be deleted.

        In Kafka such a group lives in memory until it is deleted or expires; here what exists stands in the log.
        """
        group, durable = self.groups.get(group_id), self.durable.get(group_id)
        if group is None or group.state is not GroupState.EMPTY or group.protocol_type is not None:
            return []
        if durable is not None and durable.persisted is not None:
            return []
        return [GroupPut(group_id, group.to_record(lambda _: b""))]

    def reap(self, group_id: str) -> None:
        """Drop a live group that nothing stands for any more: no record, no offset, nobody in it."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.state is GroupState.EMPTY
            and group.is_vacant
            and self.durable.get(group_id) is None
            and not self.writer.pending_changes(group_id)
        ):
            self.cancel_timers(group)
            del self.groups[group_id]
