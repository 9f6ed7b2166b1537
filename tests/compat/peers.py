"""Brokers to test and measure against: kfake, Apache Kafka, librdkafka's mock cluster, and Coterie.

Each starts as processes of its own, on loopback, on free ports, in a temporary folder, and is ended by its
process id whatever happens to the test. What they are built from is kept in a cache folder outside the
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
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.compat.processes import command_of, end_family, end_process, read_ready_line, spawn, tree_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KAFKA_VERSION = "4.1.1"
INITIAL_DELAY_MS = "100"
START_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 300.0


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
        """Process ids of what serves clients: Coterie's broker actors, or a peer's only process."""
        brokers = [p.pid for p in self._processes() if "Broker" in command_of(p)]
        return brokers or [self.pid]

    def shard_pids(self) -> list[int]:
        """Process ids of Coterie's offsets-partition actors, spare ones included."""
        return [p.pid for p in self._processes() if "OffsetsPartition" in command_of(p)]


def cache_dir() -> Path:
    """Where built peers are kept between runs: `$XDG_CACHE_HOME/coterie-peers`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "coterie-peers"
    path.mkdir(parents=True, exist_ok=True)
    return path


_held: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, for programs that cannot be asked to choose their own.

    They stay bound, without listening, until this program ends: nobody is given them meanwhile, and who sets
    SO_REUSEADDR, as servers do, may listen there all the same.
    """
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
    _held.extend(sockets)
    return [int(s.getsockname()[1]) for s in sockets]


def _build(command: list[str], cwd: Path) -> None:
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
        raise UnavailableError(f"`{' '.join(command)}` failed: {(done.stdout + done.stderr).strip()[-400:]}")


# ------------------------------------------------------------------ kfake


def build_kfake() -> Path:
    """The kfake server program, built when it is missing or older than its source."""
    source = HERE / "kfake"
    program = cache_dir() / "kfake"
    newest = max(p.stat().st_mtime for p in source.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        fresh = program.with_suffix(f".{os.getpid()}")
        _build(["go", "build", "-buildvcs=false", "-o", str(fresh), "."], source)
        fresh.replace(program)
    return program


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


# ------------------------------------------------------------------ Apache Kafka

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>coterie.tests</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


def kafka_jars() -> Path:
    """The folder of Apache Kafka's jars, fetched once through Maven."""
    return _jars("kafka_2.13", "kafka")


def kafka_tools_jars() -> Path:
    """The folder of the jar with Kafka's command line tools; what it needs besides is in `kafka_jars`."""
    return _jars("kafka-tools", "kafka-tools", "-DexcludeTransitive=true")


def _jars(artifact: str, name: str, *options: str) -> Path:
    if shutil.which("java") is None:
        raise UnavailableError("java is not installed")
    libs = cache_dir() / f"{name}-{KAFKA_VERSION}"
    if not libs.exists():
        work = cache_dir() / f"{name}-{KAFKA_VERSION}.{os.getpid()}"
        work.mkdir(exist_ok=True)
        try:
            (work / "pom.xml").write_text(_POM.format(artifact=artifact, version=KAFKA_VERSION))
            _build(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", *options], work)
            with contextlib.suppress(OSError):  # another run was faster
                (work / "libs").rename(libs)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return libs


def _kafka_properties(folder: Path, port: int, controller_port: int, config: Mapping[str, str]) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "kafka-data"),
        "offsets.topic.replication.factor": "1",
        "log.retention.ms": "-1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
        **config,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextlib.contextmanager
def apache_kafka(folder: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Run one Apache Kafka node, broker and controller in one, with its log dir in `folder`."""
    classpath = f"{kafka_jars()}/*"
    port, controller_port = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_kafka_properties(folder, port, controller_port, config or {}))
    format_storage = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(properties), "--ignore-formatted"]
    _build(["java", "-cp", classpath, "kafka.tools.StorageTool", *format_storage], folder)
    log_path = folder / "kafka.log"
    with log_path.open("wb") as log:
        process = spawn(["java", "-Xmx512m", "-cp", classpath, "kafka.Kafka", str(properties)], log, folder)
        try:
            _wait_for_port(port, process, log_path)
            yield Peer("kafka", f"127.0.0.1:{port}", process.pid, folder / "kafka-data")
        finally:
            end_process(process)


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}: {log.read_text(errors='replace')[-2000:]}")


# ------------------------------------------------------------------ librdkafka's mock cluster

_MOCK = """
import sys
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": int(sys.argv[1]), "log_level": 0})
brokers = producer.list_topics(timeout=10).brokers.values()
print("ready", ",".join(f"{b.host}:{b.port}" for b in brokers), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def mock_cluster(folder: Path, brokers: int = 3) -> Iterator[Peer]:
    """Run librdkafka's mock cluster in a process of its own."""
    log_path = folder / "mock.log"
    with log_path.open("wb") as log:
        process = spawn([sys.executable, "-c", _MOCK, str(brokers)], log)
        try:
            ready = read_ready_line(process, log_path, START_TIMEOUT_S)
            yield Peer("mock", ready.split(" ", 1)[1], process.pid)
        finally:
            end_process(process)


# ------------------------------------------------------------------ Coterie


class Coterie:
    """`coterie up` in a process of its own, which tests may kill and start again on the same data.

    `bootstrap_servers` is what the last start printed; ports differ between starts unless `port` is given.
    """

    def __init__(
        self, data_dir: Path, brokers: int = 3, port: int = 0, config: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.bootstrap_servers = ""
        self._brokers = brokers
        self._port = port
        # Tests write records with old timestamps: retention would delete them whenever it next looks.
        defaults = {"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS, "log.retention.ms": "-1"}
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
        command += ["--port", str(self._port), "--data-dir", str(self.data_dir)]
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
        """What `coterie status` says of the controller, brokers and shards."""
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
        """Stop in good order; kill what does not go."""
        if self._process is not None:
            end_process(self._process)

    def peer(self) -> Peer:
        return Peer("coterie", self.bootstrap_servers, self.pid, self.data_dir, self.family)


@contextlib.contextmanager
def coterie(
    folder: Path, brokers: int = 3, port: int = 0, config: Mapping[str, str] | None = None
) -> Iterator[Coterie]:
    """Run Coterie with its data in `folder`; started on entry, ended with everything it started on exit."""
    cluster = Coterie(folder / "coterie-data", brokers, port, config)
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


@contextlib.contextmanager
def start(kind: str, folder: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Run the peer called `kind`: coterie, kfake, kafka or mock."""
    with contextlib.ExitStack() as stack:
        if kind == "coterie":
            yield stack.enter_context(coterie(folder, config=config)).peer()
        elif kind == "kfake":
            yield stack.enter_context(kfake(folder, config=config))
        elif kind == "kafka":
            yield stack.enter_context(apache_kafka(folder, config))
        elif kind == "mock":
            yield stack.enter_context(mock_cluster(folder))
        else:
            raise ValueError(f"no peer is called {kind!r}")
