"""`coterie topics`: verbs and columns as in kafka-topics. Moving partitions is reassign.py's."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from actors.cli import calls, options, output
from actors.cli.delete_records import delete_records
from actors.cli.errors import CliError
from actors.cli.reassign import reassign
from placement.metadata import OUR_TOPICS

if TYPE_CHECKING:
    from actors.client import TopicPartition
    from actors.client.admin.types import PartitionDescription, TopicDescription

COLUMNS: Final = ("topic", "partition", "leader", "replicas", "isr", "size")


Sizes = Mapping["TopicPartition", Mapping[int, int]]
"""Bytes of each partition's replicas, by broker."""


@click.group()
def topics() -> None:
    """Create, list, describe, alter, move and delete topics."""


topics.add_command(reassign)
topics.add_command(delete_records)


@topics.command("list")
@options.admin_options
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics and __coterie_pools out.")
def list_topics(bootstrap_server: str, timeout_ms: int, output_format: str, exclude_internal: bool) -> None:
    """List the names of all topics."""
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = calls.existing_topics(admin)
    shown = [topic for topic in found if not (exclude_internal and _is_internal(topic))]
    if output_format == "json":
        output.emit_json([{"topic": topic.name, "partitions": len(topic.partitions)} for topic in shown])
        return
    for topic in shown:
        output.say(output.text(topic.name))


@topics.command()
@options.named("topic")
@options.admin_options
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics and __coterie_pools out.")
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
    """Show partitions, leaders, replicas, sizes and settings of topics; of all topics if none is named.

    A partition's size is that of its leader's replica.
    """
    wanted = [*topic_arguments, *topic_options]
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = _existing(calls.existing_topics(admin, wanted or None), wanted)
        found = [topic for topic in found if not (exclude_internal and _is_internal(topic))]
        configs = calls.own_configs(admin, [topic.name for topic in found])
        sizes = calls.sizes(admin) if found else {}
    shown = [_described(topic, configs.get(topic.name, {}), sizes, lagging, leaderless) for topic in found]
    if lagging or leaderless:
        shown = [topic for topic in shown if topic["partitions"]]
    if output_format == "json":
        output.emit_json(shown)
        return
    for number, topic in enumerate(shown):
        if number:
            output.say()
        output.say(_headline(topic))
        rows = [{**row, "size": output.size(row["size_bytes"])} for row in topic["partitions"]]
        output.emit_table(rows, COLUMNS)


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
    from actors.client.admin.types import NewTopic

    names = options.names(topic_arguments, topic_options, "topic")
    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment decides --partitions and --replication-factor: leave these out")
    assignment = parse_assignment(replica_assignment) if replica_assignment else ()
    settings = options.key_values(configs)
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        there = set(admin.list_topics()) if if_not_exists else set()
        for name in names:
            if name in there:
                output.say(f"Topic {name} is there already.")
                continue
            admin.create_topics(
                [NewTopic(name, partitions or -1, replication_factor or -1, dict(enumerate(assignment)), settings)]
            )
            output.say(f"Created topic {name}.")


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
    from actors.client.admin.types import ConfigResource
    from actors.wire.config_resources import ConfigResourceType

    names = options.names(topic_arguments, topic_options, "topic")
    settings = options.key_values(configs)
    if not (partitions or settings or removed):
        raise click.UsageError("say what to change: --partitions, --config or --delete-config")
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for topic in _existing(calls.existing_topics(admin, names), [] if if_exists else names):
            if settings or removed:
                resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
                admin.incremental_alter_configs({resource: {**settings, **dict.fromkeys(removed)}})
            if partitions:
                admin.create_partitions({topic.name: partitions})
            output.say(f"Altered topic {topic.name}.")


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
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for topic in _existing(calls.existing_topics(admin, names), [] if if_exists else names):
            admin.delete_topics([topic.name])
            output.say(f"Deleted topic {topic.name}.")


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


def _is_internal(topic: TopicDescription) -> bool:
    return topic.is_internal or topic.name in OUR_TOPICS


def _existing(found: list[TopicDescription], wanted: Iterable[str]) -> list[TopicDescription]:
    missing = sorted(set(wanted) - {topic.name for topic in found})
    if missing:
        raise CliError(f"there is no topic {', '.join(missing)}")
    return found


def _described(
    topic: TopicDescription, configs: dict[str, str], sizes: Sizes, lagging: bool, leaderless: bool
) -> dict[str, Any]:
    chosen = [
        partition
        for partition in topic.partitions
        if (_lags(partition) or not lagging) and (partition.leader < 0 or not leaderless)
    ]
    of_leaders = [_size(topic.name, each, sizes) for each in topic.partitions]
    return {
        "topic": topic.name,
        "topic_id": _topic_id(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
        "size_bytes": None if None in of_leaders else sum(each or 0 for each in of_leaders),
        "configs": configs,
        "partitions": [
            {
                "topic": topic.name,
                "partition": each.partition,
                "leader": each.leader if each.leader >= 0 else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "size_bytes": _size(topic.name, each, sizes),
                "replica_sizes": _sizes(topic.name, each, sizes),
            }
            for each in chosen
        ],
    }


def _size(topic: str, partition: PartitionDescription, sizes: Sizes) -> int | None:
    """The size of the leader's replica; of a partition without a leader, the largest."""
    found = _sizes(topic, partition, sizes)
    return found.get(partition.leader, max(found.values(), default=None))


def _sizes(topic: str, partition: PartitionDescription, sizes: Sizes) -> Mapping[int, int]:
    from actors.client import TopicPartition

    return sizes.get(TopicPartition(topic, partition.partition), {})


def _lags(partition: PartitionDescription) -> bool:
    return len(partition.isr) < len(partition.replicas)


def _topic_id(raw: bytes) -> str | None:
    """A topic id as Kafka writes it: URL-safe base64 without padding; None if the broker does not know ids."""
    return urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else None


def _headline(topic: dict[str, Any]) -> str:
    configs = ",".join(f"{key}={value}" for key, value in sorted(topic["configs"].items()))
    parts = [
        f"Topic: {output.text(topic['topic'])}",
        f"TopicId: {topic['topic_id']}" if topic["topic_id"] else "",
        f"PartitionCount: {topic['partition_count']}",
        f"ReplicationFactor: {topic['replication_factor']}",
        f"Size: {output.size(topic['size_bytes'])}" if topic["size_bytes"] is not None else "",
        f"Configs: {configs}",
    ]
    return "  ".join(part for part in parts if part)
