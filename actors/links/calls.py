"""Calls to the other end of a connection, by number, that wait for their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from actors.links.codec import NotSpokenError
from actors.links.control import Answer, Call, Failed
from actors.links.operations import Faulted, Operation, Result

R = TypeVar("R", bound=Result)


class Fault(str):
    """The error of a call that met a bug of the other end's, and changed nothing. Others may have changed something."""

    __slots__ = ()


class Calls:
    """The calls that one end of a connection has made. `send` sends a message to the other end."""

    def __init__(self, send: Callable[[Call], None]) -> None:
        self._send = send
        self._waiting: dict[int, Callable[[Any, str | None], None]] = {}
        self._last = 0

    def call(self, operation: Operation[R], done: Callable[[R | None, str | None], None], by: str = "") -> None:
        """Ask the other end to do something. `done` gets (result, None) or (None, the error). `by` is who wants it."""
        self._last += 1
        self._waiting[self._last] = done
        try:
            self._send(Call(self._last, operation, by))
        except NotSpokenError as error:
            del self._waiting[self._last]
            done(None, f"the other end is of an older build: {error}")

    async def ask(self, operation: Operation[R], timeout_s: float) -> R:
        """Ask, and wait for the result. Raises ConnectionError with the other end's error, or TimeoutError."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def done(result: R | None, error: str | None) -> None:
            if answer.done():
                return
            if result is None:
                answer.set_exception(ConnectionError(error))
            else:
                answer.set_result(result)

        self.call(operation, done)
        async with asyncio.timeout(timeout_s):
            return await answer

    def answered(self, message: Answer | Failed) -> None:
        """An answer has come."""
        done = self._waiting.pop(message.number, None)
        if done is None:
            return
        match message:
            case Answer(_, Faulted(text)):
                done(None, Fault(text))
            case Answer(_, result):
                done(result, None)
            case Failed(_, error):
                done(None, error)

    def lose(self, error: str) -> None:
        """The connection has ended: no answer will come."""
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(None, error)
