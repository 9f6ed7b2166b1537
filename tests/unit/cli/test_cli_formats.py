"""Every command that prints rows can print JSON."""

from __future__ import annotations

from collections.abc import Iterator

import click

from actors.cli.main import cli

SAY_WHAT_WAS_DONE = {
    *("up", "down", "console", "brokers add", "brokers replace", "brokers restart", "brokers roll"),
    *("controller add", "controller remove"),
    *("topics create", "topics alter", "topics delete", "groups delete"),
    *("pools scale", "pools pause", "pools resume", "pools restart", "pools stop"),
}
"""Commands that print no rows, but a sentence."""


def commands(group: click.Command = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command, f"{path} {name}".strip())


def test_every_command_that_prints_rows_has_format_json() -> None:
    without = {name for name, command in commands() if not any("--format" in each.opts for each in command.params)}
    assert without == SAY_WHAT_WAS_DONE
