"""The group coordinator, which a shard of `__consumer_offsets` hosts.

It puts together the common ground of all types of groups and each type's own parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.coordinator.errors import Error
from actors.coordinator.groups.admin import Admin, listing
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.durable import DurableGroup, DurableState
from actors.coordinator.groups.expiry import Expiry
from actors.coordinator.groups.history import RebalanceLog
from actors.coordinator.groups.messages import (
    DeleteGroupsRequest,
    DeleteTopicOffsetsRequest,
    ListGroupsRequest,
    MaySleepRequest,
    MaySleepResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from actors.coordinator.groups.metrics import GroupMetrics
from actors.coordinator.groups.offset_records import OFFSET_RECORDS
from actors.coordinator.groups.offsets import Offsets
from actors.coordinator.groups.reports import GroupStatus
from actors.coordinator.groups.runtime import GroupRuntime, NewGroup
from actors.coordinator.groups.topic_deletion import TopicDeletions
from actors.coordinator.groups.types import Bridge, GroupType, Requests
from actors.coordinator.records import RecordTypes
from actors.coordinator.runtime import Runtime
from actors.coordinator.sleep import Looked, Sleep
from actors.coordinator.turn import Handle, Now, Request, Token

GROUPS_ASLEEP_MAX = 1_000
"""A shard with more groups stays awake, because the broker keeps the list of groups of a shard that sleeps."""


class GroupCoordinator:
    """`types` are the types of groups that it knows; `new_simple` makes groups that have no members.

    `bridges` let groups of one type become groups of another one.
    """

    def __init__(
        self,
        host: Runtime,
        config: CoordinatorConfig,
        new_id: Callable[[], str],
        types: Iterable[GroupType],
        new_simple: NewGroup,
        bridges: Iterable[Bridge] = (),
    ) -> None:
        types = tuple(types)
        self.runtime = runtime = GroupRuntime(host, config, new_id, new_simple, self)
        self.record_types = RecordTypes((*OFFSET_RECORDS, *(record for each in types for record in each.record_types)))
        self._operations = {each.name: each.operations(runtime) for each in types}
        for bridge in bridges:
            bridge(runtime, self._operations)
        self._deletions = TopicDeletions(runtime)
        self._expiry = Expiry(runtime)
        self._sleep = Sleep(host, self)
        offsets = Offsets(runtime, self._deletions)
        admin = Admin(runtime, offsets)
        shared = Requests(
            handlers={
                OffsetCommitRequest: offsets.commit,
                OffsetFetchRequest: offsets.fetch,
                OffsetDeleteRequest: offsets.delete,
                DeleteTopicOffsetsRequest: self._deletions.handle,
                ListGroupsRequest: admin.list_groups,
                DeleteGroupsRequest: admin.delete_groups,
                MaySleepRequest: self._sleep.handle,
            },
            entry_errors={
                OffsetCommitRequest: _unless_null,
                OffsetFetchRequest: _unless_null,
                OffsetDeleteRequest: _unless_empty,
            },
        )
        all_of_them = (*(each.requests for each in self._operations.values()), shared)
        self.handlers: Mapping[type, Handle] = _joined(each.handlers for each in all_of_them)
        self._entry_errors = _joined(each.entry_errors for each in all_of_them)
        self._while_loading = _joined(each.while_loading for each in all_of_them)
        self._parked = _joined(each.parked for each in all_of_them)

    # -- what the shard calls

    def new_state(self) -> DurableState:
        """The durable state of an empty log."""
        return DurableState()

    def adopt(self, state: DurableState) -> None:
        """Take a durable state that was loaded."""
        self.runtime.durable = state

    def start(self, now: Now) -> None:
        """Make the live groups of the durable ones."""
        runtime = self.runtime
        for group_id, durable in runtime.durable.items():
            self._resume(group_id, durable, now)
        for do in runtime.when_loaded:
            do(now)
        self._expiry.schedule(now)

    def resume(self, group_id: str, now: Now) -> None:
        """Make the live group of a durable one that is of another type now."""
        durable = self.runtime.durable.get(group_id)
        if durable is not None:
            self._resume(group_id, durable, now)

    def _resume(self, group_id: str, durable: DurableGroup, now: Now) -> None:
        if durable.persisted is None:
            self.runtime.groups[group_id] = self.runtime.new_simple(group_id, now.wall_ms)
        else:
            self._operations[durable.persisted.group_type].resume(group_id, durable.persisted, now)

    def handle(self, token: Token, request: Request, now: Now) -> None:
        """Have a request carried out. The shard does so by itself; this is for one whose group has changed its type."""
        self.handlers[type(request)](token, request, now)

    def forget(self) -> None:
        """Drop all state."""
        self._deletions.forget()
        self._sleep.forget()
        for operations in self._operations.values():
            operations.forget()
        self.runtime.rebalances.clear()
        self.runtime.groups.clear()
        self.runtime.durable = DurableState()

    def unavailable(self, request: Any, *, loading: bool) -> Any:
        """The answer to a request that comes while the shard does not serve."""
        check = self._entry_errors.get(type(request))
        error = check(request) if check is not None else Error.NONE
        if error:
            return request.refused(error)
        if not loading:
            return request.refused(Error.NOT_COORDINATOR)
        answer = self._while_loading.get(type(request))
        return request.refused(Error.COORDINATOR_LOAD_IN_PROGRESS) if answer is None else answer(request)

    def give_back(self, ms: int) -> None:
        """Move the deadlines of all members on."""
        for group in self.runtime.groups.values():
            for timer in group.client_timers():
                if timer.due_ms is not None:
                    timer.due_ms += ms

    # -- sleep (Sleeper)

    def why_awake(self) -> str:
        """The reason why the groups need a process now; empty if they do not."""
        groups = self.runtime.groups
        if len(groups) > GROUPS_ASLEEP_MAX:
            return f"it has more than {GROUPS_ASLEEP_MAX} groups"
        for group in groups.values():
            if not group.is_empty:
                return f"group {group.group_id} is {group.state_name}"
            if not group.is_vacant:
                return f"a member is about to join group {group.group_id}"
        return ""

    def expire(self, done: Looked, now: Now) -> None:
        """Remove expired offsets and groups, then tell `done` when the next ones expire."""
        self._expiry.run_at_once(done, now)

    def stays_awake(self, why: str) -> MaySleepResponse:
        """The answer that a process is needed."""
        return MaySleepResponse(why)

    def may_sleep(self, due_ms: int | None) -> MaySleepResponse:
        """The answer that no process is needed, with the groups and the topics that they have offsets for."""
        runtime = self.runtime
        found = list(runtime.durable.items())
        topics = frozenset().union(*(durable.topics() for _, durable in found))
        listed = tuple(listing(runtime.groups[group_id]) for group_id, _ in found)
        return MaySleepResponse("", due_ms, tuple(sorted(topics)), listed)

    # -- to look at

    @property
    def metrics(self) -> GroupMetrics:
        return self.runtime.metrics

    @property
    def rebalances(self) -> RebalanceLog:
        """The rebalances that run, and those that are over and were not fetched yet."""
        return self.runtime.rebalances

    def group_counts(self) -> dict[str, int]:
        """The number of groups in each state, of all types together."""
        return dict(Counter(group.shown.state_name for group in self.runtime.groups.values()))

    def group_counts_by_type(self) -> dict[str, dict[str, int]]:
        """The number of groups in each state, by the names of their types."""
        shown = [group.shown for group in self.runtime.groups.values()]
        counted = Counter((group.type_name, group.state_name) for group in shown)
        by_type: dict[str, dict[str, int]] = {}
        for (group_type, state), count in counted.items():
            by_type.setdefault(group_type, {})[state] = count
        return by_type

    def offset_count(self) -> int:
        """The number of offsets stored."""
        return sum(len(group.offsets) for _, group in self.runtime.durable.items())

    def topics(self) -> frozenset[str]:
        """The topics that offsets are stored for."""
        return frozenset().union(*(group.topics() for _, group in self.runtime.durable.items()))

    def parked(self) -> dict[str, int]:
        """The number of members that wait for an answer, by the kind of request: for instance `join` and `sync`."""
        kinds = Counter(map(type, self.runtime.unanswered.values()))
        return {name: kinds[kind] for name, kind in self._parked.items()}

    def awaited(self, group_id: str) -> tuple[tuple[str, ...], int | None]:
        """The members that a group's running phase waits for, and the latest time of its end (monotonic ms)."""
        group = self.runtime.groups.get(group_id)
        return ((), None) if group is None else (group.awaited, group.phase_ends_ms)

    def group_status(self, group_id: str, now: Now) -> GroupStatus | None:
        """The facts that tell an operator why a group makes no progress; None if there is no such group."""
        group = self.runtime.groups.get(group_id)
        return None if group is None else group.status(now)


def _unless_null(request: OffsetCommitRequest | OffsetFetchRequest) -> Error:
    return Error.INVALID_GROUP_ID if request.group_id is None else Error.NONE


def _unless_empty(request: OffsetDeleteRequest) -> Error:
    return Error.NONE if request.group_id else Error.INVALID_GROUP_ID


def _joined(tables: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """One table of several. Raises ValueError if two say something of the same."""
    joined: dict[Any, Any] = {}
    for table in tables:
        twice = joined.keys() & table.keys()
        if twice:
            raise ValueError(f"two types of groups answer {twice}")
        joined |= table
    return joined
