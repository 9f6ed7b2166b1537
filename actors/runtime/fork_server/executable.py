"""The executable that Ray takes for Python.

It has workers forked, leaves out the helpers that an embedded Ray has no use for, has stand-ins for the agents (see the
package), and runs everything else by the real Python.
"""

from __future__ import annotations

import contextlib
import multiprocessing.spawn  # noqa: F401  # when imported it keeps sys.executable: not the one that is lent to Ray
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from actors.runtime import ray_inside
from actors.runtime.fork_server import agents, client

_SCRIPT = """\
#!/bin/sh
case "$1" in
{forked}) exec {python} -IS {client} {folder} {log} {warm} "$@" ;;
*/{dashboard}) case " $* " in *" {minimal} "*) exit ;; esac ;;
esac
case "$2" in
{helpers}) exit ;;
*/{dashboard_agent}) case " $* " in *" {minimal} "*) exec {python} -IS {agents} {serves_nothing} -- "$@" ;; esac ;;
*/{runtime_env_agent}) exec {python} -IS {agents} {takes_calls} -- "$@" ;;
esac
exec {python} "$@"
"""
_NOTHING = '""'
"""A pattern that fits no script."""


def prepare(warm: Sequence[str] | None, log: Path | None = None) -> Path | None:
    """Make the folder of a fork server, with the executable in it. The first worker starts the server.

    `warm` are the modules that the server imports beside ray; None: there is no server, and workers start plainly. If
    processes cannot be forked, the reason is written to the file `log` (None: to stderr). Returns None if that is known
    already.
    """
    folder = Path(tempfile.mkdtemp(prefix="coterie-fork-"))
    words = {
        "python": sys.executable or "",
        "client": client.__file__,
        "agents": agents.__file__,
        "folder": str(folder),
        "log": str(log or ""),
        "warm": ",".join(warm or ()),
    }
    try:
        _write(executable_in(folder), _script(words, forks=warm is not None))
    except OSError as error:
        remove(folder)
        client.say(str(log or ""), f"processes are started plainly: {error}")
        return None
    return folder


def _script(words: Mapping[str, str], *, forks: bool) -> str:
    return _SCRIPT.format(
        forked=f"*/{ray_inside.WORKER}" if forks else _NOTHING,
        dashboard=ray_inside.DASHBOARD,
        minimal=ray_inside.MINIMAL,
        dashboard_agent=ray_inside.DASHBOARD_AGENT,
        serves_nothing=_words(agents.NOTHING, ray_inside.DASHBOARD_AGENT_PORTS),
        runtime_env_agent=ray_inside.RUNTIME_ENV_AGENT,
        takes_calls=_words(agents.CALLS, ray_inside.RUNTIME_ENV_PORT),
        helpers=" | ".join(f"*/{each}" for each in ray_inside.HELPERS),
        **{name: shlex.quote(word) for name, word in words.items()},
    )


def _words(does: str, names: Sequence[str]) -> str:
    """The arguments of a stand-in for an agent."""
    return shlex.join([ray_inside.RAYLET_PID, *ray_inside.AGENT_ARGUMENTS, does, *names])


def _write(executable: Path, script: str) -> None:
    """Write the executable. Raises OSError if nothing can be executed in its folder."""
    if not sys.executable or not hasattr(os, "pidfd_open"):
        raise OSError("this Python cannot say where it is, or has no pidfd_open")
    executable.write_text(script)
    executable.chmod(0o700)
    if not os.access(executable, os.X_OK):
        raise PermissionError(f"nothing may be executed in {executable.parent.parent}")


def executable_in(folder: Path) -> Path:
    """The path of the executable in a fork server's folder."""
    return folder / "python"


@contextlib.contextmanager
def lent_executable(folder: Path) -> Iterator[None]:
    """Within the block, a Ray that is started takes this executable for Python."""
    before = sys.executable
    sys.executable = str(executable_in(folder))
    try:
        yield
    finally:
        sys.executable = before


def remove(folder: Path) -> None:
    """Remove the folder of a fork server whose Ray has ended, unless the server has done so."""
    shutil.rmtree(folder, ignore_errors=True)
