"""The page of a group: who its members are, how far it is behind and was, why it rebalanced, and what it committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from actors.console import figures
from actors.console.axis import Window
from actors.console.html import Child, Html, el, join
from actors.console.pages import episodes, lanes, parts, rebalances
from actors.console.pages.episodes import Episode
from actors.console.pages.page import Asked, Page, Region, Series, to
from actors.console.pages.parts import Column
from actors.links.member_names import MemberNames, Name
from actors.links.views import (
    CLASSIC,
    GetGroup,
    GetGroupHistory,
    GroupHistory,
    GroupRow,
    GroupView,
    LagPoint,
    MemberView,
    PartitionLag,
)

_SPANS: Final = {"15m": 15, "1h": 60, "6h": 360, "24h": 1440}
"""Minutes of history that can be chosen."""
_DEFAULT_SPAN: Final = "1h"
_FIRST_SPAN: Final = "15m"
"""The span if nothing older is known, unless another one is asked for."""
_MEMBERS: Final = {
    "pool": "Each is an actor of a ConsumerPool.",
    "spark": "Each is a member of a Spark job, beside its executors.",
}
_WAITS_FOR: Final = {
    "PreparingRebalance": " to rejoin",
    "CompletingRebalance": " to hand out or take the assignment",
}
_MEMBER_COLUMNS: Final = ("Member", "Process", "Host", "Partitions", "Lag")
_SILENT_MS: Final = 1_260_000
"""A curve has a point in ten minutes at least: of two such times in which it has none, nothing is known."""


async def page(asked: Asked) -> Page:
    """One group."""
    group_id = asked.text("id")
    found = await asked.source.view(GetGroup(group_id, rebalances=50))
    if found.row is None:
        gone = parts.nothing(
            f"There is no group {group_id}, or you may not see it.", el("a", "All groups", href="/groups")
        )
        return Page("No such group", "groups", (Region("gone", gone),), found.wall_ms, live=False, status=404)
    span, history = await _history(asked, found)
    window = _window(span, found)
    past = episodes.episodes(found, history.rebalances)
    names = MemberNames(found.members, [each.view for each in past])
    head = Region("head", join(_head(found.row, asked), _waiting(found, names)))
    members, offsets = Region("members", _members(found, names)), Region("offsets", _offsets(found, asked, names))
    if not past and not history.points:  # as of Kafka, which keeps none
        return Page(group_id, "groups", (head, members, offsets), found.wall_ms)
    over_time = (
        Region("charts", _charts(asked, span)),
        Region("timeline", lanes.timeline(found.members, past, names, window, found.awaited)),
    )
    why = Region("rebalances", rebalances.listed(past, names, found.wall_ms))
    series = _series(history.points, past, window)
    regions = (head, *over_time, members, why, offsets)
    return Page(group_id, "groups", regions, found.wall_ms, series, pinned=urlencode({"span": span}))


def _window(span: str, found: GroupView) -> Window:
    return Window(found.wall_ms - _SPANS[span] * 60_000, found.wall_ms)


async def _history(asked: Asked, found: GroupView) -> tuple[str, GroupHistory]:
    """The remembered part of the group, and its time span: the one asked for, else an hour, or less of a short past."""
    chosen = asked.text("span") if asked.text("span") in _SPANS else ""
    window = _window(chosen or _DEFAULT_SPAN, found)
    history = await asked.source.view(GetGroupHistory(asked.text("id"), window.since_ms, window.until_ms))
    times = [*(each.wall_ms for each in history.points[:1]), *(each.began_ms for each in history.rebalances[:1])]
    short = bool(times) and min(times) >= _window(_FIRST_SPAN, found).since_ms
    return chosen or (_FIRST_SPAN if short else _DEFAULT_SPAN), history


def _series(points: Sequence[LagPoint], past: Iterable[Episode], window: Window) -> Series:
    drawn = with_gaps(points)
    values: Mapping[str, tuple[float | None, ...]] = {
        "lag": tuple(point.lag for point in drawn),
        "age": tuple(point.lag_seconds for point in drawn),
    }
    marks = tuple((each.view.began_ms, lanes.cause(each.view)) for each in past if each.how != episodes.QUIET)
    return Series(tuple(point.wall_ms for point in drawn), values, window, marks)


def with_gaps(points: Sequence[LagPoint]) -> list[LagPoint]:
    """The points of a curve, with a hole where nobody looked for so long."""
    found: list[LagPoint] = []
    for point in points:
        if found and point.wall_ms - found[-1].wall_ms > _SILENT_MS:
            found.append(LagPoint(found[-1].wall_ms + 1, None, None, None))
        found.append(point)
    return found


def _head(row: GroupRow, asked: Asked) -> Html:
    back = el("p", el("a", "Groups", href="/groups"), class_="crumbs")
    name = el("h1", row.group_id, parts.state(row.state), parts.kind(row.kind), parts.group_type(row.group_type))
    where = f"Coordinated by broker {row.broker_id}, in __consumer_offsets-{row.offsets_partition}"
    said = el("p", where if row.broker_id >= 0 else "It has no coordinator now", class_="note")
    move = el("a", "Reset offsets", href=to("/group/reset", id=row.group_id), class_="button") if asked.writes else None
    title = el("div", el("div", back, name, said), move, class_="title")
    behind = "warn" if row.lag_seconds and row.lag_seconds >= 60 else ""
    read = [join(", " if place else "", parts.topic_link(topic)) for place, topic in enumerate(row.topics[:4])]
    more = f" and {len(row.topics) - 4} more" if len(row.topics) > 4 else None
    made = parts.figures_of(
        parts.figure("Members", figures.count(row.members)),
        parts.figure("Lag", figures.short(row.lag), "records unread"),
        parts.figure("Oldest unread", figures.seconds(row.lag_seconds), "the slowest partition", behind),
        parts.figure("Commits", figures.rate(row.commits_per_s), "offsets"),
        parts.figure("Rebalances", figures.count(row.rebalances), "in the last hour"),
        parts.figure("Topics", figures.count(len(row.topics)), (read, more)),
        *_epoch(row),
    )
    return el("div", title, made)


def _epoch(row: GroupRow) -> list[Html]:
    """Of a consumer group: its epoch, and whether the targets of its members are of it already."""
    if row.epoch is None:
        return []
    behind = row.assignment_epoch is not None and row.assignment_epoch < row.epoch
    note = f"targets are of epoch {row.assignment_epoch}" if behind else "targets are of it"
    return [parts.figure("Epoch", figures.count(row.epoch), note, "warn" if behind else "")]


def _waiting(found: GroupView, names: MemberNames) -> Html | None:
    """The members that a running rebalance waits for."""
    if not found.awaited and found.phase_ends_in_ms is None:
        return None
    count = max(found.awaited_count, len(found.awaited))
    shown = [el("li", _awaited(names.of(each))) for each in found.awaited[:8]]
    shown += [el("li", f"and {figures.count(count - 8)} more")] if count > 8 else []
    ends = found.phase_ends_in_ms
    left = f" It goes on without them in {figures.seconds(ends // 1000)}." if ends is not None else ""
    what = _WAITS_FOR.get(found.row.state, "") if found.row else ""
    said = f"The group waits for {figures.plural(count, 'member')}{what}.{left}"
    return el("div", el("p", el("b", "Rebalancing. "), said), el("ul", shown), class_="alert warn", role="status")


def _awaited(name: Name) -> Child:
    process = f", {name.process}" if name.process else None
    return (parts.member(name, where=True), process)


def _charts(asked: Asked, span: str) -> Html:
    options = {"15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h"}
    tools = parts.choices("How long", options, span, asked, "span")
    lag = el("figure", el("figcaption", "Records unread"), el("div", class_="chart", data_chart="lag"))
    age = el("figure", el("figcaption", "Age of the oldest unread record"), el("div", class_="chart", data_chart="age"))
    without = el("noscript", el("p", "The curves need scripts; everything else on this page does not.", class_="note"))
    marks = el("span", el("i"), "a rebalance", class_="marks")
    return parts.panel("Lag", el("div", lag, age, class_="charts"), without, note=marks, tools=tools)


# --- members --------------------------------------------------------------------------------------------------------


def _members(found: GroupView, names: MemberNames) -> Html:
    kind = found.row.kind if found.row else ""
    if not found.members:
        return parts.panel("Members", parts.nothing(_why_no_members(found.row)))
    lags = _lag_by_member(found.partitions)
    told = any(member.process for member in found.members)
    rows = [
        _member(member, names.of(member.member_id), lags.get(member.member_id), member.member_id in found.awaited, told)
        for member in found.members[:500]
    ]
    columns = [each for each in _MEMBER_COLUMNS if told or each != "Process"]
    head = el("tr", [el("th", each, scope="col", class_="n" if each == "Lag" else None) for each in columns])
    made = el("table", el("caption", "Members", class_="unseen"), el("thead", head), el("tbody", rows), class_="cards")
    note = _MEMBERS.get(kind) if len(found.members) <= 500 else f"500 of {figures.count(len(found.members))}"
    return parts.panel("Members", el("div", made, class_="scroll"), note=note)


def _why_no_members(row: GroupRow | None) -> str:
    if row is not None and row.group_type != CLASSIC and row.members != 0:
        return f"It is of type {row.group_type}, and its members are not told here."
    only_commits = row is not None and row.kind == "simple"
    return "It only commits offsets, and has no members." if only_commits else "It has no members now."


def _lag_by_member(partitions: Sequence[PartitionLag]) -> dict[str, int]:
    lags: dict[str, int] = {}
    for each in partitions:
        if each.member_id is not None and each.lag is not None:
            lags[each.member_id] = lags.get(each.member_id, 0) + each.lag
    return lags


def _member(member: MemberView, name: Name, lag: int | None, awaited: bool, told: bool) -> Html:
    late = el("span", "awaited", class_="state PreparingRebalance") if awaited else None
    static = f"static: {member.group_instance_id} " if member.group_instance_id else None
    epoch = f" epoch {member.epoch}" if member.epoch is not None else None
    below = el("small", static, name.short, epoch, title=member.member_id)
    shown = el("span", el("b", member.client_id or name.base, late), below, class_="two")
    count = sum(len(numbers) for numbers in member.assignment.values())
    held = [*_ranges(member.assignment), *_moves("gives back", member.to_give_back), *_moves("gets", member.to_come)]
    return el(
        "tr",
        el("td", shown, data_label="Member"),
        el("td", member.process or el("span", "not told", class_="faint"), data_label="Process") if told else None,
        el("td", member.host.lstrip("/"), data_label="Host"),
        el("td", held or el("span", "none", class_="faint"), data_label="Partitions", title=f"{count} in all"),
        el("td", figures.short(lag), class_="n", data_label="Lag"),
    )


def _ranges(partitions: Mapping[str, Sequence[int]]) -> list[Html]:
    return [
        el("span", el("b", topic), " ", figures.ranges(numbers), class_="held")
        for topic, numbers in sorted(partitions.items())[:12]
    ]


def _moves(what: str, partitions: Mapping[str, Sequence[int]]) -> list[Html]:
    return [el("small", what, " ", _ranges(partitions))] if partitions else []


# --- offsets --------------------------------------------------------------------------------------------------------


def _offsets(found: GroupView, asked: Asked, names: MemberNames) -> Html:
    if not found.partitions:
        return parts.panel("Offsets", parts.nothing("Nothing has been committed, and no partition is owned."))
    worst = max((each.lag or 0 for each in found.partitions), default=0)

    def lag(row: PartitionLag) -> Child:
        share = (row.lag or 0) / worst if worst else 0.0
        return (figures.count(row.lag), parts.bar(share, "share of the greatest lag", "warm"))

    def owner(row: PartitionLag) -> Child:
        return parts.member(names.of(row.member_id)) if row.member_id else el("span", "nobody", class_="faint")

    columns: tuple[Column[PartitionLag], ...] = (
        Column("partition", "Partition", _partition, lambda row: (row.topic, row.partition), "name"),
        Column(
            "committed", "Committed", lambda row: figures.count(row.committed), lambda row: row.committed, "n", True
        ),
        Column("end", "End", lambda row: figures.count(row.log_end), lambda row: row.log_end, "n wide", True),
        Column("lag", "Lag", lag, lambda row: row.lag, "n sized", True),
        Column(
            "age", "Oldest unread", lambda row: figures.seconds(row.lag_seconds), lambda row: row.lag_seconds, "n", True
        ),
        Column(
            "when",
            "Committed at",
            lambda row: parts.moment(row.commit_ms, found.wall_ms),
            lambda row: row.commit_ms,
            "n wide",
            True,
        ),
        Column("owner", "Owner", owner, None, "wide"),
    )
    rows = parts.ordered(found.partitions, columns, asked, "partition")
    made = parts.table("Committed offsets", rows, columns, asked, "partition")
    return parts.panel("Offsets", made, note=figures.plural(len(rows), "partition"))


def _partition(row: PartitionLag) -> Html:
    link = el(
        "a", row.topic, el("span", f"-{row.partition}"), href=to("/records", name=row.topic, partition=row.partition)
    )
    return el("span", link, title=row.metadata or None)
