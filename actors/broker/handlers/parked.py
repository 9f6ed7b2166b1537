"""Requests that are answered when other replicas have caught up: Produce with acks=all, and DeleteRecords."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage

Awaited = tuple[Any, Callable[[Callable[[ErrorCode], None]], None]]
"""A partition's answer, and a function that calls back when that is true, or with why it cannot be told."""


class Parked:
    """One request. It is answered when all its partitions are done, or with REQUEST_TIMED_OUT when its time is over.

    Nothing is undone then: records are in the log and may still commit, and a log's start stays where it was moved to.
    `refuse` puts an error into a partition's answer.
    """

    __slots__ = ("_broker", "_open", "_refuse", "_request", "_response", "_timer")

    def __init__(
        self,
        broker: BrokerContext,
        request: Request,
        response: ApiMessage,
        waits: Sequence[Awaited],
        refuse: Callable[[Any, ErrorCode], None],
    ) -> None:
        self._broker = broker
        self._request = request
        self._response = response
        self._refuse = refuse
        self._open = {id(answer): answer for answer, _ in waits}
        timeout_s = max(request.message.timeout_ms, 0) / 1000
        self._timer: asyncio.TimerHandle = broker.loop.call_later(timeout_s, self._time_out)
        broker.counts.waiting.add(self)
        for answer, wait in waits:
            wait(partial(self._settle, answer))

    def _settle(self, answer: Any, code: ErrorCode) -> None:
        if self._open.pop(id(answer), None) is None:
            return  # it was answered with a timeout
        if code:
            self._refuse(answer, code)
        if not self._open:
            self._timer.cancel()
            self._reply()

    def _time_out(self) -> None:
        for answer in self._open.values():
            self._refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._reply()

    def _reply(self) -> None:
        self._broker.counts.waiting.discard(self)
        self._request.reply(self._response)
