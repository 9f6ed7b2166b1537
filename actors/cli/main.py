"""The `coterie` command: the table of its verbs, and the modules they are in."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, NoReturn

import click

from actors.cli.errors import one_line, run
from actors.cli.output import Remarks, note


class LazyGroup(click.Group):
    """A group of verbs that are imported when they are called: `name -> (module, attribute, what it does)`.

    A verb whose module is not installed is left out. Errors are handled as actors.cli.errors says.
    """

    def __init__(self, *args: Any, verbs: Mapping[str, tuple[str, str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = {name: verb for name, verb in verbs.items() if find_spec(verb[0])}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._verbs:
            return None
        module, attribute, _ = self._verbs[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs for `--help`, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb[2]) for name, verb in self._verbs.items()])

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **more: Any
    ) -> NoReturn:
        """Run the command and exit with the code that actors.cli.errors gives it."""
        more["standalone_mode"] = False
        call = super().main
        sys.exit(run(lambda: call(args, prog_name, *rest, **more)))


_CLUSTER = "actors.cli.cluster_commands"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    verbs={
        "up": (_CLUSTER, "up", "Start a cluster."),
        "down": (_CLUSTER, "down", "End a cluster: its processes end, its data stays."),
        "status": (_CLUSTER, "status", "Brokers and partition actors: where they run and what they do."),
        "top": ("actors.cli.top", "top", "Brokers, groups, lag and rates of a cluster, live."),
        "console": ("actors.cli.console", "console", "The cluster in a browser: groups, lag, rebalances, records."),
        "brokers": ("actors.cli.brokers", "brokers", "Add brokers, or restart them one after the other."),
        "controller": ("actors.cli.controllers", "controller", "Add a controller to several, or remove one."),
        "topics": ("actors.cli.topics", "topics", "Create, list, describe, alter, move and delete topics."),
        "groups": ("actors.cli.groups", "groups", "List, describe, reset and delete consumer groups."),
        "pools": ("actors.cli.pools", "pools", "List, scale, pause, restart and stop deployed pools; their logs."),
        "users": ("actors.cli.users", "users", "List users, set their passwords, and delete them."),
        "acls": ("actors.cli.acls", "acls", "List, add and remove ACLs: who may do what."),
        "produce": ("actors.cli.produce", "produce", "Write records from standard input to a topic."),
        "consume": ("actors.cli.consume", "consume", "Write a topic's records to standard output."),
        "which": ("actors.cli.which", "which", "The offsets partition and the coordinator of a group."),
        "doctor": ("actors.cli.doctor", "doctor", "Say whether this machine can run a cluster and Spark."),
    },
)
@click.version_option(metadata.version("coterie"), prog_name="coterie")
def cli() -> None:
    """Kafka's consumer groups, native to Ray.

    `coterie up` starts a cluster. The commands for topics, groups, ACLs and records need nothing but
    --bootstrap-server and work with any Kafka.
    """


def main() -> NoReturn:
    """The entry point of the `coterie` command."""
    logging.basicConfig(handlers=[Remarks()])  # else what our client warns of is printed as it is
    warnings.showwarning = lambda message, *rest, **more: note(f"warning: {one_line(message)}")
    cli.main(prog_name="coterie")


if __name__ == "__main__":
    main()
