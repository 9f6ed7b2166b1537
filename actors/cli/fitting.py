"""Tables and lines for a terminal of some width: columns are left out and names shortened, figures never cut. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actors.cli.output import heading, text

GAP: Final = 2
"""Blanks between columns."""
_NAME: Final = 20
"""As much of a name as is left of it before a column is left out."""
_INDENT: Final = "    "
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns that a terminal has room for, those it has none for, and how wide each name may be."""

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    widths: Mapping[str, int]


def fitted(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], width: int, names: Sequence[str], spare: Sequence[str]
) -> Fitted:
    """Fit a table into `width`. `names` are columns that may be shortened, `spare` those that go, in this order."""
    wanted = {each: _wanted(each, rows) for each in columns}
    kept, left_out = list(columns), []
    for column in spare:
        if _least(kept, wanted, names) <= width:
            break
        kept.remove(column)
        left_out.append(column)
    shortened = [each for each in kept if each in names]
    room = width - _sum(wanted[each] for each in kept if each not in names) - GAP * len(shortened)
    return Fitted(tuple(kept), tuple(left_out), _shares(shortened, wanted, max(room, 0)))


def _wanted(column: str, rows: Iterable[Mapping[str, Any]]) -> int:
    return max(len(heading(column)), *(len(text(row[column])) for row in rows), 0)


def _least(columns: Sequence[str], wanted: Mapping[str, int], names: Sequence[str]) -> int:
    return _sum(min(wanted[each], _NAME) if each in names else wanted[each] for each in columns)


def _sum(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + GAP * max(len(found) - 1, 0)


def _shares(names: Sequence[str], wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """The width of each name: the shortest ones first, so that they are whole if they can be."""
    widths: dict[str, int] = {}
    for place, each in enumerate(sorted(names, key=lambda name: wanted[name])):
        widths[each] = max(1, min(wanted[each], room // (len(names) - place)))
        room -= widths[each]
    return widths


def shortened(value: str, width: int | None) -> str:
    """A name in at most so many characters. Its end stays, too: names are numbered there."""
    if width is None or len(value) <= width:
        return value
    tail = max(0, (width - 1) // 3)
    return f"{value[: width - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{value[len(value) - tail :]}"


def wrapped(parts: Iterable[str], width: int, gap: str = "  ") -> list[str]:
    """Parts beside one another, in as many lines as that takes. A part breaks after its commas alone."""
    whole = [part.replace(" ", _NO_BREAK).replace(f",{_NO_BREAK}", ", ") for part in parts]
    lines = textwrap.wrap(gap.join(whole), max(width, 20), subsequent_indent=_INDENT, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def wrapped_text(line: str, width: int) -> list[str]:
    """A sentence in as many lines as it takes."""
    return textwrap.wrap(line, max(width, 20), subsequent_indent=_INDENT, break_on_hyphens=False)
