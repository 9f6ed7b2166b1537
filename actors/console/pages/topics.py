"""The list of topics, and the page of one: its partitions, where they are, and who reads it."""

from __future__ import annotations

from typing import Final

from actors.console import figures
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.console.pages.page import Asked, Page, Region, to
from actors.console.pages.parts import Column
from actors.links.views import GetTopic, ListTopicRows, PartitionView, TopicRow, TopicView


def _name(row: TopicRow) -> Html:
    said = "internal" if row.is_internal else _readers(row)
    return el("span", el("b", row.name), el("small", said), class_="two")


def _readers(row: TopicRow) -> str:
    if not row.groups:
        return "no group reads it"
    more = f" and {len(row.groups) - 3} more" if len(row.groups) > 3 else ""
    return f"read by {', '.join(row.groups[:3])}{more}"


def _behind(row: TopicRow) -> Child:
    if row.under_replicated:
        return el("span", figures.count(row.under_replicated), class_="bad")
    return el("span", "0", class_="faint")


_COLUMNS: Final[tuple[Column[TopicRow], ...]] = (
    Column("topic", "Topic", _name, lambda row: row.name.lower(), "name"),
    Column(
        "partitions", "Partitions", lambda row: figures.count(row.partitions), lambda row: row.partitions, "n", True
    ),
    Column("replicas", "Replicas", lambda row: figures.count(row.replicas), lambda row: row.replicas, "n wide"),
    Column("records", "Records", lambda row: figures.short(row.records), lambda row: row.records, "n", True),
    Column("size", "Size", lambda row: figures.size(row.size_bytes), lambda row: row.size_bytes, "n", True),
    Column("rate", "In", lambda row: figures.rate(row.messages_per_s), lambda row: row.messages_per_s, "n wide", True),
    Column("behind", "Under-replicated", _behind, lambda row: row.under_replicated, "n wide", True),
)


async def page(asked: Asked) -> Page:
    """All topics, or those that are looked for."""
    found = await asked.source.view(ListTopicRows())
    wanted = asked.text("q").casefold().split()
    internal = asked.text("internal") == "yes"
    shown = [row for row in found.topics if internal or not row.is_internal]
    rows = parts.ordered(
        (row for row in shown if all(word in row.name.casefold() for word in wanted)), _COLUMNS, asked, "topic"
    )
    options = {"": "Yours", "yes": "With internal ones"}
    tools = el(
        "div",
        parts.choices("Which topics", options, "yes" if internal else "", asked, "internal"),
        parts.search(asked, "Search topics", ("sort", "order", "internal")),
        class_="bar-tools",
    )
    total = sum(row.partitions for row in shown)
    sub = f"{figures.plural(len(shown), 'topic')} · {figures.plural(total, 'partition')}"
    head = el("div", el("div", el("h1", "Topics"), el("p", sub, class_="note")), class_="title")
    body = (
        parts.table("Topics", rows, _COLUMNS, asked, "topic", lambda row: to("/topic", name=row.name))
        if rows
        else parts.nothing("No topic fits." if shown else "There are no topics yet.")
    )
    regions = (Region("head", head), Region("tools", tools), Region("list", el("section", body, class_="panel flush")))
    return Page("Topics", "topics", regions, found.wall_ms)


# --- one topic ------------------------------------------------------------------------------------------------------


async def topic(asked: Asked) -> Page:
    """One topic."""
    name = asked.text("name")
    found = await asked.source.view(GetTopic(name))
    if found.row is None:
        gone = parts.nothing(f"There is no topic {name}, or you may not see it.", el("a", "All topics", href="/topics"))
        return Page("No such topic", "topics", (Region("gone", gone),), found.wall_ms, live=False, status=404)
    regions = (
        Region("head", _head(found.row)),
        Region("partitions", _partitions(found, asked)),
        Region("more", _more(found)),
    )
    return Page(name, "topics", regions, found.wall_ms)


def _head(row: TopicRow) -> Html:
    back = el("p", el("a", "Topics", href="/topics"), class_="crumbs")
    badge = el("span", "internal", class_="kind") if row.is_internal else None
    look = el("a", "Look at records", href=to("/records", name=row.name), class_="button")
    title = el("div", el("div", back, el("h1", row.name, badge)), look, class_="title")
    well = "bad" if row.under_replicated else ""
    made = parts.figures_of(
        parts.figure("Partitions", figures.count(row.partitions), figures.plural(row.replicas, "replica") + " each"),
        parts.figure("Records", figures.short(row.records)),
        parts.figure("Size", figures.size(row.size_bytes), "one replica"),
        parts.figure("In", figures.rate(row.messages_per_s), "records"),
        parts.figure("Under-replicated", figures.count(row.under_replicated), "partitions", well),
    )
    return el("div", title, made)


def _partitions(found: TopicView, asked: Asked) -> Html:
    name = asked.text("name")
    largest = max((each.size_bytes or 0 for each in found.partitions), default=0)

    def sized(row: PartitionView) -> Child:
        share = (row.size_bytes or 0) / largest if largest else 0.0
        return (figures.size(row.size_bytes), parts.bar(share, "share of the largest"))

    def in_sync(row: PartitionView) -> Child:
        missing = [each for each in row.replicas if each not in row.isr]
        return [
            el("span", each, class_="replica out" if each in missing else "replica", title=_role(each, row))
            for each in row.replicas
        ]

    columns: tuple[Column[PartitionView], ...] = (
        Column("partition", "Partition", lambda row: row.partition, lambda row: row.partition, "name"),
        Column("leader", "Leader", lambda row: _leader(row.leader), lambda row: row.leader, "n"),
        Column("replicas", "Replicas", in_sync, None),
        Column("start", "Start", lambda row: figures.count(row.log_start), lambda row: row.log_start, "n wide"),
        Column("end", "End", lambda row: figures.count(row.log_end), lambda row: row.log_end, "n", True),
        Column("size", "Size", sized, lambda row: row.size_bytes, "n sized", True),
        Column(
            "last",
            "Last record",
            lambda row: parts.moment(row.last_ms, found.wall_ms),
            lambda row: row.last_ms,
            "n wide",
            True,
        ),
    )
    rows = parts.ordered(found.partitions, columns, asked, "partition")
    made = parts.table(
        "Partitions", rows, columns, asked, "partition", lambda row: to("/records", name=name, partition=row.partition)
    )
    return parts.panel("Partitions", made, note="a row leads to its records")


def _role(broker: int, row: PartitionView) -> str:
    role = "leader" if broker == row.leader else "follower"
    return f"broker {broker}, {role}, {'in sync' if broker in row.isr else 'not in sync'}"


def _leader(leader: int) -> Child:
    return el("span", "none", class_="bad") if leader < 0 else leader


def _more(found: TopicView) -> Html:
    row = found.row
    readers = [el("li", parts.group_link(each)) for each in (row.groups if row else ())]
    who = el("ul", readers, class_="links") if readers else parts.nothing("No group has committed offsets of it.")
    return el(
        "div",
        parts.panel("Groups that read it", who),
        parts.panel("Settings of its own", _settings(found)),
        class_="pair",
    )


def _settings(found: TopicView) -> Html:
    if found.configs is None:
        return parts.nothing("Only those see them who may describe its settings.")
    settings = [el("div", el("dt", key), el("dd", value)) for key, value in sorted(found.configs.items())]
    if not settings:
        return parts.nothing("It has the brokers' settings, and no others.")
    return el("dl", settings, class_="pairs")
