"""What a micro-batch holds, and how much one may take. No Spark is here, and no member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from actors.client.consumer.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The records `from_offset` to `until_offset` - 1 of a partition.

    `held`: the batch's end will be committed, or was. It turns False when the partition was taken away: then
    whoever has it now is given these records again.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    held: bool


class Batch(int):
    """The second argument of a batch function: the number Spark's foreachBatch hands over, and what the batch holds.

    The number counts from 0 with every start of a query, so it does not tell a repeat; the ranges do.
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
        """In a task there are no members to ask: a UDF that mentions the batch gets the number, as with Spark's own."""
        return int, (int(self),)

    def settle(self, committed: frozenset[tuple[str, int]]) -> None:
        """The batch is over: from now on `held` says what was committed."""
        self._still_held = lambda: committed

    @property
    def ranges(self) -> tuple[BatchRange, ...]:
        """What was fixed at the beginning, and what has become of it by now. A running batch asks its members."""
        held = self._still_held()
        return tuple(
            BatchRange(r.topic, r.partition, r.from_offset, r.until_offset, (r.topic, r.partition) in held)
            for r in self._fixed
        )


def limited(
    positions: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], most: int | None
) -> list[OffsetRange]:
    """The ranges from `positions` to `ends`, cut to about `most` offsets in all; partitions without news are left out.

    As with Spark's maxOffsetsPerTrigger, each partition gets a part in proportion to what waits in it, at least one.
    """
    waiting = {tp: ends[tp] - at for tp, at in positions.items() if ends.get(tp, at) > at}
    total = sum(waiting.values())
    share = 1.0 if most is None or total <= most else most / total
    return [
        OffsetRange(*tp, positions[tp], positions[tp] + max(1, int(count * share)))
        for tp, count in sorted(waiting.items())
    ]
