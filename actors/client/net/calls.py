"""The requests of one connection that have no answer yet, by correlation id. Runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.client.errors import CorrelationIdError, IllegalStateError, KafkaError, KafkaTimeoutError
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import decode_response
from actors.wire.messages import ApiMessage, ApiVersionsResponse


@dataclass(slots=True)  # not frozen: to make one costs half as much then, and there is one for each request
class _Call:
    future: asyncio.Future[Any]
    response: type[ApiMessage]
    version: int
    timer: asyncio.TimerHandle


class Calls:
    """Futures of answers. `timed_out(name, timeout_ms)` is called after one of them has failed for being late."""

    def __init__(self, timed_out: Callable[[str, int], None]) -> None:
        self._timed_out = timed_out
        self._open: dict[int, _Call] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def add(self, number: int, response: type[ApiMessage], version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """A future of the answer to the request with this correlation id, which was just sent."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, self._expire, number, timeout_ms)
        self._open[number] = _Call(future, response, version, timer)
        return future

    def answer(self, frame: bytes) -> None:
        """Complete the call that a frame answers.

        Raises CorrelationIdError if there is none, and WireError if the answer cannot be read; its call fails, too.
        """
        number = int.from_bytes(frame[:4], "big", signed=True)
        call = self._open.pop(number, None)
        if call is None:
            raise CorrelationIdError(f"an answer to request {number}, which is not in flight")
        call.timer.cancel()
        if not call.future.done():
            try:
                call.future.set_result(_decode(call, frame))
            except Exception as error:  # of a bug, too: this call is noted no more, so nobody else ends it
                name = _name(call)
                call.future.set_exception(IllegalStateError(f"the broker's answer to {name} cannot be read: {error!r}"))
                raise WireError(f"{name}: {error!r}") from error
        if self._waiting and not self._open:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def all_answered(self) -> None:
        """Wait until no call is open. Raises the error by which calls fail."""
        if self._open:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def fail(self, error: KafkaError) -> None:
        """All open calls fail. Each gets an error of its own: one that is raised in two places gathers tracebacks."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(type(error)(str(error)))
        calls, self._open = self._open, {}
        for call in calls.values():
            call.timer.cancel()
            if not call.future.done():
                call.future.set_exception(type(error)(str(error)))

    def _expire(self, number: int, timeout_ms: int) -> None:
        call = self._open.pop(number, None)
        if call is None:
            return
        name = _name(call)
        if not call.future.done():
            call.future.set_exception(KafkaTimeoutError(f"{name} was not answered within {timeout_ms} ms"))
        self._timed_out(name, timeout_ms)


def _name(call: _Call) -> str:
    return call.response.__name__.removesuffix("Response")


def _decode(call: _Call, frame: bytes) -> ApiMessage:
    version = call.version
    unsupported = frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    if call.response is ApiVersionsResponse and unsupported:
        version = 0
    return decode_response(call.response, version, frame)[1]
