"""A coordinator shard: one partition of `__consumer_offsets` and the groups that hash to it.

The driver (an actor, or a test) owns the socket, the clock and the log. In each turn it hands over what has
arrived, calls `on_time`, then takes what there is to append and to answer:

    for token, request in arrived:
        shard.handle(token, request, now)
    shard.on_time(now)
    while append := shard.take_records():
        ...                                   # to the log, in this order
    for token, response in shard.take_replies():
        ...

The driver reports the outcome of each append, in their order, by `appended` or `append_refused`, and every move of the
high watermark by `high_watermark`. If an outcome is unknown it calls `forget`. If `needs_reload` is set after any call,
it has the shard load its log again. Every token is answered exactly once, unless it is dropped.

What each request does is in join.py, sync.py, membership.py, offsets.py, topic_deletion.py, sleep.py and admin.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from actors.coordinator.admin import Admin
from actors.coordinator.config import LATE_TURN_MS, CoordinatorConfig
from actors.coordinator.durable import DurableState, Loader, Records
from actors.coordinator.errors import Error
from actors.coordinator.expiry import Expiry
from actors.coordinator.group import Group, GroupState, RebalanceEvent
from actors.coordinator.history import RebalanceLog
from actors.coordinator.join import Join
from actors.coordinator.membership import Membership
from actors.coordinator.messages import (
    DeleteGroupsRequest,
    DeleteTopicOffsetsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MaySleepRequest,
    Now,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    Response,
    SyncGroupRequest,
    Token,
    error_response,
)
from actors.coordinator.metrics import Metrics
from actors.coordinator.offsets import Offsets
from actors.coordinator.rebalance import Rebalancer
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.runtime import Runtime
from actors.coordinator.sleep import Sleep
from actors.coordinator.sync import Sync
from actors.coordinator.topic_deletion import TopicDeletions
from actors.coordinator.writer import Append, UnexpectedLogEndError


class ShardState(StrEnum):
    UNLOADED = "Unloaded"
    """Not led here. Ends when loading starts."""
    LOADING = "Loading"
    """Reading its log. Ends when the log has been read and all of it has committed."""
    ACTIVE = "Active"
    """Serving. Ends when leadership goes, or when the outcome of a write is unknown."""
    FAILED = "Failed"
    """Its log could not be read. Ends at the next election."""


class GroupStatus(NamedTuple):
    """What tells an operator why a group makes no progress."""

    group_id: str
    state: GroupState
    generation_id: int
    awaited_members: tuple[str, ...]
    """The members and pending member ids that the running phase waits for."""
    phase_ends_in_ms: int | None
    """When that phase ends at the latest; None if none is running."""
    rebalances: tuple[RebalanceEvent, ...]
    """The last rebalances, oldest first."""


class Shard:
    """One coordinator shard; the module says how to drive it. `new_id` makes unique texts for member ids."""

    def __init__(self, config: CoordinatorConfig, new_id: Callable[[], str]) -> None:
        self.state = ShardState.UNLOADED
        self.epoch = -1
        self.needs_reload = False
        """Whether the log differs from what this shard knew. It has dropped its state and has to load again."""
        self.failure = ""
        """Why the log could not be read; empty unless the state is Failed."""
        self._runtime = runtime = Runtime(config, new_id)
        self._rebalancer = rebalancer = Rebalancer(runtime)
        self._join = join = Join(runtime, rebalancer)
        self._sync = sync = Sync(runtime, rebalancer)
        self._membership = membership = Membership(runtime, rebalancer)
        self._deletions = deletions = TopicDeletions(runtime)
        offsets = Offsets(runtime, deletions)
        admin = Admin(runtime, offsets)
        self._expiry = expiry = Expiry(runtime)
        self._loader = Loader()
        self._loading_since_ms: int | None = None
        self._high_watermark = 0
        self._active_from: int | None = None
        """The log end offset that has to commit before the state is Active."""
        self._handlers: dict[type, Callable[[Token, Any, Now], None]] = {
            HeartbeatRequest: membership.heartbeat,
            OffsetCommitRequest: offsets.commit,
            JoinGroupRequest: join.handle,
            SyncGroupRequest: sync.handle,
            LeaveGroupRequest: membership.leave,
            OffsetFetchRequest: offsets.fetch,
            OffsetDeleteRequest: offsets.delete,
            DeleteTopicOffsetsRequest: deletions.handle,
            MaySleepRequest: Sleep(runtime, expiry).may_sleep,
            ListGroupsRequest: admin.list_groups,
            DescribeGroupsRequest: admin.describe_groups,
            DeleteGroupsRequest: admin.delete_groups,
        }

    # -- loading and unloading

    def start_loading(self, epoch: int, now: Now | None = None) -> None:
        """Begin to load: this partition is led here at `epoch`. Its log follows by `load`; `now` is for the metrics.

        Raises ValueError for an epoch older than one already seen.
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch {epoch} is older than {self.epoch}")
        self._drop(Error.NOT_COORDINATOR)
        self.epoch = epoch
        self.state = ShardState.LOADING
        self.needs_reload = False
        self._loader = Loader()
        self._loading_since_ms = now.monotonic_ms if now else None
        self._high_watermark = 0

    def load(self, records: Records) -> None:
        """Take the next records of the log, from its start on, including those that have not committed yet."""
        self._load(lambda loader: loader.add(records))

    def load_transactional(self, producer_id: int, records: Records) -> None:
        """As `load`, for the records of a transactional batch: their offsets are pending until the marker.

        If the marker never comes, they stay pending until they or their group are deleted: no producer can end a
        transaction here.
        """
        self._load(lambda loader: loader.add_transactional(producer_id, records))

    def load_marker(self, producer_id: int, *, committed: bool) -> None:
        """As `load`, for the marker that ends a transaction."""
        self._load(lambda loader: loader.add_marker(producer_id, committed))

    def _load(self, take: Callable[[Loader], object]) -> bool:
        """Have the loader take something; False if the shard is not, or no longer, loading."""
        if self.state is ShardState.LOADING:
            try:
                take(self._loader)
                return True
            except CorruptRecordError as corrupt:
                self.state, self.failure = ShardState.FAILED, str(corrupt)
        return False

    def finish_loading(self, now: Now, log_end_offset: int, high_watermark: int | None = None) -> None:
        """The log has been read up to `log_end_offset`.

        The shard serves once all of it has committed: at once if no `high_watermark` is given, else when
        that reaches the log's end, so that nothing it answers can be rolled back by another election.
        """
        if not self._load(Loader.finish):
            return
        runtime = self._runtime
        runtime.durable = self._loader.state
        runtime.metrics.records_loaded += self._loader.records
        runtime.metrics.unknown_records += self._loader.unknown_records
        self._loader = Loader()
        runtime.writer.start(runtime.durable, log_end_offset)
        self._active_from = log_end_offset
        reached = log_end_offset if high_watermark is None else high_watermark
        self._activate(max(reached, self._high_watermark), now)

    def _activate(self, high_watermark: int, now: Now) -> None:
        if self._active_from is None or high_watermark < self._active_from:
            return
        self._active_from = None
        self.state = ShardState.ACTIVE
        self._measure_load(now)
        for group_id, durable in self._runtime.durable.items():
            if durable.persisted is None:
                self._runtime.groups[group_id] = Group(group_id, now.wall_ms)
            else:
                group = Group.from_record(group_id, durable.persisted)
                self._runtime.groups[group_id] = group
                self._resume(group, now)
        self._expiry.schedule(now)

    def _measure_load(self, now: Now) -> None:
        if self._loading_since_ms is not None:
            self._runtime.metrics.load_time_ms = now.monotonic_ms - self._loading_since_ms

    def _resume(self, group: Group, now: Now) -> None:
        """Give the members of a loaded group a whole session to find this shard."""
        for member in group.members.values():
            self._rebalancer.watch(group, member)
            self._rebalancer.arm_session(member, now)
        if len(group.members) > self._runtime.config.group_max_size:
            self._rebalancer.prepare(group, "group is larger than group.max.size", "", now)

    def unload(self) -> None:
        """This partition is led elsewhere now: answer NOT_COORDINATOR to all that is parked, and drop everything."""
        self._drop(Error.NOT_COORDINATOR)
        self.state = ShardState.UNLOADED
        self.needs_reload = False

    def forget(self) -> None:
        """The outcome of a write is unknown: answer NOT_COORDINATOR to all that is parked, and ask for a reload."""
        if self.state is ShardState.ACTIVE:
            self.unload()
            self.needs_reload = True

    def _drop(self, error: Error) -> None:
        runtime = self._runtime
        runtime.answer_all(error)
        runtime.timers.clear()
        runtime.writer.forget()
        self._deletions.forget()
        runtime.rebalances.clear()
        runtime.groups.clear()
        runtime.durable = DurableState()
        self._active_from = None

    # -- requests

    def handle(self, token: Token, request: Request, now: Now) -> None:
        """Answer `request`, now or later, through `take_replies`."""
        if self.state is ShardState.ACTIVE:
            self._handlers[type(request)](token, request, now)
        else:
            self._runtime.replies.append((token, self._unavailable(request)))

    def _unavailable(self, request: Request) -> Response:
        error = self._entry_error(request)
        if error:
            return error_response(request, error)
        if self.state is not ShardState.LOADING:
            return error_response(request, Error.NOT_COORDINATOR)
        match request:
            case HeartbeatRequest():
                return HeartbeatResponse(Error.NONE)  # members need not look for another coordinator
            case SyncGroupRequest():
                # A rebalance that was under way is lost with the old leader. On REBALANCE_IN_PROGRESS clients join
                # again; COORDINATOR_LOAD_IN_PROGRESS is fatal to some of them here.
                return error_response(request, Error.REBALANCE_IN_PROGRESS)
            case _:
                return error_response(request, Error.COORDINATOR_LOAD_IN_PROGRESS)

    def _entry_error(self, request: Request) -> Error:
        match request:
            case JoinGroupRequest():
                return self._join.entry_error(request)
            case SyncGroupRequest():
                return self._sync.entry_error(request)
            case HeartbeatRequest() | LeaveGroupRequest() | OffsetDeleteRequest():
                return Error.NONE if request.group_id else Error.INVALID_GROUP_ID
            case OffsetCommitRequest() | OffsetFetchRequest():
                return Error.INVALID_GROUP_ID if request.group_id is None else Error.NONE
            case _:
                return Error.NONE

    def take_replies(self) -> list[tuple[Token, Response]]:
        """The answers since the last call, in the order in which they were given."""
        runtime = self._runtime
        replies, runtime.replies = runtime.replies, []
        return replies

    def drop(self, belongs: Callable[[Token], bool]) -> None:
        """A client has gone: requests whose token `belongs` to it are never answered, but still carried out."""
        runtime = self._runtime
        for token in [token for token in runtime.unanswered if belongs(token)]:
            del runtime.unanswered[token]
        runtime.replies = [reply for reply in runtime.replies if not belongs(reply[0])]

    # -- the log

    def take_records(self) -> Append | None:
        """The next append, to be made atomically, or None.

        Call until it is None: a turn that wrote more than `max_message_bytes` makes several.
        """
        return self._runtime.writer.take()

    def appended(self, batch_id: int, base_offset: int, next_offset: int, now: Now) -> None:
        """The log has taken this append at [base_offset, next_offset)."""
        if self.state is ShardState.ACTIVE:
            try:
                self._runtime.writer.appended(batch_id, base_offset, next_offset, now)
            except UnexpectedLogEndError:
                self.forget()

    def append_refused(self, batch_id: int, error_code: int, now: Now) -> None:
        """Nothing of this append was written, for a reason given as one of Kafka's codes."""
        if self.state is ShardState.ACTIVE:
            try:
                self._runtime.writer.refused(batch_id, error_code, now)
            except UnexpectedLogEndError:
                self.forget()

    def high_watermark(self, offset: int, now: Now) -> None:
        """All of the log below `offset` has committed."""
        if self.state is ShardState.ACTIVE:
            self._runtime.writer.high_watermark(offset, now)
        elif self.state is ShardState.LOADING:
            self._high_watermark = max(self._high_watermark, offset)
            self._activate(offset, now)

    # -- time

    def next_deadline(self) -> int | None:
        """When `on_time` has something to do (monotonic ms); None if never."""
        return self._runtime.timers.next_due_ms()

    def on_time(self, now: Now) -> None:
        """Do what is due. To be called after the input of the turn has been handled.

        If the turn is late, this process stood still and could not hear the members: they get the time back.
        """
        due_ms = self._runtime.timers.next_due_ms()
        if due_ms is None or due_ms > now.monotonic_ms:
            return
        if now.monotonic_ms - due_ms > LATE_TURN_MS:
            # A moment more, or the first ones would expire in this turn although their input is unread.
            self._give_back(now.monotonic_ms - due_ms + LATE_TURN_MS)
        for timer in self._runtime.timers.pop_due(now.monotonic_ms):
            timer.action(now)

    def _give_back(self, ms: int) -> None:
        self._runtime.metrics.late_turns += 1
        for group in self._runtime.groups.values():
            sessions = [member.session for member in group.members.values()]
            for timer in (*sessions, *group.pending_joins.values()):
                if timer.due_ms is not None:
                    timer.due_ms += ms

    # -- to look at

    @property
    def metrics(self) -> Metrics:
        return self._runtime.metrics

    def group_counts(self) -> dict[GroupState, int]:
        """The number of groups in each state."""
        return dict(Counter(group.state for group in self._runtime.groups.values()))

    def offset_count(self) -> int:
        """The number of offsets stored."""
        return sum(len(group.offsets) for _, group in self._runtime.durable.items())

    def topics(self) -> frozenset[str]:
        """The topics that offsets are stored for."""
        return frozenset().union(*(group.topics() for _, group in self._runtime.durable.items()))

    def parked(self) -> dict[str, int]:
        """How many members wait for the answer to a `join` and to a `sync`."""
        kinds = Counter(map(type, self._runtime.unanswered.values()))
        return {"join": kinds[JoinGroupRequest], "sync": kinds[SyncGroupRequest]}

    @property
    def rebalances(self) -> RebalanceLog:
        """The rebalances that run, and those that are over and were not fetched yet."""
        return self._runtime.rebalances

    def awaited(self, group_id: str) -> tuple[tuple[str, ...], int | None]:
        """Whom a group's running phase waits for, and when it ends at the latest (monotonic ms)."""
        group = self._runtime.groups.get(group_id)
        if group is None:
            return (), None
        return group.awaited, group.phase_timer.due_ms if group.phase_timer is not None else None

    def group_status(self, group_id: str, now: Now) -> GroupStatus | None:
        group = self._runtime.groups.get(group_id)
        if group is None:
            return None
        timer = group.phase_timer
        due_ms = timer.due_ms if timer is not None else None
        return GroupStatus(
            group.group_id,
            group.state,
            group.generation_id,
            group.awaited,
            None if due_ms is None else due_ms - now.monotonic_ms,
            tuple(group.history),
        )
