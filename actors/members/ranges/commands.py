"""The commands of other threads for a range member, in the order in which its own thread does it. No lock is here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """Something to do, and the future of what comes of it. If it is `owed`, a member that is stopped does it, too."""

    act: Callable[[], Any]
    owed: bool
    answer: Future[Any] = field(default_factory=Future)


class Commands:
    """The commands that wait. The caller holds a lock for `add` and `refuse`."""

    def __init__(self) -> None:
        self._waiting: deque[Command] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def owed(self) -> bool:
        """True if one waits that is done even when the member has been stopped."""
        return any(command.owed for command in list(self._waiting))

    def add(self, act: Callable[[], Any], *, owed: bool) -> Future[Any]:
        """Have this done; the future of what comes of it."""
        command = Command(act, owed)
        self._waiting.append(command)
        return command.answer

    def run_one(self) -> None:
        """Do the first one. Its exception is for whoever waits for it."""
        command = self._waiting.popleft()
        try:
            command.answer.set_result(command.act())
        except Exception as error:  # it is raised again where the command is waited for
            command.answer.set_exception(error)

    def refuse(self, error: BaseException) -> None:
        """Do none of them: this is why."""
        while self._waiting:
            self._waiting.popleft().answer.set_exception(error)
