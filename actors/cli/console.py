"""`coterie console`: serves the console in this process, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from actors.cli import command_config, output
from actors.cli.calls import check_reachable
from actors.cli.cluster_commands import data_dir_option, name_option, ray_address_option
from actors.cli.errors import one_line
from actors.links.operations import Operation, Result

if TYPE_CHECKING:
    from actors.cluster import Cluster
    from actors.console.app import Options
    from actors.console.brokers import BrokerDesk
    from actors.console.server import Place
    from actors.console.source import Source

R = TypeVar("R", bound=Result)


class ClusterSource:
    """The views of a cluster's Monitor, asked of its controller over Ray."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def view(self, operation: Operation[R]) -> R:
        """The view that is asked for. Raises SourceError."""
        from actors.console.source import SourceError

        try:
            return await asyncio.to_thread(self._cluster.view, operation)
        except Exception as error:  # Ray's own have no root in common with ours: the controller may be on its way
            raise SourceError(one_line(error) or type(error).__name__) from error


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9080, show_default=True, help="Where; 0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens.")
@data_dir_option("Data directory of an embedded cluster on this machine.")
@ray_address_option
@name_option
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Any Kafka, without a Monitor: what it tells itself.")
@command_config.option
@click.option("--console-write", is_flag=True, help="Let visitors move the offsets of groups.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A name by which browsers may call it.")
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS", help="A proxy before it, which says for whom it asks."
)
@click.option("--certificate", type=click.Path(dir_okay=False, path_type=Path), help="PEM file: serve HTTPS with it.")
@click.option("--key", type=click.Path(dir_okay=False, path_type=Path), help="PEM file of its key.")
@click.option("--insecure", is_flag=True, help="Let other machines look, without a login or without TLS.")
@click.pass_context
def console(
    context: click.Context,
    port: int,
    host: str,
    data_dir: str,
    ray_address: str | None,
    name: str,
    bootstrap_server: str | None,
    console_write: bool,
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    insecure: bool,
) -> None:
    """Serve the console of a cluster, and print where it is. Ctrl-C ends it.

    It shows, and changes nothing without --console-write. Where clients must log in, visitors must, too, and see what
    they may describe.
    """
    from actors.console.app import Options
    from actors.console.kafka import KafkaSource
    from actors.console.server import Place
    from actors.console.source import Shared
    from actors.runtime.environment import REAL

    place = Place(host, port, certificate, key, insecure)
    options = Options(writes=console_write, names=(*names, host), proxies=_proxies(proxies))
    settings = dict(command_config.client_settings())
    said = context.get_parameter_source("bootstrap_server")
    if bootstrap_server is not None and said is click.core.ParameterSource.COMMANDLINE:
        check_reachable(bootstrap_server)
        settings |= {"bootstrap_servers": bootstrap_server}
        asyncio.run(
            _run(settings, lambda desk: Shared(KafkaSource(desk.admin, REAL.clock), REAL.clock), options, place)
        )
        return
    from actors.cluster import Cluster  # imports Ray, which a Kafka needs not

    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))  # Ray writes warnings to standard output
        cluster = stack.enter_context(
            Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir),
        )
        settings = settings or _left_by_cluster(None if ray_address else Path(data_dir))
        settings = {"bootstrap_servers": cluster.bootstrap_servers, **settings}
        source = Shared(ClusterSource(cluster), REAL.clock)
        asyncio.run(_run(settings, lambda _: source, options, place))


def _proxies(named: tuple[str, ...]) -> tuple[str, ...]:
    from actors.web.proxies import Proxies

    try:
        Proxies(named)
    except ValueError as error:
        raise click.BadParameter(f"{error}", param_hint="--proxy") from error
    return named


def _left_by_cluster(folder: Path | None) -> dict[str, Any]:
    """The settings by which brokers of a secure cluster are reached; none if it is not secure, or elsewhere."""
    from actors.console.beside import LEFT_FOR_CLIENTS
    from actors.runtime.data_folder import place_of

    file = None if folder is None else place_of(folder) / LEFT_FOR_CLIENTS
    return command_config.read(file) if file is not None and file.exists() else {}


async def _run(
    settings: Mapping[str, Any], source_of: Callable[[BrokerDesk], Source], options: Options, place: Place
) -> None:
    from actors.console.entrance import entrance, shut
    from actors.console.server import served
    from actors.runtime.environment import REAL

    door = await entrance(settings, source_of, REAL.clock)
    try:
        console = served(door, options, place)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, console.stop)
        output.say(f"console {console.address}", file=sys.__stdout__)
        await console.run()
    finally:
        await shut(door)
