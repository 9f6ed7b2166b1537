"""`coterie groups history`: a group's rebalances, and its lag over hours, as its cluster's Monitor remembers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from time import time
from typing import Any, Final

import click

from actors.cli import figures, options, output, views
from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.client.admin.offset_plans import parse_duration
from actors.links.views import GetGroupHistory, GroupHistory, LagPoint, RebalanceView

Rows = list[dict[str, Any]]

REBALANCE_COLUMNS: Final = (
    *("began", "generation", "reason", "by", "join", "sync", "#members", "came", "left", "expelled", "waited_for"),
)
LAG_COLUMNS: Final = ("from", "lag", "max_lag", "behind", "max_behind", "committed/s")
_LINES: Final = 12
_BLOCKS: Final = 24
"""Points in one line."""


@click.command()
@click.argument("group")
@click.option("--since", default="6h", show_default=True, metavar="DURATION", help="How far back: 90m, 6h, 7d, PT12H.")
@ray_address_option
@name_option
@data_dir_option("Data directory of an embedded cluster on this machine.")
@options.output_format
def history(group: str, since: str, ray_address: str | None, name: str, data_dir: str, output_format: str) -> None:
    """Show when and why GROUP was rebalanced, whom it waited for, and its lag over time.

    BY is who caused a rebalance; JOIN and SYNC say how long its phases took; WAITED-FOR whom they waited for longest.
    BEHIND is lag in time: the age of the oldest record that was not read.
    """
    now_ms = int(time() * 1000)
    ask = GetGroupHistory(group, now_ms - parse_duration(since), now_ms, points=_LINES * _BLOCKS)
    with views.connect(ray_address, name, data_dir) as source:
        found = source.view(ask)
    if output_format == "json":
        output.emit_json(asdict(found))
        return
    _tell(found)


def _tell(found: GroupHistory) -> None:
    output.emit([rebalance_row(each) for each in found.rebalances], REBALANCE_COLUMNS, "table")
    if not found.rebalances:
        output.note(f"No rebalance of group {found.group_id!r} is known of that time.")
    if found.points:
        output.say()
    output.emit(list(lag_rows(found.points)), LAG_COLUMNS, "table")
    if not found.points:
        output.note(f"Nothing is known of the lag of group {found.group_id!r} in that time.")


def rebalance_row(found: RebalanceView) -> dict[str, Any]:
    """A rebalance: when, why, who, how long, and for whom it waited."""
    who = found.client_id and f"{found.client_id}{found.host}"
    return {
        "began": figures.moment(found.began_ms),
        "generation": found.generation_id,
        "reason": found.reason,
        "by": who or found.member_id,
        "join": _lasted(found.began_ms, found.joined_ms),
        "sync": _lasted(found.joined_ms, found.ended_ms),
        "#members": found.members,
        "came": len(found.came),
        "left": len(found.left),
        "expelled": list(found.expelled),
        "waited_for": [
            f"{each.client_id or each.member_id}{each.host} {figures.seconds(each.ms / 1000)} ({each.phase})"
            for each in found.waited
        ],
    }


def _lasted(since_ms: int | None, until_ms: int | None) -> str | None:
    if since_ms is None or until_ms is None:
        return None
    return figures.seconds((until_ms - since_ms) / 1000)


def lag_rows(points: Sequence[LagPoint]) -> Iterator[dict[str, Any]]:
    """At most a dozen lines, oldest first, each with its points as blocks; all lines have the same scale."""
    most = max((each.lag for each in points if each.lag is not None), default=0)
    longest = max((each.lag_seconds for each in points if each.lag_seconds is not None), default=0)
    for first in range(0, len(points), _BLOCKS):
        part = points[first : first + _BLOCKS]
        lags, behind = [each.lag for each in part], [each.lag_seconds for each in part]
        yield {
            "from": figures.moment(part[0].wall_ms),
            "lag": figures.sparkline(lags, most).rstrip(),
            "max_lag": figures.count(max((each for each in lags if each is not None), default=None)),
            "behind": figures.sparkline(behind, longest).rstrip(),
            "max_behind": figures.seconds(max((each for each in behind if each is not None), default=None)),
            "committed/s": figures.rate(_rate(points[first : first + _BLOCKS + 1])),
        }


def _rate(points: Sequence[LagPoint]) -> float | None:
    """Records in a second by which the committed offsets went up. Resets backwards do not count."""
    known = [(each.wall_ms, each.committed) for each in points if each.committed is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    gained = sum(max(0, later - earlier) for (_, earlier), (_, later) in pairwise(known))
    return gained * 1000 / (known[-1][0] - known[0][0])
