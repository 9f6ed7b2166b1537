"""Produce requests with acks=all whose records have not committed yet. Appending is produce.py's."""

from __future__ import annotations

import asyncio
from functools import partial

from actors.handlers.context import BrokerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ProduceResponse

Partition = ProduceResponse.PartitionProduceResponse
Appended = tuple[str, int, int, Partition]
"""Topic, partition, the offset after its last record, and what is answered for it once that has committed."""


class ParkedProduce:
    """One request: answered when all its records have committed, or when its time is up (REQUEST_TIMED_OUT)."""

    __slots__ = ("_open", "_request", "_response", "_timer")

    def __init__(self, context: BrokerContext, request: Request, response: ProduceResponse, waits: list[Appended]):
        self._request = request
        self._response = response
        self._open = {id(wait[3]): wait[3] for wait in waits}
        self._timer: asyncio.TimerHandle = context.loop.call_later(
            max(request.message.timeout_ms, 0) / 1000, self._time_out
        )
        for topic, index, next_offset, partition in waits:
            context.replication.await_commit(topic, index, next_offset, partial(self._settle, partition))

    def _settle(self, partition: Partition, code: ErrorCode) -> None:
        if self._open.pop(id(partition), None) is None:
            return  # it has been answered with a timeout
        if code:
            _refuse(partition, code)
        if not self._open:
            self._timer.cancel()
            self._request.reply(self._response)

    def _time_out(self) -> None:
        """The records stand in the log and may still commit; a retry of an idempotent producer finds them."""
        for partition in self._open.values():
            _refuse(partition, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._request.reply(self._response)


def _refuse(partition: Partition, code: ErrorCode) -> None:
    partition.error_code = code
    partition.base_offset = -1
