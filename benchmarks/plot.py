"""A part's ratios as an SVG: one line a row, a dot at the ratio, its spread, and where the budget begins. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.model import Better, Row

WIDTH, LABEL, LINE, TOP, BOTTOM = 920, 480, 26, 34, 24
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
MET, MISSED, UNJUDGED = "#1a7f37", "#cf222e", "#57606a"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A row's ratio to its peer, and the least and the most that the samples of both allow."""

    row: Row
    middle: float
    least: float
    most: float


def ratios(rows: Sequence[Row]) -> list[Ratio]:
    """Of the rows that have a peer."""
    found = []
    for row in rows:
        if row.peer is None or not (middle := row.ratio) or min(*row.peer.values, *row.ours.values, 1) <= 0:
            continue
        least = min(row.ours.values) / max(row.peer.values)
        found.append(Ratio(row, middle, least, max(row.ours.values) / min(row.peer.values)))
    return found


class _Axis:
    """A logarithmic axis that holds all values, and 1."""

    def __init__(self, values: Sequence[float]) -> None:
        self._low = math.log(min(*values, 1.0) / 1.3)
        self._span = math.log(max(*values, 1.0) * 1.3) - self._low

    def at(self, value: float) -> float:
        """The place of a ratio, in pixels from the left."""
        return LABEL + (math.log(value) - self._low) / self._span * (WIDTH - LABEL - 20)

    def ticks(self) -> list[float]:
        return [tick for tick in TICKS if LABEL <= self.at(tick) <= WIDTH - 20]


def svg(title: str, rows: Sequence[Row]) -> str | None:
    """The plot, or None where no row has a peer."""
    found = ratios(rows)
    if not found:
        return None
    budgets = [each.row.budget.ratio for each in found if each.row.budget and each.row.budget.ratio]
    axis = _Axis([value for each in found for value in (each.least, each.most)] + budgets)
    height = TOP + LINE * len(found) + BOTTOM
    marks = [_tick(axis, tick, height) for tick in axis.ticks()]
    marks += [_line(axis, each, TOP + LINE * n + LINE // 2) for n, each in enumerate(found)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>',
            *marks,
            "</svg>\n",
        ]
    )


def _tick(axis: _Axis, value: float, height: int) -> str:
    x = axis.at(value)
    stroke = "#24292f" if value == 1 else "#d0d7de"
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}" stroke="{stroke}"/>'
        f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#57606a">{value:g}</text>'
    )


def _line(axis: _Axis, each: Ratio, y: int) -> str:
    colour = {True: MET, False: MISSED, None: UNJUDGED}[each.row.met]
    arrow = "←" if each.row.better is Better.LESS else "→"
    least, middle, most = axis.at(each.least), axis.at(each.middle), axis.at(each.most)
    marks = [
        f'<text x="{LABEL - 12}" y="{y + 4}" text-anchor="end">{escape(each.row.what)} {arrow}</text>',
        f'<line x1="{least:.1f}" x2="{most:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3" opacity="0.4"/>',
        f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{colour}"/>',
    ]
    if each.row.budget is not None and each.row.budget.ratio is not None:
        x = axis.at(each.row.budget.ratio)
        marks.append(f'<path d="M{x:.1f} {y - 9}V{y + 9}" stroke="{colour}" stroke-width="2"/>')
    return "".join(marks)
