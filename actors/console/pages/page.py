"""The parts of a page, and its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlencode

from actors.console.axis import Window
from actors.console.desk import Desk
from actors.console.html import Html
from actors.console.source import Source

ROWS: Final = 100
"""Of a list, on one page."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that changes as a whole. `name` is its id in the page."""

    name: str
    html: Html


@dataclass(frozen=True, slots=True)
class Series:
    """Points over time, oldest first, and moments that are marked: what the charts of a page draw.

    `window` is the time that they show, however few points there are of it.
    """

    times_ms: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    window: Window
    marks: tuple[tuple[int, str], ...] = ()

    def after(self, time_ms: int) -> Series:
        """The points that are younger than this, and all marks."""
        first = next((place for place, time in enumerate(self.times_ms) if time > time_ms), len(self.times_ms))
        return replace(
            self, times_ms=self.times_ms[first:], values={key: row[first:] for key, row in self.values.items()}
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `here` is the entry of the menu it belongs to; one that is not `live` is never sent again."""

    title: str
    here: str
    regions: tuple[Region, ...]
    wall_ms: int = 0
    series: Series | None = None
    live: bool = True
    status: int = 200
    pinned: str = ""
    """The addition to the query for its changes: choices made for this page stay so while it lives."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A visitor's request, and the means to answer it."""

    source: Source
    desk: Desk
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    writes: bool = False
    now_ms: int = 0
    token: str = ""
    """For forms that change something."""
    plan: str = ""
    """The name by which a preview can be carried out."""

    def text(self, key: str) -> str:
        """The value in the query, or nothing."""
        return self.query.get(key, "")

    def number(self, key: str, default: int = 0, most: int = 2**53) -> int:
        """A whole number of the query, from 0 to `most`; the default if it says none."""
        text = self.text(key)
        return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 20 else default

    def with_(self, **changes: object) -> str:
        """The address of this page with another query; None or nothing leaves a key out."""
        wanted = {**self.query, **{key: "" if value is None else str(value) for key, value in changes.items()}}
        return to(self.path, **wanted)


def to(path: str, **query: object) -> str:
    """The address of a page."""
    found = urlencode({key: value for key, value in query.items() if value not in (None, "")})
    return f"{path}?{found}" if found else path
