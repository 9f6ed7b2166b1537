"""Helpers of the tests on Ray: waiting with a deadline, processes that must end, clients, and the command."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.cluster import Cluster
from actors.runtime.ray_runtime import runs
from actors.wire.messages import MetadataRequest
from placement.hashing import partition_for_group
from tests.compat.raw import Raw
from tests.support.librdkafka import KEEPS_BROKERS
from tests.support.ray_variables import without_ray
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.waiting import wait_until as wait_until

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
FAST = {"group.initial.rebalance.delay.ms": "0"}


def patient(call: Callable[[], T], timeout_s: float = PATIENCE_SECONDS) -> T:
    """The result of a client's call that may fail while something is being replaced."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# --- processes ---


def descendants(pid: int) -> list[psutil.Process]:
    """A process's children, theirs, and so on; not those that have ended."""
    try:
        family = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in family if runs(process)]


def words_of_family() -> list[str]:
    """The arguments and the environments of this process and all below it."""
    found = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found += [" ".join(process.cmdline()), str(process.environ())]
    return found


def assert_gone(processes: Iterable[psutil.Process], timeout_s: float = PATIENCE_SECONDS) -> None:
    """All of these have ended, or do so before the deadline."""

    def left() -> list[psutil.Process]:
        with_state = []
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                # The tracker is the test process's own, made by the first test that spawned a process; it ends with it.
                tracker = "multiprocessing.resource_tracker" in " ".join(process.cmdline())
                if runs(process) and not tracker:
                    with_state.append(process)
        return with_state

    deadline = time.monotonic() + timeout_s
    while rest := left():
        if time.monotonic() > deadline:
            names = [f"{p.pid} {' '.join(p.cmdline())[:80]}" for p in rest]
            for process in rest:
                process.kill()
            raise AssertionError(f"left behind: {names}")
        time.sleep(0.05)


def full_status(cluster: Cluster) -> dict[str, Any]:
    """A cluster's status with every broker's own part, which is left out while a broker is slow to answer."""

    def found() -> dict[str, Any] | None:
        status = cluster.status()
        return status if all("node_id" in broker for broker in status["brokers"]) else None

    status = wait_until(found, what="an answer of every broker")
    assert status is not None
    return status


def free_port() -> int:
    """A port for a server that is started later, outside the range from which the kernel gives ports."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


# --- clients ---


def group_beside(group: str) -> str:
    """A group whose offsets are in the same partition: both groups have one coordinator."""
    names = (f"{group}-{number}" for number in itertools.count())
    return next(name for name in names if partition_for_group(name, 50) == partition_for_group(group, 50))


def await_topic(servers: str, name: str, partitions: int) -> None:
    """Return when every broker knows so many partitions of a topic, or no topic (0).

    The answer to a change waits for the brokers a second at most.
    """
    for address in servers.split(","):
        wait_until(lambda address=address: _partitions_at(address, name) == partitions, what=f"{name} at {address}")


def _partitions_at(address: str, name: str) -> int | None:
    with contextlib.suppress(OSError, EOFError), Raw(address) as raw:
        answer = raw.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 10)
        return sum(len(topic.partitions) for topic in answer.topics if topic.name == name)
    return None


def topic(servers: str, name: str, partitions: int = 3, factor: int = 1, **configs: str) -> str:
    """Make a topic; its name, when every broker knows it."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": servers})

    def create() -> None:
        futures = admin.create_topics([NewTopic(name, partitions, factor, config=settings)])
        try:
            futures[name].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # an attempt before that one was heard
                raise

    patient(create)
    await_topic(servers, name, partitions)
    return name


def produce(servers: str, name: str, values: Iterable[bytes]) -> None:
    """Produce keyed records; all are acknowledged on return."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(
            name, key=value, value=value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert failed == []


def consumer(servers: str, group: str, **more: Any) -> Consumer:
    """A client that reads from the beginning and commits when told to."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        **KEEPS_BROKERS,
    }
    return Consumer(settings | more)


def read_all(servers: str, name: str, count: int, timeout_s: float = PATIENCE_SECONDS) -> set[bytes]:
    """The values of a topic's records, once there are `count` of them."""
    reader = consumer(servers, f"reader-{time.monotonic_ns()}")
    reader.subscribe([name])
    values: set[bytes] = set()
    deadline = time.monotonic() + timeout_s
    while len(values) < count and time.monotonic() < deadline:
        for message in reader.consume(1000, 0.5):
            if message.error() is None:
                values.add(message.value())
    reader.close()
    return values


def committed(client: Consumer, name: str, partitions: int = 3) -> list[int]:
    """The committed offset of each partition of a topic, as the coordinator says."""
    asked = [TopicPartition(name, i) for i in range(partitions)]
    return [p.offset for p in patient(lambda: client.committed(asked, timeout=10))]


def commit(client: Consumer, name: str, *offsets: int) -> None:
    """Commit, and return when it is acknowledged for every partition."""

    def once() -> None:
        answers = client.commit(
            offsets=[TopicPartition(name, i, offset) for i, offset in enumerate(offsets)], asynchronous=False
        )
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)

    patient(once)


# --- the command ---


def coterie(*arguments: str, timeout_s: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; it must leave no process behind."""
    command = [sys.executable, "-m", "actors.cli.main", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env=without_ray(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen: dict[int, psutil.Process] = {}
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.1):
            seen.update({child.pid: child for child in descendants(process.pid)})

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        finished.set()
        watcher.join()
        process.kill()
    assert_gone(seen.values())
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Up:
    """A `coterie up` in the foreground of a process of its own."""

    def __init__(self, data_dir: Path, *arguments: str, brokers: int = 1, port: int = 0, umask: int = -1) -> None:
        command = [sys.executable, "-m", "actors.cli.main", "up", "--brokers", str(brokers), "--port", str(port)]
        command += ["--data-dir", str(data_dir), "--config", "group.initial.rebalance.delay.ms=0", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=without_ray(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=umask,
            process_group=0,
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.errors: list[str] = []
        for stream, take in ((self.process.stdout, self.lines.put), (self.process.stderr, self.errors.append)):
            threading.Thread(target=_follow, args=(stream, take), daemon=True).start()
        self.family: list[psutil.Process] = []
        try:
            self.ready = self.lines.get(timeout=90)
        except queue.Empty:
            self.process.kill()
            raise AssertionError(f"not ready: {''.join(self.errors)}") from None
        assert self.ready.startswith("ready bootstrap.servers="), (self.ready, self.errors)
        fields = dict(field.split("=", 1) for field in self.ready.split()[1:])
        self.servers = fields["bootstrap.servers"]
        self.ray_address = fields["ray.address"]

    def end(self, number: int, *, to: Callable[[Up, int], None] | None = None) -> tuple[int, float]:
        """Send a signal; the exit code, and how long it took until no process was left."""
        self.family = descendants(self.process.pid)
        begun = time.monotonic()
        if to is not None:
            to(self, number)
        else:
            os.kill(self.process.pid, number)
        code = self.process.wait(PATIENCE_SECONDS)
        assert_gone(self.family)
        return code, time.monotonic() - begun


def _follow(stream: Any, take: Callable[[str], None]) -> None:
    for line in stream:
        take(line)


@contextlib.contextmanager
def up(data_dir: Path, *arguments: str, brokers: int = 1, port: int = 0, umask: int = -1) -> Iterator[Up]:
    """`coterie up`, ended at the latest when the block is left."""
    running = Up(data_dir, *arguments, brokers=brokers, port=port, umask=umask)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)
