"""What the user's thread does when partitions change owners: commit, call the listener, take over. Sans-IO.

Before a round of joining a member commits, and gives up what it must (`prepare`). When it has its assignment, it gives
up what moves, and takes what is new (`complete`). Both make queues of actions, which are carried out one by one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial

from actors.client.errors import IllegalStateError, WakeupError
from actors.client.group.assignors import RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment
from actors.client.group.callbacks import wrapped
from actors.client.group.effects import Action, Apply, CommitBeforeJoin, CommitOutcome, Event, RunListener
from actors.client.group.holdings import Holdings
from actors.client.group.joining import Joining
from actors.client.group.leader import Leader
from actors.client.group.member_types import Join, MembershipConfig, Stats
from actors.client.group.standing import MemberState, Standing
from actors.client.records import TopicPartition


@dataclass(slots=True)
class _Preparation:
    """How far the preparation of a round of joining is. It is made once for each round."""

    deadline_ms: int
    committing: bool


class Handover:
    """The queue of actions for the user's thread."""

    def __init__(
        self,
        config: MembershipConfig,
        standing: Standing,
        holdings: Holdings,
        joining: Joining,
        leader: Leader,
        stats: Stats,
    ) -> None:
        self._config = config
        self._standing = standing
        self._holdings = holdings
        self._joining = joining
        self._leader = leader
        self._stats = stats
        self._actions: deque[Action] = deque()
        self._preparation: _Preparation | None = None
        self._error: BaseException | None = None

    @property
    def waiting(self) -> bool:
        """Whether there is an action."""
        return bool(self._actions)

    def first(self) -> Action:
        """The next action."""
        if isinstance(self._actions[0], Apply):
            self._tell_assignor()
        return self._actions[0]

    def take_error(self) -> BaseException | None:
        """The error that a callback raised, once its step is complete; then it is forgotten."""
        error, self._error = self._error, None
        return error

    def clear(self) -> None:
        """Drop all actions: the member holds nothing any more."""
        self._actions.clear()
        self._error = None

    def done(self, action: Action, now_ms: int, error: BaseException | None, outcome: CommitOutcome) -> None:
        """The first action was carried out, or raised `error`. See `Membership.action_done`."""
        if not self._actions or self._actions[0] is not action:
            return
        if isinstance(action, CommitBeforeJoin):
            self._commit_done(now_ms, outcome)
            return
        if isinstance(error, WakeupError) and isinstance(action, RunListener) and action.event is Event.ASSIGNED:
            return
        self._actions.popleft()
        if isinstance(action, Apply):
            self._holdings.owned = action.partitions
        if error is not None and self._error is None:
            self._error = error
        if not self._actions and self._joining.join is not None and self._joining.join.completing:
            self._joining.join = None

    def farewell(self) -> list[Action]:
        """The action before leaving: the listener is told that everything is revoked or lost."""
        holdings, standing = self._holdings, self._standing
        if not holdings.subscribed or not holdings.owned:
            return []
        lost = not standing.counted or standing.rebalancing
        return [RunListener(Event.LOST if lost else Event.REVOKED, tuple(sorted(holdings.owned)))]

    # --- before joining -------------------------------------------------------------------------------------------

    def prepare(self, now_ms: int) -> None:
        """Commit if need be, then give up what must be given up before the next round."""
        if self._preparation is None:
            commits = self._config.auto_commit and bool(self._holdings.owned) and not self._standing.lost
            self._preparation = _Preparation(now_ms + self._config.max_poll_interval_ms, commits)
            if commits:
                self._actions.append(CommitBeforeJoin(self._config.protocol is RebalanceProtocol.EAGER))
        if not self._preparation.committing:
            self._give_up()

    def _commit_done(self, now_ms: int, outcome: CommitOutcome) -> None:
        preparation = self._preparation
        if outcome is CommitOutcome.LATER and preparation and now_ms < preparation.deadline_ms:
            return
        self._actions.popleft()
        if preparation is not None:
            preparation.committing = False

    def _give_up(self) -> None:
        """Have the listener told what is revoked or lost, and give it up, before the listener runs."""
        self._joining.unprepared = False
        self._preparation = None
        self._leader.resign()
        owned = self._holdings.owned
        if self._standing.lost:
            if owned:
                self._stats.memberships_lost += 1
                self._queue_release(Event.LOST, owned)
        elif self._config.protocol is RebalanceProtocol.EAGER:
            self._queue_release(Event.REVOKED, owned)
        else:
            unwanted = frozenset(tp for tp in owned if tp.topic not in self._holdings.topics)
            if unwanted:
                self._queue_release(Event.REVOKED, unwanted)

    def _queue_release(self, event: Event, partitions: frozenset[TopicPartition]) -> None:
        self._actions.append(RunListener(event, tuple(sorted(partitions))))
        self._actions.append(Apply(self._holdings.owned - partitions))

    # --- after joining --------------------------------------------------------------------------------------------

    def complete(self, join: Join, data: bytes) -> None:
        """Make the actions that bring about what the leader has assigned: revoke, apply, tell the listener."""
        joining, standing = self._joining, self._standing
        if standing.state is not MemberState.STABLE or not standing.counted:
            joining.join = None
            joining.out(keep_member_id=bool(standing.generation.member_id))
            return
        try:
            assigned = frozenset(_read(data))
        except IllegalStateError as error:
            joining.join = None
            joining.unprepared = True
            joining.request("the assignment could not be read")
            joining.error = error
            return
        unwanted = sorted({tp.topic for tp in assigned if not self._holdings.wants(tp.topic)})
        joining.unprepared = True
        if unwanted:
            joining.join = None
            joining.request(f"assigned topics that are not subscribed to: {', '.join(unwanted)}")
            return
        self._holdings.accept(assigned, self._leader.view)
        self._queue_assignment(assigned)
        assignor = self._config.assignor(standing.generation.protocol)
        join.tell = partial(assignor.on_assignment, sorted(assigned), standing.generation.id)
        join.completing = True

    def _queue_assignment(self, assigned: frozenset[TopicPartition]) -> None:
        gone = self._holdings.owned - assigned
        added = assigned - self._holdings.owned
        if gone:
            self._actions.append(RunListener(Event.REVOKED, tuple(sorted(gone))))
            self._joining.request("gave up partitions that move to other members")
        self._actions.append(Apply(assigned, added))
        self._actions.append(RunListener(Event.ASSIGNED, tuple(sorted(added))))

    def _tell_assignor(self) -> None:
        """Call the assignor's `on_assignment`: after partitions are revoked, before new ones are applied.

        What it raises is treated as if a callback had raised it.
        """
        join = self._joining.join
        if join is None or join.tell is None:
            return
        tell, join.tell = join.tell, None
        try:
            tell()
        except Exception as error:
            failure = wrapped(error, f"on_assignment of the assignor {self._standing.generation.protocol!r}")
            self._error = self._error or failure


def _read(data: bytes) -> tuple[TopicPartition, ...]:
    if len(data) < 2:
        raise IllegalStateError(f"the assignment has {len(data)} bytes: the group's leader has left this member out")
    try:
        return Assignment.decode(data).partitions
    except ValueError as error:
        raise IllegalStateError(f"the assignment is malformed: {error}") from error
