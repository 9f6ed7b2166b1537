"""`coterie brokers`: more brokers, fewer, restarts that clients do not notice, lost ones replaced, other settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from actors.cli.cluster_commands import (
    data_dir_option,
    given_settings,
    name_option,
    ray_address_option,
    warnings_as_notes,
)
from actors.cli.errors import CliError
from actors.cli.options import F, at_a_clock, output_format
from actors.cli.output import emit, note, plural, say, working
from actors.links.removals import PlannedMove, RemovalOutlook, RemovalStatus

if TYPE_CHECKING:
    from actors.runtime.environment import Clock

_TOLD_SECONDS: Final = 5.0


def _which(command: F) -> F:
    """--ray-address, --name and --data-dir: the cluster that is meant."""
    data_dir = data_dir_option("Data directory of an embedded cluster on this machine.")
    return ray_address_option(name_option(data_dir(command)))


@click.group()
def brokers() -> None:
    """Add brokers to a running cluster, remove, restart or replace them, or have them take other settings."""


@brokers.command()
@click.argument("count", type=click.IntRange(min=1), default=1)
@_which
def add(count: int, ray_address: str | None, name: str, data_dir: str) -> None:
    """Start COUNT more brokers. New partitions go to them; `coterie topics reassign` moves others."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        with working(f"starting {plural(count, 'broker')}"):
            ids = cluster.add_brokers(count)
        say(f"added {', '.join(map(str, ids))} bootstrap.servers={cluster.bootstrap_servers}")


@brokers.command()
@click.argument("ids", type=int, nargs=-1)
@_which
def restart(ids: tuple[int, ...], ray_address: str | None, name: str, data_dir: str) -> None:
    """Restart the brokers IDS, or all, one at a time. Each first hands over what it leads, and then catches up."""
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        with working("restarting brokers"):
            cluster.restart_brokers(*ids, on_restarted=_restarted)


def _restarted(broker_id: int) -> None:
    say(f"restarted {broker_id}")


@brokers.command()
@click.argument("broker_id", metavar="ID", type=int)
@_which
@click.option("--node-is-off", is_flag=True, help="Its node does not run any more: do not wait until it fences itself.")
@click.option(
    "--accept-data-loss", is_flag=True, help="Give up the partitions of which no other broker has everything."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--timeout", type=click.IntRange(min=1), default=120, show_default=True, help="Seconds until it serves.")
def replace(
    broker_id: int,
    ray_address: str | None,
    name: str,
    data_dir: str,
    node_is_off: bool,
    accept_data_loss: bool,
    yes: bool,
    timeout: int,
) -> None:
    """Start broker ID, whose node or disk is gone for good, with an empty directory, on another node.

    It keeps its id, and is filled from the other brokers. Its former directory is never used again.
    """
    from actors.cluster import Cluster

    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        outlook = cluster.replacement(broker_id, node_is_off=node_is_off)
        if outlook.refused is None and outlook.sole_copies:
            note(f"no other broker has everything of {', '.join(outlook.sole_copies)}")
        if outlook.refused is None and outlook.copies_away:
            away = ", ".join(outlook.copies_away)
            note(f"the other copies of {away} are on brokers that are away: they are gone if those disks are lost, too")
        if outlook.refused is None and not yes and (accept_data_loss or not outlook.sole_copies):
            partitions = plural(outlook.partitions, "partition")
            click.confirm(f"Give up the data of broker {broker_id}, with {partitions}?", abort=True, err=True)
        with working(f"replacing broker {broker_id}"):
            at = cluster.replace_broker(
                broker_id, node_is_off=node_is_off, accept_data_loss=accept_data_loss, timeout_s=timeout
            )
        say(f"replaced {broker_id} at={at} bootstrap.servers={cluster.bootstrap_servers}")
        if outlook.partitions:
            note("its partitions are filled: coterie topics describe --under-replicated-partitions shows what is left")


@brokers.command()
@click.argument("broker_id", metavar="ID", type=int)
@_which
@click.option(
    "--throttle",
    metavar="RATE",
    type=click.IntRange(min=0),
    help="Bytes a second that each broker sends to brokers that are filled, until it is done; 0: as many as it can.",
)
@click.option("--dry-run", is_flag=True, help="Show which partitions would move where, and change nothing.")
@click.option("--cancel", is_flag=True, help="Have it stay, with what it still has.")
@output_format
@at_a_clock
def remove(
    broker_id: int,
    ray_address: str | None,
    name: str,
    data_dir: str,
    throttle: int | None,
    dry_run: bool,
    cancel: bool,
    output_format: str,
    clock: Clock,
) -> None:
    """Remove broker ID for good: others lead, its replicas move to them, and it ends. Its id is never used again.

    Returns when it is gone. The cluster goes on should this command be ended; the same command follows it again.
    """
    from actors.cluster import Cluster

    if cancel and (dry_run or throttle is not None):
        raise click.UsageError("--cancel cannot be given with --dry-run or --throttle")
    with Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster:
        if cancel:
            cluster.call_off_removal(broker_id)
            say(f"called off: {broker_id} stays")
            return
        outlook = cluster.removal(broker_id)
        if outlook.refused is not None:
            raise CliError(outlook.refused)
        if dry_run:
            _show_plan(outlook, output_format)
            return
        with working(f"removing broker {broker_id}"):
            cluster.remove_broker(broker_id, throttle=throttle, on_progress=Progress(broker_id, clock.monotonic))
        say(f"removed {broker_id} bootstrap.servers={cluster.bootstrap_servers}")


def _show_plan(outlook: RemovalOutlook, output_format: str) -> None:
    emit([move._asdict() for move in outlook.moves], PlannedMove._fields, output_format)
    if outlook.removed:
        note(f"broker {outlook.broker_id} was removed already")
    elif outlook.status is not None:
        note(f"broker {outlook.broker_id} is being removed: {outlook.status}")
    else:
        moving = plural(len(outlook.moves), "partition")
        note(f"{moving} to move; nothing was changed: this was a dry run")


class Progress:
    """Says how far a removal is: at once, then when it waits for something else, and every few seconds."""

    def __init__(self, broker_id: int, monotonic: Callable[[], float]) -> None:
        self._broker_id = broker_id
        self._monotonic = monotonic
        self._said_at: float | None = None
        self._waits_for: str | None = None

    def __call__(self, status: RemovalStatus) -> None:
        now = self._monotonic()
        due = self._said_at is None or now - self._said_at >= _TOLD_SECONDS
        if due or status.waits_for != self._waits_for:
            note(f"broker {self._broker_id}: {status}")
            self._said_at, self._waits_for = now, status.waits_for


@brokers.command()
@_which
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A broker setting, by Kafka's name.")
@click.option("--unset", multiple=True, metavar="KEY", help="A broker setting that is to have its default again.")
@click.option(
    "--config-file", type=click.Path(exists=True, dir_okay=False), help="Broker settings in a Java properties file."
)
@click.option("--listeners", metavar="NAME://HOST:PORT,...", help="Where brokers bind.")
@click.option("--advertised-listeners", metavar="NAME://HOST:PORT,...", help="What clients are told of broker 0.")
@click.option("--insecure", is_flag=True, help="Let other machines connect without asking who they are.")
@click.option("--new-secret", is_flag=True, help="Change the secret by which the cluster's processes know one another.")
@click.option("--forget-old-secret", is_flag=True, help="End the former secret, once clients have the new ca.pem.")
@click.option("--timeout", type=click.IntRange(min=1), default=120, show_default=True, help="Seconds for each broker.")
def roll(
    ray_address: str | None,
    name: str,
    data_dir: str,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    config_file: str | None,
    listeners: str | None,
    advertised_listeners: str | None,
    insecure: bool,
    new_secret: bool,
    forget_old_secret: bool,
    timeout: int,
) -> None:
    """Have brokers take other settings, one at a time: those that are given change, all others stay.

    After an error, the brokers that are left are as they were: the same command, or a better one, goes on.
    """
    from actors.cluster import Cluster

    if new_secret and forget_old_secret:
        raise click.UsageError("--new-secret and --forget-old-secret contradict each other: leave one out")
    changes: dict[str, str | None] = {
        **given_settings(config_file, configs, listeners, advertised_listeners),
        **dict.fromkeys(unset),
    }
    with (
        warnings_as_notes(),
        Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster,
    ):
        with working("restarting brokers"):
            cluster.roll(
                changes,
                insecure=insecure,
                new_secret=new_secret,
                forget_old_secret=forget_old_secret,
                timeout_s=timeout,
                on_restarted=_restarted,
            )
        for line in cluster.notes:
            note(line)
        say(f"rolled bootstrap.servers={cluster.bootstrap_servers}")
