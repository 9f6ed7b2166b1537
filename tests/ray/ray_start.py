"""`ray start` as a user has it, in a home folder of the test's: never the real one. `ray stop` would end all Rays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.ray.support import ROOT, assert_gone

QUIET = "--include-dashboard=false --object-store-memory 80000000 --num-cpus 4 --disable-usage-stats"


class Home:
    """A home folder, perhaps with a token, and the commands that its user runs."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self.token_file = folder / ".ray" / "auth_token"
        self.token_file.parent.mkdir(parents=True)
        if token is not None:
            self.token_file.write_text(token)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
        self.environment = kept | {"HOME": str(folder), "PATH": path, "PYTHONPATH": str(ROOT)}

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this user to its end."""
        return subprocess.run(
            command,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def coterie(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The `coterie` command."""
        return self.run(sys.executable, "-m", "actors.cli.main", *arguments)


@contextmanager
def started(home: Home, command: str) -> Iterator[None]:
    """The Ray that a shell command starts in the background; all of its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: it has sockets
        home.environment["RAY_TMPDIR"] = folder
        try:
            while (said := _start(home, command)) is not None:
                assert "timed out during startup" in said, said  # as it is called where a machine is busy for 30 s
                _end(folder)
            yield
        finally:
            _end(folder)


def _start(home: Home, command: str) -> str | None:
    """Run a shell command that leaves processes in the background; what it said if it failed."""
    # They keep its standard output open: to wait for the end of that would be to wait for theirs.
    with tempfile.TemporaryFile("w+") as said:
        shell = ["bash", "-c", command]
        done = subprocess.run(shell, env=home.environment, stdout=said, stderr=said, timeout=200, check=False)
        said.seek(0)
        return said.read() if done.returncode else None


def _end(folder: str) -> None:
    """End them all; also one that another has started while they were looked for."""
    while family := _of_ray_in(folder):
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        assert_gone(family)


def _of_ray_in(folder: str) -> list[psutil.Process]:
    """The processes of the Ray in a folder, by their variable or their logs: a process title overwrites the former."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            logs = any(each.path.startswith(folder) for each in process.open_files())
            if logs or process.environ().get("RAY_TMPDIR") == folder:
                found.append(process)
    return found
