"""Rebalances as drawings: the lives of members over time, and each rebalance with its phases and whom it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actors.console import figures
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.coordinator.history import REPLACED
from actors.links.views import MemberView, RebalanceView, Waited

_LANES: Final = 24
_SHOWN: Final = 20
_HIGH: Final = 20


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a drawing shows."""

    since_ms: int
    until_ms: int

    def at(self, wall_ms: int) -> float:
        """Where a moment stands in a drawing, from left to right."""
        share = (wall_ms - self.since_ms) / max(self.until_ms - self.since_ms, 1)
        return round(parts.WIDE * min(max(share, 0.0), 1.0), 2)


@dataclass(frozen=True, slots=True)
class Life:
    """A member from when it came until it left. None: before what is known, or not yet."""

    member_id: str
    came_ms: int | None
    gone_ms: int | None
    how: str
    """`left`, `expelled`, or `here`."""


def cause(rebalance: RebalanceView) -> str:
    """What began it, as a sentence."""
    who = rebalance.client_id or rebalance.member_id
    where = f" on {rebalance.host.lstrip('/')}" if rebalance.host else ""
    return f"{rebalance.reason}: {who}{where}" if who else rebalance.reason


def lives(members: Iterable[MemberView], history: Sequence[RebalanceView]) -> list[Life]:
    """All members that are known of, the youngest first, but those that are here before those that are gone."""
    came: dict[str, int] = {}
    gone: dict[str, tuple[int, str]] = {}
    for each in sorted(history, key=lambda each: each.began_ms):
        for member in each.came:
            came.setdefault(member, each.began_ms)
        for member, how in [(m, "left") for m in each.left] + [(m, "expelled") for m in each.expelled]:
            gone[member] = (each.began_ms, how)
    here = [member.member_id for member in members]
    known = [Life(member, came.get(member), None, "here") for member in here]
    known.sort(key=lambda life: (life.came_ms or 0, life.member_id))
    past = [Life(member, came.get(member), *gone[member]) for member in gone if member not in set(here)]
    return known + sorted(past, key=lambda life: -(life.gone_ms or 0))


# --- members over time ----------------------------------------------------------------------------------------------


def timeline(members: Sequence[MemberView], history: Sequence[RebalanceView], window: Window) -> Html:
    """The lives of members over the time that the curves show, with the rebalances across them."""
    named = {member.member_id: member for member in members}
    origin = {each.member_id: each for each in history}
    found = [life for life in lives(members, history) if life.gone_ms is None or life.gone_ms >= window.since_ms]
    inside = [each for each in history if (each.ended_ms or window.until_ms) >= window.since_ms]
    if not found:
        return parts.panel("Who was there", parts.nothing("No member is known of in this time."))
    lanes = [_lane(life, _name(life.member_id, named, origin), inside, window) for life in found[:_LANES]]
    more = el("p", f"and {len(found) - _LANES} more", class_="note") if len(found) > _LANES else None
    said = f"{figures.plural(len(inside), 'rebalance')} in this time" if inside else "no rebalance in this time"
    return parts.panel("Who was there", el("ol", lanes, _axis(window), class_="lanes"), more, _legend(), note=said)


@dataclass(frozen=True, slots=True)
class Name:
    """What a lane is called: the member, where it is, and all that is known of it."""

    short: str
    where: str
    full: str


def _name(member_id: str, members: Mapping[str, MemberView], origin: Mapping[str, RebalanceView]) -> Name:
    if member := members.get(member_id):
        host = member.host.lstrip("/")
        process, _, where = member.process.partition(" on ")
        full = f"{member.client_id} {member_id} {host} {member.process}".strip()
        return Name(member.group_instance_id or process or member.client_id, where or host, full)
    if (began := origin.get(member_id)) and began.client_id:
        host = began.host.lstrip("/")
        return Name(began.client_id, host, f"{member_id} {host}")
    return Name(member_id[:24], "", member_id)


def _lane(life: Life, name: Name, history: Iterable[RebalanceView], window: Window) -> Html:
    start = window.at(life.came_ms) if life.came_ms is not None else 0.0
    end = window.at(life.gone_ms) if life.gone_ms is not None else float(parts.WIDE)
    shapes = [el("rect", x=start, y=7, width=round(max(end - start, 3), 2), height=6, rx=3, class_=f"life {life.how}")]
    shapes += [_band(each, window) for each in history]
    if life.came_ms is not None and life.came_ms >= window.since_ms:
        shapes.append(el("rect", x=max(start - 1.5, 0), y=3, width=3, height=14, class_="came"))
    if life.gone_ms is not None:
        shapes.append(el("rect", x=min(end - 1.5, parts.WIDE - 3), y=3, width=3, height=14, class_=life.how))
    label = f"{name.short}: {_told(life)}"
    drawn = parts.drawing(*shapes, high=_HIGH, label=label, class_="lane")
    said = el("span", life.how if life.how != "here" else "", class_=f"how {life.how}")
    who = el("span", el("b", name.short), " ", el("small", name.where), title=name.full)
    return el("li", el("span", who, said, class_="who"), drawn)


def _band(rebalance: RebalanceView, window: Window) -> Html:
    start = window.at(rebalance.began_ms)
    end = window.at(window.until_ms if rebalance.ended_ms is None else rebalance.ended_ms)
    title = el("title", f"{figures.clock(rebalance.began_ms)} {cause(rebalance)}")
    return el("rect", title, x=start, y=0, width=round(max(end - start, 1.5), 2), height=_HIGH, class_="band")


def _told(life: Life) -> str:
    came = f"came {figures.clock(life.came_ms)}" if life.came_ms is not None else "there before"
    return f"{came}, {life.how} {figures.clock(life.gone_ms)}" if life.gone_ms is not None else f"{came}, is here"


def _axis(window: Window) -> Html:
    step = (window.until_ms - window.since_ms) // 4
    ticks = [el("span", figures.clock(window.since_ms + place * step)[:5]) for place in range(5)]
    return el(
        "li", el("span", "UTC", class_="who"), el("div", ticks, class_="ticks"), class_="axis", aria_hidden="true"
    )


def _legend() -> Html:
    rows = (("here", "a member"), ("came", "came"), ("left", "left"), ("expelled", "expelled"), ("band", "rebalance"))
    return el("p", [el("span", el("i", class_=a), b) for a, b in rows], class_="legend lives", aria_hidden="true")


# --- each rebalance -------------------------------------------------------------------------------------------------


def listed(history: Sequence[RebalanceView], now_ms: int) -> Html:
    """The last rebalances, the last first."""
    if not history:
        return parts.panel("Rebalances", parts.nothing("No rebalance is known of."))
    shown = sorted(history, key=lambda each: -each.began_ms)[:_SHOWN]
    longest = max(max(_length(each, now_ms), *(w.ms for w in each.waited), 1) for each in shown)
    made = [_rebalance(each, now_ms, longest) for each in shown]
    note = f"bars are to scale: the longest took {figures.seconds(longest / 1000)}"
    return parts.panel("Rebalances", el("ol", made, class_="rebalances"), note=note)


def _length(rebalance: RebalanceView, now_ms: int) -> int:
    return max((rebalance.ended_ms or rebalance.joined_ms or now_ms) - rebalance.began_ms, 0)


def _rebalance(rebalance: RebalanceView, now_ms: int, longest: int) -> Html:
    runs = rebalance.ended_ms is None and now_ms - rebalance.began_ms < 600_000
    took = figures.seconds(_length(rebalance, now_ms) / 1000)
    length = el("span", f"{took} so far" if runs else f"took {took}", class_="took")
    head = el("header", el("h3", rebalance.reason), parts.moment(rebalance.began_ms, now_ms), length)
    who = rebalance.client_id or rebalance.member_id
    where = f" on {rebalance.host.lstrip('/')}" if rebalance.host else ""
    by = el("span", "by ", el("b", who, title=rebalance.member_id), where, class_="note") if who else None
    changes = [
        *_changes("came", rebalance.came, "+"),
        *_changes("left", rebalance.left, "\u2212"),
        *_changes("expelled", rebalance.expelled, "\u2212"),
    ]
    how = "goes on" if rebalance.reason == REPLACED else "ended"
    then = f"generation {rebalance.generation_id} {how}, {figures.plural(rebalance.members, 'member')} after it"
    told = el("p", changes, by, el("span", then, class_="note"), class_="changes")
    return el("li", head, told, _phases(rebalance, now_ms, longest), class_="running" if runs else None)


def _changes(how: str, members: Sequence[str], sign: str) -> list[Html]:
    if not members:
        return []
    names = ", ".join(members)
    return [el("span", f"{sign}{len(members)} {how}", class_=f"change {how}", title=names)]


def _phases(rebalance: RebalanceView, now_ms: int, longest: int) -> Html:
    joined = rebalance.joined_ms or rebalance.ended_ms or now_ms
    ended = rebalance.ended_ms or (joined if rebalance.joined_ms is None else now_ms)
    join_ms, sync_ms = max(joined - rebalance.began_ms, 0), max(ended - joined, 0)
    split = parts.WIDE * join_ms / longest
    shapes = (
        el("rect", width=parts.WIDE, height=10, class_="track"),
        el("rect", width=round(max(split, 2), 1), height=10, class_="join"),
        el("rect", x=round(split, 1), width=round(parts.WIDE * sync_ms / longest, 1), height=10, class_="sync"),
    )
    said = f"joining {figures.seconds(join_ms / 1000)}, syncing {figures.seconds(sync_ms / 1000)}"
    rows: list[Child] = [
        el(
            "div",
            el("span", _phase_names(join_ms, sync_ms)),
            parts.drawing(*shapes, high=10, label=said, class_="phase"),
        )
    ]
    rows += [_wait(each, longest) for each in rebalance.waited]
    return el("div", rows, class_="phases")


def _phase_names(join_ms: int, sync_ms: int) -> Child:
    join = el("span", el("i", class_="join"), f"join {figures.seconds(join_ms / 1000)}")
    return (join, el("span", el("i", class_="sync"), f"sync {figures.seconds(sync_ms / 1000)}"))


def _wait(waited: Waited, longest: int) -> Html:
    who = waited.client_id or waited.member_id[:24]
    where = f" on {waited.host.lstrip('/')}" if waited.host else ""
    label = f"waited {figures.seconds(waited.ms / 1000)} for {who}{where}"
    track = el("rect", width=parts.WIDE, height=4, class_="track")
    shape = el("rect", width=round(max(parts.WIDE * waited.ms / longest, 2), 1), height=4, class_="wait")
    text = ("waited ", el("b", figures.seconds(waited.ms / 1000)), f" for {who}{where}", f" to {waited.phase}")
    drawn = parts.drawing(track, shape, high=4, label=label, class_="wait")
    return el("div", el("span", text, title=waited.member_id), drawn)
