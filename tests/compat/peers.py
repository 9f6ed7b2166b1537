"""Brokers to test and measure against: kfake, Apache Kafka, and Coterie.

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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from tests.compat.processes import command_of, end_family, end_process, read_ready_line, spawn, tree_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KAFKA_VERSION = "4.4.0"
INITIAL_DELAY_MS = "100"
START_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 300.0
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""For a Kafka with little load: a quick start counts more than the speed that it reaches in minutes.

The JVM does not verify its classes.
"""
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


# ------------------------------------------------------------------ Apache Kafka

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>coterie.tests</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


def kafka_jars() -> Path:
    """The folder of Apache Kafka's jars, fetched once through Maven."""
    return _jars(f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"kafka-{KAFKA_VERSION}")


def kafka_clients_jar() -> Path:
    """The jar of Kafka's clients, in which the schemas of its messages are."""
    return kafka_jars() / f"kafka-clients-{KAFKA_VERSION}.jar"


def kafka_tools_jars() -> Path:
    """The folder of the jar with Kafka's command line tools; what it needs besides is in `kafka_jars`."""
    tools = f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"
    return _jars(tools, f"kafka-tools-{KAFKA_VERSION}", "-DexcludeTransitive=true")


def spark_connector_jars() -> Path:
    """The folder of the jars of Spark's own connector to Kafka, for the Spark that is installed."""
    needed = "spark-sql-kafka-0-10_2.12,spark-token-provider-kafka-0-10_2.12,kafka-clients,commons-pool2"
    spark = version("pyspark")
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.12:{spark}"
    return _jars(connector, f"spark-sql-kafka-{spark}", f"-DincludeArtifactIds={needed}")


def spark_connector_settings() -> dict[str, str]:
    """The settings that give a Spark session that connector."""
    return {"spark.jars": ",".join(str(jar) for jar in sorted(spark_connector_jars().glob("*.jar")))}


def _jars(coordinates: str, name: str, *options: str) -> Path:
    """The folder of an artifact, "group:artifact:version", and what it needs, fetched once and kept as `name`."""
    if shutil.which("java") is None:
        raise UnavailableError("java is not installed")
    libs = cache_dir() / name
    if not libs.exists():
        work = cache_dir() / f"{name}.{os.getpid()}"
        group, artifact, release = coordinates.split(":")
        work.mkdir(exist_ok=True)
        try:
            (work / "pom.xml").write_text(_POM.format(group=group, artifact=artifact, version=release))
            build(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", *options], work)
            with contextlib.suppress(OSError):  # another run was faster
                (work / "libs").rename(libs)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return libs


class ApacheKafka:
    """Apache Kafka of so many nodes, each broker and controller in one, which may be killed and started again.

    Ports and data stay the same from start to start. `listeners` are names of listeners beside PLAINTEXT, all of which
    are on the first node; `users` are made at the first start, for SCRAM-SHA-256 and SCRAM-SHA-512; `java` are options
    of the JVMs. Raises UnavailableError where Java or Maven does not run.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        listeners: Sequence[str] = (),
        users: Mapping[str, str] | None = None,
        java: Sequence[str] = (),
    ) -> None:
        self.data_dir = folder / "kafka-data"
        self._java = ["java", "-Xmx512m", *java, "-cp", f"{kafka_jars()}/*"]
        self._folder = folder
        self._config = config or {}
        self._users = users or {}
        ports = free_ports(2 * nodes)
        self._ports, self._controllers = ports[:nodes], ports[nodes:]
        self.listeners = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def pid(self) -> int:
        """The process id of the first node."""
        return self._processes[0].pid

    def start(self) -> None:
        """Start the nodes that do not run, and wait until all listen. Raises RuntimeError with the log of one."""
        missing = [node for node in range(len(self._ports)) if node not in self._processes]
        for node in missing:
            self._start(node)
        for node in missing:
            _wait_for_port(self._ports[node], self._processes[node], self._log(node))

    def family(self) -> list[psutil.Process]:
        """The processes of the nodes."""
        return [psutil.Process(process.pid) for process in self._processes.values()]

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to all nodes; nothing is left behind."""
        for node in list(self._processes):
            self.kill_node(node)
        return []

    def kill_node(self, node: int) -> None:
        """SIGKILL to the node of this number, counted from 0."""
        process = self._processes.pop(node)
        process.kill()
        end_process(process)

    def stop(self) -> None:
        """Stop all nodes in good order; kill processes that do not end."""
        while self._processes:
            end_process(self._processes.popitem()[1])

    def format(self) -> None:
        """Prepare the nodes' data directories."""
        for node in range(len(self._ports)):
            properties = self._properties(node)
            properties.write_text(self._settings(node))
            storage = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(properties), "--ignore-formatted"]
            for name, password in self._users.items():
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                    storage += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
            build([*self._java, "kafka.tools.StorageTool", *storage], self._folder)

    def _start(self, node: int) -> None:
        command = [*self._java, "kafka.Kafka", str(self._properties(node))]
        with self._log(node).open("ab") as log:
            self._processes[node] = spawn(command, log, self._folder)

    def _properties(self, node: int) -> Path:
        return self._folder / f"server-{node}.properties"

    def _log(self, node: int) -> Path:
        return self._folder / f"kafka-{node}.log"

    def _settings(self, node: int) -> str:
        voters = [f"{number + 1}@127.0.0.1:{port}" for number, port in enumerate(self._controllers)]
        port, controller = self._ports[node], self._controllers[node]
        more = self.listeners if node == 0 else {}
        serving = ",".join(f"{name}://127.0.0.1:{at}" for name, at in {"PLAINTEXT": port, **more}.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node + 1),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{serving},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": serving,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir if len(self._ports) == 1 else self.data_dir / str(node)),
            "offsets.topic.replication.factor": "1",
            "log.retention.ms": "-1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.min.session.timeout.ms": "1000",
            **self._config,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextlib.contextmanager
def kafka_cluster(folder: Path, nodes: int = 1, config: Mapping[str, str] | None = None) -> Iterator[ApacheKafka]:
    """Run Apache Kafka with its log dirs in `folder`; ended on exit."""
    kafka = ApacheKafka(folder, nodes, config, java=QUICK_JAVA)
    kafka.format()
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()


@contextlib.contextmanager
def apache_kafka(folder: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Run one Apache Kafka node, broker and controller in one, with its log dir in `folder`."""
    with kafka_cluster(folder, config=config) as kafka:
        yield Peer("kafka", kafka.bootstrap_servers, kafka.pid, kafka.data_dir)


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}: {log.read_text(errors='replace')[-2000:]}")


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


@contextlib.contextmanager
def start(kind: str, folder: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Run the peer called `kind`: coterie, kfake or kafka."""
    with contextlib.ExitStack() as stack:
        if kind == "coterie":
            yield stack.enter_context(coterie(folder, config=config)).peer()
        elif kind == "kfake":
            yield stack.enter_context(kfake(folder, config=config))
        elif kind == "kafka":
            yield stack.enter_context(apache_kafka(folder, config))
        else:
            raise ValueError(f"no peer is called {kind!r}")
