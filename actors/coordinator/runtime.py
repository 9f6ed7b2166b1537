"""What all operations of a shard share: its groups, its timers, the writer, and the answers."""

from __future__ import annotations

from collections.abc import Callable

from actors.coordinator.config import CoordinatorConfig
from actors.coordinator.durable import DurableState
from actors.coordinator.errors import Error
from actors.coordinator.group import Group, GroupState
from actors.coordinator.history import RebalanceLog
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
        self.rebalances = RebalanceLog()
        self.timers = Timers()
        self.durable = DurableState()
        self.writer = Writer(config, self.durable, self.timers, self.metrics)
        self.groups: dict[str, Group] = {}
        """The live groups by id. A new one is here before its record has committed; one that is being deleted stays,
        Dead, until its tombstone has."""
        self.replies: list[tuple[Token, Response]] = []
        self.unanswered: dict[Token, Request] = {}

    # -- answers

    def park(self, token: Token, request: Request) -> None:
        """Remember a request that is answered later. If the shard is unloaded, it is answered with an error."""
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
        records = encode(write.changes)
        size_bytes = sum(len(key) + len(value or b"") for key, value in records)
        self.writer.submit(write, [key for key, _ in records], [value for _, value in records], size_bytes, now)

    # -- groups

    def drop_group(self, group: Group) -> None:
        """Forget a live group."""
        self.cancel_timers(group)
        self.rebalances.forget(group.group_id)
        del self.groups[group.group_id]

    def cancel_timers(self, group: Group) -> None:
        group.join_timer.cancel()
        group.sync_timer.cancel()
        for timer in group.pending_joins.values():
            timer.cancel()
        for member in group.members.values():
            member.session.cancel()

    def record_of_its_own(self, group_id: str) -> list[Change]:
        """A record for a group that exists by its offsets alone, to be written before these are deleted.

        Kafka keeps such a group in memory until it is deleted or expires. Here a group needs something in the log.
        """
        group, durable = self.groups.get(group_id), self.durable.get(group_id)
        if group is None or group.state is not GroupState.EMPTY or group.protocol_type is not None:
            return []
        if durable is not None and durable.persisted is not None:
            return []
        return [GroupPut(group_id, group.to_record(lambda _: b""))]

    def reap(self, group_id: str) -> None:
        """Drop a live group that has no record, no offset, no member and no write under way."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.state is GroupState.EMPTY
            and group.is_vacant
            and self.durable.get(group_id) is None
            and not self.writer.pending_changes(group_id)
        ):
            self.drop_group(group)
