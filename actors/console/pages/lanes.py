"""Members over time as drawings: when each came and went, with the rebalances across them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from actors.console import figures
from actors.console.axis import Window
from actors.console.html import Html, el
from actors.console.pages import parts
from actors.console.pages.episodes import QUIET, Episode, Life, counted, lives
from actors.links.member_names import MemberNames, Name
from actors.links.views import MemberView, RebalanceView

_LANES: Final = 24
_HIGH: Final = 20
_PAST_MAX: Final = 200
"""The most rebalances that the history tells."""


def timeline(
    members: Sequence[MemberView],
    found: Sequence[Episode],
    names: MemberNames,
    window: Window,
    awaited: Sequence[str] = (),
) -> Html:
    """The lives of members over the time that the curves show, with the rebalances across them."""
    shown = [life for life in lives(members, found) if life.gone_ms is None or life.gone_ms >= window.since_ms]
    if not shown:
        return parts.panel("Who was there", parts.nothing("No member is known of in this time."))
    inside = [each for each in found if each.how != QUIET and each.until_ms >= window.since_ms]
    lanes = [_lane(life, names.of(life.member_id), inside, window, awaited) for life in shown[:_LANES]]
    more = el("p", f"and {len(shown) - _LANES} more", class_="note") if len(shown) > _LANES else None
    drawn = el("ol", lanes, _axis(window), class_="lanes")
    return parts.panel("Who was there", drawn, more, _legend(), note=_said(counted(found, window)))


def _said(number: int) -> str:
    if number >= _PAST_MAX:
        return f"at least {figures.plural(number, 'rebalance')} in this time"
    return f"{figures.plural(number, 'rebalance')} in this time" if number else "no rebalance in this time"


def _lane(life: Life, name: Name, inside: Iterable[Episode], window: Window, awaited: Sequence[str]) -> Html:
    start = window.at(life.came_ms) if life.came_ms is not None else 0.0
    end = window.at(life.gone_ms) if life.gone_ms is not None else float(parts.WIDE)
    shapes = [el("rect", x=window.at(each), y=0, width=1, height=_HIGH, class_="tick") for each, _ in window.marks()]
    shapes.append(
        el("rect", x=start, y=7, width=round(max(end - start, 3), 2), height=6, rx=3, class_=f"life {life.how}")
    )
    shapes += [_band(each, window) for each in inside]
    if life.came_ms is not None and life.came_ms >= window.since_ms:
        shapes.append(el("rect", x=max(start - 1.5, 0), y=3, width=3, height=14, class_="came"))
    if life.gone_ms is not None:
        shapes.append(el("rect", x=min(end - 1.5, parts.WIDE - 3), y=3, width=3, height=14, class_=life.how))
    how = "awaited" if life.gone_ms is None and life.member_id in awaited else life.how
    drawn = parts.drawing(*shapes, high=_HIGH, label=f"{name.text}: {_told(life)}", class_="lane")
    said = el("span", how if how != "here" else "", class_=f"how {how}")
    return el("li", el("span", parts.member(name), said, class_="who"), drawn)


def _band(episode: Episode, window: Window) -> Html:
    start, end = window.at(episode.view.began_ms), window.at(episode.until_ms)
    title = el("title", f"{figures.clock(episode.view.began_ms)} {cause(episode.view)}")
    return el("rect", title, x=start, y=0, width=round(max(end - start, 1.5), 2), height=_HIGH, class_="band")


def cause(rebalance: RebalanceView) -> str:
    """The reason why it began, as a sentence."""
    who = rebalance.client_id or rebalance.member_id
    where = f" on {rebalance.host.lstrip('/')}" if rebalance.host else ""
    return f"{rebalance.reason}: {who}{where}" if who else rebalance.reason


def _told(life: Life) -> str:
    came = f"came {figures.clock(life.came_ms)}" if life.came_ms is not None else "there before"
    if life.gone_ms is not None:
        return f"{came}, {life.how} {figures.clock(life.gone_ms)}"
    return f"{came}, is {life.how}"


def _axis(window: Window) -> Html:
    marks = [_mark(window.share(wall_ms), text) for wall_ms, text in window.marks()]
    drawn = el("svg", marks, class_="ticks")
    return el("li", el("span", "UTC", class_="who"), drawn, class_="axis", aria_hidden="true")


def _mark(share: float, text: str) -> Html:
    anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
    return el("text", text, x=f"{100 * share:.2f}%", y=13, **{"text-anchor": anchor})


def _legend() -> Html:
    rows = (
        *(("here", "a member"), ("came", "came"), ("left", "left, or replaced by its next incarnation")),
        *(("expelled", "expelled"), ("band", "rebalance")),
    )
    return el("p", [el("span", el("i", class_=a), b) for a, b in rows], class_="legend lives", aria_hidden="true")
