"""The results of benchmarks: rows of samples with budgets, parts of rows, the report of all parts as JSON. No I/O."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Better(StrEnum):
    """The direction in which a figure is better."""

    MORE = "more"
    LESS = "less"

    def allows(self, value: float, bound: float) -> bool:
        """True if a value is no worse than the bound."""
        return value >= bound if self is Better.MORE else value <= bound


@dataclass(frozen=True, slots=True)
class Samples:
    """One value for each turn; `cpu_us` is the CPU time of the servers for one request, in microseconds."""

    values: tuple[float, ...]
    cpu_us: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def cpu(self) -> float | None:
        """The median of the servers' CPU time for one request."""
        return statistics.median(self.cpu_us) if self.cpu_us else None


@dataclass(frozen=True, slots=True)
class Budget:
    """The goal of a row: `ratio` is of our median to the peer's, `limit` of our median alone."""

    ratio: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what was measured, in which unit, our samples and the peer's."""

    what: str
    unit: str
    better: Better
    ours: Samples
    peer: Samples | None = None
    peer_name: str = ""
    budget: Budget | None = None

    @property
    def ratio(self) -> float | None:
        """Our median divided by the peer's; None without a peer."""
        if self.peer is None or not self.peer.median:
            return None
        return self.ours.median / self.peer.median

    @property
    def met(self) -> bool | None:
        """True if the whole budget is met; None if there is none, or a part of it could not be judged."""
        if self.budget is None:
            return None
        judged = [
            None if value is None else self.better.allows(value, bound)
            for value, bound in ((self.ratio, self.budget.ratio), (self.ours.median, self.budget.limit))
            if bound is not None
        ]
        if False in judged:
            return False
        return None if None in judged or not judged else True


@dataclass(frozen=True, slots=True)
class Failure:
    """A measurement that came to nothing, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark's outcome: what it is about, when it ended (local time), how long it took, beside which peer."""

    name: str
    about: str
    date: str
    took_s: float
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...] = ()
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All parts, in the order of the page. A quick run shows that the parts work, and measures nothing."""

    machine: str
    quick: bool
    parts: tuple[Part, ...] = ()

    def with_part(self, part: Part) -> Report:
        """The report with this part in the place of the one of its name, or at the end."""
        if any(each.name == part.name for each in self.parts):
            parts = tuple(part if each.name == part.name else each for each in self.parts)
        else:
            parts = (*self.parts, part)
        return Report(self.machine, self.quick, parts)

    @property
    def missed(self) -> list[tuple[Part, Row]]:
        """Every row whose budget is not met."""
        return [(part, row) for part in self.parts for row in part.rows if row.met is False]

    def encode(self) -> str:
        """JSON, one value a line, so that two runs can be compared."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def decode(text: str) -> Report:
        """The report that `encode` has written. Raises KeyError, TypeError or ValueError for anything else."""
        found = json.loads(text)
        return Report(found["machine"], found["quick"], tuple(_part(each) for each in found["parts"]))


def _part(found: dict[str, Any]) -> Part:
    rows = tuple(_row(each) for each in found.pop("rows"))
    failures = tuple(Failure(**each) for each in found.pop("failures"))
    return Part(**found, rows=rows, failures=failures)


def _row(found: dict[str, Any]) -> Row:
    peer, budget = found.pop("peer"), found.pop("budget")
    return Row(
        better=Better(found.pop("better")),
        ours=_samples(found.pop("ours")),
        peer=None if peer is None else _samples(peer),
        budget=None if budget is None else Budget(**budget),
        **found,
    )


def _samples(found: dict[str, list[float]]) -> Samples:
    return Samples(tuple(found["values"]), tuple(found["cpu_us"]))
