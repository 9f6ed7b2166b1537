"""`coterie pools`: deployed pools. Wishes are written to the cluster; supervisors are asked how pools are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from actors.cli import calls, options, output
from actors.cli.cluster_commands import data_dir_option, ray_address_option
from actors.cli.command_config import client_settings
from actors.cli.errors import CliError
from actors.cli.options import F
from actors.cli.pool_lines import Reader, json_line, text_line
from actors.cli.pool_rows import (
    CHANGE_COLUMNS,
    DETAIL_COLUMNS,
    MEMBER_COLUMNS,
    POOL_COLUMNS,
    change_rows,
    detail_row,
    document,
    member_row,
    pool_row,
    remarks,
)
from actors.cli.watching import watched

if TYPE_CHECKING:
    from actors.members.deployment.deployed import DeployedPool
    from actors.members.deployment.description import PoolDescription
    from actors.members.logs.journal import Cursor, MemberLine
    from actors.runtime.environment import Clock

_pool = click.argument("pool", metavar="POOL")


def _ray(command: F) -> F:
    """--ray-address and --data-dir: the Ray on which supervisors run."""
    where = data_dir_option("Data directory of an embedded cluster on this machine, whose Ray is meant.")
    return ray_address_option(where(command))


@click.group()
def pools() -> None:
    """List deployed pools, scale, pause, restart and stop them, and read what their members print.

    A ConsumerPool that was deployed stands in a topic of the cluster that it reads from. There these commands write
    what is wished, without Ray. A pool's supervisor is asked over Ray how the pool is, and what its members print.
    """


@pools.command("list")
@options.bootstrap
@options.output_format
@_ray
def list_pools(bootstrap_server: str, output_format: str, ray_address: str | None, data_dir: str) -> None:
    """List all pools of the cluster. Without a Ray that can be asked, how they are is not known."""
    from actors.members.deployment.deployed import DeployedPool

    calls.check_reachable(bootstrap_server)
    with _perhaps_on_ray(ray_address, data_dir) as unknown, _errors():
        found = DeployedPool.deployed(bootstrap_server, **_security())
    if found:
        _say(unknown)
    output.emit([pool_row(each, asked=not unknown) for each in found], POOL_COLUMNS, output_format)
    if not found:
        output.note("No pool is deployed.")


@pools.command()
@_pool
@options.bootstrap
@options.output_format
@_ray
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C; on a terminal in place.")
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds, with --watch.")
@options.at_a_clock
def describe(
    pool: str,
    bootstrap_server: str,
    output_format: str,
    ray_address: str | None,
    data_dir: str,
    watch: bool,
    interval: float,
    clock: Clock,
) -> None:
    """Show a pool: what is wished, how it is, its members and what has become of them."""
    with _perhaps_on_ray(ray_address, data_dir) as unknown, _attached(pool, bootstrap_server) as deployed:
        show = partial(_show, deployed, output_format, asked=not unknown)
        if watch:
            deployed.describe()  # an error comes alone
            _say(unknown)
            watched(show, interval, clock)
        else:
            show()
            _say(unknown)


def _show(deployed: DeployedPool, output_format: str, *, asked: bool) -> None:
    found: PoolDescription = deployed.describe()
    if output_format == "json":
        output.emit_json(document(found, asked=asked))
        return
    output.emit([detail_row(found, asked=asked)], DETAIL_COLUMNS, output_format)
    for rows, columns in (
        ([member_row(each) for each in found.members], MEMBER_COLUMNS),
        (change_rows(found), CHANGE_COLUMNS),
    ):
        if rows:
            output.say()
            output.emit(rows, columns, output_format)
    for remark in remarks(found):
        output.note(output.text(remark))


@pools.command()
@_pool
@click.argument("size", type=int)
@options.bootstrap
def scale(pool: str, size: int, bootstrap_server: str) -> None:
    """Have POOL have SIZE members. Not for one that follows its load."""
    with _attached(pool, bootstrap_server) as deployed:
        deployed.scale(size)
    output.say(f"{pool} is to have {output.plural(size, 'member')}")


@pools.command()
@_pool
@options.bootstrap
def pause(pool: str, bootstrap_server: str) -> None:
    """Have the members of POOL finish what is in hand, commit and leave. Its group keeps its offsets."""
    with _attached(pool, bootstrap_server) as deployed:
        deployed.pause()
    output.say(f"{pool} is to pause")


@pools.command()
@_pool
@options.bootstrap
def resume(pool: str, bootstrap_server: str) -> None:
    """Have the members of POOL start again after a pause."""
    with _attached(pool, bootstrap_server) as deployed:
        deployed.resume()
    output.say(f"{pool} is to go on")


@pools.command()
@_pool
@options.bootstrap
def restart(pool: str, bootstrap_server: str) -> None:
    """Restart the members of POOL one at a time, those that have failed as well."""
    with _attached(pool, bootstrap_server) as deployed:
        deployed.restart()
    output.say(f"the members of {pool} are to restart")


@pools.command()
@_pool
@options.bootstrap
@_ray
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait for the end."
)
def stop(pool: str, bootstrap_server: str, ray_address: str | None, data_dir: str, wait_s: float) -> None:
    """Have the members of POOL finish what is in hand, commit and leave, and forget it. Its group keeps its offsets.

    Without the Ray of its supervisor it is forgotten as well, but nobody can wait for the members.
    """
    with _perhaps_on_ray(ray_address, data_dir) as unknown, _attached(pool, bootstrap_server) as deployed:
        with output.working(f"stopping {pool}"):
            deployed.stop(timeout_s=wait_s)
    _say(unknown)
    output.say(f"{pool} is to stop" if unknown else f"stopped {pool}")


@pools.command()
@_pool
@options.bootstrap
@click.option(
    "--format",
    "line_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or a JSON object for each.",
)
@_ray
@click.option("--member", type=click.IntRange(min=0), metavar="K", help="Only this member, by its number.")
@click.option(
    "--tail", type=click.IntRange(min=1), default=100, show_default=True, help="How many lines to begin with."
)
@click.option("--since", metavar="DURATION", help="Only lines that are not older: 90s, 10m, 6h.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@options.at_a_clock
def logs(
    pool: str,
    bootstrap_server: str,
    line_format: str,
    ray_address: str | None,
    data_dir: str,
    member: int | None,
    tail: int,
    since: str | None,
    follow: bool,
    clock: Clock,
) -> None:
    """Print what the members of POOL have printed and logged, and what became of them.

    A line has its time, the member's number, its pid, its level, and its text. Of a member that was killed there is
    what was asked for before; all of it is in the logs of Ray's workers, on its node.
    """
    since_ms = _since_ms(since, clock.wall_ms())
    with _on_ray(ray_address, data_dir), _attached(pool, bootstrap_server) as deployed:
        _check_member(deployed, member)

        def ask(tail: int, after: Cursor) -> list[MemberLine]:
            return deployed.logs(member, tail=tail, since_ms=since_ms, after=after)

        reader = Reader(ask, json_line if line_format == "json" else text_line, output.note)
        reader.print_new(tail)
        if follow:
            reader.follow(deployed.describe, clock.sleep)


def _since_ms(since: str | None, now_ms: int) -> int:
    from actors.client.admin.offset_plans import PlanError, parse_duration

    if since is None:
        return 0
    try:
        return max(0, now_ms - parse_duration(since))
    except PlanError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None


def _check_member(deployed: DeployedPool, member: int | None) -> None:
    """Raise BadParameter if the pool has no such member, and nothing was ever heard of one."""
    if member is None or any(each.slot == member for each in deployed.describe().members):
        return
    if not deployed.logs(member, tail=1):
        raise click.BadParameter(f"pool {deployed.name} has no member {member}", param_hint="--member")


def _security() -> dict[str, Any]:
    from actors.client.config import security_settings

    return security_settings(client_settings())


@contextmanager
def _errors() -> Iterator[None]:
    """Have what a pool says is wrong be an error of the user's, not of ours."""
    from actors.members.pool import PoolError

    try:
        with calls.hinting():
            yield
    except PoolError as error:
        raise CliError(str(error)) from None


@contextmanager
def _attached(pool: str, bootstrap_server: str) -> Iterator[DeployedPool]:
    """A handle of a pool. Within the block what a pool says is wrong is a CliError: there may be none of this name."""
    from actors.members.deployment.deployed import DeployedPool

    calls.check_reachable(bootstrap_server)
    with _errors():
        yield DeployedPool(pool, bootstrap_server, **_security())


@contextmanager
def _on_ray(ray_address: str | None, data_dir: str) -> Iterator[None]:
    """Have this process connected to the Ray that is meant. Raises CliError if it is not there."""
    from actors.controller.held_data import folder_of
    from actors.runtime import ray_runtime

    try:  # afterwards, what Ray says is taken out of standard output, so that must not be exchanged meanwhile
        joined = ray_runtime.join(ray_address, None if ray_address else folder_of(Path(data_dir)))
    except ray_runtime.ClusterError as error:
        raise CliError(f"{error}: --ray-address or --data-dir says on which Ray the pool's supervisor runs") from error
    try:
        yield
    finally:
        if joined:
            ray_runtime.end()


@contextmanager
def _perhaps_on_ray(ray_address: str | None, data_dir: str) -> Iterator[str]:
    """The same, but without a Ray the command goes on. Yields what is not known then, to be said if all else is well.

    A Ray that was named has to be there.
    """
    with ExitStack() as stack:
        unknown = ""
        try:
            stack.enter_context(_on_ray(ray_address, data_dir))
        except CliError as error:
            if ray_address is not None:
                raise
            unknown = f"How pools are is not known, because no supervisor could be asked: {error.message}"
        yield unknown


def _say(unknown: str) -> None:
    if unknown:
        output.note(unknown)
