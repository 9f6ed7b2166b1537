"""How the command fails: one line on stderr, exit code 1 (2 for usage, 130 for Ctrl-C), a traceback only on request."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import click

from actors.errors import CoterieError

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE
DEBUG_VARIABLE: Final = "COTERIE_DEBUG"


class CliError(CoterieError, click.ClickException):
    """Something the user can mend; the message is one line and says how."""


def run(body: Callable[[], Any]) -> int:
    """The exit code of `body`, whatever it raises; what went wrong goes to stderr in one line."""
    try:
        result = body()
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "coterie"
        return _fail(f"{error.format_message().rstrip('.')} (see {command} --help)", 2)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as in `coterie consume ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter fails once more when it flushes
        return BROKEN_PIPE
    except Exception as error:
        return _fail_with(error)
    return result if isinstance(result, int) else 0


def one_line(text: object) -> str:
    """Text without line breaks and repeated blanks."""
    return " ".join(str(text).split())


def _fail_with(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if _is_expected(error):
        return _fail(one_line(error) or type(error).__name__, 1)
    hint = f"; set {DEBUG_VARIABLE}=1 to see where"
    return _fail(f"this should not have happened: {type(error).__name__}: {one_line(error)}{hint}", 1)


def _is_expected(error: Exception) -> bool:
    """What the outside does to us. Clients' errors are known by their root's name: most commands never load it."""
    if any(
        base.__name__ in ("KafkaError", "SettingError", "JavaError", "ClusterError") for base in type(error).__mro__
    ):
        return True
    return isinstance(error, OSError)


def _fail(message: str, code: int) -> int:
    click.echo(f"coterie: {one_line(message)}", err=True)
    return code
