"""A Monitor's reads of partitions: where they begin and end, and bytes of their logs. The leaders answer.

A Monitor has one link, to the controller. It asks for something of a broker by `ForBroker`, which the controller passes
on. So it needs no listener, no user and no ACL, and works with whatever security the listeners have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from actors.links.operations import Operation, Result

SLICE: Final = 500
"""The most partitions that a broker describes in one turn of its loop."""
HEADS: Final = 50
"""The most batches whose headers it reads in one turn."""
_ROW: Final = Struct(">iqqqq")


class PartitionRow(NamedTuple):
    """A partition at its leader. `newest_ms` is the largest timestamp of its records, -1 if it has none."""

    partition: int
    log_start: int
    high_watermark: int
    newest_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicSlice:
    """Some partitions of a topic. `rows` are packed, because there may be thousands (`pack_rows`)."""

    name: str
    rows: bytes


@dataclass(frozen=True, slots=True)
class PartitionsRead(Result):
    """Partitions that the broker leads, in order. `last` is the one to go on after, None if that was all."""

    topics: tuple[TopicSlice, ...]
    last: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadPartitions(Operation[PartitionsRead]):
    """Ask a broker for at most `limit` of the partitions that it leads, those after `after`, by name and number."""

    after: tuple[str, int] = ("", -1)
    limit: int = SLICE


@dataclass(frozen=True, slots=True)
class LogRead(Result):
    """Whole batches, or why there are none. `error_code` is Kafka's.

    `epoch_before` is the leader epoch of the record before the offset that was asked for, -1 if that is not known: if
    it is not the one that the reader has seen there, the log was cut and has been written anew.
    """

    error_code: int
    log_start: int = -1
    high_watermark: int = -1
    epoch_before: int = -1
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class ReadLog(Operation[LogRead]):
    """Ask a partition's leader for batches below its high watermark, from the one that holds `offset` on.

    There are at most `max_bytes`, but one batch at least. With `head_bytes` above 0, only so many bytes of it come.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    head_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HeadsRead(Result):
    """The headers of the batches that were asked for, in that order; b"" for one that cannot be had."""

    heads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReadHeads(Operation[HeadsRead]):
    """Ask the leader of some partitions for the headers of batches: of those that hold these offsets, at most HEADS.

    A place is a topic, a partition and an offset. A batch that is not committed is not there.
    """

    places: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ForBroker(Operation[Result]):
    """Have the controller ask a broker. The result is the broker's."""

    broker_id: int
    operation: Operation[Result]


def pack_rows(rows: Iterable[tuple[int, int, int, int, int]]) -> bytes:
    """The rows of a `TopicSlice`, each a PartitionRow or its values."""
    pack = _ROW.pack
    return b"".join([pack(*row) for row in rows])


def unpack_rows(rows: bytes) -> Iterator[PartitionRow]:
    """The rows that `pack_rows` was given. Raises struct.error if the bytes are no rows."""
    return map(PartitionRow._make, _ROW.iter_unpack(rows))


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {
    160: ReadPartitions,
    161: ReadLog,
    162: ForBroker,
    163: ReadHeads,
    260: PartitionsRead,
    261: LogRead,
    263: HeadsRead,
}
"""Tags on the control link, beside those of `operations`."""
