"""A piece of work: a record, or a batch of one partition, in one of the three forms a handler may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actors.client import ConsumerRecord, TopicPartition
from actors.links.member_counts import Done


class Sent(Protocol):
    """A record that was sent: what the producer's `send` returns."""

    @property
    def is_done(self) -> bool: ...

    def get(self, timeout: float | None = None) -> object: ...


@dataclass(eq=False, slots=True)
class Work:
    """Records that are handed over at once, and what has become of them."""

    partition: TopicPartition
    records: Any
    """A list of ConsumerRecord, or an Arrow batch; not empty."""
    first: int
    next_offset: int
    handled: bool = False
    sent: Sequence[Sent] = ()
    """The records that its handler produced. They are complete before `handled` is set."""
    set_aside: bool = False
    """True if it is a dead letter. That is known before `handled` is set."""
    forgotten: bool = False
    """True if its partition went before it was handled: it comes again, whatever becomes of it here."""

    @classmethod
    def of(cls, partition: TopicPartition, records: Any) -> Work:
        """The work of a batch that is not empty."""
        first, last = _span(records)
        return cls(partition, records, first, last + 1)

    def __len__(self) -> int:
        return len(self.records)

    def taken_apart(self) -> list[Work]:
        """Its records one by one."""
        return list(pieces(self.partition, self.records, 1))

    def record(self) -> ConsumerRecord | None:
        """The first record; None of an Arrow batch."""
        return self.records[0] if isinstance(self.records, list) else None


def done_with(works: Iterable[Work]) -> Done:
    """The number of these records, all of them handled or set aside."""
    handled = dead_letters = 0
    for work in works:
        if work.set_aside:
            dead_letters += len(work)
        else:
            handled += len(work)
    return Done(handled, dead_letters)


def pieces(partition: TopicPartition, records: Any, most: int) -> Iterator[Work]:
    """The records of a partition in pieces of at most so many."""
    for start in range(0, len(records), most):
        yield Work.of(partition, cut(records, start, most))


def cut(records: Any, start: int, count: int) -> Any:
    """So many records of a batch, from the one at index `start` on."""
    return records[start : start + count] if isinstance(records, list) else records.slice(start, count)


def joined(batches: Sequence[Any]) -> Any:
    """Batches of one partition as one."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], list):
        return [record for batch in batches for record in batch]
    import pyarrow as pa  # only where the handler takes columns

    return pa.concat_batches(batches)


def by_partition(batch: Any) -> list[tuple[TopicPartition, Any]]:
    """An Arrow batch in one piece for each partition; poll_arrow keeps the records of a partition together."""
    topics, partitions = batch.column("topic").to_pylist(), batch.column("partition").to_pylist()
    parts = []
    start = 0
    for i in range(1, len(partitions) + 1):
        if i == len(partitions) or partitions[i] != partitions[start] or topics[i] != topics[start]:
            parts.append((TopicPartition(topics[start], partitions[start]), batch.slice(start, i - start)))
            start = i
    return parts


def _span(records: Any) -> tuple[int, int]:
    """The first and the last offset of a batch that is not empty."""
    if isinstance(records, list):
        return records[0].offset, records[-1].offset
    offsets = records.column("offset")
    return offsets[0].as_py(), offsets[len(offsets) - 1].as_py()


def content(records: Any) -> tuple[bytes | None, bytes | None, list[tuple[str | bytes, bytes | None]]]:
    """The key, value and headers of a batch of one record. Of an Arrow batch the names are text in any case."""
    if isinstance(records, list):
        record: ConsumerRecord = records[0]
        return record.key, record.value, list(record.headers)
    # Not the timestamp: Python has no such time if it is far from now.
    row = records.select([name for name in ("key", "value", "headers") if name in records.schema.names]).to_pylist()[0]
    headers = [(h["key"], h["value"]) if isinstance(h, dict) else tuple(h) for h in row.get("headers") or ()]
    return row["key"], row["value"], headers
