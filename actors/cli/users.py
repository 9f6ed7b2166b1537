"""`coterie users`: who may log in by SCRAM, on any Kafka; and for who has locked himself out, in a data directory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from actors.cli import calls, command_config, options, output, user_file
from actors.cli.errors import CliError
from actors.runtime.private import first_line
from actors.security.add_scram import ASKED_FOR, name_problem, parse_add_scram
from actors.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    USUAL_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    salted_password,
)
from actors.settings.secret import Secret

_BY_NAME: Final = {each.wire_name: each for each in ScramMechanism}
COLUMNS: Final = ("user", "mechanism", "iterations")


@click.group()
def users() -> None:
    """List users, set their passwords, and delete them.

    A user who is logged in stays so when the password is changed or removed: connections.max.reauth.ms of the brokers
    bounds for how long.
    """


@users.command("list")
@options.admin_options
def list_users(bootstrap_server: str, timeout_ms: int, output_format: str) -> None:
    """List the users that have a password, and the mechanisms it is for."""
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = admin.describe_user_scram_credentials()
    rows = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user, credentials in sorted(found.items())
        for mechanism, iterations in sorted(credentials.items())
    ]
    output.emit(rows, COLUMNS, output_format)


@users.command("set")
@click.argument("name")
@click.option(
    "--mechanism",
    type=click.Choice(sorted(_BY_NAME)),
    help="What the password is for.  [default: all of them]",
)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=USUAL_ITERATIONS,
    show_default=True,
    help="How much work a guess costs, and a login.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file whose first line is the password; without one it is asked for.",
)
@click.option(
    "--offline",
    "data_dir",
    type=click.Path(file_okay=False),
    metavar="DATA_DIR",
    help="Set it in the data directory of a cluster that does not run, because nobody can log in.",
)
@click.option(
    "--write",
    "written",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Make a properties file by which the user logs in: for --command-config, and for Kafka's tools.",
)
@options.admin_options
def set_user(
    name: str,
    mechanism: str | None,
    iterations: int,
    password_file: str | None,
    data_dir: str | None,
    written: Path | None,
    bootstrap_server: str,
    timeout_ms: int,
    output_format: str,
) -> None:
    """Add a user, or change his password.

    The password is asked for, or read from a file. It is salted here, and is sent nowhere. With --write the user's own
    file has it, and reaches the brokers as --command-config does.
    """
    if (wrong := name_problem(name)) is not None:
        raise click.BadParameter(wrong, param_hint="NAME")
    if written is not None:
        user_file.check(written)
    password = read_password(name, password_file)
    mechanisms = [_BY_NAME[each] for each in sorted(_BY_NAME) if mechanism in (None, each)]
    if data_dir is not None:
        _set_offline(Path(data_dir), name, password, mechanisms, iterations)
    else:
        _set(bootstrap_server, timeout_ms, name, password, mechanisms, iterations)
    if written is not None:
        servers = bootstrap_server if data_dir is None else None
        lines = user_file.text(name, password, mechanisms[-1], command_config.file(), servers)
        user_file.write(written, lines)
        output.note(f"{name} logs in by --command-config {written}")


def _set(
    bootstrap_server: str,
    timeout_ms: int,
    name: str,
    password: Secret,
    mechanisms: Sequence[ScramMechanism],
    iterations: int,
) -> None:
    from actors.client.admin.types import ScramUpsertion

    with calls.connect(bootstrap_server, timeout_ms) as admin:
        for each in mechanisms:  # Kafka takes one change of a user in a request
            admin.alter_user_scram_credentials([ScramUpsertion(name, password, each, iterations)])
    output.note(f"set the password of {name} for {_named(mechanisms)}")


def _named(mechanisms: Sequence[ScramMechanism]) -> str:
    return " and ".join(each.wire_name for each in mechanisms)


@users.command("delete")
@click.argument("name")
@click.option(
    "--mechanism", type=click.Choice(sorted(_BY_NAME)), help="Forget the password for this one alone, not for all."
)
@options.admin_options
def delete_user(name: str, mechanism: str | None, bootstrap_server: str, timeout_ms: int, output_format: str) -> None:
    """Forget the password of a user, so that he can log in no more. Connections that he has stay open."""
    from actors.client.admin.types import ScramDeletion

    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = admin.describe_user_scram_credentials([name]).get(name, {})
        doomed = [each for each in found if each in _BY_NAME and mechanism in (None, each)]
        if not doomed:
            raise CliError(f"there is no user {name}" + (f" with a password for {mechanism}" if mechanism else ""))
        for each in doomed:  # Kafka takes one change of a user in a request
            admin.alter_user_scram_credentials(deletions=[ScramDeletion(name, _BY_NAME[each])])
    output.note(f"deleted {name}")


def ask_passwords(first_users: Iterable[str]) -> dict[str, Secret]:
    """The passwords of first users that are to be asked for, by user. Raises AddScramError, CliError."""
    asked = {}
    for user in map(parse_add_scram, first_users):
        if user.password == ASKED_FOR:
            asked[user.name] = read_password(user.name)
        elif user.password_file is not None:
            output.warn_of_readers(Path(user.password_file))
        elif user.password is not None:
            text = "stands in the list of processes, where others see it: use password-file= or password=-"
            output.note(f"warning: the password of {user.name} {text}")
    return asked


def read_password(name: str, path: str | None = None) -> Secret:
    """A password: the first line of a file or of standard input; from a terminal it is asked for. Raises CliError."""
    if path is not None:
        output.warn_of_readers(Path(path))
        try:
            return Secret(first_line(Path(path)))
        except (OSError, ValueError) as error:
            raise CliError(f"the password cannot be read: {error}") from None
    if sys.stdin.isatty():
        return Secret(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    if not (line := sys.stdin.readline().rstrip("\r\n")):
        raise CliError("no password: give --password-file, or the password on standard input")
    return Secret(line)


def _set_offline(
    folder: Path, name: str, password: Secret, mechanisms: Sequence[ScramMechanism], iterations: int
) -> None:
    from actors.controller.first_users import log_path, set_offline
    from actors.controller.metadata.standalone import StandaloneLog
    from actors.links.operations import ScramUpsertion
    from actors.runtime.data_folder import check_folder, check_own_folder
    from actors.runtime.environment import REAL

    path = log_path(folder)
    if path.exists():
        check_folder(folder)
        check_own_folder(path.parent)
    else:
        raise CliError(f"{folder} is no data directory of a cluster: {path} is not there")
    kept = []
    for each in mechanisms:
        salt = REAL.chance.randbytes(SALT_BYTES)
        made = ScramCredential.of(each, salted_password(each, password.reveal(), salt, iterations), salt, iterations)
        kept.append(ScramUpsertion(name, each.code, made.salt, made.stored_key, made.server_key, made.iterations))
    log = StandaloneLog(path, lock_timeout_s=0.0)
    try:
        set_offline(log, kept, REAL.chance)
    finally:
        log.close()
    output.note(f"set the password of {name} for {_named(mechanisms)} in {folder}")
