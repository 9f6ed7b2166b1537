"""The end of a consumer: the last commit, the listener, the goodbye to its group. Runs in the user's thread."""

from __future__ import annotations

from collections.abc import Callable

from actors.client.consumer.commits import Commits
from actors.client.consumer.iteration import Iteration
from actors.client.consumer.participation import Participation
from actors.client.records import GroupMembershipOperation

CLOSE_MS = 30_000
"""So long `Consumer.close` waits, unless it is told otherwise."""


class Closing:
    """The steps that are left to do."""

    def __init__(self, iteration: Iteration, participation: Participation, commits: Commits) -> None:
        self._iteration = iteration
        self._participation = participation
        self._commits = commits

    def finish(self, deadline_ms: int, *, commit: bool, operation: GroupMembershipOperation) -> list[Exception]:
        """Commit if asked to, tell the listener, leave the group, and wait for answers. Returns what was raised.

        Each step is owed: what a listener raises must not keep us in the group.
        """
        steps: list[Callable[[], None]] = [
            self._iteration.stop,
            lambda: self._participation.leave("the consumer was closed", operation),
            lambda: self._participation.await_goodbye(deadline_ms),
            self._commits.run_callbacks,
        ]
        if commit:
            steps.insert(1, lambda: self._commits.commit_last(deadline_ms))
        errors: list[Exception] = []
        for step in steps:
            try:
                step()
            except Exception as error:  # a listener is the user's, and may raise anything
                errors.append(error)
        return errors
