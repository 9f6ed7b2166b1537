"""`coterie topics reassign`: move partitions to other brokers, or give them more replicas (KIP-455).

The plan is made here (placement.spread); the cluster carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from actors.cli import at_home, calls, options, output
from actors.cli.errors import CliError
from placement.assignment import NotEnoughBrokersError
from placement.reassignment import without
from placement.spread import spread

if TYPE_CHECKING:
    from actors.client import Admin, TopicPartition
    from actors.client.admin.types import PartitionDescription, PartitionReassignment
    from actors.client.errors import KafkaError
    from actors.runtime.environment import Clock

COLUMNS: Final = ("topic", "partition", "replicas", "new_replicas")
_MIN_INSYNC: Final = "min.insync.replicas"
_POLL_SECONDS: Final = 0.1
_SLOWEST_POLL_SECONDS: Final = 2.0
_LOOKS_FOR_A_LEADER: Final = 5
"""Of partitions that are left and have no leader, none has got one in so many slow polls: an election is faster."""


@click.command()
@options.named("topic")
@options.admin_options
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Ask the embedded cluster of this data directory, instead of --bootstrap-server.",
)
@click.option("--all-topics", is_flag=True, help="Every topic, internal ones too.")
@click.option("--brokers", metavar="ID,ID,...", help="Who may hold replicas; all brokers if not given.")
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="Replicas; as many as before if not given.")
@click.option("--cancel", is_flag=True, help="Cancel the moves that are under way.")
@click.option("--dry-run", is_flag=True, help="Show what would be done (the default).")
@click.option("--execute", is_flag=True, help="Do it, and wait until it is done.")
@options.at_a_clock
def reassign(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    data_dir: Path | None,
    all_topics: bool,
    brokers: str | None,
    replication_factor: int | None,
    cancel: bool,
    dry_run: bool,
    execute: bool,
    clock: Clock,
) -> None:
    """Spread the partitions of topics evenly over brokers and racks, with few moves.

    Shows where replicas would go; --execute moves them. After `coterie brokers add` it gives new brokers their share,
    with --replication-factor it adds replicas, with --brokers it empties the brokers that are not named.
    """
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute contradict each other")
    if cancel and (brokers is not None or replication_factor):
        raise click.UsageError("--cancel cannot be given with --brokers or --replication-factor")
    wanted = [*topic_arguments, *topic_options]
    if bool(wanted) == all_topics:
        raise click.UsageError("say which topics: by name, or --all-topics")
    if data_dir is not None:
        bootstrap_server = at_home.servers(data_dir)
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = _look(admin)
        if missing := sorted(set(wanted) - {tp.topic for tp in found.partitions}):
            raise CliError(f"there is no topic {', '.join(missing)}")
        chosen = {tp.topic for tp in found.partitions if all_topics or tp.topic in wanted}
        under_way = {tp: move for tp, move in found.moves.items() if tp.topic in chosen}
        if cancel:
            plan = {tp: without(move.replicas, move.adding_replicas) for tp, move in under_way.items()}
        else:
            plan = _planned(admin, found, chosen, brokers, replication_factor)
        _tell(found, plan, output_format)
        if not plan:
            output.note("nothing is under way" if cancel else "nothing to move")
        if not execute:
            if plan and not dry_run:
                output.note("nothing was changed: this was a dry run; add --execute to move partitions")
        elif cancel:
            _raise(_refused(admin, dict.fromkeys(plan)), len(plan), "called off")
        else:
            refused = _refused(admin, plan)
            stuck = _wait(admin, (plan.keys() | under_way.keys()) - refused.keys(), clock.sleep)
            _lead(admin, [tp for tp in found.partitions if tp.topic in chosen and tp not in stuck])
            _raise(refused, len(plan), "moved")
            _raise_stuck(stuck)


class _Found(NamedTuple):
    """All partitions of the cluster, and those of them that are being moved."""

    partitions: dict[TopicPartition, PartitionDescription]
    moves: dict[TopicPartition, PartitionReassignment]


def _look(admin: Admin) -> _Found:
    from actors.client import TopicPartition

    moves = admin.list_partition_reassignments()
    while True:  # if a move ended between the two requests, its partition would seem to have more replicas
        topics = admin.describe_topics()
        before, moves = moves, admin.list_partition_reassignments()
        if moves == before:
            break
    partitions = {TopicPartition(topic.name, each.partition): each for topic in topics for each in topic.partitions}
    return _Found(partitions, {tp: move for tp, move in moves.items() if tp in partitions})


def _planned(
    admin: Admin, found: _Found, chosen: set[str], given: str | None, factor: int | None
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas each partition should have. One that is being moved counts as where it moves to.

    Raises CliError and BadParameter if there is no such plan.
    """
    from actors.client import TopicPartition

    there = {node.id: node.rack for node in admin.describe_cluster().brokers}
    placed = {(tp.topic, tp.partition): each.replicas for tp, each in found.partitions.items()}
    for tp, move in found.moves.items():
        placed[tp] = without(move.replicas, move.removing_replicas)
    holders = {broker for (topic, _), replicas in placed.items() if topic in chosen for broker in replicas}
    if given is None and (away := sorted(holders - set(there))):
        raise CliError(
            f"broker {away[0]} holds replicas and is not alive: wait until it is back, or name with --brokers the ones "
            "that take over its share"
        )
    ids = sorted(there) if given is None else _broker_ids(given, there)
    try:
        plan = spread(placed, chosen, [(broker, there[broker]) for broker in ids], factor)
    except NotEnoughBrokersError as error:
        raise CliError(f"{error}: name more with --brokers, or ask for fewer with --replication-factor") from error
    if factor is not None:
        _check_min_insync(admin, chosen, factor)
    for key, new in plan.items():
        each = found.partitions[TopicPartition(*key)]
        behind = [broker for broker in new if broker in each.replicas and broker not in each.isr]
        if len(new) < len(placed[key]) and behind:
            raise CliError(
                f"{key[0]}-{key[1]}: broker {behind[0]} keeps its replica, which is not in sync: wait until it is "
                "before you remove replicas"
            )
    if plan:
        output.note(f"over brokers {', '.join(map(str, ids))}")
    return {TopicPartition(*key): replicas for key, replicas in plan.items()}


def _broker_ids(text: str, there: Mapping[int, Any]) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} is not ID,ID,...", param_hint="--brokers")
    if missing := sorted({int(part) for part in parts} - set(there)):
        alive = ", ".join(map(str, sorted(there)))
        raise click.BadParameter(f"broker {missing[0]} is not alive; these are: {alive}", param_hint="--brokers")
    return sorted({int(part) for part in parts})


def _check_min_insync(admin: Admin, chosen: set[str], factor: int) -> None:
    from actors.client.admin.types import ConfigResource
    from actors.wire.config_resources import ConfigResourceType

    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(chosen)]
    for resource, configs in admin.describe_configs(resources).items():
        needed = configs.get(_MIN_INSYNC)
        if needed is not None and int(needed.value or 1) > factor:
            raise CliError(
                f"{_MIN_INSYNC}={needed.value} of {resource.name} is more than --replication-factor {factor}: what is "
                "written with acks=all could be refused"
            )


def _tell(found: _Found, plan: Mapping[TopicPartition, tuple[int, ...]], output_format: str) -> None:
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(found.partitions[tp].replicas),
            "new_replicas": list(new),
        }
        for tp, new in sorted(plan.items())
    ]
    output.emit(rows, COLUMNS, output_format)


def _refused(admin: Admin, plan: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, KafkaError]:
    """Have the moves begin, or be called off (None). Returns the errors of the partitions where that failed."""
    from actors.client.errors import NoReassignmentInProgressError

    answers = admin.alter_partition_reassignments(plan, raise_errors=False)
    return {
        tp: error
        for tp, error in answers.items()
        if error is not None and not (plan[tp] is None and isinstance(error, NoReassignmentInProgressError))
    }


def _wait(admin: Admin, moving: set[TopicPartition], sleep: Callable[[float], None]) -> set[TopicPartition]:
    """Wait until these have been moved. Returns those that cannot be, because they have no leader."""
    if not moving:
        return set()
    output.note(f"{output.plural(len(moving), 'partition')} under way; they go on should this command be ended")
    left, pause = moving, _POLL_SECONDS
    looks = 0
    with output.progress("partitions moved", len(left)) as bar:
        while left and looks < _LOOKS_FOR_A_LEADER:
            sleep(pause)
            pause = min(1.2 * pause, _SLOWEST_POLL_SECONDS)
            still = left & admin.list_partition_reassignments().keys()
            bar.advance(len(left) - len(still))
            left = still
            slow = pause == _SLOWEST_POLL_SECONDS
            looks = looks + 1 if slow and left <= _without_leader(admin) else 0
    return left


def _without_leader(admin: Admin) -> set[TopicPartition]:
    from actors.client import TopicPartition

    topics = admin.describe_topics()
    return {
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions if each.leader < 0
    }


def _raise_stuck(stuck: set[TopicPartition]) -> None:
    if stuck:
        first = min(stuck)
        raise CliError(
            f"{output.plural(len(stuck), 'partition')} without a leader cannot be moved, such as "
            f"{first.topic}-{first.partition}: the brokers that have all its records are away. The move goes on when "
            "one of them is back, and --cancel calls it off. For a broker that is lost for good there is "
            "`coterie brokers replace`"
        )


def _lead(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    errors = [each for each in admin.elect_preferred_leaders(partitions, raise_errors=False).values() if each]
    if errors:
        output.note(f"warning: {output.plural(len(errors), 'partition')} not led by the first replica yet: {errors[0]}")


def _raise(refused: Mapping[TopicPartition, KafkaError], of: int, what: str) -> None:
    if refused:
        first = next(iter(refused.values()))
        raise CliError(f"{len(refused)} of {output.plural(of, 'partition')} could not be {what}: {first}")
