"""The failure of a command: one line on stderr and exit code 1 (2 for usage, 130 for Ctrl-C).

With COTERIE_DEBUG set, the traceback is printed, too.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import click

from actors import CoterieError, OutsideError
from actors.cli import output
from actors.runtime.escaping import indented

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE
DEBUG_VARIABLE: Final = "COTERIE_DEBUG"


class CliError(CoterieError, click.ClickException):
    """An error that the user can mend. The message is one line and says how."""


def run(body: Callable[[], Any]) -> int:
    """Run `body` and return the exit code, whatever it raises. An error goes to stderr in one line."""
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
    except BrokenPipeError:  # the reader has closed the pipe, as in `coterie consume ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter fails again when it flushes at its end
        return BROKEN_PIPE
    except Exception as error:  # a bug's, too: a trace is shown only to those who ask for it
        return _fail_with(error)
    return result if isinstance(result, int) else 0


def one_line(text: object) -> str:
    """The text in one line: line breaks and runs of blanks become one blank."""
    return " ".join(str(text).split())


def _fail_with(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        output.note(indented("".join(traceback.format_exception(error)).rstrip("\n")), keep="\n\t")
    if isinstance(error, (OutsideError, OSError)):
        return _fail(one_line(error) or type(error).__name__, 1)
    hint = f"; set {DEBUG_VARIABLE}=1 to see where"
    return _fail(f"this should not have happened: {type(error).__name__}: {one_line(error)}{hint}", 1)


def _fail(message: str, code: int) -> int:
    output.note(f"coterie: {one_line(message)}")
    return code
