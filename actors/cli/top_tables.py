"""The contents of `coterie top`: rows of brokers and groups, and the lines above and below them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from actors.cli import figures, output
from actors.cli.fitting import wrapped_text
from actors.links.views import BrokerView, GroupRow, Overview
from actors.runtime.escaping import escaped

Rows = list[dict[str, Any]]

BROKER_COLUMNS: Final = (
    *("broker", "address", "state", "pid", "connections", "leads", "requests/s", "in/s", "out/s"),
    *("longest", "waiting"),
)
GROUP_COLUMNS: Final = (
    *("group", "state", "kind", "#members", "lag", "behind", "commits/s", "rebalances/h", "coordinator"),
)
NUMBERS: Final = frozenset((*BROKER_COLUMNS, *GROUP_COLUMNS)) - {"broker", "address", "state", "group", "kind"}
"""Columns that are read from the right."""
ALARMING: Final = frozenset(("Dead", "PreparingRebalance"))
"""States that are shown in red."""

NAMES: Final = ("address", "group")
"""Columns that a narrow terminal shortens."""
SPARE: Final = (
    *("pid", "leads", "waiting", "connections", "longest"),
    *("coordinator", "kind", "rebalances/h", "#members", "commits/s"),
    *("out/s", "in/s", "state", "behind"),
)
"""Columns that it leaves out, in this order."""

ORDERS: Final[Mapping[str, Callable[[GroupRow], Any]]] = {
    "lag": lambda row: -_or(row.lag),
    "behind": lambda row: -_or(row.lag_seconds),
    "commits": lambda row: -_or(row.commits_per_s),
    "rebalances": lambda row: -row.rebalances,
    "members": lambda row: -_or(row.members),
    "group": lambda row: "",
}
"""The keys by which groups are sorted; then by their ids."""
SORTED: Final = {"behind": "behind", "commits": "commits/s", "rebalances": "rebalances/h", "members": "#members"}
"""The columns of ORDERS that are in SPARE: while groups are sorted by one, it is shown."""


def _or(value: float | None) -> float:
    return -1 if value is None else value


def sorted_groups(groups: Iterable[GroupRow], order: str, *, backwards: bool = False) -> list[GroupRow]:
    """The groups in one of ORDERS."""
    key = ORDERS[order]
    return sorted(groups, key=lambda row: (key(row), row.group_id), reverse=backwards)


def headlines(found: Overview) -> Iterator[tuple[str, ...]]:
    """The cluster as a whole: lines, each of parts."""
    alive = sum(broker.alive for broker in found.brokers)
    yield (
        f"{found.name} at {figures.moment(found.wall_ms)}",
        f"brokers {alive}/{len(found.brokers)}",
        f"{output.plural(found.topics, 'topic')}, {output.plural(found.partitions, 'partition')}",
    )
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(found.groups.items())) or "none"
    yield (
        f"groups {states}",
        f"lag {output.text(figures.count(found.lag))}",
        f"messages/s {output.text(figures.rate(found.messages_per_s))}",
        f"commits/s {output.text(figures.rate(found.commits_per_s))}",
    )
    shards = Counter(shard.state for shard in found.shards)
    yield (f"shards {', '.join(f'{count} {state}' for state, count in sorted(shards.items())) or 'none'}",)
    for broker in found.brokers:
        for note in broker.notes:
            yield (f"broker {broker.id}: {note}",)


def broker_row(broker: BrokerView) -> dict[str, Any]:
    """A broker, and what it has done in a second since the look before."""
    return {
        "broker": broker.id,
        "address": f"{broker.host}:{broker.port}",
        "state": "Alive" if broker.alive else "Dead",
        "pid": broker.pid,
        "connections": broker.connections,
        "leads": broker.leads,
        "requests/s": figures.rate(broker.requests_per_s),
        "in/s": _bytes(broker.bytes_in_per_s),
        "out/s": _bytes(broker.bytes_out_per_s),
        "longest": f"{broker.longest_turn_ms:.0f}ms",
        "waiting": broker.parked,
    }


def group_row(group: GroupRow) -> dict[str, Any]:
    """A group. `behind` is its lag in time: the age of the oldest record that it has not read."""
    return {
        "group": group.group_id,
        "state": group.state,
        "kind": group.kind,
        "#members": group.members,
        "lag": figures.count(group.lag),
        "behind": figures.seconds(group.lag_seconds),
        "commits/s": figures.rate(group.commits_per_s),
        "rebalances/h": group.rebalances,
        "coordinator": group.broker_id if group.broker_id >= 0 else None,
    }


def event_lines(found: Overview, most: int) -> Iterator[str]:
    """The last events, the newest at the end."""
    for event in found.events[len(found.events) - min(most, len(found.events)) :]:
        yield f"{figures.moment(event.wall_ms)}  {event.subject}: {event.text}"


def short_event_lines(found: Overview, most: int, width: int) -> list[str]:
    """The same in at most so many lines of that width, with times of day where the day is the present one."""
    lines: list[str] = []
    for event in reversed(found.events):
        said = f"{figures.moment_near(event.wall_ms, found.wall_ms)}  {event.subject}: {event.text}"
        made = wrapped_text(escaped(said), width)
        if len(lines) + len(made) > most:
            break
        lines[:0] = made
    return lines


def all_rows(found: Overview, groups: Sequence[GroupRow]) -> tuple[Rows, Rows]:
    """The rows of brokers and of groups."""
    return [broker_row(each) for each in found.brokers], [group_row(each) for each in groups]


def _bytes(per_s: float | None) -> str | None:
    return None if per_s is None else output.size(round(per_s))
