"""A micro-batch: which ranges it holds, and how many offsets one may take. No Spark and no members here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from actors.client.consumer.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The records of a partition from `from_offset` up to but not including `until_offset`.

    `held`: the end of the range will be committed, or was. It becomes False if the partition is taken away: then its
    new owner gets these records again.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    held: bool


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
            BatchRange(r.topic, r.partition, r.from_offset, r.until_offset, (r.topic, r.partition) in held)
            for r in self._fixed
        )


def limited(
    positions: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], most: int | None
) -> list[OffsetRange]:
    """The ranges from `positions` to `ends`, cut to about `most` offsets in all. Empty ones are left out.

    As with Spark's maxOffsetsPerTrigger, each partition gets a part in proportion to its waiting offsets, at least one.
    """
    waiting = {tp: ends[tp] - at for tp, at in positions.items() if ends.get(tp, at) > at}
    total = sum(waiting.values())
    share = 1.0 if most is None or total <= most else most / total
    return [
        OffsetRange(*tp, positions[tp], positions[tp] + max(1, int(count * share)))
        for tp, count in sorted(waiting.items())
    ]
