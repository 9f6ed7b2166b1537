"""A micro-batch: which ranges it holds. No Spark and no members here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from actors.client.records import OffsetRange


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The records of a partition from `from_offset` up to but not including `until_offset`.

    `held`: the end of the range will be committed, or was. It becomes False if the partition is taken away: then its
    new owner gets these records again. `topic_id` tells the topic from an earlier one of its name; b"" if brokers are
    too old to say.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    held: bool
    topic_id: bytes = field(default=b"", compare=False, repr=False)


class Batch(int):
    """The second argument of a batch function: a number, as Spark's foreachBatch gives, that knows its ranges.

    The number counts from 0 with every start of a query. So it does not tell whether a batch is a repeat; ranges do.
    """

    _fixed: tuple[OffsetRange, ...]
    _still_held: Callable[[], frozenset[tuple[str, int]]]

    def __new__(
        cls, number: int, ranges: tuple[OffsetRange, ...], still_held: Callable[[], frozenset[tuple[str, int]]]
    ) -> Self:
        batch = super().__new__(cls, number)
        batch._fixed, batch._still_held = ranges, still_held
        return batch

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Pickle as a plain number, as Spark's own: in a task there are no members to ask for `ranges`."""
        return int, (int(self),)

    def settle(self, committed: frozenset[tuple[str, int]]) -> None:
        """The batch has ended: from now on `held` says what was committed."""
        self._still_held = lambda: committed

    @property
    def ranges(self) -> tuple[BatchRange, ...]:
        """The ranges of the batch, with `held` as it is now: a running batch asks its members."""
        held = self._still_held()
        return tuple(
            BatchRange(r.topic, r.partition, r.from_offset, r.until_offset, (r.topic, r.partition) in held, r.topic_id)
            for r in self._fixed
        )
