"""The user's handler: what kind it is, how it is called, its hooks, and its event loop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

from actors.members.pools.handling.context import Context
from actors.members.pools.handling.shape import wants_context
from actors.runtime import functions
from actors.runtime.process import LoopThread


class Handler:
    """A function, or a class of which each member makes one instance; sync or async.

    A class may have `setup()`, `teardown()`, `on_assigned(partitions)`, `on_revoked(partitions)` and `close()` beside
    `__call__`. All that is async runs on one event loop, which has a thread of its own. A hook runs within `timed`,
    which gets its name.
    """

    def __init__(
        self,
        given: Any,
        arguments: tuple[Any, ...] = (),
        timed: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.instance: Any = given(*arguments) if inspect.isclass(given) else given
        self.is_async = functions.makes_awaitable(self.instance)
        self.wants_context = wants_context(self.instance)
        self._timed = timed
        self._is_set_up = False

    @cached_property
    def loop(self) -> LoopThread:
        """The event loop, made when it is first needed."""
        return LoopThread("coterie-handler-loop")

    def __call__(self, argument: Any, context: Context | None) -> None:
        """Call the handler and wait until it is done. Raises TypeError if it returns work that nobody does."""
        result = self._result(argument, context)
        if result is not None:  # as most do
            functions.refuse_lazy(self._finished(result), "the handler")

    async def awaited(self, argument: Any, context: Context | None) -> None:
        """Call an async handler, on its loop. Raises as a call."""
        result = await self._result(argument, context)
        if result is not None:
            functions.refuse_lazy(result, "the handler")

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
        if method is None:
            return
        with self._timed(name):
            result = method(*arguments)
            if inspect.isawaitable(result):
                self._finished(result)
            else:
                functions.refuse_lazy(result, f"the handler's {name}")

    def _result(self, argument: Any, context: Context | None) -> Any:
        return self.instance(argument) if context is None else self.instance(argument, context)

    def _finished(self, result: Any) -> Any:
        """The result, awaited if it can be."""
        if not inspect.isawaitable(result):
            return result
        value, error = self.loop.call(_outcome(result))
        if error is not None:
            raise error
        return value


async def _outcome(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Await it. An exception that would end the loop and not only the work is returned."""
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error
