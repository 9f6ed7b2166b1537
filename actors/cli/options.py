"""Options several commands share, and how their values are read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

import click

from actors.cli import command_config
from actors.cli.clients import Clients

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


_bootstrap = click.option(
    "--bootstrap-server",
    "--bootstrap-servers",
    "bootstrap_server",
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    envvar="COTERIE_BOOTSTRAP_SERVER",
    metavar="HOST:PORT,...",
    help="Brokers to ask first, Coterie's or any Kafka's.",
)


def bootstrap(command: F) -> F:
    """Give a command what it needs to reach brokers: --bootstrap-server and --command-config."""
    return _bootstrap(command_config.option(command))


timeout = click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(min=1),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="How long to wait for brokers.",
)
output_format = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Tables for people, JSON for programs.",
)
line_format = click.option(
    "--format",
    "line_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What a line is: a value, or an object with key, value, headers, partition and timestamp.",
)


def admin_options(command: F) -> F:
    """Give a command the options --bootstrap-server, --timeout and --format."""
    return bootstrap(timeout(output_format(command)))


def at_a_clock(command: F) -> F:
    """Give a command the argument `clock`: the machine's, unless the command line was called with another (`obj`)."""

    @functools.wraps(command)
    def clocked(*arguments: Any, **options: Any) -> Any:
        from actors.runtime.environment import REAL, Clock  # asyncio is among what it needs

        clock = click.get_current_context().find_object(Clock) or REAL.clock
        return command(*arguments, clock=clock, **options)

    return cast(F, clocked)


def with_clients(command: F) -> F:
    """Give a command the argument `clients`, which makes clients: ours, unless the command line has another (`obj`)."""

    @functools.wraps(command)
    def supplied(*arguments: Any, **options: Any) -> Any:
        clients = click.get_current_context().find_object(Clients) or Clients()
        return command(*arguments, clients=clients, **options)

    return cast(F, supplied)


def named(what: str) -> Callable[[F], F]:
    """Have a command take names as arguments (`coterie topics delete a b`), or as in Kafka's tools (`--topic a`).

    The command gets `<what>_arguments` and `<what>_options`; `names` makes one list of them.
    """

    def decorate(command: F) -> F:
        argument = click.argument(f"{what}_arguments", nargs=-1, metavar=f"[{what.upper()}]...")
        option = click.option(f"--{what}", f"{what}_options", multiple=True, metavar=what.upper(), help=f"A {what}.")
        return argument(option(command))

    return decorate


def names(arguments: Iterable[str], options: Iterable[str], what: str) -> list[str]:
    """The names given either way, each once. Raises UsageError if there is none."""
    found = list(dict.fromkeys([*arguments, *options]))
    if not found:
        raise click.UsageError(f"name at least one {what}")
    return found


def key_values(pairs: Iterable[str], option: str = "--config") -> dict[str, str]:
    """The keys and values of KEY=VALUE options. Raises BadParameter naming the option and the text."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        found[key.strip()] = value
    return found
