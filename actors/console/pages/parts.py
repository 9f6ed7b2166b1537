"""Parts that several pages have: tables, figures, badges, bars and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from actors.console import figures
from actors.console.axis import WIDE as WIDE
from actors.console.html import Child, Html, el, join
from actors.console.pages.page import ROWS, Asked, to
from actors.links.member_names import Name
from actors.links.views import CLASSIC

T = TypeVar("T")

_KINDS: Final = {"pool": "pool", "spark": "Spark", "consumer": "consumers", "simple": "offsets only"}
_STATES: Final = {"PreparingRebalance": "preparing rebalance", "CompletingRebalance": "completing rebalance"}


def state(name: str) -> Html:
    """The state of a group, as a badge."""
    return el("span", _STATES.get(name, name.lower()), class_=f"state {name}", title=name)


def kind(name: str) -> Html:
    """Tells what the members of a group are, as a badge."""
    return el("span", _KINDS.get(name, name), class_=f"kind {name}")


def group_type(name: str) -> Html | None:
    """The type of a group, as a badge; none of a classic one, as most are."""
    return None if name == CLASSIC else el("span", name, class_="kind", title="the group's type")


def figure(label: str, value: Child, note: Child = None, tone: str = "") -> Html:
    """A figure with its name and what there is to say of it."""
    said = el("dd", note, class_="note") if note else None
    return el("div", el("dt", label), el("dd", value, class_=f"value {tone}".strip()), said, class_="figure")


def figures_of(*found: Html) -> Html:
    """Figures beside one another."""
    return el("dl", *found, class_="figures")


def moment(wall_ms: int | None, now_ms: int) -> Html:
    """The time since something, with the moment itself behind it."""
    if wall_ms is None:
        return el("span", figures.UNKNOWN, class_="faint")
    text = figures.ago(wall_ms, now_ms)
    return el("time", text, datetime=figures.iso(wall_ms), title=figures.moment(wall_ms))


def panel(title: str, *children: Child, note: Child = None, id_: str | None = None, tools: Child = None) -> Html:
    """A part of a page with a heading."""
    said = el("p", note, class_="note") if note else None
    head = el("header", el("div", el("h2", title), said), tools, class_="panel-head")
    return el("section", head, *children, class_="panel", id=id_)


def nothing(text: Child, *more: Child) -> Html:
    """The placeholder where there is nothing to show."""
    return el("div", el("p", text), *(el("p", each) for each in more), class_="nothing")


def member(name: Name, *, where: bool = False) -> Html:
    """A member: its user's name for it, and the mark that tells it from others of that name."""
    host = f" on {name.host}" if where and name.host else None
    short = el("small", name.short) if name.short else None
    return el("span", el("b", name.base), " " if name.base else None, short, host, class_="member", title=name.full)


# --- drawings -------------------------------------------------------------------------------------------------------


def drawing(*shapes: Html, high: int, label: str, class_: str) -> Html:
    """A drawing that is as wide as its place."""
    box = f"0 0 {WIDE} {high}"
    return el("svg", *shapes, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label, class_=class_)


def bar(share: float, label: str, tone: str = "") -> Html:
    """A share of the whole, 0 to 1."""
    wide = round(WIDE * min(max(share, 0.0), 1.0))
    full = el("rect", width=WIDE, height=6, class_="track")
    return drawing(full, el("rect", width=wide, height=6, class_=f"fill {tone}"), high=6, label=label, class_="bar")


def stacked(parts: Sequence[tuple[str, int]], label: str) -> Html:
    """Shares of a whole beside one another, each with its class."""
    total = sum(number for _, number in parts) or 1
    shapes, at = [], 0.0
    for name, number in parts:
        wide = WIDE * number / total
        shapes.append(el("rect", x=round(at, 1), width=round(max(wide - 6, 0), 1), height=6, class_=f"fill {name}"))
        at += wide
    return drawing(*shapes, high=6, label=label, class_="bar")


def spark(values: Sequence[float | None], label: str, points: int) -> Html:
    """A line through the last of `points` values, equally far apart. It has gaps at unknown values."""
    values = (*(None,) * (points - len(values)), *values)
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return el("span", figures.UNKNOWN, class_="faint")
    top, step = max(known) or 1.0, WIDE / (len(values) - 1)
    path, pen = [], "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{place * step:.0f} {22 - 20 * value / top:.1f}")
        pen = "L"
    line = " ".join(path)
    first = next(place for place, value in enumerate(values) if value is not None)
    whole = None not in values[first:]
    under = el("path", d=f"{line} L{WIDE} 24 L{first * step:.0f} 24 Z", class_="under") if whole else None
    return drawing(join(under, el("path", d=line, class_="line")), high=24, label=label, class_="spark")


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column: its heading, its cell, and by what it is sorted if it can be."""

    key: str
    heading: str
    cell: Callable[[T], Child]
    sort: Callable[[T], Any] | None = None
    class_: str = ""
    down: bool = False
    """True if the first click sorts the greatest to the top."""


def ordered(rows: Iterable[T], columns: Sequence[Column[T]], asked: Asked, default: str) -> list[T]:
    """The rows as the query wants them sorted. Unknown values stand at the end, either way."""
    column, down = _order(columns, asked, default)
    if column.sort is None:
        return list(rows)
    key = column.sort
    found = [(key(row), row) for row in rows]
    known = sorted((pair for pair in found if pair[0] is not None), key=lambda pair: pair[0], reverse=down)
    return [row for _, row in known] + [row for value, row in found if value is None]


def _order(columns: Sequence[Column[T]], asked: Asked, default: str) -> tuple[Column[T], bool]:
    wanted = asked.text("sort") or default
    column = next((each for each in columns if each.key == wanted and each.sort), columns[0])
    return column, {"up": False, "down": True}.get(asked.text("order"), column.down)


def table(
    caption: str,
    rows: Sequence[T],
    columns: Sequence[Column[T]],
    asked: Asked,
    default: str,
    link: Callable[[T], str] | None = None,
) -> Html:
    """A table of which one page is shown. The first cell of a row leads where `link` says."""
    first = min(asked.number("from"), max(len(rows) - 1, 0)) // ROWS * ROWS
    shown = rows[first : first + ROWS]
    head = el("tr", [_heading(column, columns, asked, default) for column in columns])
    body = [_row(row, columns, link) for row in shown]
    made = el("table", el("caption", caption, class_="unseen"), el("thead", head), el("tbody", body))
    return join(el("div", made, class_="scroll"), _pager(first, len(rows), asked))


def _heading(column: Column[T], columns: Sequence[Column[T]], asked: Asked, default: str) -> Html:
    if column.sort is None:
        return el("th", column.heading, scope="col", class_=column.class_)
    now, down = _order(columns, asked, default)
    is_now = now is column
    other = ("up" if down else "down") if is_now else ("down" if column.down else "up")
    sign = el("span", ("\u2193" if down else "\u2191") if is_now else "", class_="sign", aria_hidden="true")
    link = el("a", column.heading, sign, href=asked.with_(sort=column.key, order=other, **{"from": None}))
    sort = ("descending" if down else "ascending") if is_now else None
    return el("th", link, scope="col", class_=column.class_, aria_sort=sort)


def _row(row: T, columns: Sequence[Column[T]], link: Callable[[T], str] | None) -> Html:
    cells = []
    for place, column in enumerate(columns):
        content = column.cell(row)
        if place == 0 and link is not None:
            content = el("a", content, href=link(row), class_="rowlink", data_row=True)
        cells.append(el("td", content, class_=column.class_, data_label=column.heading))
    return el("tr", cells)


def _pager(first: int, count: int, asked: Asked) -> Html | None:
    if count <= ROWS:
        return None
    last = min(first + ROWS, count)
    back = el("a", "Earlier", href=asked.with_(**{"from": first - ROWS or None}), rel="prev") if first else None
    on = el("a", "More", href=asked.with_(**{"from": last}), rel="next") if last < count else None
    said = el("span", f"{figures.count(first + 1)} to {figures.count(last)} of {figures.count(count)}")
    return el("nav", back, said, on, class_="pager", aria_label="Pages of this list")


def choices(label: str, options: Mapping[str, Child], chosen: str, asked: Asked, key: str) -> Html:
    """Links of which one is chosen."""
    made = [
        el("a", text, href=asked.with_(**{key: value, "from": None}), aria_current="true" if value == chosen else None)
        for value, text in options.items()
    ]
    return el("nav", made, class_="choices", aria_label=label)


def search(asked: Asked, label: str, keep: Sequence[str]) -> Html:
    """A field to search a list; `keep` are the keys of the query that stay."""
    kept = [el("input", type="hidden", name=key, value=asked.text(key)) for key in keep if asked.text(key)]
    field = el(
        "input",
        type="search",
        name="q",
        value=asked.text("q"),
        placeholder=label,
        aria_label=label,
        autocomplete="off",
        spellcheck="false",
        data_search=True,
    )
    return el(
        "form", kept, field, el("kbd", "/", aria_hidden="true"), role="search", action=asked.path, class_="search"
    )


def group_link(group_id: str, text: Child = None) -> Html:
    """A link to the page of a group."""
    return el("a", text or group_id, href=to("/group", id=group_id))


def topic_link(name: str) -> Html:
    """A link to the page of a topic."""
    return el("a", name, href=to("/topic", name=name))
