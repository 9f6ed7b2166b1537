"""The last rebalances as drawings: each with its phases, the members it waited for, and those that came and went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.console import figures
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.console.pages.episodes import BROKEN_OFF, QUIET, RUNNING, Episode, changes
from actors.links.member_names import MemberNames
from actors.links.rebalances import named
from actors.links.views import Waited

_SHOWN: Final = 20
_TONES: Final = ("join", "sync")
_DOING: Final = {"join": "joining", "sync": "syncing"}
_NAMED: Final = 3
"""The number of members that came or went that are named; the others are in the tooltip."""


def listed(found: Sequence[Episode], names: MemberNames, now_ms: int) -> Html:
    """The last rebalances, the last first."""
    if not found:
        return parts.panel("Rebalances", parts.nothing("No rebalance is known of."))
    shown = sorted(found, key=lambda each: -each.view.began_ms)[:_SHOWN]
    drawn = [each for each in shown if each.how != QUIET]
    longest = max((max(each.length_ms, *(w.ms for w in each.waited), 1) for each in drawn), default=1)
    made = [_rebalance(each, names, now_ms, longest) for each in shown]
    note = f"bars are to scale: the longest took {figures.seconds(longest / 1000)}" if drawn else None
    return parts.panel("Rebalances", el("ol", made, class_="rebalances"), note=note)


def _rebalance(found: Episode, names: MemberNames, now_ms: int, longest: int) -> Html:
    view, took = found.view, figures.seconds(found.length_ms / 1000)
    others = {RUNNING: f"{took} so far", BROKEN_OFF: f"broken off after {took}", QUIET: f"away {took}"}
    lasted = others.get(found.how, f"took {took}")
    head = el("header", el("h3", view.reason), parts.moment(view.began_ms, now_ms), el("span", lasted, class_="took"))
    made = [each for how, sign, ids in changes(view) for each in _change(how, sign, ids, names)]
    told = el("p", made, _by(found, names), el("span", found.then, class_="note"), class_="changes")
    running = "running" if found.how == RUNNING else None
    drawn = _phases(found, names, longest) if found.how != QUIET else None
    return el("li", head, told, drawn, class_=running)


def _by(found: Episode, names: MemberNames) -> Html | None:
    view = found.view
    if not view.member_id:
        return None
    if "," in view.member_id:  # all whose time was over at once
        return el("span", f"by {figures.plural(view.member_id.count(',') + 1, 'member')}", class_="note")
    return el("span", "by ", parts.member(names.of(view.member_id), where=True), class_="note by")


def _change(how: str, sign: str, members: Sequence[str], names: MemberNames) -> list[Html]:
    ids, count = named(members)
    if not ids:
        return []
    texts = [names.of(each).text for each in ids]
    more = f" and {figures.count(count - _NAMED)} more" if count > _NAMED else ""
    chip = el("span", f"{sign}{figures.count(count)} {how}", class_=f"change {how}", title=", ".join(members))
    return [el("span", chip, el("small", ", ".join(texts[:_NAMED]) + more), class_="changed")]


def _phases(found: Episode, names: MemberNames, longest: int) -> Html:
    phases = found.phases_ms
    shapes, at = [el("rect", width=parts.WIDE, height=10, class_="track")], 0.0
    for place, ms in enumerate(phases.values()):
        wide = parts.WIDE * ms / longest
        x, width = (round(at, 1), round(wide, 1)) if place else (None, round(max(wide, 2), 1))
        shapes.append(el("rect", x=x, width=width, height=10, class_=_tone(place)))
        at += wide
    said = ", ".join(f"{_DOING.get(name, name)} {figures.seconds(ms / 1000)}" for name, ms in phases.items())
    drawn = parts.drawing(*shapes, high=10, label=said, class_="phase")
    rows: list[Child] = [el("div", el("span", _phase_names(found)), drawn)]
    rows += [_wait(each, found, names, longest) for each in found.waited]
    return el("div", rows, class_="phases")


def _phase_names(found: Episode) -> Child:
    """The phases that have begun."""
    lengths = found.phases_ms
    return [
        el("span", el("i", class_=_tone(place)), f"{each.name} {figures.seconds(lengths[each.name] / 1000)}")
        for place, each in enumerate(found.view.phases)
    ]


def _tone(place: int) -> str:
    """The class in which a phase is drawn, by its place."""
    return _TONES[place % len(_TONES)]


def _wait(waited: Waited, found: Episode, names: MemberNames, longest: int) -> Html:
    name = names.of(waited.member_id)
    where = f" on {waited.host.lstrip('/')}" if waited.host else ""
    ms = figures.seconds(waited.ms / 1000)
    phase = found.view.phases[-1].name
    waits = "waits" if found.how == RUNNING and waited.phase == phase and _still(waited, found) else "waited"
    track = el("rect", width=parts.WIDE, height=4, class_="track")
    shape = el("rect", width=round(max(parts.WIDE * waited.ms / longest, 2), 1), height=4, class_="wait")
    text = (f"{waits} ", el("b", ms), " for ", parts.member(name), f"{where} to {waited.phase}")
    drawn = parts.drawing(track, shape, high=4, label=f"{waits} {ms} for {name.text}{where}", class_="wait")
    return el("div", el("span", text, title=waited.member_id), drawn)


def _still(waited: Waited, found: Episode) -> bool:
    return all(waited.member_id != each.member_id for each in found.view.waited if each.phase == waited.phase)
