"""`coterie top`: brokers, shards and groups of a cluster as they are now, on a terminal that is redrawn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import click

from actors.cli import options, output, top_tables, views
from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.cli.errors import one_line
from actors.cli.fitting import fitted, wrapped, wrapped_text
from actors.links.views import GetOverview, GroupRow, ListGroupRows, Overview
from actors.runtime.escaping import escaped

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from actors.cli.screen import Keys
    from actors.runtime.environment import Clock

_EVENTS: Final = 6
_KEYS: Final = "q quit   s sort by %s   r reverse   j/k scroll   space now"
_KEYS_GAP: Final = "   "
_EVENT_LINES: Final = 6
_BESIDE: Final = 6
"""Lines beside all of these: two headings, a blank, how many more there are, the keys, and one that stays free."""


@click.command()
@ray_address_option
@name_option
@data_dir_option("Data directory of an embedded cluster on this machine.")
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds between looks.")
@click.option("--sort", "order", type=click.Choice(list(top_tables.ORDERS)), default="lag", show_default=True)
@click.option("--once", is_flag=True, help="Show it once, and end. So it is where standard output is no terminal.")
@options.output_format
@options.at_a_clock
def top(
    ray_address: str | None,
    name: str,
    data_dir: str,
    interval: float,
    order: str,
    once: bool,
    output_format: str,
    clock: Clock,
) -> None:
    """Show brokers, groups, lag and rates of a cluster, live.

    LAG counts records; BEHIND is the age of the oldest record that a group has not read. Keys: q quits, s sorts by the
    next column, r reverses, j and k or the arrows scroll, space looks at once. A narrow terminal shows fewer columns,
    and shortens names.
    """
    with views.connect(ray_address, name, data_dir) as source:
        if once or output_format == "json" or not sys.stdout.isatty():
            _once(source, order, output_format)
        else:
            _live(source, interval, order, clock)


def _look(source: views.Views) -> tuple[Overview, tuple[GroupRow, ...]]:
    return source.view(GetOverview(_EVENTS)), source.view(ListGroupRows()).groups


def _once(source: views.Views, order: str, output_format: str) -> None:
    found, groups = _look(source)
    ordered = top_tables.sorted_groups(groups, order)
    if output_format == "json":
        output.emit_json({**asdict(found), "group_rows": [asdict(each) for each in ordered]})
        return
    brokers, rows = top_tables.all_rows(found, ordered)
    for parts in top_tables.headlines(found):
        output.say("  ".join(parts))
    output.say()
    output.emit(brokers, top_tables.BROKER_COLUMNS, "table")
    output.say()
    output.emit(rows, top_tables.GROUP_COLUMNS, "table")
    for line in top_tables.event_lines(found, _EVENTS):
        output.say(line)


@dataclass(slots=True)
class Shown:
    """The order and the place that the keys have chosen."""

    order: str
    backwards: bool = False
    first: int = 0
    """The first group that is shown."""

    def press(self, key: str) -> None:
        """Change what is shown. Keys that are not known do nothing."""
        if key == "s":
            names = list(top_tables.ORDERS)
            self.order = names[(names.index(self.order) + 1) % len(names)]
        elif key == "r":
            self.backwards = not self.backwards
        elif key in ("j", "down"):
            self.first += 1
        elif key in ("k", "up"):
            self.first = max(0, self.first - 1)


def _live(source: views.Views, interval: float, order: str, clock: Clock) -> None:
    from rich.console import Console

    from actors.cli.screen import Keys

    watch(source, interval, Shown(order), Console(), Keys(clock))


def watch(source: views.Views, interval: float, shown: Shown, console: Console, keys: Keys) -> None:
    """Show the cluster until `q` is pressed. A Monitor that does not answer, as one that is started again, is told."""
    from actors.cli.screen import Screen
    from actors.cluster import ClusterError

    with Screen(console, full=True) as screen, keys.listening():
        found, groups = _look(source)
        trouble = ""
        while True:
            screen.show(picture(console, found, groups, shown, trouble))
            key = keys.wait(interval)
            if key == "q":
                return
            if key in (None, " "):
                try:
                    (found, groups), trouble = _look(source), ""
                except ClusterError as error:
                    trouble = one_line(error)
            else:
                shown.press(key or "")


def picture(console: Console, found: Overview, groups: Sequence[GroupRow], shown: Shown, trouble: str = "") -> Group:
    """The picture on the screen: as many groups as there is room for, from the first that is shown."""
    from rich.console import Group

    from actors.cli.screen import line_of

    width = console.width
    ordered = top_tables.sorted_groups(groups, shown.order, backwards=shown.backwards)
    heads = [each for line in top_tables.headlines(found) for each in wrapped(map(escaped, line), width)]
    events = top_tables.short_event_lines(found, _EVENT_LINES, width)
    said = wrapped_text(escaped(trouble), width)
    keys = wrapped((_KEYS % shown.order).split(_KEYS_GAP), width, _KEYS_GAP)
    beside = _BESIDE + sum(map(len, (heads, found.brokers, events, said, keys[1:])))
    room = max(1, console.height - beside)
    shown.first = min(shown.first, max(0, len(ordered) - room))
    brokers, rows = top_tables.all_rows(found, ordered[shown.first : shown.first + room])
    of_brokers, no_room = _table(top_tables.BROKER_COLUMNS, brokers, width, shown.order)
    of_groups, none_either = _table(top_tables.GROUP_COLUMNS, rows, width, shown.order)
    more, left_out = len(ordered) - len(rows), no_room + none_either
    rest = [f"{more:,} more groups"] * bool(more) + [f"no room for {output.plural(left_out, 'column')}"] * bool(
        left_out
    )
    return Group(
        *map(line_of, heads),
        of_brokers,
        line_of(),
        of_groups,
        line_of("  ".join(rest), "dim"),
        *(line_of(line, "red") for line in said),
        *(line_of(line, "dim") for line in events),
        *(line_of(line, "reverse") for line in keys),
    )


def _table(columns: Sequence[str], rows: top_tables.Rows, width: int, order: str) -> tuple[Table, int]:
    """The table as far as it has room, and for how many columns there is none."""
    from actors.cli.screen import table_of

    sorted_by = top_tables.SORTED.get(order)
    spare = [each for each in top_tables.SPARE if each in columns and each != sorted_by]
    fit = fitted(columns, rows, width, top_tables.NAMES, spare)
    return table_of(fit.columns, rows, top_tables.NUMBERS, top_tables.ALARMING, fit.widths), len(fit.left_out)
