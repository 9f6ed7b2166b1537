"""The list of groups: their states, members and lag, searched and sorted."""

from __future__ import annotations

from collections import Counter
from typing import Final

from actors.console import figures
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.console.pages.page import Asked, Page, Region, to
from actors.console.pages.parts import Column
from actors.links.views import CLASSIC, REBALANCING, TREND_POINTS, GroupRow, ListGroupRows

_CHOICES: Final = ("", "stable", "rebalancing", "empty", "lagging")


def _lag(row: GroupRow) -> Html | str:
    return el("span", "0", class_="faint") if row.lag == 0 else figures.short(row.lag)


def _age(row: GroupRow) -> Html | str:
    return el("span", figures.seconds(0), class_="faint") if row.lag_seconds == 0 else figures.seconds(row.lag_seconds)


def _name(row: GroupRow) -> Html:
    topics = ", ".join(row.topics[:3]) + (f" and {len(row.topics) - 3} more" if len(row.topics) > 3 else "")
    return el("span", el("b", row.group_id), el("small", topics or "no topics"), class_="two")


def _kind(row: GroupRow) -> Child:
    return (parts.kind(row.kind), parts.group_type(row.group_type))


_COLUMNS: Final[tuple[Column[GroupRow], ...]] = (
    Column("group", "Group", _name, lambda row: row.group_id.lower(), "name"),
    Column("state", "State", lambda row: parts.state(row.state), lambda row: row.state, "badge"),
    Column("kind", "Members are", _kind, lambda row: row.kind, "wide"),
    Column("members", "Members", lambda row: figures.count(row.members), lambda row: row.members, "n", True),
    Column("lag", "Lag", _lag, lambda row: row.lag, "n", True),
    Column("age", "Oldest unread", _age, lambda row: row.lag_seconds, "n", True),
    Column(
        "trend",
        "Last hour",
        lambda row: parts.spark(row.trend, "lag over the last hour", TREND_POINTS),
        None,
        "trend wide",
    ),
    Column(
        "commits",
        "Commits",
        lambda row: figures.rate(row.commits_per_s),
        lambda row: row.commits_per_s,
        "n wide",
        True,
    ),
    Column(
        "rebalances",
        "Rebalances, 1 h",
        lambda row: figures.count(row.rebalances),
        lambda row: row.rebalances,
        "n wide",
        True,
    ),
)


def _matches(row: GroupRow, choice: str) -> bool:
    if choice == "rebalancing":
        return row.state in REBALANCING
    if choice == "lagging":
        return bool(row.lag)
    return not choice or row.state.lower() == choice


async def page(asked: Asked) -> Page:
    """All groups, or those that are looked for."""
    found = await asked.source.view(ListGroupRows())
    wanted = asked.text("q").casefold().split()
    named = [row for row in found.groups if all(word in _words(row) for word in wanted)]
    choice = asked.text("show") if asked.text("show") in _CHOICES else ""
    rows = parts.ordered((row for row in named if _matches(row, choice)), _COLUMNS, asked, "group")
    counts = {each: sum(_matches(row, each) for row in named) for each in _CHOICES}
    options = {each: (each.capitalize() or "All", el("small", counts[each])) for each in _CHOICES}
    tools = el(
        "div",
        parts.choices("Which groups", options, choice, asked, "show"),
        parts.search(asked, "Search groups and topics", ("sort", "order", "show")),
        class_="bar-tools",
    )
    head = el("div", el("div", el("h1", "Groups"), el("p", _said(named), class_="note")), class_="title")
    body = (
        parts.table("Groups", rows, _COLUMNS, asked, "group", lambda row: to("/group", id=row.group_id))
        if rows
        else _none(bool(found.groups))
    )
    regions = (Region("head", head), Region("tools", tools), Region("list", el("section", body, class_="panel flush")))
    return Page("Groups", "groups", regions, found.wall_ms)


def _words(row: GroupRow) -> str:
    group_type = row.group_type if row.group_type != CLASSIC else ""
    return f"{row.group_id} {row.kind} {group_type} {' '.join(row.topics)}".casefold()


def _said(rows: list[GroupRow]) -> str:
    lag = sum(row.lag or 0 for row in rows)
    kinds = Counter(row.kind for row in rows)
    special = [
        f"{kinds['pool']} of pools" if kinds["pool"] else "",
        f"{kinds['spark']} of Spark" if kinds["spark"] else "",
    ]
    told = [figures.plural(len(rows), "group"), *filter(None, special), f"{figures.short(lag)} records behind"]
    return " · ".join(told)


def _none(there_are: bool) -> Html:
    if there_are:
        return parts.nothing("No group fits.", "Search for less, or show all.")
    return parts.nothing("There are no groups yet.", "A consumer with a group.id makes one when it connects.")
