"""A consumer as an iterator: records one by one. Each is consumed when the next call on the consumer is made."""

from __future__ import annotations

from collections import deque

from actors.client.consumer.drain import Drain
from actors.client.consumer.polling import FOREVER_MS, Polling
from actors.client.consumer.positions import PartitionState, Positions
from actors.client.group.member import Subscriber
from actors.client.net.changes import Changes
from actors.client.records import ConsumerRecord

Taken = tuple[PartitionState, int, ConsumerRecord]
"""A record, the state of its partition, and the state's token when the record was taken."""


class Iteration:
    """Takes up to `limit` records at a time and returns them one by one."""

    def __init__(
        self, limit: int, member: Subscriber, positions: Positions, polling: Polling, drain: Drain, changes: Changes
    ) -> None:
        self._limit = limit
        self._member = member
        self._positions = positions
        self._polling = polling
        self._drain = drain
        self._changes = changes
        self._waiting: deque[Taken] = deque()
        self._given: Taken | None = None

    def next(self) -> ConsumerRecord:
        """Wait for the next record, without a timeout."""
        self.finish()
        while True:
            while self._waiting:
                state, token, record = self._waiting[0]
                if self._member.subscribed and not self._polling.may_deliver():
                    self._waiting.clear()
                elif state.token != token or not state.deliverable:
                    self._waiting.popleft()
                else:
                    self._given = self._waiting.popleft()
                    return record
            taken = self._polling.poll(FOREVER_MS, lambda: self._drain.take(self._limit, advance=False))
            for tp, records in (taken or {}).items():
                state = self._positions.states[tp]
                self._waiting.extend((state, state.token, record) for record in records)

    def finish(self) -> None:
        """Mark the record that was returned last as consumed."""
        if self._given is not None:
            state, token, record = self._given
            self._given = None
            if state.token == token:
                self._drain.advance(state, record)

    def disown(self) -> None:
        """Mark the record that was returned last as not consumed."""
        self._given = None

    def stop(self) -> None:
        """Give back the records that were taken and not returned: their partitions are read again from there."""
        self.finish()
        states = {id(state): state for state, token, _ in self._waiting if state.token == token}
        self._waiting.clear()
        with self._changes.lock:
            for state in states.values():
                if state.position is not None:
                    state.seek(state.position, state.epoch)
