"""A guest for tests: counts what it is told beside a partition's log, and still knows it after a failover.

Every increment is a record with an id and the count after it, so that a log shows what was lost or invented. Fetches
are counted too, and written down now and then, when the guest's timer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from actors.broker.beside.guest import NOTHING, GuestKind, Outcome, Place
from actors.coordinator.turn import Now

TOPIC = "__counter_state"
FETCHES_EVERY_MS = 300


@dataclass(frozen=True, slots=True)
class Increment:
    """Count one more. The answer, the count, depends on the record."""

    id: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetch asks for the count that it may show. The answer depends on no record."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Have fetches that wait try again."""


Question: TypeAlias = Increment | Fetched | Announce


@dataclass(frozen=True, slots=True)
class Incremented:
    id: str
    count: int


@dataclass(frozen=True, slots=True)
class FetchesCounted:
    fetches: int


CounterRecord: TypeAlias = Incremented | FetchesCounted


class CounterCodec:
    """The key tells the kind of a record."""

    def encode(self, record: CounterRecord) -> tuple[bytes, bytes | None]:
        if isinstance(record, Incremented):
            return b"increment " + record.id.encode(), str(record.count).encode()
        return b"fetches", str(record.fetches).encode()

    def decode(self, key: bytes, value: bytes | None) -> CounterRecord:
        kind, _, name = key.decode().partition(" ")
        if kind not in ("increment", "fetches"):
            raise ValueError(f"a record of unknown kind {kind!r}")
        number = int(value or b"")
        return Incremented(name, number) if kind == "increment" else FetchesCounted(number)


class Counter:
    """The guest. `count` is what has committed, `believed` with what has not yet."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ids: dict[str, int] = {}
        self.fetches = 0
        self.believed = 0
        self.fetches_believed = 0
        self.refusals: list[tuple[CounterRecord, ...]] = []
        self.is_loaded = False
        self._due_ms: int | None = None

    @property
    def count(self) -> int:
        return len(self.ids)

    def replay(self, record: CounterRecord) -> None:
        if isinstance(record, Incremented):
            self.ids[record.id] = record.count
        else:
            self.fetches = record.fetches

    def loaded(self, now: Now) -> None:
        assert not self.is_loaded
        self.is_loaded = True
        self.believed, self.fetches_believed = self.count, self.fetches

    def ask(self, question: Question, now: Now) -> Outcome[int, CounterRecord]:
        assert self.is_loaded
        match question:
            case Increment(name):
                self.believed += 1
                return Outcome(self.believed, [Incremented(name, self.believed)])
            case Fetched():
                self.fetches_believed += 1
                if self._due_ms is None:
                    self._due_ms = now.monotonic_ms + FETCHES_EVERY_MS
                return Outcome(self.count)
            case Announce():
                return Outcome(self.count, [FetchesCounted(self.fetches_believed)], waits=False, wakes=True)

    def next_due_ms(self) -> int | None:
        return self._due_ms

    def on_time(self, now: Now) -> Outcome[int, CounterRecord]:
        if self._due_ms is None or self._due_ms > now.monotonic_ms:
            return NOTHING
        self._due_ms = None
        return Outcome(records=[FetchesCounted(self.fetches_believed)], wakes=True)

    def refused(self, records: Sequence[CounterRecord], now: Now) -> None:
        self.refusals.append(tuple(records))
        for record in records:
            if isinstance(record, Incremented):
                self.believed -= 1


COUNTER = GuestKind("counter", TOPIC, Counter, CounterCodec(), {"retention.ms": "-1"}, write_timeout_ms=2000)
