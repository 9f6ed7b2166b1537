"""`coterie groups`: verbs, flags and columns as in kafka-consumer-groups. Resetting offsets is reset_offsets.py's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from actors.cli import calls, options, output
from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.cli.errors import CliError
from actors.cli.group_history import history
from actors.cli.group_rows import (
    OFFSET_COLUMNS,
    REBALANCE_COLUMNS,
    VERBOSE_OFFSET_COLUMNS,
    Rows,
    foreign_columns,
    foreign_rows,
    is_foreign,
    member_columns,
    member_rows,
    offset_rows,
    remarks,
    state_columns,
    state_row,
    status_columns,
    verbose_state_row,
)
from actors.cli.groups_status import Statuses, statuses
from actors.cli.reset import parse_topics
from actors.cli.reset_offsets import reset_offsets
from actors.cli.watching import watched

if TYPE_CHECKING:
    from actors.client import Admin, TopicPartition
    from actors.client.admin.types import GroupDescription
    from actors.runtime.environment import Clock


@click.group()
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


groups.add_command(reset_offsets)
groups.add_command(history)


@groups.command("list")
@options.admin_options
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="Show the groups' states; with names of states, only the groups in one of them.",
)
@click.option("--type", "types", metavar="TYPE,...", help="Only groups of these types: classic, consumer.")
def list_groups(
    bootstrap_server: str, timeout_ms: int, output_format: str, state: str | None, types: str | None
) -> None:
    """List the names of all groups."""
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = admin.list_consumer_groups(_words(state), _words(types))
    rows: Rows = [
        {"group": each.group_id, "type": each.type, "protocol": each.protocol_type, "state": each.state}
        for each in found
    ]
    if output_format == "json" or state is not None or types is not None:
        output.emit(rows, ("group", *(["type"] if types is not None else []), "state"), output_format)
        return
    for row in rows:
        output.say(output.text(row["group"]))


@groups.command()
@options.named("group")
@options.admin_options
@click.option("--all-groups", is_flag=True, help="Every group there is.")
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Offsets and lag of each partition.")
@click.option("--members", "view", flag_value="members", help="The members and how much they hold.")
@click.option("--state", "view", flag_value="state", help="Coordinator, assignor, state and size.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Epochs and notes with --offsets; assignments with --members, and what members of consumer groups are to "
    "have; epochs with --state, and what only Coterie knows: lag, whom a group waits for, and its last rebalances "
    "(its cluster is found by --data-dir or --ray-address).",
)
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C; on a terminal in place.")
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds, with --watch.")
@ray_address_option
@name_option
@data_dir_option("Data directory of an embedded cluster on this machine, for --state --verbose.")
@options.at_a_clock
def describe(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    all_groups: bool,
    view: str,
    verbose: bool,
    watch: bool,
    interval: float,
    ray_address: str | None,
    name: str,
    data_dir: str,
    clock: Clock,
) -> None:
    """Show the offsets and lag of groups, their members, or their state."""
    with ExitStack() as stack:
        admin = stack.enter_context(calls.connect(bootstrap_server, timeout_ms))
        known: Statuses | None = None
        if view == "state" and verbose:
            known = stack.enter_context(statuses(admin.describe_cluster().cluster_id, ray_address, name, data_dir))
        look = partial(_describe, admin, group_arguments, group_options, all_groups, view, verbose, known)
        if watch:
            watched(lambda: look(output_format), interval, clock)
        else:
            look(output_format)


def _describe(
    admin: Admin,
    arguments: Sequence[str],
    given: Sequence[str],
    all_groups: bool,
    view: str,
    verbose: bool,
    known: Statuses | None,
    output_format: str,
) -> None:
    found = described(admin, calls.groups_meant(admin, arguments, given, all_groups))
    rows = [_VIEWS[view](admin, group) for group in found]
    if known is not None:
        told = known(found)
        rows = [[verbose_state_row(group, told.get(group.group_id))] for group in found]
    foreign = [foreign_rows(group) if view == "offsets" and is_foreign(group) else [] for group in found]
    if output_format == "json":
        output.emit_json([row for pair in zip(foreign, rows, strict=True) for table in pair for row in table])
        return
    columns = {
        "offsets": VERBOSE_OFFSET_COLUMNS if verbose else OFFSET_COLUMNS,
        "members": member_columns(found, verbose=verbose),
        "state": (*state_columns(found), *(status_columns(found) if verbose else ())),
    }[view]
    for group, members, table in zip(found, foreign, rows, strict=True):
        for remark in remarks(group):
            output.note(remark)
        output.emit(members, foreign_columns(group), output_format)
        output.emit(table, columns, output_format)
        for row in table:
            output.emit(row.get("rebalances") or (), REBALANCE_COLUMNS, output_format)


@groups.command()
@options.named("group")
@options.bootstrap
@options.timeout
@click.option("--all-groups", is_flag=True, help="Every group there is.")
def delete(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    all_groups: bool,
) -> None:
    """Delete groups and their offsets. Only groups without members can be deleted."""
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for name in calls.groups_meant(admin, group_arguments, group_options, all_groups):
            admin.delete_consumer_groups([name])
            output.say(f"Deleted group {output.text(name)}.")


@groups.command("delete-offsets")
@options.named("group")
@options.admin_options
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC[:PARTITION,...]", help="Whose offsets.")
def delete_offsets(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    topics: tuple[str, ...],
) -> int:
    """Delete a group's offsets of topics that none of its members reads."""
    names = options.names(group_arguments, group_options, "group")
    wanted = parse_topics(topics)
    rows: Rows = []
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for name in names:
            partitions = committed_partitions(admin, name, wanted)
            outcomes = admin.delete_consumer_group_offsets(name, partitions, raise_errors=False) if partitions else {}
            rows += [
                {"group": name, "topic": topic, "partition": number, "status": str(error or "Successful")}
                for (topic, number), error in sorted(outcomes.items(), key=lambda outcome: outcome[0])
            ]
    output.emit(rows, ("group", "topic", "partition", "status"), output_format)
    if not rows:
        output.note("nothing was committed for these topics")
    return 1 if any(row["status"] != "Successful" for row in rows) else 0


def described(admin: Admin, names: Sequence[str]) -> list[GroupDescription]:
    """Describe groups. Raises CliError if one of them does not exist."""
    from actors.client.admin import lookups

    found = lookups.described_groups(admin, names)
    missing = [name for name in names if name not in found or found[name].state == "Dead"]
    if missing:
        raise CliError(f"Consumer group {', '.join(map(repr, missing))} does not exist.")
    return [found[name] for name in names]


def committed_partitions(admin: Admin, group: str, wanted: dict[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions that are meant: those that are named, and of whole topics (None) those with a committed offset."""
    from actors.client import TopicPartition

    named = {TopicPartition(topic, number) for topic, numbers in wanted.items() for number in numbers or ()}
    whole = {topic for topic, numbers in wanted.items() if numbers is None}
    return sorted(named | {each for each in admin.list_consumer_group_offsets(group) if each.topic in whole})


def _offsets(admin: Admin, group: GroupDescription) -> Rows:
    committed = admin.list_consumer_group_offsets(group.group_id)
    held = {partition for member in group.members for partition in member.assignment}
    found = calls.logs(admin, {*committed, *held})
    return offset_rows(group, committed, found)


_VIEWS: dict[str, Callable[[Admin, GroupDescription], Rows]] = {
    "offsets": _offsets,
    "members": lambda _, group: member_rows(group),
    "state": lambda _, group: [state_row(group)],
}


def _words(text: str | None) -> list[str]:
    return [word for part in (text or "").split(",") if (word := part.strip())]
