"""`coterie controller`: controllers are added to the quorum of a cluster with several, and removed from it."""

from __future__ import annotations

import click

from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.cli.options import F
from actors.cli.output import say, working


def _which(command: F) -> F:
    """--ray-address, --name and --data-dir: the cluster that is meant."""
    data_dir = data_dir_option("Data directory of an embedded cluster on this machine.")
    return ray_address_option(name_option(data_dir(command)))


@click.group()
def controller() -> None:
    """Add controllers to a cluster that was started with several, or remove them."""


@controller.command()
@click.argument("controller_id", type=click.IntRange(min=0), metavar="ID")
@_which
def add(controller_id: int, ray_address: str | None, name: str, data_dir: str) -> None:
    """Start the controller ID, if it does not run, and give it a vote. It is on a Ray node without a controller."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        with working(f"adding controller {controller_id}"):
            cluster.controllers.add(controller_id)
        say(f"added controller {controller_id}")


@controller.command()
@click.argument("controller_id", type=click.IntRange(min=0), metavar="ID")
@_which
def remove(controller_id: int, ray_address: str | None, name: str, data_dir: str) -> None:
    """Take the vote of the controller ID, and end its process. It has none again until it is added."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        with working(f"removing controller {controller_id}"):
            cluster.controllers.remove(controller_id)
        say(f"removed controller {controller_id}")
