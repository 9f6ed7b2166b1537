"""`coterie which`: the offsets partition and the coordinator of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from actors.cli import calls, options, output
from placement.hashing import partition_for_group

if TYPE_CHECKING:
    from actors.client import Admin

OFFSETS_TOPIC = "__consumer_offsets"


@click.command()
@options.named("group")
@options.admin_options
def which(
    group_arguments: tuple[str, ...],
    group_options: tuple[str, ...],
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
) -> None:
    """Show the offsets partition and the coordinator of groups, which need not exist."""
    rows = []
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for name in options.names(group_arguments, group_options, "group"):
            broker = admin.find_coordinator(name)  # the first look-up creates the offsets topic
            count = _partition_count(admin)
            rows.append(
                {
                    "group": name,
                    "partition": f"{OFFSETS_TOPIC}-{partition_for_group(name, count)}" if count else None,
                    "coordinator_id": broker.id,
                    "host": broker.host,
                    "port": broker.port,
                }
            )
    output.emit(rows, ("group", "partition", "coordinator_id", "host", "port"), output_format)


def _partition_count(admin: Admin) -> int | None:
    """Partitions of the offsets topic; None if the cluster does not show it, as some other brokers do not."""
    return next((len(topic.partitions) for topic in calls.existing_topics(admin, [OFFSETS_TOPIC])), None)
