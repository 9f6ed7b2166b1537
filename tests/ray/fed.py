"""A deployed pool whose topic is written to as long as it works, and what has become of the records."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

from actors.client import Admin
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolDescription
from actors.members.pool import ConsumerPool
from tests.ray.handlers import Witnessed, by_two, handled
from tests.ray.support import committed, consumer, produce, topic, wait_until

PARTITIONS = 6
SIZE = 2


class Fed:
    """A topic that values are written to as long as a pool works on it."""

    def __init__(self, servers: str, name: str, folder: Path, replicas: int = 3) -> None:
        self.servers, self.name, self.folder = servers, topic(servers, name, PARTITIONS, replicas), folder
        self.values: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def feed(self, count: int = 20) -> None:
        new = [b"v%05d" % number for number in range(len(self.values), len(self.values) + count)]
        produce(self.servers, self.name, new)
        self.values.update(new)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self.feed()

    def __enter__(self) -> Fed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def all_handled(self) -> bool:
        return set(handled(self.folder)) == self.values

    def nothing_lost_and_nothing_by_two(self) -> None:
        wait_until(self.all_handled, 90, f"{self.name}: all records handled")
        assert by_two(self.folder) == []
        with contextlib.closing(consumer(self.servers, self.name)) as reader:
            wait_until(lambda: sum(committed(reader, self.name, PARTITIONS)) == len(self.values), what="commits")


def deploy(fed: Fed, handler: type = Witnessed, size: int | None = SIZE, **settings: Any) -> DeployedPool:
    given = {"bootstrap_servers": fed.servers, "handler_args": (str(fed.folder), 0.002), "retry_backoff_ms": 10}
    return ConsumerPool.deploy(fed.name, fed.name, fed.name, handler, size, **{**given, **settings})


def newer(folder: Path) -> set[int]:
    """The members that have worked as the version `Newer`."""
    return {int(path.stem) for path in folder.glob("*.newer")}


def kill_supervisor(pool: DeployedPool) -> int:
    """Kill it, and return which process that was."""
    pid = pool.describe().supervisor_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def members_of(servers: str, group: str) -> int:
    with Admin(bootstrap_servers=servers) as admin:
        return len(admin.describe_consumer_groups([group])[0].members)


class Stopping:
    def __init__(self, pool: DeployedPool) -> None:
        self.pool = pool

    def close(self) -> None:
        self.pool.stop()


def all_at_work(found: PoolDescription) -> bool:
    owned = sorted(partition for member in found.members for partition in member.assignment)
    return found.handled > 0 and len(owned) == PARTITIONS and all(member.assignment for member in found.members)
