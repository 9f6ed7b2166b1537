"""`coterie topics reassign`: other brokers for partitions, or more replicas; planned here, done by the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from actors.cli import calls, options, output
from actors.cli.errors import CliError
from placement.assignment import NotEnoughBrokersError
from placement.spread import spread

if TYPE_CHECKING:
    from actors.client import Admin, TopicPartition
    from actors.client.admin_types import PartitionReassignment, TopicDescription

COLUMNS: Final = ("topic", "partition", "replicas", "new_replicas")
_POLL_SECONDS: Final = 0.2

Moves = Mapping["TopicPartition", "PartitionReassignment"]


@click.command()
@options.named("topic")
@options.admin_options
@click.option("--all-topics", is_flag=True, help="Every topic, internal ones too.")
@click.option("--brokers", metavar="ID,ID,...", help="Who may hold replicas; all brokers if not given.")
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="Replicas; as many as before if not given.")
@click.option("--cancel", is_flag=True, help="Call off the moves that are under way.")
@click.option("--dry-run", is_flag=True, help="Show what would be done (the default).")
@click.option("--execute", is_flag=True, help="Do it, and wait until it is done.")
def reassign(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    all_topics: bool,
    brokers: str | None,
    replication_factor: int | None,
    cancel: bool,
    dry_run: bool,
    execute: bool,
) -> None:
    """Spread partitions evenly over brokers and racks, with as few moves as that takes.

    Shows where replicas would go; --execute moves them. After `coterie brokers add` it gives new brokers their share,
    with --replication-factor it adds replicas, with --brokers it empties the brokers that are not named.
    """
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute contradict each other")
    if cancel and (brokers or replication_factor):
        raise click.UsageError("--cancel goes with neither --brokers nor --replication-factor")
    wanted = [*topic_arguments, *topic_options]
    if bool(wanted) == all_topics:
        raise click.UsageError("say which topics: by name, or --all-topics")
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        topics = calls.existing_topics(admin)
        if missing := sorted(set(wanted) - {topic.name for topic in topics}):
            raise CliError(f"there is no topic {', '.join(missing)}")
        chosen = {topic.name for topic in topics} if all_topics else set(wanted)
        under_way = {tp: move for tp, move in admin.list_partition_reassignments().items() if tp.topic in chosen}
        plan = _undone(under_way) if cancel else _planned(admin, topics, under_way, chosen, brokers, replication_factor)
        _tell(topics, plan, output_format)
        if not execute:
            if plan and not dry_run:
                output.note("nothing was changed: this was a dry run; add --execute to move partitions")
            return
        _begin(admin, dict.fromkeys(plan) if cancel else plan)
        if not cancel:
            _wait(admin, {*plan, *under_way})


def _undone(under_way: Moves) -> dict[TopicPartition, tuple[int, ...]]:
    """Where partitions were before."""
    return {tp: tuple(b for b in move.replicas if b not in move.adding_replicas) for tp, move in under_way.items()}


def _planned(
    admin: Admin,
    topics: Sequence[TopicDescription],
    under_way: Moves,
    chosen: set[str],
    given: str | None,
    factor: int | None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where partitions should go. Those under way count as being where they go."""
    from actors.client import TopicPartition

    there = {node.id: node.rack for node in admin.describe_cluster().brokers}
    placed = {(topic.name, each.partition): each.replicas for topic in topics for each in topic.partitions}
    for tp, move in under_way.items():
        placed[tp] = tuple(broker for broker in move.replicas if broker not in move.removing_replicas)
    away = sorted({broker for key, replicas in placed.items() if key[0] in chosen for broker in replicas} - set(there))
    if away and not given:
        raise CliError(
            f"broker {away[0]} holds replicas and is not there: wait until it is back, or name those that are to hold "
            "its share with --brokers"
        )
    ids = _broker_ids(given, there) if given else sorted(there)
    try:
        found = spread(placed, chosen, [(broker, there[broker]) for broker in ids], factor)
    except NotEnoughBrokersError as error:
        raise CliError(f"{error}: name more with --brokers, or ask for fewer with --replication-factor") from error
    return {TopicPartition(*key): replicas for key, replicas in found.items()}


def _broker_ids(text: str, there: Mapping[int, Any]) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} is not ID,ID,...", param_hint="--brokers")
    if missing := sorted({int(part) for part in parts} - set(there)):
        alive = ", ".join(map(str, sorted(there)))
        raise click.BadParameter(f"broker {missing[0]} is not there; these are: {alive}", param_hint="--brokers")
    return sorted({int(part) for part in parts})


def _tell(
    topics: Sequence[TopicDescription], plan: Mapping[TopicPartition, tuple[int, ...]], output_format: str
) -> None:
    now = {(topic.name, each.partition): each.replicas for topic in topics for each in topic.partitions}
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(now[tp]), "new_replicas": list(new)}
        for tp, new in sorted(plan.items())
    ]
    output.emit(rows, COLUMNS, output_format)
    if not plan:
        output.note("nothing to move")


def _begin(admin: Admin, plan: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Raises CliError with the first refusal, and how many there are, when all that can begin have begun."""
    refused = [e for e in admin.alter_partition_reassignments(plan, raise_errors=False).values() if e is not None]
    if refused:
        raise CliError(f"{output.plural(len(refused), 'partition')} of {len(plan)} did not begin to move: {refused[0]}")


def _wait(admin: Admin, moving: set[TopicPartition]) -> None:
    left = moving
    if left:
        output.note(f"{output.plural(len(left), 'partition')} under way, which go on should this command be ended")
    with output.progress("partitions moved", len(left)) as bar:
        while left:
            time.sleep(_POLL_SECONDS)
            still = left & admin.list_partition_reassignments().keys()
            bar.advance(len(left) - len(still))
            left = still
    for error in admin.elect_preferred_leaders(sorted(moving), raise_errors=False).values():
        if error is not None:
            output.note(f"warning: {error}")
