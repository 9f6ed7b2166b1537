"""The work of the user's thread when partitions change owners: commit, call the listener, take over. Sans-IO.

Before a round of joining a member commits, and gives up what it must (`prepare`). When it has its assignment, it gives
up what moves, and takes what is new (`complete`). Both make queues of actions, which are carried out one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from actors.client.errors import IllegalStateError
from actors.client.group.actions import ActionQueue
from actors.client.group.assignors import RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment
from actors.client.group.callbacks import wrapped
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.joining import Joining
from actors.client.group.classic.leader import Leader
from actors.client.group.classic.round import Join
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.effects import Action, Apply, CommitFirst, CommitOutcome, Event, RunListener
from actors.client.group.holdings import Holdings
from actors.client.group.stats import Stats
from actors.client.records import TopicPartition


@dataclass(slots=True)
class _Preparation:
    """The progress of the preparation of a round of joining. It is made once for each round."""

    deadline_ms: int
    committing: bool


class Handover:
    """Fills the queue of actions for the user's thread."""

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
        self._actions = ActionQueue(holdings)
        self._preparation: _Preparation | None = None

    @property
    def waiting(self) -> bool:
        """True if there is an action."""
        return bool(self._actions)

    def first(self) -> Action:
        """The next action."""
        if isinstance(self._actions.first, Apply):
            self._tell_assignor()
        return self._actions.first

    def take_error(self) -> BaseException | None:
        """The error that a callback raised, once its step is complete; then it is forgotten."""
        return self._actions.take_error()

    def clear(self) -> None:
        """Drop all actions: the member holds nothing any more."""
        self._actions.clear()

    def done(self, action: Action, now_ms: int, error: BaseException | None, outcome: CommitOutcome) -> None:
        """The first action was carried out, or raised `error`. See `Membership.action_done`."""
        if isinstance(action, CommitFirst) and self._waits_for_commit(now_ms, outcome):
            return
        if not self._actions.done(action, error):
            return
        if isinstance(action, CommitFirst):
            self._committed()
        elif not self._actions and self._joining.join is not None and self._joining.join.completing:
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
                eager = self._config.protocol is RebalanceProtocol.EAGER
                self._actions.add(CommitFirst(self._holdings.owned if eager else frozenset()))
        if not self._preparation.committing:
            self._give_up()

    def _waits_for_commit(self, now_ms: int, outcome: CommitOutcome) -> bool:
        preparation = self._preparation
        return outcome is CommitOutcome.LATER and preparation is not None and now_ms < preparation.deadline_ms

    def _committed(self) -> None:
        if self._preparation is not None:
            self._preparation.committing = False

    def _give_up(self) -> None:
        """Have the listener told what is revoked or lost, and give it up, before the listener runs."""
        self._joining.unprepared = False
        self._preparation = None
        self._leader.resign()
        owned = self._holdings.owned
        if self._standing.lost:
            if owned:
                self._stats.memberships_lost += 1
                self._actions.release(Event.LOST, owned)
        elif self._config.protocol is RebalanceProtocol.EAGER:
            self._actions.release(Event.REVOKED, owned)
        else:
            unwanted = frozenset(tp for tp in owned if tp.topic not in self._holdings.topics)
            if unwanted:
                self._actions.release(Event.REVOKED, unwanted)

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
        if self._actions.take_over(assigned):
            joining.request("gave up partitions that move to other members")
        assignor = self._config.assignor(standing.assignor)
        join.tell = partial(assignor.on_assignment, sorted(assigned), standing.generation.id)
        join.completing = True

    def _tell_assignor(self) -> None:
        """Call the assignor's `on_assignment`: after partitions are revoked, before new ones are applied.

        An error that it raises is treated as a callback's.
        """
        join = self._joining.join
        if join is None or join.tell is None:
            return
        tell, join.tell = join.tell, None
        try:
            tell()
        except Exception as error:  # an assignor may be the user's, and raise anything
            self._actions.fail(wrapped(error, f"on_assignment of the assignor {self._standing.assignor!r}"))


def _read(data: bytes) -> tuple[TopicPartition, ...]:
    if len(data) < 2:
        raise IllegalStateError(f"the assignment has {len(data)} bytes: the group's leader has left this member out")
    try:
        return Assignment.decode(data).partitions
    except ValueError as error:
        raise IllegalStateError(f"the assignment is malformed: {error}") from error
