"""Bugs planted in what coordinates groups of the consumer protocol (KIP-848), and in its members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actors.coordinator.consumer.group
import actors.coordinator.consumer.membership
import actors.coordinator.consumer.target
from actors.client.group.consumer_protocol.assignments import Assignments, Received
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.timing import Timing
from actors.coordinator.consumer.type import ConsumerOperations
from actors.coordinator.consumer.values import Current
from actors.coordinator.errors import Error

Changes = list[tuple[Any, str, Any]]

CONSUMER_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    CONSUMER_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def given_before_it_was_released() -> Changes:
    """A member is given all of its target, though others still have some of it."""
    return [(ConsumerState, "is_free", lambda self, partition, member_id: True)]


@bug
def member_epoch_not_fenced() -> Changes:
    """A heartbeat may have any epoch."""
    return [(actors.coordinator.consumer.membership, "_check_epoch", lambda current, request: None)]


@bug
def target_half_written() -> Changes:
    """The last of several members gets no record of its target."""
    has_changed = actors.coordinator.consumer.target.has_changed

    def all_but_one(state: ConsumerState, target: Any, member_id: str) -> bool:
        return [member_id] != list(state.metadata)[1:][-1:] and has_changed(state, target, member_id)

    return [(actors.coordinator.consumer.target, "has_changed", all_but_one)]


@bug
def stale_commit_taken() -> Changes:
    """A commit in an older epoch is taken, whatever its member has held since."""
    check = actors.coordinator.consumer.group.check_commit

    def taken(*asked: Any) -> Error:
        code = check(*asked)
        return Error.NONE if code in (Error.STALE_MEMBER_EPOCH, Error.ILLEGAL_GENERATION) else code

    return [(actors.coordinator.consumer.group, "check_commit", taken)]


@bug
def expelled_for_anothers_timeout() -> Changes:
    """Whoever has to give something back has as long for that as the member with the least patience."""
    arm = Timing._arm

    def hurried(self: Timing, group: ConsumerGroup, member_id: str, current: Current, due_ms: int) -> None:
        members = group.state.metadata
        least_ms = min(member.rebalance_timeout_ms for member in members.values())
        arm(self, group, member_id, current, due_ms - members[member_id].rebalance_timeout_ms + least_ms)

    return [(Timing, "_arm", hurried)]


@bug
def interval_never_ends() -> Changes:
    """Once a target has been computed, none is computed any more."""
    is_due = actors.coordinator.consumer.target.is_due

    def first_only(state: ConsumerState, interval_ms: int, now: Any) -> bool:
        return not state.assignment_timestamp_ms and is_due(state, interval_ms, now)

    return [(actors.coordinator.consumer.target, "is_due", first_only)]


@bug
def interval_of_another_clock() -> Changes:
    """The time of the last computation counts even if it is still to come by the clock of this machine."""

    def is_due(state: ConsumerState, interval_ms: int, now: Any) -> bool:
        since_ms = state.assignment_timestamp_ms
        is_over = not since_ms or not interval_ms or now.wall_ms >= since_ms + interval_ms
        return state.group_epoch > state.assignment_epoch and is_over

    return [(actors.coordinator.consumer.target, "is_due", is_due)]


@bug
def upgraded_member_forgotten_by_a_reload() -> Changes:
    """Nobody watches the classic members of a group that was loaded: who has died stays a member."""
    watch = Timing.watch

    def of_the_new_protocol(self: Timing, group: ConsumerGroup, member_id: str, now: Any) -> None:
        if group.state.metadata[member_id].classic is None:
            watch(self, group, member_id, now)

    return [(Timing, "watch", of_the_new_protocol)]


@bug
def upgraded_member_not_loaded() -> Changes:
    """A group that was loaded has no classic members."""
    resume = ConsumerOperations.resume

    def without(self: ConsumerOperations, group_id: str, persisted: ConsumerState, now: Any) -> None:
        for member_id, member in list(persisted.metadata.items()):
            if member.classic is not None:
                persisted.put_metadata(member_id, None)
        resume(self, group_id, persisted, now)

    return [(ConsumerOperations, "resume", without)]


@bug
def given_up_in_words_only() -> Changes:
    """A member says that it has given up what it was told to, before its user has."""

    def owned(self: Assignments) -> Received:
        return self.target or Received(0, frozenset())

    return [(Assignments, "owned", property(owned))]
