"""The brokers of the embedded cluster in a data directory, for commands that ask brokers."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli import command_config


def servers(data_dir: Path) -> str:
    """Their addresses. Without a --command-config the command logs in as the administrator of a secure cluster.

    Raises ClusterError if no cluster runs there, and UsageError if other brokers have been named, too.
    """
    from actors.cluster import Cluster
    from actors.controller.securing import PROPERTIES

    context = click.get_current_context()
    source = context.get_parameter_source("bootstrap_server")
    if source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--data-dir and --bootstrap-server contradict each other: leave one out")
    with Cluster.connect(data_dir=data_dir) as cluster:
        found = cluster.bootstrap_servers
    path = data_dir / PROPERTIES
    if command_config.file() is None and path.exists():
        command_config.use(context, command_config.read(path), path)
    return found
