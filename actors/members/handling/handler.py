"""The user's handler: what kind it is, how it is called, its hooks, and its event loop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from functools import cached_property
from typing import Any

from actors.members.handling.context import Context
from actors.runtime.process import LoopThread


class Handler:
    """A function, or a class of which each member makes one instance; sync or async.

    A class may have `setup()`, `teardown()`, `on_assigned(partitions)`, `on_revoked(partitions)` and `close()` beside
    `__call__`. All that is async runs on one event loop, which has a thread of its own.
    """

    def __init__(self, given: Any, arguments: tuple[Any, ...] = ()) -> None:
        self.instance: Any = given(*arguments) if inspect.isclass(given) else given
        called = self.instance if inspect.isroutine(self.instance) else type(self.instance).__call__
        self.is_async = any(map(inspect.iscoroutinefunction, (self.instance, called)))
        self.wants_context = wants_context(self.instance)
        self._is_set_up = False

    @cached_property
    def loop(self) -> LoopThread:
        """The event loop, made when it is first needed."""
        return LoopThread("coterie-handler-loop")

    def __call__(self, argument: Any, context: Context | None) -> None:
        """Call the handler and wait until it is done."""
        self._finish(self._result(argument, context))

    async def awaited(self, argument: Any, context: Context | None) -> None:
        """Call an async handler, on its loop."""
        await self._result(argument, context)

    def set_up(self) -> None:
        """Call `setup`, once, before the first record."""
        self.hook("setup")
        self._is_set_up = True

    def tear_down(self) -> None:
        """Call `teardown`, if `setup` has returned, and `close`."""
        try:
            if self._is_set_up:
                self.hook("teardown")
        finally:
            self.hook("close")

    def hook(self, name: str, *arguments: Any) -> None:
        """Call an optional method of the handler, if it has it."""
        method = getattr(self.instance, name, None)
        if method is not None:
            self._finish(method(*arguments))

    def _result(self, argument: Any, context: Context | None) -> Any:
        return self.instance(argument) if context is None else self.instance(argument, context)

    def _finish(self, result: Any) -> None:
        if inspect.isawaitable(result):
            error = self.loop.call(_outcome(result))
            if error is not None:
                raise error


async def _outcome(work: Awaitable[Any]) -> BaseException | None:
    """Await it. What would end the loop and not only the work is returned."""
    try:
        await work
    except (SystemExit, KeyboardInterrupt) as error:
        return error
    return None


def wants_context(function: Any) -> bool:
    """Whether the handler's second parameter is there for a context: it must be given, or is called `context`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return False
    if len(parameters) < 2 or parameters[1].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        return False
    return parameters[1].default is inspect.Parameter.empty or parameters[1].name == "context"
