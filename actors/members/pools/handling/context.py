"""The context of a handler's call: facts about the records it gets, and a place for the records that it produces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from actors import CoterieError
from actors.members.pools.handling.work import Work

Headers = Sequence[tuple[str | bytes, bytes | None]]
"""Names and values. A name is text if it is UTF-8, else bytes."""


class StopSignal(Protocol):
    """Says that a handler should come to an end. A threading.Event is one."""

    def is_set(self) -> bool:
        """True if the member stops, or gives the partition up."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the signal for so many seconds. Returns whether it has come. Not for coroutines: it blocks."""
        ...


class Output(NamedTuple):
    """A record to be produced."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers | None
    partition: int | None
    timestamp_ms: int | None


@dataclass(slots=True)
class Outputs:
    """The records that one attempt has produced so far. When the attempt is over, it takes no more."""

    records: list[Output] = field(default_factory=list)
    over: bool = False

    def add(self, output: Output) -> None:
        if self.over:
            raise CoterieError("context.produce: the handler has returned, and its output has been sent")
        self.records.append(output)


@dataclass(frozen=True, slots=True)
class Context:
    """The second argument of a handler, beside its record or batch, if it has a parameter for it."""

    topic: str
    partition: int
    offset: int
    """Of the record; of a batch's first record."""
    next_offset: int
    """The offset that is committed when this is handled."""
    timestamp: int
    """Unix milliseconds, of the record or a batch's first record; -1 for Arrow batches, which have a column of them."""
    headers: Headers
    """The record's. Empty for batches, whose records have their own."""
    attempt: int
    """1 at the first try in this member. After a death or a rebalance, counting begins anew."""
    stop: StopSignal
    """Set when the member stops, or gives this partition up: what takes long may end early, by raising."""
    _outputs: Outputs = field(default_factory=Outputs, repr=False)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Have a record written once the handler has returned; if it raises, what it produced is dropped.

        The input's offset is committed after the record was acknowledged. Key and value are bytes or None, headers'
        names str or bytes. `timestamp_ms`: None is the time of writing, -1 none. Raises
        CoterieError after the handler has returned.
        """
        self._outputs.add(Output(topic, value, key, headers, partition, timestamp_ms))

    def close(self) -> list[Output]:
        """Take no more records. Returns those that were produced."""
        self._outputs.over = True
        return self._outputs.records


def context_of(work: Work, attempt: int, stop: StopSignal, *, of_batch: bool) -> Context:
    """The context of an attempt."""
    record = work.record()
    return Context(
        *work.partition,
        offset=work.first,
        next_offset=work.next_offset,
        timestamp=-1 if record is None else record.timestamp,
        headers=() if of_batch or record is None else record.headers,
        attempt=attempt,
        stop=stop,
    )
