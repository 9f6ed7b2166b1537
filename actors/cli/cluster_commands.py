"""`coterie up`, `down` and `status`: clusters on an embedded Ray or a running one."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import click

from actors.cli import without_ray
from actors.cli.away import away
from actors.cli.errors import CliError, one_line
from actors.cli.options import F, key_values, output_format
from actors.cli.output import emit, emit_json, note, plural, say, working
from actors.links.broker_words import moment
from actors.runtime.logs import JSON, TEXT

DEFAULT_DATA_DIR = "coterie-data"
DEFAULT_PORT = 9092
_CHECK_SECONDS = 3.0  # between two looks whether the cluster is still there

name_option = click.option("--name", default="default", show_default=True, help="Name of the cluster.")
ray_address_option = click.option(
    "--ray-address", metavar="ADDRESS", help="A running Ray cluster (host:port), instead of an embedded one."
)


def data_dir_option(text: str) -> Callable[[F], F]:
    """--data-dir, the folder of a cluster's files; `text` is its help."""
    return click.option(
        "--data-dir", type=click.Path(file_okay=False), default=DEFAULT_DATA_DIR, show_default=True, help=text
    )


def given_settings(
    config_file: str | None, configs: tuple[str, ...], listeners: str | None, advertised_listeners: str | None
) -> dict[str, str]:
    """The broker settings of --config-file, --config, --listeners and --advertised-listeners: later ones hold."""
    from actors.settings import parse_properties

    settings = parse_properties(Path(config_file).read_text()) if config_file else {}
    settings |= key_values(configs)
    settings |= {"listeners": listeners} if listeners else {}
    return settings | ({"advertised.listeners": advertised_listeners} if advertised_listeners else {})


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Have the warnings of a block on standard error, a line each."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **more: note(f"warning: {one_line(message)}")
        warnings.simplefilter("always", UserWarning)
        yield


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True, help="How many brokers.")
@click.option(
    "--controllers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many controllers: an odd number, each on a Ray node of its own. Most of them have to live.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the first broker; 0: any free one.  [default: 9092, or that of --listeners]",
)
@click.option("--host", metavar="HOST", help="Where brokers listen.  [default: 127.0.0.1; the Ray node's address]")
@data_dir_option("Where logs and metadata are kept; made if it is missing.")
@ray_address_option
@name_option
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A broker setting, by Kafka's name.")
@click.option(
    "--config-file", type=click.Path(exists=True, dir_okay=False), help="Broker settings in a Java properties file."
)
@click.option("--listeners", metavar="NAME://HOST:PORT,...", help="Where brokers bind, instead of --host and --port.")
@click.option("--advertised-listeners", metavar="NAME://HOST:PORT,...", help="What clients are told of broker 0.")
@click.option(
    "--add-scram",
    multiple=True,
    metavar="MECHANISM=[KEY=VALUE,...]",
    help="A first user of a new cluster: SCRAM-SHA-256=[name=NAME,password-file=PATH]; password=- asks for it.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, logins and ACLs. The first start makes an administrator, who logs in by DATA_DIR/client.properties.",
)
@click.option(
    "--log-format",
    type=click.Choice([TEXT, JSON]),
    help="How the logs are written: text for people, or JSON, an object a line.  [default: coterie.log.format]",
)
@click.option("--insecure", is_flag=True, help="Let other machines connect without asking who they are.")
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    help="Serve the console there, on this machine; 0: at any free port, which logs/monitor.log names.",
)
@click.option("--console-write", is_flag=True, help="Let visitors of the console move the offsets of groups.")
def up(
    brokers: int,
    controllers: int,
    port: int | None,
    host: str | None,
    data_dir: str,
    ray_address: str | None,
    name: str,
    configs: tuple[str, ...],
    config_file: str | None,
    listeners: str | None,
    advertised_listeners: str | None,
    add_scram: tuple[str, ...],
    secure: bool,
    log_format: str | None,
    insecure: bool,
    console_port: int | None,
    console_write: bool,
) -> None:
    """Start a cluster and print `ready bootstrap.servers=...` when clients can connect.

    On an embedded Ray it runs until Ctrl-C. With --ray-address it goes on after this command, until `coterie down`.
    """
    from actors.cli.users import ask_passwords
    from actors.cluster import Cluster
    from actors.runtime import ray_runtime

    if secure and insecure:
        raise click.UsageError("--secure and --insecure contradict each other: leave one out")
    passwords = ask_passwords(add_scram)
    settings = given_settings(config_file, configs, listeners, advertised_listeners)
    settings |= {"coterie.log.format": log_format} if log_format else {}
    settings |= {} if console_port is None else {"coterie.console.port": str(console_port)}
    settings |= {"coterie.console.write": "true"} if console_write else {}
    if port is None and "listeners" not in settings:
        port = DEFAULT_PORT
    stop, over = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, _interrupt)  # as Ctrl-C does, it ends what has been started by then
    with warnings_as_notes():
        with ExitStack() as stack:
            stack.callback(over.set)
            starting = f"starting {plural(brokers, 'broker')} on {ray_address or 'an embedded Ray'}"
            with working(starting), ray_runtime.without_arrow():
                cluster = stack.enter_context(
                    Cluster.start(
                        brokers,
                        name=name,
                        port=port,
                        host=host,
                        data_dir=data_dir,
                        ray_address=ray_address,
                        config=settings,
                        add_scram=add_scram,
                        ask_password=lambda user: passwords[user].reveal(),
                        secure=secure,
                        insecure=insecure,
                        controllers=controllers,
                    )
                )
            # Only now, because ray.init has installed handlers of its own.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda _number, _frame: _stop(stop))
            for line in cluster.notes:
                note(line)
            if console_port is not None:
                note(_console_at(console_port, data_dir))
            say(f"ready bootstrap.servers={cluster.bootstrap_servers} ray.address={cluster.ray_address}")
            if ray_address is not None:
                cluster.disconnect()
                return
            core = ray_runtime.core()
            without_ray.watch(stop, lambda: ray_runtime.watched(core), over)
            while not stop.wait(_CHECK_SECONDS):
                cluster.check()
            note("stopping the brokers; the data stays")


def _console_at(port: int, data_dir: str) -> str:
    if port:
        return f"the console is at http://127.0.0.1:{port}/"
    return f"the console is at any free port, which logs/monitor.log names (in {data_dir})"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop(stop: threading.Event, frame: FrameType | None = None) -> None:
    stop.set()


@click.command()
@click.argument("name", default="default")
@ray_address_option
@data_dir_option("Data directory of an embedded cluster on this machine.")
def down(name: str, ray_address: str | None, data_dir: str) -> None:
    """End the cluster NAME: its logs are closed, its processes end, its data stays.

    Also ends what is left of a cluster whose controller's node is gone.
    """
    from actors.cluster import Cluster

    left = Cluster.end(ray_address, name, data_dir=None if ray_address else data_dir)
    if left:
        note(f"the controller could not be reached: {left} of its processes were ended without it")
    say(f"stopped {name}")


@click.command()
@ray_address_option
@name_option
@data_dir_option("Data directory of an embedded cluster on this machine.")
@output_format
def status(ray_address: str | None, name: str, data_dir: str, output_format: str) -> None:
    """Show brokers and partition actors: their Ray node, pid, role, epoch and load.

    The column WHY says what keeps a partition's process, or what will wake a partition that sleeps; since when a broker
    is away and when it is replaced, or how much it has yet to be sent.
    """
    from actors.cluster import Cluster

    # Ray writes warnings to standard output, where they would stand in the table or the JSON.
    with (
        redirect_stdout(sys.stderr),
        Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster,
    ):
        found = cluster.status()
    if output_format == "json":
        emit_json(found)
        return
    rows = [_controller_row(found), *map(_quorum_row, found["controllers"]), *_monitor_rows(found)]
    for broker in found["brokers"]:
        rows.append(_broker_row(broker))
        rows += [_shard_row(broker, shard) for shard in broker["shards"]]
    emit(rows, ["role", "id", "state", "pid", "epoch", "address", "ray_node", "load", "why"], output_format)
    if not any(broker["alive"] for broker in found["brokers"]):
        raise CliError(f"no broker of cluster {name} is alive; see {found['data_dir']}/logs")


def _controller_row(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": "controller",
        "id": found["name"],
        "state": "Active",
        "pid": found["controller_pid"],
        "epoch": found["controller_epoch"],
        "address": None,
        "ray_node": found["controller_node_id"][:12],
        "load": f"cluster {found['cluster_id']}",
    }


def _quorum_row(controller: dict[str, Any]) -> dict[str, Any]:
    """The row of one of several controllers, as the one that leads knows it."""
    lag, leads = controller["lag"], controller["role"] == "Leader"
    heard = "never heard" if controller["heard_ms"] < 0 else f"last heard {moment(controller['heard_ms'])}"
    return {
        "role": "controller",
        "id": controller["id"],
        "state": controller["role"],
        "address": f"{controller['host']}:{controller['port']}" if controller["host"] else None,
        "load": None if leads else f"{lag} records behind" if lag else "has all records",
        "why": None if leads else heard,
    }


def _monitor_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The row of the Monitor, which the controller starts on its own Ray node; none if it is not to be."""
    monitor = found["monitor"]
    if monitor is None:
        return []
    return [
        {
            "role": "monitor",
            "id": None,
            "state": monitor["state"],
            "pid": monitor["pid"],
            "ray_node": found["controller_node_id"][:12],
        }
    ]


def _broker_row(broker: dict[str, Any]) -> dict[str, Any]:
    load = broker["load"]
    figures = f"{load['connections']} connections, {load['requests']} requests" if load else None
    if failed := sum(each["failed"] + each["repeats_failed"] for each in load["logins"]) if load else 0:
        figures = f"{figures}, {failed} failed logins"
    listeners = load["tls"] if load else ()
    priority = load["priority"] if load else None
    bad = [*away(broker), *([priority["problem"]] if priority and priority["problem"] else [])]
    bad += [f"certificates of {tls['listener']}: {tls['problem']}" for tls in listeners if tls["problem"]]
    return {
        "role": "broker",
        "id": broker["id"],
        "state": "Alive" if broker["alive"] else "Dead",
        "pid": broker["pid"],
        "epoch": broker["epoch"],
        "address": f"{broker['host']}:{broker['port']}",
        "ray_node": broker["node_id"][:12],
        "load": figures,
        "why": "; ".join(bad) or None,
    }


def _shard_row(broker: dict[str, Any], shard: dict[str, Any]) -> dict[str, Any]:
    figures = shard["figures"] or {}
    groups = sum(figures.get("groups", {}).values())
    return {
        "role": "partition",
        "id": f"__consumer_offsets-{shard['partition']}" if shard["partition"] >= 0 else None,
        "state": shard["state"],
        "pid": shard["pid"],
        "epoch": shard["epoch"] if shard["partition"] >= 0 else None,
        "address": f"on broker {broker['id']}",
        "ray_node": broker["node_id"][:12],
        "load": f"{groups} groups, {figures['counters']['offset_commits']} commits"
        if figures.get("counters")
        else None,
        "why": shard["why"],
    }
