"""`coterie groups`: verbs, flags and columns as in kafka-consumer-groups. Resetting offsets is reset_offsets.py's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from actors.cli import calls, options, output
from actors.cli.calls import Calls
from actors.cli.errors import CliError
from actors.cli.group_rows import (
    OFFSET_COLUMNS,
    STATE_COLUMNS,
    VERBOSE_OFFSET_COLUMNS,
    Group,
    Partition,
    Rows,
    member_columns,
    member_rows,
    offset_rows,
    remarks,
    state_row,
)
from actors.cli.reset import parse_topics
from actors.cli.reset_offsets import reset_offsets


@click.group()
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


groups.add_command(reset_offsets)


@groups.command("list")
@options.admin_options
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="Show states; only groups in these, if some are named.",
)
@click.option("--type", "types", metavar="TYPE,...", help="Only groups of these types: classic, consumer.")
def list_groups(
    bootstrap_server: str, timeout_ms: int, output_format: str, state: str | None, types: str | None
) -> None:
    """List the names of all groups."""
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        found = cluster.groups(_words(state), _words(types))
    rows: Rows = [
        {"group": each.name, "type": each.group_type, "protocol": each.protocol_type, "state": each.state}
        for each in sorted(found, key=lambda each: each.name)
    ]
    if output_format == "json" or state is not None or types is not None:
        output.emit(rows, ("group", *(["type"] if types is not None else []), "state"), output_format)
        return
    for row in rows:
        click.echo(output.text(row["group"]))


@groups.command()
@options.named("group")
@options.admin_options
@click.option("--all-groups", is_flag=True, help="Every group there is.")
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Offsets and lag of each partition.")
@click.option("--members", "view", flag_value="members", help="The members and how much they hold.")
@click.option("--state", "view", flag_value="state", help="Coordinator, assignor, state and size.")
@click.option("--verbose", is_flag=True, help="Epochs and notes with --offsets, assignments with --members.")
def describe(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    all_groups: bool,
    view: str,
    verbose: bool,
) -> None:
    """Show what groups hold, how far they are, and who is in them."""
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        found = described(cluster, chosen(cluster, group_arguments, group_options, all_groups))
        rows = [_VIEWS[view](cluster, group) for group in found]
    if output_format == "json":
        output.emit_json([row for each in rows for row in each])
        return
    columns = {
        "offsets": VERBOSE_OFFSET_COLUMNS if verbose else OFFSET_COLUMNS,
        "members": member_columns(found, verbose=verbose),
        "state": STATE_COLUMNS,
    }[view]
    for group, table in zip(found, rows, strict=True):
        for remark in remarks(group):
            output.note(remark)
        output.emit(table, columns, output_format)


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
    """Delete groups with their offsets; only groups without members can be."""
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        for name in chosen(cluster, group_arguments, group_options, all_groups):
            cluster.delete_group(name)
            click.echo(f"Deleted group {output.text(name)}.")


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
    """Forget a group's offsets of topics it does not read now."""
    names = options.names(group_arguments, group_options, "group")
    wanted = parse_topics(topics)
    rows: Rows = []
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        for name in names:
            partitions = committed_partitions(cluster, name, wanted)
            failed = cluster.delete_offsets(name, partitions) if partitions else {}
            rows += [
                {"group": name, "topic": topic, "partition": number, "status": error or "Successful"}
                for (topic, number), error in sorted(failed.items())
            ]
    output.emit(rows, ("group", "topic", "partition", "status"), output_format)
    if not rows:
        output.note("nothing was committed for these topics")
    return 1 if any(row["status"] != "Successful" for row in rows) else 0


def chosen(cluster: Calls, arguments: Iterable[str], given: Iterable[str], all_groups: bool) -> list[str]:
    """The groups meant. Raises UsageError if that is unclear."""
    named = [*arguments, *given]
    if all_groups and named:
        raise click.UsageError("--all-groups and names contradict each other")
    if all_groups:
        return sorted(each.name for each in cluster.groups())
    return options.names(named, (), "group")


def described(cluster: Calls, names: Sequence[str]) -> list[Group]:
    """The groups, all of which exist. Raises CliError."""
    found = {group.name: group for group in cluster.describe_groups(names)} if names else {}
    missing = [name for name in names if name not in found or found[name].state == "Dead"]
    if missing:
        raise CliError(f"Consumer group {', '.join(map(repr, missing))} does not exist.")
    return [found[name] for name in names]


def committed_partitions(cluster: Calls, group: str, wanted: dict[str, list[int] | None]) -> list[Partition]:
    """The partitions of these topics that a group has offsets for; those that were named, whether or not it has."""
    named = {(topic, number) for topic, numbers in wanted.items() for number in numbers or ()}
    whole = {topic for topic, numbers in wanted.items() if numbers is None}
    return sorted(named | {each for each in cluster.committed(group) if each[0] in whole})


def _offsets(cluster: Calls, group: Group) -> Rows:
    committed = cluster.committed(group.name)
    held = {partition for member in group.members for partition in member.partitions}
    logs = cluster.logs(sorted({*committed, *held}))
    return offset_rows(group, committed, {partition: log.latest for partition, log in logs.items()})


_VIEWS: dict[str, Callable[[Calls, Group], Rows]] = {
    "offsets": _offsets,
    "members": lambda _, group: member_rows(group),
    "state": lambda _, group: [state_row(group)],
}


def _words(text: str | None) -> list[str]:
    return [word for part in (text or "").split(",") if (word := part.strip())]
