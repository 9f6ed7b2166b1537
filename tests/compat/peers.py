"""Brokers to test and measure against: kfake, in Go, and Coterie, in Python; and what those of `apache_kafka` share.

Each starts as processes of its own, on loopback, on free ports, in a temporary folder, and is ended by its
process id whatever happens to the test. Sources and builds are kept in a cache folder outside the
repository. Here is no client and no test; a peer this machine cannot run raises `UnavailableError` with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.compat.processes import command_of, end_family, end_process, read_ready_line, spawn, tree_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
INITIAL_DELAY_MS = "100"
START_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 300.0
_FETCHING = {"go", "mvn"}
"""Tools that fail where there is no network. Others that fail have found a mistake."""


class UnavailableError(Exception):
    """This peer cannot be had on this machine: a tool, a package or the network is missing."""


@dataclass(slots=True)
class Peer:
    """A running broker or cluster; `data_dir` is where it keeps its logs, `pid` its first process."""

    kind: str
    bootstrap_servers: str
    pid: int
    data_dir: Path | None = None
    _processes: Callable[[], list[psutil.Process]] = field(default=list, repr=False)

    def broker_pids(self) -> list[int]:
        """Ids of the processes that serve clients: Coterie's broker actors, or a peer's only process."""
        brokers = [p.pid for p in self._processes() if "Broker" in command_of(p)]
        return brokers or [self.pid]

    def shard_pids(self) -> list[int]:
        """Process ids of Coterie's offsets-partition actors, spare ones included."""
        return [p.pid for p in self._processes() if "OffsetsPartition" in command_of(p)]


def cache_dir() -> Path:
    """The folder that keeps built peers between runs: `$XDG_CACHE_HOME/coterie-peers`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "coterie-peers"
    path.mkdir(parents=True, exist_ok=True)
    return path


_held: list[socket.socket] = []


def free_ports(count: int, row: int = 1) -> list[int]:
    """Ports nobody listens on, for programs that cannot be asked to choose their own; each is the first of a `row`.

    They stay bound, without listening, until this program ends: the kernel gives them to nobody meanwhile, but a
    server that sets SO_REUSEADDR, as servers do, can listen there.
    """
    firsts: list[int] = []
    while len(firsts) < count:
        with contextlib.suppress(OSError):
            firsts.append(_hold(0))
            for number in range(1, row):
                _hold(firsts[-1] + number)
            continue
        firsts.pop()
    return firsts


def _hold(port: int) -> int:
    held = socket.socket()
    _held.append(held)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return int(held.getsockname()[1])


def build(command: list[str], cwd: Path) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise UnavailableError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [tool, *command[1:]],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"`{' '.join(command)}` did not finish in {BUILD_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        reason = UnavailableError if command[0] in _FETCHING else RuntimeError
        raise reason(f"`{' '.join(command)}` failed: {(done.stdout + done.stderr).strip()[-400:]}")


def built(source: Path, before: Sequence[str], after: Sequence[str]) -> Path:
    """Build a folder's files if one is newer than the result: the command is `before`, the result's path, `after`."""
    made = cache_dir() / source.name
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if not made.exists() or made.stat().st_mtime < newest:
        fresh = made.with_suffix(f".{os.getpid()}")
        build([*before, str(fresh), *after], source)
        if made.is_dir():
            shutil.rmtree(made)
        fresh.replace(made)
    return made


# ------------------------------------------------------------------ kfake


def build_kfake() -> Path:
    """The kfake server program."""
    return built(HERE / "kfake", ["go", "build", "-buildvcs=false", "-o"], ["."])


@contextlib.contextmanager
def kfake(
    folder: Path, brokers: int = 3, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Iterator[Peer]:
    """Run franz-go's in-memory Kafka; its log goes to `folder`."""
    command = [str(build_kfake()), f"-brokers={brokers}", f"-partitions={partitions}"]
    settings = {"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS, **(config or {})}
    command += [f"-config={key}={value}" for key, value in settings.items()]
    log_path = folder / "kfake.log"
    with log_path.open("wb") as log:
        process = spawn(command, log)
        try:
            ready = read_ready_line(process, log_path, START_TIMEOUT_S)
            yield Peer("kfake", ready.split(" ", 1)[1], process.pid)
        finally:
            end_process(process)


# ------------------------------------------------------------------ Coterie


class Coterie:
    """`coterie up` in a process of its own, which tests may kill and start again on the same data.

    The last start printed `bootstrap_servers`; ports differ between starts unless `port` is given.
    """

    def __init__(
        self,
        data_dir: Path,
        brokers: int = 3,
        port: int | None = 0,
        config: Mapping[str, str] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.bootstrap_servers = ""
        self._brokers = brokers
        self._port = port
        self._more = more
        # Tests write records with old timestamps: retention would delete them whenever it next looks.
        defaults = {
            "group.consumer.heartbeat.interval.ms": "500",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
            "log.retention.ms": "-1",
        }
        self._config = {**defaults, **(config or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait for the ready line. Raises RuntimeError with the log's end if it does not come."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "actors.cli.main", "up", "--brokers", str(self._brokers)]
        command += ["--data-dir", str(self.data_dir), *self._more]
        command += [] if self._port is None else ["--port", str(self._port)]  # else `listeners` has it
        for key, value in self._config.items():
            command += ["--config", f"{key}={value}"]
        log_path = self.data_dir.with_suffix(".stderr")
        with log_path.open("ab") as log:
            self._process = spawn(command, log, ROOT)
        try:
            ready = read_ready_line(self._process, log_path, START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        words = dict(word.split("=", 1) for word in ready.split()[1:])
        self.bootstrap_servers = words["bootstrap.servers"]

    def family(self) -> list[psutil.Process]:
        """All processes below `coterie up`."""
        return tree_of(self.pid)

    def status(self) -> dict[str, Any]:
        """The answer of `coterie status` about the controller, brokers and shards."""
        command = [sys.executable, "-m", "actors.cli.main", "status", "--data-dir", str(self.data_dir)]
        done = subprocess.run(
            [*command, "--format", "json"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to `coterie up` alone, as a crash would; returns the family it leaves behind."""
        assert self._process is not None
        family = self.family()
        self._process.kill()
        self._process.wait(10)
        return family

    def restart_after_kill(self) -> None:
        """SIGKILL, then start again on the same data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Stop in good order; kill processes that do not end."""
        if self._process is not None:
            end_process(self._process)

    def peer(self) -> Peer:
        return Peer("coterie", self.bootstrap_servers, self.pid, self.data_dir, self.family)


@contextlib.contextmanager
def coterie(
    folder: Path,
    brokers: int = 3,
    port: int | None = 0,
    config: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
) -> Iterator[Coterie]:
    """Run Coterie with its data in `folder`; started on entry, ended with everything it started on exit.

    `more` are further options of `coterie up`.
    """
    cluster = Coterie(folder / "coterie-data", brokers, port, config, more)
    left_behind: list[psutil.Process] = []
    kill = cluster.kill

    def kill_and_remember() -> list[psutil.Process]:
        family = kill()
        left_behind.extend(family)
        return family

    cluster.kill = kill_and_remember  # type: ignore[method-assign]
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        end_family(left_behind, grace_s=5)
