"""The executable that Ray is given for its workers' Python: they are forked, everything else runs as it would."""

from __future__ import annotations

import contextlib
import multiprocessing.spawn  # noqa: F401  # when imported it keeps sys.executable: not the one that is lent to Ray
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from actors.runtime.fork_server import client

_SCRIPT = """\
#!/bin/sh
case "$1" in
*/default_worker.py) exec {0} -IS {1} {2} {3} {4} "$@" ;;
esac
exec {0} "$@"
"""


def prepare(warm: Sequence[str], log: Path | None = None) -> Path | None:
    """Make the folder of a fork server, which is not started yet, with the executable in it.

    `warm` are the modules it imports beside ray; `log` is the file that says when it is of no use, stderr if None.
    Returns None, and has said why, if no process can be forked here.
    """
    folder = Path(tempfile.mkdtemp(prefix="coterie-fork-"))
    words = (sys.executable or "", client.__file__, str(folder), str(log or ""), ",".join(warm))
    try:
        _write(executable_in(folder), _SCRIPT.format(*map(shlex.quote, words)))
    except OSError as error:
        remove(folder)
        client.say(str(log or ""), f"processes are started plainly: {error}")
        return None
    return folder


def _write(executable: Path, script: str) -> None:
    """Raises OSError if nothing can be executed there."""
    if not sys.executable or not hasattr(os, "pidfd_open"):
        raise OSError("this Python cannot say where it is, or has no pidfd_open")
    executable.write_text(script)
    executable.chmod(0o700)
    if not os.access(executable, os.X_OK):
        raise PermissionError(f"nothing may be executed in {executable.parent.parent}")


def executable_in(folder: Path) -> Path:
    """What takes the place of Python."""
    return folder / "python"


@contextlib.contextmanager
def lent_executable(folder: Path) -> Iterator[None]:
    """A Ray that is started meanwhile has its workers forked."""
    before = sys.executable
    sys.executable = str(executable_in(folder))
    try:
        yield
    finally:
        sys.executable = before


def remove(folder: Path) -> None:
    """Forget a fork server whose Ray has ended; it may have done so itself."""
    shutil.rmtree(folder, ignore_errors=True)
