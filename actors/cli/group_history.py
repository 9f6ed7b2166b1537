"""`coterie groups history`: a group's rebalances, and its lag over hours, as its cluster's Monitor remembers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from actors.cli import figures, options, output, views
from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.client.admin.offset_plans import parse_duration
from actors.links.member_names import MemberNames
from actors.links.rebalances import named
from actors.links.views import GetGroupHistory, GroupHistory, LagPoint, RebalanceView

if TYPE_CHECKING:
    from actors.runtime.environment import Clock

Rows = list[dict[str, Any]]
T = TypeVar("T", int, float)

LAG_COLUMNS: Final = ("from", "lag", "max_lag", "behind", "max_behind", "committed/s")
_LINES: Final = 12
_POINTS: Final = 4
"""Points asked for, for each block: peaks of a time that is not a block's must not make holes."""
_BLOCKS: Final = 24
"""Blocks in one line, of equal time."""
_SAME_MS: Final = 1_260_000
"""A lag that stays the same has a point in ten minutes: after two such times nothing is known."""


@click.command()
@click.argument("group")
@click.option("--since", default="6h", show_default=True, metavar="DURATION", help="How far back: 90m, 6h, 7d, PT12H.")
@ray_address_option
@name_option
@data_dir_option("Data directory of an embedded cluster on this machine.")
@options.output_format
@options.at_a_clock
def history(
    group: str,
    since: str,
    ray_address: str | None,
    name: str,
    data_dir: str,
    output_format: str,
    clock: Clock,
) -> None:
    """Show when and why GROUP was rebalanced, whom it waited for, and its lag over time.

    BY is who caused a rebalance; JOIN and SYNC say how long its phases took (groups of other types than classic have
    their own); WAITED-FOR whom they waited for longest.
    BEHIND is lag in time: the age of the oldest record that was not read.
    """
    now_ms, span_ms = clock.wall_ms(), parse_duration(since)
    ask = GetGroupHistory(group, now_ms - span_ms, now_ms, points=_POINTS * _LINES * _BLOCKS)
    with views.connect(ray_address, name, data_dir) as source:
        found = source.view(ask)
    if output_format == "json":
        output.emit_json(asdict(found))
        return
    _tell(found, max(1, -(-span_ms // (_LINES * _BLOCKS))))


def _tell(found: GroupHistory, block_ms: int) -> None:
    names = MemberNames((), found.rebalances)
    columns = rebalance_columns(found.rebalances)
    output.emit([rebalance_row(each, names) for each in found.rebalances], columns, "table")
    if not found.rebalances:
        output.note(f"No rebalance of group {found.group_id!r} is known of that time.")
    if found.points:
        output.say()
    output.emit(list(lag_rows(found.points, block_ms)), LAG_COLUMNS, "table")
    if not found.points:
        output.note(f"Nothing is known of the lag of group {found.group_id!r} in that time.")


def rebalance_columns(found: Sequence[RebalanceView]) -> tuple[str, ...]:
    """The columns of `rebalance_row`: a number and phases are named as the types of the groups name them."""
    numbers = dict.fromkeys(each.epoch_name for each in found)
    phases = dict.fromkeys(name for each in found for name in each.phase_names)
    who = ("#members", "came", "left", "replaced", "expelled", "waited_for")
    return ("began", *numbers, "reason", "by", *phases, *who)


def rebalance_row(found: RebalanceView, names: MemberNames) -> dict[str, Any]:
    """A rebalance: when, why, who, how long, and for whom it waited."""
    return {
        "began": figures.moment(found.began_ms),
        found.epoch_name: found.epoch,
        "reason": found.reason,
        "by": _by(found, names),
        **dict.fromkeys(found.phase_names),
        **{each.name: _lasted(each.since_ms, each.until_ms) for each in found.phases},
        "#members": found.members if found.phases[0].until_ms is not None else None,
        "came": named(found.came)[1],
        "left": named(found.left)[1],
        "replaced": named(found.replaced)[1],
        "expelled": _expelled(found, names),
        "waited_for": [
            f"{names.of(each.member_id).text}{each.host} {figures.seconds(each.ms / 1000)} ({each.phase})"
            for each in found.waited
        ],
    }


def _by(found: RebalanceView, names: MemberNames) -> str:
    if "," in found.member_id:  # all whose time was over at once
        return f"{found.member_id.count(',') + 1} members"
    return f"{names.of(found.member_id).text}{found.host}" if found.member_id else ""


def _expelled(found: RebalanceView, names: MemberNames) -> list[str]:
    ids, count = named(found.expelled)
    more = [f"and {count - len(ids)} more"] if count > len(ids) else []
    return [*(names.of(each).text for each in ids), *more]


def _lasted(since_ms: int, until_ms: int | None) -> str | None:
    if until_ms is None:
        return None
    return figures.seconds((until_ms - since_ms) / 1000)


def lag_rows(points: Sequence[LagPoint], block_ms: int) -> Iterator[dict[str, Any]]:
    """Lines of the time of which anything is known, oldest first. Each block is the peak of `block_ms`.

    All lines have the same scale.
    """
    if not points:
        return
    most = max((each.lag for each in points if each.lag is not None), default=0)
    longest = max((each.lag_seconds for each in points if each.lag_seconds is not None), default=0)
    first_ms, line_ms = points[0].wall_ms, block_ms * _BLOCKS
    by_line = groupby(points, key=lambda point: (point.wall_ms - first_ms) // line_ms)
    blocks = _blocks(points, block_ms)
    for line, found in by_line:
        part = list(found)
        shown = [blocks.get(line * _BLOCKS + place, (None, None)) for place in range(_BLOCKS)]
        lags, behind = [each for each, _ in shown], [each for _, each in shown]
        yield {
            "from": figures.moment(first_ms + line * line_ms),
            "lag": figures.sparkline(lags, most).rstrip(),
            "max_lag": figures.count(max((each.lag for each in part if each.lag is not None), default=None)),
            "behind": figures.sparkline(behind, longest).rstrip(),
            "max_behind": figures.seconds(
                max((each.lag_seconds for each in part if each.lag_seconds is not None), default=None)
            ),
            "committed/s": figures.rate(_rate([*part, *points[points.index(part[-1]) + 1 :][:1]])),
        }


def _blocks(points: Sequence[LagPoint], block_ms: int) -> dict[int, tuple[int | None, float | None]]:
    """The greatest lag of each block, in records and in seconds. A curve that stays the same has few points."""
    found: dict[int, tuple[int | None, float | None]] = {}
    for before, point in pairwise([points[0], *points]):
        at, last = ((each.wall_ms - points[0].wall_ms) // block_ms for each in (point, before))
        if point.wall_ms - before.wall_ms <= _SAME_MS:
            low = _least(before.lag, point.lag), _least(before.lag_seconds, point.lag_seconds)
            found |= dict.fromkeys(range(last + 1, at), low)
        lag, seconds = found.get(at, (None, None))
        found[at] = _greatest(lag, point.lag), _greatest(seconds, point.lag_seconds)
    return found


def _least(one: T | None, other: T | None) -> T | None:
    return None if one is None or other is None else min(one, other)


def _greatest(one: T | None, other: T | None) -> T | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _rate(points: Sequence[LagPoint]) -> float | None:
    """Records in a second by which the committed offsets went up. Resets backwards do not count."""
    known = [(each.wall_ms, each.committed) for each in points if each.committed is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    gained = sum(max(0, later - earlier) for (_, earlier), (_, later) in pairwise(known))
    return gained * 1000 / (known[-1][0] - known[0][0])
