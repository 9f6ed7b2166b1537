"""The results of a part while it runs: samples of the figures it has announced, by side, and what failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.common import note
from benchmarks.model import Better, Budget, Failure, Row, Samples

OURS, PEER = "coterie", "peer"
SIDES = (OURS, PEER)
REASON_LETTERS = 300


@dataclass(frozen=True, slots=True)
class Spec:
    """A figure that a part measures. A row without samples of ours is left out."""

    what: str
    unit: str
    better: Better
    budget: Budget | None = None
    peer_name: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """The length of a measurement: turns of each side, seconds of each load. A quick run shows that a part works."""

    turns: int = 3
    seconds: float = 2.0
    quick: bool = False

    def fewer(self, count: int, when_quick: int) -> int:
        """`count`, or the other in a quick run."""
        return when_quick if self.quick else count


QUICK = Pace(1, 0.5, quick=True)


class Figures:
    """The samples of one part."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self._specs = {spec.what: spec for spec in specs}
        self._values: dict[tuple[str, str], list[float]] = {}
        self._cpu_us: dict[tuple[str, str], list[float]] = {}
        self.failures: list[Failure] = []

    def add(self, side: str, what: str, value: float, cpu_us: float | None = None) -> None:
        """A sample of one turn. Raises KeyError for a figure that was not announced."""
        spec = self._specs[what]
        self._values.setdefault((side, what), []).append(value)
        if cpu_us is not None:
            self._cpu_us.setdefault((side, what), []).append(cpu_us)
        note(f"{side}: {what}: {value:,.4g} {spec.unit}" + ("" if cpu_us is None else f", CPU {cpu_us:,.3g} µs"))

    def only_ours(self, what: str, value: float) -> None:
        """A sample of a figure that has no peer."""
        self.add(OURS, what, value)

    @contextlib.contextmanager
    def attempt(self, side: str, what: str) -> Iterator[None]:
        """A measurement whose failure does not stop the next one."""
        try:
            yield
        except Exception as error:
            self.fail(f"{what}, {side}", error)

    def fail(self, what: str, error: Exception) -> None:
        """Keep what could not be measured, and why."""
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")
        if len(reason) > REASON_LETTERS:  # a log's end says more than its beginning
            reason = f"{reason[: REASON_LETTERS // 3]} … {reason[-2 * REASON_LETTERS // 3 :]}"
        note(f"{what} failed: {reason}")
        self.failures.append(Failure(what, reason))

    def rows(self) -> list[Row]:
        """In the order of the specs."""
        return [row for spec in self._specs.values() if (row := self._row(spec)) is not None]

    def _row(self, spec: Spec) -> Row | None:
        ours, peer = self._samples(OURS, spec.what), self._samples(PEER, spec.what)
        if ours is None:
            return None
        return Row(spec.what, spec.unit, spec.better, ours, peer, spec.peer_name, spec.budget)

    def _samples(self, side: str, what: str) -> Samples | None:
        values = self._values.get((side, what))
        return None if values is None else Samples(tuple(values), tuple(self._cpu_us.get((side, what), ())))
