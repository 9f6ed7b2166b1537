"""The queue of what the user's thread has to do for its member, one action after the other. Sans-IO."""

from __future__ import annotations

from collections import deque

from actors.client.errors import WakeupError
from actors.client.group.effects import Action, Apply, Event, RunListener
from actors.client.group.holdings import Holdings
from actors.client.records import TopicPartition


class ActionQueue:
    """Actions in order. The first one stays until it is done; what a callback raised waits until all are done."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._actions: deque[Action] = deque()
        self._error: BaseException | None = None

    def __bool__(self) -> bool:
        """True if there is an action."""
        return bool(self._actions)

    @property
    def first(self) -> Action:
        return self._actions[0]

    def add(self, *actions: Action) -> None:
        self._actions.extend(actions)

    def release(self, event: Event, partitions: frozenset[TopicPartition]) -> None:
        """Have the listener told that these are revoked or lost, then give them up."""
        self.add(RunListener(event, tuple(sorted(partitions))), Apply(self._holdings.owned - partitions))

    def take_over(self, assigned: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Have what moves revoked, then this assignment applied, then the listener told what is new, even if nothing.

        Returns what moves.
        """
        gone = self._holdings.owned - assigned
        added = assigned - self._holdings.owned
        if gone:
            self.add(RunListener(Event.REVOKED, tuple(sorted(gone))))
        self.add(Apply(assigned, added), RunListener(Event.ASSIGNED, tuple(sorted(added))))
        return gone

    def fail(self, error: BaseException | None) -> None:
        """Raise this when all actions are done, unless something is raised already."""
        if self._error is None:
            self._error = error

    def take_error(self) -> BaseException | None:
        """The error that a callback raised, once; then it is forgotten."""
        error, self._error = self._error, None
        return error

    def keep(self, begun: Action | None) -> None:
        """Drop all actions but the first, if that is `begun`, which the user's thread is at."""
        kept = [action for action in self._actions if action is begun][:1]
        self._actions = deque(kept)

    def clear(self) -> None:
        """Drop all actions: the member holds nothing any more."""
        self._actions.clear()
        self._error = None

    def done(self, action: Action, error: BaseException | None) -> bool:
        """The first action was carried out, or raised `error`; one that was dropped meanwhile does not count.

        A callback for new partitions that was woken up stays, and runs again. Returns whether the action counts.
        """
        if not self._actions or self._actions[0] is not action:
            return False
        if isinstance(error, WakeupError) and isinstance(action, RunListener) and action.event is Event.ASSIGNED:
            return False
        self._actions.popleft()
        if isinstance(action, Apply):
            self._holdings.owned = action.partitions
        self.fail(error)
        return True
