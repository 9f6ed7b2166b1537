"""`coterie brokers`: more brokers for a running cluster, and restarts that clients do not notice."""

from __future__ import annotations

import click

from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.cli.options import F
from actors.cli.output import plural, working


def _which(command: F) -> F:
    """--ray-address, --name and --data-dir: the cluster that is meant."""
    data_dir = data_dir_option("Data directory of an embedded cluster on this machine.")
    return ray_address_option(name_option(data_dir(command)))


@click.group()
def brokers() -> None:
    """Add brokers to a running cluster, or restart them one after the other."""


@brokers.command()
@click.argument("count", type=click.IntRange(min=1), default=1)
@_which
def add(count: int, ray_address: str | None, name: str, data_dir: str) -> None:
    """Start COUNT more brokers. New partitions go to them; `coterie topics reassign` moves others."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        with working(f"starting {plural(count, 'broker')}"):
            ids = cluster.add_brokers(count)
        click.echo(f"added {', '.join(map(str, ids))} bootstrap.servers={cluster.bootstrap_servers}")


@brokers.command()
@click.argument("ids", type=int, nargs=-1)
@_which
def restart(ids: tuple[int, ...], ray_address: str | None, name: str, data_dir: str) -> None:
    """Restart the brokers IDS, or all, one at a time. Each first hands over what it leads, and then catches up."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        for broker_id in ids or sorted(cluster.broker_pids()):
            with working(f"restarting broker {broker_id}"):
                cluster.restart_brokers(broker_id)
            click.echo(f"restarted {broker_id}")
