"""A space: network, processes, mounts and a name of their own, as the kernel's namespaces give them. Needs root.

Nothing of it has to be taken away. All that the kernel has of a space goes with its first process (`init.py`), and that
one ends with the program that has made it, however this ends.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
NAMESPACES: Final = ("--net", "--pid", "--mount", "--uts")
_NEEDED: Final = ("ip", "unshare", "nsenter", "setpriv", "mount")
_MADE: Final = "ip link add v0 type veth peer name v1 && ip link add b0 type bridge && mount --bind / /"


def why_not() -> str | None:
    """The reason why there can be no spaces here; None if there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "hosts are made of Linux namespaces, and only root may make them"
    if missing := [program for program in _NEEDED if shutil.which(program) is None]:
        return f"hosts are made with {', '.join(missing)}, which is not here (iproute2, util-linux)"
    made = subprocess.run(
        ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "sh", "-c", _MADE],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"this machine makes no namespaces with links and mounts: {made.stderr.strip()}" if made.returncode else None


def child_of(pid: int) -> int:
    """The pid of a process's only child; both pids are those outside the space."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


class Space:
    """Namespaces that live as long as a first process. With `disk`, that folder is seen at `mounted_at` inside."""

    def __init__(self, name: str, disk: Path | None = None, mounted_at: Path | None = None) -> None:
        own = Path(__file__).with_name("init.py")
        mounts = [] if disk is None else [str(disk), str(mounted_at)]
        unshare = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc"]
        self._outer = subprocess.Popen(
            [*unshare, sys.executable, "-I", "-S", str(own), name, *mounts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != b"up\n":
            raise OSError(f"space {name} does not come up: {self._outer.communicate()[1].decode()}")
        self.pid: Final = child_of(self._outer.pid)
        """The pid of the first process, outside the space."""

    def end(self) -> None:
        """Kill all processes of the space at once. Returns when all are gone; what they had open is closed by then."""
        first = os.pidfd_open(self.pid)
        signal.pidfd_send_signal(first, signal.SIGKILL)
        select.select([first], [], [])  # it is the last to go
        os.close(first)
        self._outer.communicate()

    def command(self, *command: str) -> list[str]:
        """The command that, outside, runs this one inside, as a child that does not outlive it."""
        return ["nsenter", "-t", str(self.pid), *NAMESPACES, "--", "setpriv", "--pdeathsig", "KILL", *command]

    def popen(self, command: Sequence[str], env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[Any]:
        """Start a command inside. To kill it, kill what is returned; other signals are for `child_of` that."""
        return subprocess.Popen(self.command(*command), env=env, **more)

    def ip(self, *lines: str) -> None:
        """Run lines of `ip` for the network inside; pids in them are those outside."""
        run_ip(lines, ["nsenter", "-t", str(self.pid), "--net", "--"])


def run_ip(lines: Sequence[str], prefix: Sequence[str] = ()) -> None:
    """Run lines of `ip`, here or, with a prefix, elsewhere."""
    done = subprocess.run(
        [*prefix, "ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"ip: {done.stderr.strip()} in {list(lines)}")
