"""`coterie groups reset-offsets`: asks what the plans need, shows them, and commits with --execute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from actors.cli import calls, options, output, reset
from actors.cli.errors import CliError

if TYPE_CHECKING:
    from actors.client import Admin, TopicPartition
    from actors.client.admin.offset_plans import Log, Plan
    from actors.runtime.environment import Clock

COLUMNS: Final = ("group", "topic", "partition", "new_offset")


@dataclass(frozen=True, slots=True)
class Scope:
    """The data that the plan of one group is made from."""

    admin: Admin
    group: str
    logs: Mapping[TopicPartition, Log]
    committed: Mapping[TopicPartition, int]


Planner = Callable[[Scope], "Plan"]


@click.command("reset-offsets")
@options.named("group")
@options.admin_options
@click.option("--all-groups", is_flag=True, help="Every group there is.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:PARTITION,...]", help="Whose offsets.")
@click.option("--all-topics", is_flag=True, help="Every topic the group has offsets for.")
@click.option("--to-earliest", is_flag=True, help="To the first record there is.")
@click.option("--to-latest", is_flag=True, help="To the end of each partition.")
@click.option("--to-current", is_flag=True, help="To the committed offsets; to the end where there is none.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="N records on; back if negative.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="To the first record at or after this time.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="To the first record of the last P7D, PT12H, 90m, ...")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="To the offsets of a CSV file.")
@click.option("--dry-run", is_flag=True, help="Show what would be done (the default).")
@click.option("--execute", is_flag=True, help="Move the offsets.")
@click.option("--export", is_flag=True, help="Print CSV, as --from-file reads it.")
@options.at_a_clock
def reset_offsets(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    from_file: str | None,
    clock: Clock,
    **targets: Any,
) -> None:
    """Move the offsets of groups that have no members now.

    Shows the new offsets; --execute moves the groups there. If an offset is outside the log, the nearest is taken.
    """
    from actors.client.admin import offset_plans

    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute contradict each other")
    planner = _planner(targets, from_file, clock.wall_ms)
    if bool(topics) + all_topics + bool(from_file) != 1:
        raise click.UsageError("say whose offsets: one of --topic, --all-topics and --from-file")
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        names = calls.groups_meant(admin, group_arguments, group_options, all_groups)
        given = reset.read_csv(Path(from_file).read_text(), names) if from_file else None
        plans = {}
        for name in names if given is None else given:
            committed = _committed(admin, name)
            meant = calls.partitions(admin, topics) if topics else sorted(committed)
            wanted = meant if given is None else list(given[name])
            scope = Scope(admin, name, calls.logs_of_all(admin, wanted), committed)
            plans[name] = planner(scope) if given is None else offset_plans.to_given(scope.logs, given[name])
        _tell(plans, export=export, output_format=output_format, execute=execute, dry_run=dry_run)
        if execute:
            for name, plan in ((name, plan) for name, plan in plans.items() if plan.offsets):
                admin.alter_consumer_group_offsets(name, plan.offsets)


def _planner(targets: Mapping[str, Any], from_file: str | None, wall_ms: Callable[[], int]) -> Planner:
    """A function that makes the plan that was asked for. Raises UsageError unless exactly one was."""
    from actors.client.admin import lookups, offset_plans
    from actors.client.admin.offset_plans import Plan

    asked = {name: value for name, value in targets.items() if value is not None and value is not False}
    if len(asked) + bool(from_file) != 1:
        flags = ", ".join("--" + name.replace("_", "-") for name in [*targets, "from_file"])
        raise click.UsageError(f"say where to, with one of {flags}")
    if from_file:
        return lambda _: Plan()
    (name, value), *_ = asked.items()
    if name in ("to_datetime", "by_duration"):
        moment = _moment(name, value, wall_ms())
        return lambda scope: offset_plans.to_times(scope.logs, lookups.offsets_at(scope.admin, scope.logs, moment))
    planners: dict[str, Planner] = {
        "to_earliest": lambda scope: offset_plans.to_earliest(scope.logs),
        "to_latest": lambda scope: offset_plans.to_latest(scope.logs),
        "to_current": lambda scope: offset_plans.to_current(scope.logs, scope.committed),
        "to_offset": lambda scope: offset_plans.to_offset(scope.logs, value),
        "shift_by": lambda scope: offset_plans.shift_by(scope.logs, scope.committed, value),
    }
    return planners[name]


def _moment(name: str, value: str, now_ms: int) -> int:
    from actors.client.admin import offset_plans

    if name == "to_datetime":
        return offset_plans.parse_time(value)
    return now_ms - offset_plans.parse_duration(value)


def _committed(admin: Admin, name: str) -> dict[TopicPartition, int]:
    """The offsets of a group that has no members now. Raises CliError if it has some."""
    from actors.client.admin import lookups

    group = lookups.described_groups(admin, [name])[name]
    if group.state not in ("Empty", "Dead"):
        members = f" with {output.plural(len(group.members), 'member')}" if group.tells_members else ""
        raise CliError(
            f"offsets can only be reset while a group has no members; {name!r} is {group.state}{members}: "
            "stop them first"
        )
    if group.state == "Dead":  # not there yet: the commit makes it; some brokers refuse to fetch its offsets
        return {}
    return {tp: each.offset for tp, each in admin.list_consumer_group_offsets(name).items()}


def _tell(plans: Mapping[str, Plan], *, export: bool, output_format: str, execute: bool, dry_run: bool) -> None:
    for plan in plans.values():
        for warning in plan.warnings:
            output.note(f"warning: {warning}")
    if export:
        for line in reset.csv_lines({name: plan.offsets for name, plan in plans.items()}):
            output.say(line)
    else:
        rows = [
            {"group": name, "topic": topic, "partition": number, "new_offset": offset}
            for name, plan in plans.items()
            for (topic, number), offset in sorted(plan.offsets.items())
        ]
        output.emit(rows, COLUMNS, output_format)
    if not (execute or dry_run or export):
        output.note("nothing was changed: this was a dry run; add --execute to move the offsets")
