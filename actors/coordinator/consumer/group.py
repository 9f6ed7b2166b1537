"""A live consumer group: its timers, what waits to be done to it, and how the rest of a shard sees it.

All else is durable. So a group that was loaded goes on as if nothing had happened; only its timers start anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from actors.coordinator.consumer.commits import check_commit, check_fetch
from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from actors.coordinator.consumer.operations import Cluster, Operation, Successor
from actors.coordinator.consumer.records import GroupRecord, tombstones
from actors.coordinator.consumer.replaced import Replaced
from actors.coordinator.consumer.settings import MAX_INT, ConsumerSettings
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import CONSUMER
from actors.coordinator.errors import Error
from actors.coordinator.groups.config import HISTORY_LENGTH
from actors.coordinator.groups.group import Group, RetentionBase
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.reports import PlainStatus, RebalanceEvent
from actors.coordinator.timers import Timer, Timers, nothing
from actors.coordinator.turn import Now

_NO_RECORDS = ConsumerState()


class MemberTimers(NamedTuple):
    """The timers of a member."""

    session: Timer
    """Until when it has to be heard."""
    rebalance: Timer
    """Until when it has to have given back what it was told to, or, if it is a classic member, to have joined again;
    not armed if there is nothing."""
    sync: Timer
    """Until when a classic member that has joined has to have asked for its assignment."""


class Rest(NamedTuple):
    """A heartbeat of a member at rest, and all that it does. The same one does the same while the group stays as it is.

    The request and the settings are compared as objects: a client's repeated frames are read as one request.
    """

    request: ConsumerGroupHeartbeatRequest
    settings: ConsumerSettings
    """The settings that it was answered by."""
    session: Timer
    session_timeout_ms: int
    response: ConsumerGroupHeartbeatResponse


class ConsumerGroup:
    """One group. `durable` gives its durable state, None if there is none yet.

    `replaced` is the group of another type in whose place it is, until that one's tombstone has committed.
    """

    type_name: ClassVar[str] = CONSUMER

    def __init__(
        self,
        group_id: str,
        durable: Callable[[], ConsumerState | None],
        cluster: Cluster,
        replaced: Replaced | None = None,
    ) -> None:
        self.group_id = group_id
        self.key_prefixes: dict[str, bytes] = {}
        self.is_dead = False
        self.replaced = replaced
        self.waiting: deque[Operation] = deque()
        """The operations to be carried out on it, in order."""
        self.is_busy = False
        """True while an operation is being carried out, or its records have not committed yet."""
        self.is_stuck = False
        """True if they have not for so long that nobody waits any more."""
        self.written: ConsumerState | None = None
        """The group's state once the records under way have committed; None if there are none, or the group ends with
        them.
        """
        self.becomes: Successor | None = None
        """The group that is in its place then, if that one has members."""
        self.resolving_until_ms = 0
        """Until when its regular expressions are being resolved (monotonic); over if that has failed silently."""
        self.slice = Timer(nothing)
        """The timer by which the computation of a target goes on."""
        self.tidying = Timer(nothing)
        """The timer by which the rest of former members is removed, if that has failed."""
        self.members: dict[str, MemberTimers] = {}
        self.rests: dict[str, Rest] = {}
        """The last heartbeats of members at rest, by member id, since a record of the group has committed."""
        self.topics_due_ms = 0
        """The time at which its next heartbeat looks at the topics again (monotonic), if none of them changes before.
        """
        self.topics_seen = 0
        """The number of the image up to which none of its topics has changed since it looked."""
        self.history: deque[RebalanceEvent] = deque(maxlen=HISTORY_LENGTH)
        self._durable = durable
        self._cluster = cluster

    @property
    def state(self) -> ConsumerState:
        """The committed state, or that of the group it replaces by these rules. It is not to be changed."""
        found = self._durable()
        if found is not None:
            return found
        return _NO_RECORDS if self.replaced is None else self.replaced.state

    @property
    def exists(self) -> bool:
        """True if a record of it has committed."""
        return self._durable() is not None

    # -- to look at

    @property
    def shown(self) -> Group:
        return self if self.replaced is None else self.replaced.group

    @property
    def state_name(self) -> str:
        """Never Dead: a group that is being deleted is Empty until its tombstones have committed."""
        return self.state.persisted_state

    @property
    def listed_protocol_type(self) -> str:
        return CONSUMER

    @property
    def is_vacant(self) -> bool:
        return not self.state.metadata and not self.is_busy and not self.waiting

    @property
    def is_empty(self) -> bool:
        return self.is_vacant and not self.is_dead

    @property
    def awaited(self) -> tuple[str, ...]:
        """The members that others wait for, because they have not given back what they were told to."""
        return tuple(member_id for member_id, each in self.members.items() if each.rebalance.due_ms is not None)

    @property
    def phase_ends_ms(self) -> int | None:
        due = [each.rebalance.due_ms for each in self.members.values() if each.rebalance.due_ms is not None]
        return max(due, default=None)

    def status(self, now: Now) -> PlainStatus:
        state, ends_ms = self.state, self.phase_ends_ms
        return PlainStatus(
            group_type=CONSUMER,
            state=self.state_name,
            epoch=state.group_epoch,
            members=len(state.metadata),
            awaited_members=self.awaited,
            phase_ends_in_ms=None if ends_ms is None else max(ends_ms - now.monotonic_ms, 0),
            rebalances=tuple(self.history),
        )

    # -- timers

    def timers(self) -> Iterator[Timer]:
        yield self.slice
        yield self.tidying
        yield from self.client_timers()

    def client_timers(self) -> Iterator[Timer]:
        for each in self.members.values():
            yield from each

    def is_at_rest(self, now: Now) -> bool:
        """True if no operation is due on it, whoever sends a heartbeat."""
        if self.is_busy or self.waiting or self.is_dead or now.monotonic_ms >= self.topics_due_ms:
            return False
        newest = self._cluster.image_number
        if self.topics_seen != newest:  # otherwise there is nothing to ask, as with nearly all heartbeats
            if self.must_look_at_topics(now):
                return False
            self.topics_seen = newest
        return True

    # -- topics

    def must_look_at_topics(self, now: Now, state: ConsumerState | None = None) -> bool:
        """True if topics that it subscribes to, or will when this is its state, may have changed."""
        is_due = now.monotonic_ms >= self.topics_due_ms
        return is_due or self._cluster.have_changed(state or self.state, self.topics_seen)

    def has_looked_at_topics(self, now: Now) -> None:
        """They need not be looked at for weeks, unless something changes."""
        self.topics_due_ms = now.monotonic_ms + MAX_INT

    def topics_changed(self) -> None:
        """The next heartbeat has to look at them."""
        self.topics_due_ms = 0

    # -- its life

    def begin_deletion(self) -> None:
        self.is_dead = True

    def reborn(self) -> ConsumerGroup:
        return ConsumerGroup(self.group_id, self._durable, self._cluster)

    def tombstones(self) -> list[GroupRecord]:
        return tombstones(self.group_id, self.state)

    def own_record(self) -> list[GroupRecord]:
        return []

    # -- its offsets

    def check_commit(self, request: OffsetCommitRequest, timers: Timers, now: Now) -> int:
        """Judged by what has committed and by what is written: it comes after both, if the log does not refuse that."""
        if self.is_dead:
            return Error.COORDINATOR_NOT_AVAILABLE
        error = check_commit(self.state, request, self._cluster.topics)
        if not error and self.written is not None:
            error = check_commit(self.written, request, self._cluster.topics)
        if not error and self.becomes is not None:
            error = self.becomes.check_commit(request)
        return error

    def check_fetch(self, member_id: str | None, member_epoch: int) -> int:
        return check_fetch(self.state, member_id, member_epoch)

    def check_offset_delete(self) -> Error:
        return Error.NONE

    def reads(self, topic: str) -> bool:
        return self.state.subscribes(topic) or (self.written is not None and self.written.subscribes(topic))

    def retention_base(self) -> RetentionBase | None:
        """None while something is under way, which may subscribe to more."""
        if self.is_busy or self.waiting:
            return None
        state = self.state
        return lambda topic, value: None if state.subscribes(topic) else value.commit_timestamp_ms
