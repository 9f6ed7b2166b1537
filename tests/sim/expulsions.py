"""Watches the expulsions from consumer groups, and their reasons. The invariant:

expelled    a member that is expelled for its session was silent for that long; one that is expelled because it has not
            given partitions back was told to, and had all of its own rebalance timeout for that
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.leaving import EndOfRebalance, EndOfSession
from actors.coordinator.consumer.operations import Draft
from actors.coordinator.consumer.records import CurrentAssignment
from actors.coordinator.consumer.timing import Timing
from actors.coordinator.consumer.type import ConsumerOperations
from actors.coordinator.consumer.values import Current, MemberState
from actors.coordinator.group_types import GroupShard
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.shard import Shard
from actors.coordinator.turn import Now
from actors.wire.api_keys import ApiKey
from tests.sim.engine import MS, Simulation
from tests.sim.parked import is_of_a_client

_SLACK_MS = 20
_SIGNS_OF_LIFE = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
Key = tuple[int, str, str]
"""A shard's process, a group, and a member's id."""


class Expulsions:
    """Each shard's knowledge of the members of consumer groups."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._asked: dict[int, int] = {}
        self.heard: dict[Key, int] = {}
        """Time of the last heartbeat that was answered without an error, or of the group's load."""
        self._told: dict[Key, tuple[Current, int]] = {}
        """The assignment by which a member has to give something back, and the time of the decision (monotonic ms)."""

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The functions of the product that are exchanged for the length of the run."""
        return [
            (Shard, "handle", self._watch_requests(Shard.handle)),
            (Shard, "take_replies", self._watch_replies(Shard.take_replies)),
            (ConsumerOperations, "resume", self._watch_resume(ConsumerOperations.resume)),
            (Timing, "committed", self._watch_orders(Timing.committed)),
            (Timing, "watch", self._watch_loaded(Timing.watch)),
            (EndOfSession, "steps", self._watch_sessions(EndOfSession.steps)),
            (EndOfRebalance, "steps", self._watch_rebalances(EndOfRebalance.steps)),
        ]

    def _key(self, group_id: str, member_id: str) -> Key:
        process = self.sim.process
        assert process is not None
        return process.pid, group_id, member_id

    # -- sessions

    def _watch_requests(self, product: Any) -> Any:
        def handle(shard: GroupShard, token: Any, request: Any, now: Now) -> None:
            self._asked[id(token)] = self.sim.now
            product(shard, token, request, now)

        return handle

    def _watch_replies(self, product: Any) -> Any:
        def take_replies(shard: GroupShard) -> Any:
            replies = product(shard)
            for asked, response in replies:
                asked_us = self._asked.pop(id(asked), 0)
                if is_of_a_client(asked):
                    self._note_answer(asked, response, asked_us)
            return replies

        return take_replies

    def _note_answer(self, asked: Any, response: Any, asked_us: int) -> None:
        leaves = getattr(asked.message, "member_epoch", 0) < 0
        if asked.header.api_key in _SIGNS_OF_LIFE and not leaves and not response.error_code:
            key = self._key(asked.message.group_id, asked.message.member_id)
            self.heard[key] = max(asked_us, self.heard.get(key, 0))

    def _watch_resume(self, product: Any) -> Any:
        def resume(operations: ConsumerOperations, group_id: str, persisted: Any, now: Now) -> None:
            for member_id in persisted.metadata:
                self.heard[self._key(group_id, member_id)] = self.sim.now
            product(operations, group_id, persisted, now)

        return resume

    def _watch_sessions(self, product: Any) -> Any:
        def steps(operation: EndOfSession, draft: Draft) -> Generator[None, None, Any]:
            member = draft.state.metadata.get(operation.member_id)
            if member is not None and operation.is_over():
                session_ms = draft.settings.session_timeout_ms
                if member.classic is not None:
                    session_ms = member.classic.session_timeout_ms
                heard_us = self.heard.get(self._key(draft.group_id, operation.member_id), 0)
                silent_ms = (self.sim.now - heard_us) // MS
                if silent_ms < session_ms - _SLACK_MS:
                    who = f"{operation.member_id} of {draft.group_id}"
                    self.sim.fail("expelled", f"{who}, heard of {silent_ms} ms ago")
            return (yield from product(operation, draft))

        return steps

    # -- partitions to give back

    def _watch_orders(self, product: Any) -> Any:
        def committed(timing: Timing, group: ConsumerGroup, changes: Iterable[GroupChange], since: Now) -> None:
            changes = list(changes)
            product(timing, group, changes, since)
            for change in changes:
                if isinstance(change, CurrentAssignment) and change.current is not None:
                    self._note_order(group.group_id, change.member_id, change.current, since)

        return committed

    def _watch_loaded(self, product: Any) -> Any:
        def watch(timing: Timing, group: ConsumerGroup, member_id: str, now: Now) -> None:
            product(timing, group, member_id, now)
            self._note_order(group.group_id, member_id, group.state.current_of(member_id), now)

        return watch

    def _note_order(self, group_id: str, member_id: str, current: Current, since: Now) -> None:
        key = self._key(group_id, member_id)
        if key not in self._told or self._told[key][0] != current:
            self._told[key] = current, since.monotonic_ms

    def _watch_rebalances(self, product: Any) -> Any:
        def steps(operation: EndOfRebalance, draft: Draft) -> Generator[None, None, Any]:
            if operation.is_due(draft.state):
                self._judge(draft, operation.member_id)
            return (yield from product(operation, draft))

        return steps

    def _judge(self, draft: Draft, member_id: str) -> None:
        who, current = f"{member_id} of {draft.group_id}", draft.state.current_of(member_id)
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            self.sim.fail("expelled", f"{who}, which had nothing to give back")
        told, since_ms = self._told.get(self._key(draft.group_id, member_id), (None, 0))
        had_ms = draft.now.monotonic_ms - since_ms
        timeout_ms = draft.state.metadata[member_id].rebalance_timeout_ms
        if told == current and had_ms < timeout_ms - _SLACK_MS:
            self.sim.fail("expelled", f"{who}, which had {had_ms} of {timeout_ms} ms to give something back")
