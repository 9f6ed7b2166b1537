"""`coterie topics`: verbs and columns as in kafka-topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

from actors.cli import calls, options, output
from actors.cli.calls import NewTopic, Topic
from actors.cli.errors import CliError

COLUMNS: Final = ("topic", "partition", "leader", "replicas", "isr")


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command("list")
@options.admin_options
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
def list_topics(bootstrap_server: str, timeout_ms: int, output_format: str, exclude_internal: bool) -> None:
    """List the names of all topics."""
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        found = sorted(cluster.topics(), key=lambda topic: topic.name)
    shown = [topic for topic in found if not (exclude_internal and topic.internal)]
    if output_format == "json":
        output.emit_json([{"topic": topic.name, "partitions": len(topic.partitions)} for topic in shown])
        return
    for topic in shown:
        click.echo(output.text(topic.name))


@topics.command()
@options.named("topic")
@options.admin_options
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option("--under-replicated-partitions", "lagging", is_flag=True, help="Only partitions that lack replicas.")
@click.option("--unavailable-partitions", "leaderless", is_flag=True, help="Only partitions without a leader.")
def describe(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
    exclude_internal: bool,
    lagging: bool,
    leaderless: bool,
) -> None:
    """Show partitions, leaders, replicas and settings of topics; of all if none is named."""
    wanted = [*topic_arguments, *topic_options]
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        found = _existing(cluster.topics(wanted or None), wanted)
        found = [topic for topic in found if not (exclude_internal and topic.internal)]
        configs = cluster.topic_configs([topic.name for topic in found])
    shown = [_described(topic, configs.get(topic.name, {}), lagging, leaderless) for topic in found]
    if lagging or leaderless:
        shown = [topic for topic in shown if topic["partitions"]]
    if output_format == "json":
        output.emit_json(shown)
        return
    for number, topic in enumerate(shown):
        if number:
            click.echo()
        click.echo(_headline(topic))
        output.emit_table(topic["partitions"], COLUMNS)


@topics.command()
@options.named("topic")
@options.bootstrap
@options.timeout
@click.option("--partitions", type=click.IntRange(1), help="How many; the broker's num.partitions if not given.")
@click.option(
    "--replication-factor", type=click.IntRange(1, 32767), help="Replicas; the broker's default if not given."
)
@click.option("--replica-assignment", metavar="ID:ID,ID:ID,...", help="Brokers of each partition, the leader first.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic setting, by Kafka's name.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
def create(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics."""
    names = options.names(topic_arguments, topic_options, "topic")
    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment already says --partitions and --replication-factor")
    assignment = parse_assignment(replica_assignment) if replica_assignment else ()
    settings = options.key_values(configs)
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        there = {topic.name for topic in cluster.topics(names)} if if_not_exists else set()
        for name in names:
            if name in there:
                click.echo(f"Topic {name} is there already.")
                continue
            cluster.create_topic(NewTopic(name, partitions, replication_factor, assignment, settings))
            click.echo(f"Created topic {name}.")


@topics.command()
@options.named("topic")
@options.bootstrap
@options.timeout
@click.option("--partitions", type=click.IntRange(1), help="Raise the number of partitions to this.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a topic setting.")
@click.option("--delete-config", "removed", multiple=True, metavar="KEY", help="Give a setting its default back.")
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no error.")
def alter(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    partitions: int | None,
    configs: tuple[str, ...],
    removed: tuple[str, ...],
    if_exists: bool,
) -> None:
    """Add partitions to topics, and change their settings."""
    names = options.names(topic_arguments, topic_options, "topic")
    settings = options.key_values(configs)
    if not (partitions or settings or removed):
        raise click.UsageError("say what to change: --partitions, --config or --delete-config")
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        for topic in _existing(cluster.topics(names), [] if if_exists else names):
            if settings or removed:
                cluster.alter_topic_configs(topic.name, settings, removed)
            if partitions:
                cluster.add_partitions(topic.name, partitions)
            click.echo(f"Altered topic {topic.name}.")


@topics.command()
@options.named("topic")
@options.bootstrap
@options.timeout
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no error.")
def delete(
    topic_arguments: tuple[str, ...],
    topic_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    if_exists: bool,
) -> None:
    """Delete topics with all their records."""
    names = options.names(topic_arguments, topic_options, "topic")
    with calls.connect(bootstrap_server, timeout_ms) as cluster:
        for topic in _existing(cluster.topics(names), [] if if_exists else names):
            cluster.delete_topic(topic.name)
            click.echo(f"Deleted topic {topic.name}.")


def parse_assignment(text: str) -> tuple[tuple[int, ...], ...]:
    """`0:1,1:2` is two partitions on brokers 0 and 1, and 1 and 2. Raises BadParameter."""
    replicas = [part.split(":") for part in text.split(",")]
    if not all(each.isascii() and each.isdigit() for part in replicas for each in part):
        raise click.BadParameter(f"{text!r} is not ID:ID,ID:ID,...", param_hint="--replica-assignment")
    if len({len(set(part)) for part in replicas} | {len(part) for part in replicas}) > 1:
        raise click.BadParameter(
            "each partition needs the same number of different brokers", param_hint="--replica-assignment"
        )
    return tuple(tuple(map(int, part)) for part in replicas)


def _existing(found: Iterable[Topic], wanted: Iterable[str]) -> list[Topic]:
    there = sorted(found, key=lambda topic: topic.name)
    missing = sorted(set(wanted) - {topic.name for topic in there})
    if missing:
        raise CliError(f"there is no topic {', '.join(missing)}")
    return there


def _described(topic: Topic, configs: dict[str, str], lagging: bool, leaderless: bool) -> dict[str, Any]:
    chosen = [
        partition
        for partition in topic.partitions
        if (partition.under_replicated or not lagging) and (partition.unavailable or not leaderless)
    ]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
        "configs": configs,
        "partitions": [
            {
                "topic": topic.name,
                "partition": each.number,
                "leader": each.leader if each.leader >= 0 else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
            }
            for each in chosen
        ],
    }


def _headline(topic: dict[str, Any]) -> str:
    configs = ",".join(f"{key}={value}" for key, value in sorted(topic["configs"].items()))
    parts = [
        f"Topic: {output.text(topic['topic'])}",
        f"TopicId: {topic['topic_id']}" if topic["topic_id"] else "",
        f"PartitionCount: {topic['partition_count']}",
        f"ReplicationFactor: {topic['replication_factor']}",
        f"Configs: {configs}",
    ]
    return "  ".join(part for part in parts if part)
