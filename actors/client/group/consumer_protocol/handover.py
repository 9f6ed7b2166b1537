"""The work of the user's thread when partitions come and go: commit, call the listener, take over. Sans-IO.

An assignment is taken over in steps (`take_over`): what was consumed is committed, the listener hears of what is
revoked, the assignment is applied, and the listener hears of what is new. Only then is it acknowledged: that is the
whole safety of the protocol, for an acknowledged revocation lets the next owner begin.

When the membership has ended (`lose`), the listener hears that everything is lost. A step that the user's thread has
begun is finished first; those after it are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.client.errors import WakeupError
from actors.client.group.actions import ActionQueue
from actors.client.group.consumer_protocol.assignments import IdPartitions, Received, Resolved
from actors.client.group.effects import Action, Apply, CommitFirst, CommitOutcome, Event, RunListener
from actors.client.group.holdings import Holdings
from actors.client.records import TopicPartition


@dataclass(frozen=True, slots=True)
class _Reconciliation:
    """An assignment that is being taken over. Commits are tried again until `deadline_ms`."""

    received: Received
    deadline_ms: int


class Handover:
    """The queue of actions for the user's thread, and what it is for."""

    def __init__(self, holdings: Holdings, *, auto_commit: bool, patience_ms: int) -> None:
        self._holdings = holdings
        self._auto_commit = auto_commit
        self._patience_ms = patience_ms
        self._actions = ActionQueue(holdings)
        self._begun: Action | None = None
        self._running: _Reconciliation | None = None
        self._error: BaseException | None = None
        self._interrupted = False

    @property
    def waiting(self) -> bool:
        """True if there is an action."""
        return bool(self._actions)

    @property
    def interrupted(self) -> bool:
        """True if partitions were stopped for an assignment that was not taken over: they have to be let go on."""
        return self._interrupted

    @property
    def taken_over(self) -> IdPartitions:
        """The partitions of the assignment that is being taken over."""
        return self._running.received.partitions if self._running is not None else frozenset()

    def first(self) -> Action:
        """The next action, which begins now."""
        self._begun = self._actions.first
        return self._begun

    def take_error(self) -> BaseException | None:
        """The error that a callback raised, once."""
        error, self._error = self._error, None
        if error is None and not self._actions:
            error = self._actions.take_error()
        return error

    def take_over(self, resolved: Resolved, now_ms: int) -> None:
        """Take over an assignment, or that part of it which has names."""
        self._interrupted = False
        self._running = _Reconciliation(resolved.received, now_ms + self._patience_ms)
        gone = self._holdings.owned - resolved.named
        if self._auto_commit and self._holdings.owned:
            self._actions.add(CommitFirst(gone))
        self._actions.take_over(resolved.named)

    def lose(self) -> None:
        """The membership has ended: what is owned is lost, except for what the listener hears of just now."""
        self._running = None
        self._interrupted = False
        begun = self._begun
        self._actions.keep(begun)
        owned = lost = self._holdings.owned
        if isinstance(begun, Apply):
            lost = owned & begun.partitions
        elif isinstance(begun, RunListener) and begun.event is not Event.ASSIGNED:
            lost = owned - frozenset(begun.partitions)
        self._tell_lost(lost)

    def _lose_all(self) -> None:
        """The membership ended while a revocation was told, which then failed: its partitions are lost as the rest."""
        self._actions.keep(None)
        self._tell_lost(self._holdings.owned)

    def _tell_lost(self, lost: frozenset[TopicPartition]) -> None:
        if lost:
            self._actions.add(RunListener(Event.LOST, tuple(sorted(lost))))
        if self._holdings.owned:
            self._actions.add(Apply(frozenset()))

    def clear(self) -> None:
        """Drop all actions: the member wants and holds nothing any more."""
        self._actions.clear()
        self._running = self._error = self._begun = None
        self._interrupted = False

    def done(self, action: Action, now_ms: int, error: BaseException | None, outcome: CommitOutcome) -> Received | None:
        """The first action was carried out, or raised `error`. Returns the assignment that this completes."""
        self._begun = None
        if isinstance(action, CommitFirst) and outcome is CommitOutcome.LATER and self._has_patience(now_ms):
            return None
        if error is not None and self._failed(action, error):
            return None
        if not self._actions.done(action, error):
            return None
        if error is not None and _is_revocation(action) and self._running is None:
            self._lose_all()
        if self._actions or self._running is None:
            return None
        received, self._running = self._running.received, None
        return received

    def _has_patience(self, now_ms: int) -> bool:
        return self._running is not None and now_ms < self._running.deadline_ms

    def _failed(self, action: Action, error: BaseException) -> bool:
        """True if a callback has failed, so that the assignment is not taken over: the next poll tries again.

        The coordinator ends it if that takes too long. A callback that was woken up is no failure of its own.
        """
        current = self._running is not None and bool(self._actions) and self._actions.first is action
        if not current or not isinstance(action, RunListener):
            return False
        if action.event is Event.ASSIGNED:
            if isinstance(error, WakeupError):
                return False
        else:
            self._actions.clear()
            self._running = None
            self._interrupted = True
        self._error = error
        return True


def _is_revocation(action: Action) -> bool:
    return isinstance(action, RunListener) and action.event is Event.REVOKED
