"""Apache Kafka, in Java, runs as a broker to test and measure against; Maven fetches its jars once."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from tests.compat.peers import INITIAL_DELAY_MS, START_TIMEOUT_S, Peer, UnavailableError, build, cache_dir, free_ports
from tests.compat.processes import end_process, spawn

KAFKA_VERSION = "4.4.0"
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""For a Kafka with little load: a quick start counts more than the speed that it reaches in minutes.

The JVM does not verify its classes.
"""

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
