"""One guest beside one partition that this broker leads: its life, and the way of what it is asked and writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from actors.broker.beside.guest import Guest, GuestKind, Outcome, Place
from actors.broker.beside.state_log import KeyValue, Piece, StateLog, size_of
from actors.broker.beside.writes import Done, Write, Writes
from actors.broker.context import BrokerContext
from actors.broker.led import LogAccessError
from actors.coordinator.turn import Now
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
_LEAST_DELAY_SECONDS = 0.001  # the loop's time in whole milliseconds may be one less than what is due at that time
_UNREADABLE = (LogError, OSError, ValueError)  # ValueError: a record that the guest's codec cannot decode


class SeatState(Enum):
    """The stages of a seat's life."""

    LOADING = auto()
    """The state partition's log is being replayed, or what was replayed has not committed yet. Ends with ACTIVE, or
    with UNREADABLE."""
    ACTIVE = auto()
    """The guest serves. A reload ends it, or the end of the seat."""
    UNREADABLE = auto()
    """The log could not be read. LOADING follows after a while."""
    ENDED = auto()
    """The partition is not led here any more at this epoch. Nothing follows."""


_ANSWERS = {
    SeatState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    SeatState.UNREADABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    SeatState.ENDED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""The answers while the guest does not serve."""


class Seat:
    """A guest and its state partition. `wake` has fetches that wait at the data partition try again."""

    def __init__(
        self, kind: GuestKind, place: Place, state_log: StateLog, context: BrokerContext, wake: Callable[[], None]
    ) -> None:
        self.kind = kind
        self.place = place
        self.state_log = state_log
        self.state = SeatState.LOADING
        self._context = context
        self._wake = wake
        self._guest: Guest[Any, Any, Any] = kind.make(place)
        self._writes = Writes()
        self._loads = 0
        """The number of loads begun: the rest of an earlier one is dropped."""
        self._loaded_to: int | None = None
        """The end of the log that has been replayed; None while it is being read."""
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    @property
    def guest(self) -> Guest[Any, Any, Any]:
        """The guest. Each load makes another."""
        return self._guest

    # --- what the host calls ---

    def load(self) -> None:
        """Make the guest of what is in the log, and of nothing else. All who wait for the one before get an error."""
        if self.state is SeatState.ENDED:
            return
        self.state = SeatState.LOADING
        self._loads += 1
        self._loaded_to = None
        self._guest = self.kind.make(self.place)
        self._writes.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._arm()
        try:
            start, end = self.state_log.bounds()
            self._read(self._loads, start, end)
        except _UNREADABLE as error:
            self._cannot_load(error)

    def ask(self, question: Any, done: Done) -> None:
        """Ask the guest. `done` is called before this returns, if the answer depends on no record."""
        if self.state is SeatState.LOADING:
            self._begin_if_committed(self.state_log.watermark())  # while the lease was over it was not known
        if self.state is not SeatState.ACTIVE:
            done(_ANSWERS[self.state], None)
            return
        self._take(self._guest.ask(question, self._now()), done)

    def watermark(self, offset: int) -> None:
        """All of the state partition below `offset` has committed.

        If that is of a later epoch, it says nothing of what was written here: other records may be in its place.
        """
        if not self.state_log.is_current():
            return
        if self.state is SeatState.LOADING:
            self._begin_if_committed(self.state_log.watermark())
        elif self.state is SeatState.ACTIVE:
            self._commit(offset)
            self._arm()

    def end(self) -> None:
        """The partition is led elsewhere, or at another epoch."""
        self.state = SeatState.ENDED
        self._writes.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._arm()

    # --- loading ---

    def _read(self, load: int, offset: int, end: int) -> None:
        if offset >= end:
            self._loaded_to = end
            self._begin_if_committed(self.state_log.watermark())
            return
        self.state_log.read(offset, end).add_done_callback(partial(self._is_read, load, end))

    def _is_read(self, load: int, end: int, read: asyncio.Future[Piece]) -> None:
        if load != self._loads or self.state is not SeatState.LOADING:
            return
        try:
            records, next_offset = read.result()
            for key, value in records:
                self._guest.replay(self.kind.codec.decode(key, value))
            self._read(load, next_offset, end)
        except _UNREADABLE as error:
            self._cannot_load(error)

    def _begin_if_committed(self, watermark: int) -> None:
        """Serve if all that was replayed has committed: a later leader could lack what has not."""
        if self._loaded_to is not None and watermark >= self._loaded_to:
            self.state = SeatState.ACTIVE
            self._guest.loaded(self._now())
            self._arm()

    def _cannot_load(self, error: Exception) -> None:
        self.state = SeatState.UNREADABLE
        log.error("%s: its log cannot be read: %s", self._name(), error, extra=self._extra())
        self._context.loop.call_later(RETRY_SECONDS, self._load_again, self._loads)

    def _load_again(self, load: int) -> None:
        if load == self._loads and self.state is SeatState.UNREADABLE:
            self.load()

    # --- writing ---

    def _take(self, outcome: Outcome[Any, Any], done: Done | None) -> None:
        """Do what comes of a call of the guest."""
        if outcome.records:
            waits = done if outcome.waits else None
            due_ms = self._now().monotonic_ms + self.kind.write_timeout_ms
            self._writes.add(Write(outcome.records, outcome.answer, waits, due_ms))
            self._flush_soon()
        if done is not None and not (outcome.records and outcome.waits):
            done(ErrorCode.NONE, outcome.answer)
        if outcome.wakes:
            self._wake()
        self._arm()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._context.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Append what was written in this turn. After a refusal the rest of the turn is refused, too."""
        self._flushing = False
        if self.state is not SeatState.ACTIVE:
            return  # the writes of this turn have been dropped
        batches = self._batches(self._writes.take())
        for number, (writes, records) in enumerate(batches):
            try:
                appended = self.state_log.append(records)
            except (LogAccessError, LogError, OSError) as error:
                log.warning("%s: records are refused: %s", self._name(), error, extra=self._extra())
                self._refuse([write for later, _ in batches[number:] for write in later])
                break
            self._writes.appended(writes, appended.next_offset)
            self._commit(appended.watermark)
        self._arm()

    def _batches(self, writes: list[Write]) -> list[tuple[list[Write], list[KeyValue]]]:
        """The writes of a turn, and their records, in as few batches as they fit in."""
        batches: list[tuple[list[Write], list[KeyValue]]] = []
        room, most = 0, self.state_log.room()
        for write in writes:
            records = [self.kind.codec.encode(record) for record in write.records]
            size = sum(map(size_of, records))
            if not batches or size > room:
                batches.append(([], []))
                room = most
            room -= size
            batches[-1][0].append(write)
            batches[-1][1].extend(records)
        return batches

    def _refuse(self, writes: list[Write]) -> None:
        for write in reversed(writes):
            self._guest.refused(write.records, self._now())
        for write in writes:
            write.finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _commit(self, watermark: int) -> None:
        for write in self._writes.committed(watermark):
            for record in write.records:
                self._guest.replay(record)
            write.finish(ErrorCode.NONE)

    # --- time ---

    def _now(self) -> Now:
        return Now(int(self._context.loop.time() * 1000), self._context.now_ms())

    def _arm(self) -> None:
        """Have the loop come back when something is due."""
        due_ms = self._due_ms()
        if due_ms == self._timer_due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due_ms = None, due_ms
        if due_ms is not None:
            delay_s = max(due_ms / 1000 - self._context.loop.time(), _LEAST_DELAY_SECONDS)
            self._timer = self._context.loop.call_later(delay_s, self._on_time)

    def _due_ms(self) -> int | None:
        if self.state is not SeatState.ACTIVE:
            return None
        both = self._writes.next_due_ms(), self._guest.next_due_ms()
        return min((each for each in both if each is not None), default=None)

    def _on_time(self) -> None:
        self._timer = self._timer_due_ms = None
        if self.state is not SeatState.ACTIVE:
            return
        now = self._now()
        self._writes.tell_late(now.monotonic_ms)
        due_ms = self._guest.next_due_ms()
        if due_ms is not None and due_ms <= now.monotonic_ms:
            self._take(self._guest.on_time(now), None)
        self._arm()

    # --- names ---

    def _name(self) -> str:
        state, place = self.state_log, self.place
        return f"{self.kind.name} beside {place.topic}-{place.index} ({state.topic}-{state.index})"

    def _extra(self) -> dict[str, Any]:
        return at(self.place.topic, self.place.index, epoch=self.place.leader_epoch)
