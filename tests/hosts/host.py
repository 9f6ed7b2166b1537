"""One host: a space with a link and a disk. It can be killed whole, and come back elsewhere, or without its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from tests.hosts.network import Network
from tests.hosts.space import ROOT, Space
from tests.support.ray_variables import TOKEN, without_ray
from tests.support.waiting import wait_until

T = TypeVar("T")

_RAY_PORT: Final = 6379
_HEAD: Final = ("--head", f"--port={_RAY_PORT}", "--include-dashboard=false", "--no-monitor")
_SMALL: Final = (
    "--num-cpus=1",
    "--object-store-memory=80000000",
    "--disable-usage-stats",
    "--include-log-monitor=false",
)
_RAY_STARTS: Final = 6
"""A machine that is very busy may be too slow for a node's start. Then it is started anew."""
_STDERR_SHOWN: Final = 4000


class Host:
    """A host that runs, unless it was killed and has not been booted again.

    `disk` is its own folder as its processes see it, at the same path on each host. `files` is the same folder as this
    machine sees it, also while the host is down. `disk/installed` is the code that its next processes have.
    """

    def __init__(self, name: str, network: Network, number: int, files: Path, disk: Path, code: Path) -> None:
        self.name = name
        self.network = network
        self.number = number
        self.files = files
        self.disk = disk
        self.variables: dict[str, str] = {}
        """More variables that its processes have."""
        self._code = code
        self._space: Space | None = None
        self.boot()

    @property
    def address(self) -> str:
        """Its address in the network of the hosts."""
        return self.network.address(self.number)

    @property
    def space(self) -> Space:
        assert self._space is not None, f"{self.name} is down"
        return self._space

    @property
    def is_up(self) -> bool:
        return self._space is not None

    # --- its life ---

    def boot(self, *, number: int | None = None, empty: bool = False) -> None:
        """Start a host that is down: with the address of another number, if one is given, and perhaps an empty disk."""
        assert self._space is None, f"{self.name} is up"
        self.number = self.number if number is None else number
        if empty:
            shutil.rmtree(self.files)
        for folder in ("home", "tmp"):
            (self.files / folder).mkdir(parents=True, exist_ok=True)
        if not (self.files / "installed").is_symlink():
            self.install(self._code)
        space = Space(self.name, self.files, self.disk)
        try:
            self.network.connect(self.name, self.address, space)
        except BaseException:
            space.end()
            raise
        self._space = space

    def kill(self, *, silently: bool = False) -> None:
        """Kill all processes at once. Their sockets break, or, as with a power failure, nobody hears of it."""
        if silently:
            self.network.cut(self.name)
        space, self._space = self.space, None
        space.end()
        self.network.disconnect(self.name)
        if silently:
            self.network.heal(self.name)

    def end(self) -> None:
        """Kill it if it runs."""
        if self._space is not None:
            self.kill()

    def install(self, code: Path) -> None:
        """Exchange the code of the host: its processes that run keep what they have imported."""
        new = self.files / "installed.new"
        new.symlink_to(code)
        os.replace(new, self.files / "installed")
        self._code = code

    # --- what runs on it ---

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables that its processes have."""
        places = {"HOME": "home", "TMPDIR": "tmp", "RAY_TMPDIR": "", "PYTHONPATH": "installed"}
        return {
            **without_ray(),
            **TOKEN,
            **{variable: str(self.disk / folder) for variable, folder in places.items()},
            "RAY_worker_niceness": "0",
            "RAY_raylet_start_wait_time_s": "40",  # longer than the 15 s after which a raylet without agents ends
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            **self.variables,
            **(more or {}),
        }

    def start(self, *command: str, variables: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[Any]:
        """Start a program on this host. It ends with the host, at the latest."""
        return self.space.popen(command, self.environment(variables), **{"cwd": "/", **more})

    def run(self, *command: str, variables: Mapping[str, str] | None = None, timeout_s: float = 150.0) -> str:
        """Run a program to its end, and return its output. Processes that it leaves in the background go on."""
        # Files, because a process in the background keeps them open: a pipe would not end.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            started = self.start(*command, variables=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                code = started.wait(timeout_s)
            finally:
                started.kill()
            out.seek(0)
            err.seek(0)
            said = out.read()
            assert code == 0, f"{self.name}: {' '.join(command)}: {code}: {said}{err.read()[-_STDERR_SHOWN:]}"
        return said

    def python(self, *arguments: str, variables: Mapping[str, str] | None = None, timeout_s: float = 150.0) -> str:
        """The same for a program of Python, with the code that is installed on the host."""
        return self.run(sys.executable, "-W", "ignore", *arguments, variables=variables, timeout_s=timeout_s)

    def call(self, function: Callable[..., T], *arguments: Any, timeout_s: float = 150.0) -> T:
        """Run a function of a test's module on this host, with the present code. Arguments and result go as JSON."""
        code = "import json, sys; from {0} import {1} as f; print(json.dumps(f(*json.loads(sys.argv[1]))))"
        present = {"PYTHONPATH": str(ROOT)}
        named = code.format(function.__module__, function.__qualname__)
        said = self.python("-c", named, json.dumps(arguments), variables=present, timeout_s=timeout_s)
        found: T = json.loads(said.splitlines()[-1])
        return found

    def coterie(self, *arguments: str, timeout_s: float = 150.0) -> str:
        """The command, as it is installed on the host."""
        return self.python("-m", "actors.cli.main", *arguments, timeout_s=timeout_s)

    def processes(self, title: str = "") -> list[psutil.Process]:
        """The processes of this host that have this among their arguments, as Ray's workers have `ray::Broker`."""
        own = os.readlink(f"/proc/{self.space.pid}/ns/pid")
        found = []
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):  # it has ended meanwhile
                if os.readlink(f"/proc/{process.pid}/ns/pid") == own and title in " ".join(process.cmdline()):
                    found.append(process)
        return found

    # --- Ray ---

    @property
    def ray_address(self) -> str:
        """The address of the Ray whose head is here."""
        return f"{self.address}:{_RAY_PORT}"

    def start_ray(
        self,
        head: Host | None = None,
        *options: str,
        labels: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`ray start`: a node of the Ray whose head is on that host, or a head."""
        named = [f"--labels={','.join(f'{name}={value}' for name, value in labels.items())}"] if labels else []
        command = self._ray_start(head, *named, *options)
        for _ in range(_RAY_STARTS - 1):
            try:
                self.run(*command, variables=variables)
            except AssertionError as error:
                if "timed out during startup" not in str(error):
                    raise
                self.end_processes()
            else:
                return
        self.run(*command, variables=variables)

    def keep_ray(self, head: Host) -> None:
        """Start its Ray if that has ended.

        Ray ends with the host. It also ends if the head has not heard of it for a minute, a while after the host is
        heard again.
        """
        if not self.processes("raylet/raylet"):
            self.end_processes()
            self.start_ray(head)

    def stay_in_ray(self, head: Host) -> psutil.Process:
        """`ray start --block`: the process that stays, as the first one of a pod on Kubernetes does."""
        self.start(*self._ray_start(head, "--block"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return wait_until(lambda: next(iter(self.processes("--block")), None), what="ray start --block")

    def _ray_start(self, head: Host | None, *options: str) -> list[str]:
        where = [f"--address={head.ray_address}"] if head is not None else _HEAD
        return ["ray", "start", *where, f"--node-ip-address={self.address}", *_SMALL, *options]

    def end_processes(self) -> None:
        """Kill all that runs on this host; its address and its mounts stay."""
        family = [process for process in self.processes() if process.pid != self.space.pid]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family)
