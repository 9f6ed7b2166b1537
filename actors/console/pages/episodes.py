"""Reads a group's rebalances: how each ended, whom it waited for, and when each member came and went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actors.console.axis import Window
from actors.coordinator.groups.history import REPLACED
from actors.links.rebalances import named
from actors.links.views import REBALANCING, GroupView, MemberView, RebalanceView, Waited

RUNNING: Final = "running"
ENDED: Final = "ended"
BROKEN_OFF: Final = "broken off"
QUIET: Final = "quiet"
_UNDER_WAY: Final = {"join": "members join", "sync": "{members} joined"}
"""The stage of a rebalance, in words, by the phase that runs."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A rebalance from its beginning until it ended, another one broke it off, or now."""

    view: RebalanceView
    until_ms: int
    how: str
    """RUNNING, ENDED, BROKEN_OFF, or QUIET for a member that was replaced without a rebalance."""
    waited: tuple[Waited, ...] = ()
    """The members it waited for, or waits for still, the longest first."""

    @property
    def phases_ms(self) -> Mapping[str, int]:
        """The length of each of its phases, in order; 0 for those that have not begun."""
        begun = {each.name: max((each.until_ms or self.until_ms) - each.since_ms, 0) for each in self.view.phases}
        return dict.fromkeys(self.view.phase_names, 0) | begun

    @property
    def length_ms(self) -> int:
        """The length of all of it."""
        return sum(self.phases_ms.values())

    @property
    def then(self) -> str:
        """The generation or epoch that ended, and what came after."""
        view = self.view
        name = view.epoch_name
        ended = f"{name} {view.epoch} ended" if view.epoch > 0 else f"the first {name}"
        members = f"{view.members} member{'' if view.members == 1 else 's'}"
        match self.how:
            case "running":
                now = _UNDER_WAY.get(view.phases[-1].name, "under way")
                return f"{ended}, {now.format(members=members)}"
            case "broken off":
                return f"{ended}, the next rebalance broke this one off"
            case "quiet":
                return f"{name} {view.epoch} goes on with {members}"
        return f"{ended}, {members} after it" if view.members else f"{ended}, nobody is left"


def episodes(found: GroupView, past: Iterable[RebalanceView] = ()) -> tuple[Episode, ...]:
    """The rebalances of a group, those that are remembered (`past`) and those it has itself, oldest first."""
    known = {(each.began_ms, each.epoch): each for each in (*past, *found.rebalances)}
    views = [known[key] for key in sorted(known)]
    running = running_of(found)
    following = [*(each.began_ms for each in views[1:]), found.wall_ms]
    return tuple(_episode(each, found, running, then) for each, then in zip(views, following, strict=False))


def running_of(found: GroupView) -> RebalanceView | None:
    """The rebalance that is under way."""
    rebalancing = found.row is not None and found.row.state in REBALANCING
    last = found.rebalances[-1] if found.rebalances else None
    return last if rebalancing and last is not None and last.ended_ms is None else None


def _episode(view: RebalanceView, found: GroupView, running: RebalanceView | None, following_ms: int) -> Episode:
    if view is running or (running is not None and view == running):
        waited = (*_still_awaited(view, found), *view.waited)
        return Episode(view, max(found.wall_ms, view.began_ms), RUNNING, _longest_first(waited))
    if view.ended_ms is not None:
        return Episode(view, view.ended_ms, QUIET if view.reason == REPLACED else ENDED, view.waited)
    return Episode(view, max(following_ms, view.phases[-1].since_ms), BROKEN_OFF, view.waited)


def _still_awaited(view: RebalanceView, found: GroupView) -> Iterable[Waited]:
    """The members that the running phase waits for, and the time for which it has."""
    phase, since, _ = view.phases[-1]
    members = {each.member_id: each for each in found.members}
    for member_id in found.awaited:
        member = members.get(member_id)
        client_id, host = (member.client_id, member.host) if member is not None else ("", "")
        yield Waited(member_id, phase, max(found.wall_ms - since, 0), client_id, host)


def _longest_first(waited: Iterable[Waited]) -> tuple[Waited, ...]:
    by_wait: dict[tuple[str, str], Waited] = {}
    for each in waited:
        by_wait.setdefault((each.member_id, each.phase), each)
    return tuple(sorted(by_wait.values(), key=lambda each: -each.ms))


def counted(found: Iterable[Episode], window: Window) -> int:
    """The number of rebalances that began in that time; to be replaced without one is none."""
    return sum(each.how != QUIET and window.since_ms <= each.view.began_ms <= window.until_ms for each in found)


# --- members --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Life:
    """A member from when it came until it went. None: before what is known, or not yet."""

    member_id: str
    came_ms: int | None
    gone_ms: int | None
    how: str
    """`left`, `expelled`, `replaced`, `here`, or `joining` while a rebalance has it and the group has not yet."""


def lives(members: Iterable[MemberView], found: Sequence[Episode]) -> list[Life]:
    """All members that are known of, the youngest first, but those that are here before those that are gone."""
    came: dict[str, int] = {}
    gone: dict[str, tuple[int, str]] = {}
    for each in sorted(found, key=lambda each: each.view.began_ms):
        at = each.view.began_ms if each.how != QUIET else each.until_ms
        for member_id in named(each.view.came)[0]:
            came.setdefault(member_id, at)
        for how, ids in _went(each.view):
            gone |= dict.fromkeys(named(ids)[0], (each.view.began_ms, how))
    here = {member.member_id: "here" for member in members}
    joining = [m for each in found if each.how == RUNNING for m in named(each.view.came)[0]]
    here = dict.fromkeys(joining, "joining") | here
    known = [
        Life(member_id, came.get(member_id), None, how) for member_id, how in here.items() if member_id not in gone
    ]
    known.sort(key=lambda life: (life.came_ms or 0, life.member_id))
    past = [Life(member_id, came.get(member_id), *gone[member_id]) for member_id in gone]
    return known + sorted(past, key=lambda life: -(life.gone_ms or 0))


def _went(view: RebalanceView) -> Iterable[tuple[str, Sequence[str]]]:
    """The ways in which members went, each with them."""
    # Older versions remember a replaced member as one that left.
    left, replaced = view.left, view.replaced
    if view.reason == REPLACED and not replaced:
        left, replaced = (), left
    return ("left", left), ("expelled", view.expelled), ("replaced", replaced)


def changes(view: RebalanceView) -> Iterable[tuple[str, str, Sequence[str]]]:
    """The members that came and went: how, the sign, and their ids."""
    yield "came", "+", view.came
    for how, ids in _went(view):
        yield how, "\N{MINUS SIGN}", ids
