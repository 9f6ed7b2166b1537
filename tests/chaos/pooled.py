"""A deployed pool among the load: its handler, the program that deploys it, and what the handler has written down.

The handler takes the lock of a record's partition while it handles the record. The kernel gives a lock back when the
process that has it is gone, however it went. So a lock that is taken means that another process handles a record of
the same partition at this moment, which must never be.

Before some records it keeps the interpreter's lock beyond its session. A pool in which that expels a member begins such
a record again and again, and never handles those behind it.

Some records end the process that handles them, by a segmentation fault or by `os._exit`. Each of them has to become a
dead letter, and all others have to be handled. Over others it sleeps, or forks a process that it ends by SIGTERM.

Before each version the program tries to deploy a handler with `yield`, whose body would never run.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tests.chaos.history import History
from tests.compat.peers import ROOT

NAME = GROUP = "chaos-pool"
DEAD_LETTERS = "chaos-dead"
SIZE = 2
SESSION_MS = 15_000
_LOCKED_S = 18
_LOCKS = range(300, 1 << 62, 3000)
"""Offsets of partition 0 over which a handler keeps the interpreter's lock, for longer than the session."""
_DEADLY_EACH, _DEADLY_FIRST = 2_000, 150
_SLEEPS, _SLEEP_S = range(700, 1 << 62, 900), 2.0
_FORKS = range(80, 1 << 62, 200)
"""Offsets of any partition over which a handler sleeps, and over which it has a process of its own."""


def ends_process(value: bytes) -> bool:
    """True if this record ends the process that handles it: the 150th, the 2,150th, ... of each sender."""
    return int(value.rpartition(b"-")[2]) % _DEADLY_EACH == _DEADLY_FIRST


class Witness:
    """Handles records one at a time and writes down which; `version` is that of the deployment."""

    def __init__(self, folder: str, version: int) -> None:
        self._folder, self._version = Path(folder), version
        self._file = (self._folder / f"{os.getpid()}.jsonl").open("ab", buffering=0)
        self._locks: dict[int, IO[bytes]] = {}

    def __call__(self, record: Any) -> None:
        place = {"partition": record.partition, "offset": record.offset}
        if record.partition == 0 and record.offset in _LOCKS:
            ctypes.PyDLL(None).sleep(_LOCKED_S)  # a PyDLL does not give the lock away
        if ends_process(record.value):
            self._note({"event": "deadly", **place})
            if record.partition % 2:
                os._exit(1)
            ctypes.string_at(0)
        if record.offset in _SLEEPS:
            time.sleep(_SLEEP_S)
        if record.offset in _FORKS:
            fork_and_end()
        with self._lock(record.partition) as alone:
            self._note({"event": "handled" if alone else "two_at_once", **place})

    @contextlib.contextmanager
    def _lock(self, partition: int) -> Iterator[bool]:
        """Lock a partition while the block runs. Yields False if another process handles a record of it."""
        file = self._locks.get(partition)
        if file is None:
            file = self._locks[partition] = (self._folder / f"partition-{partition}.lock").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _note(self, what: dict[str, Any]) -> None:
        line = json.dumps({**what, "pid": os.getpid(), "version": self._version})
        self._file.write(line.encode() + b"\n")  # one write, so that a kill leaves whole lines


def fork_and_end() -> None:
    """Fork a process that waits as long as this one lives, and end it by SIGTERM, as `multiprocessing` does."""
    parent = os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"x")
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(0)
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"SIGTERM did not end a forked process: {status}")


def never(record: Any) -> Iterator[Any]:
    """A handler that would do nothing: each call makes a generator."""
    yield record


class Deployments:
    """The versions of the pool on the cluster of `data_dir`; what they handle is written down in `folder`."""

    def __init__(self, data_dir: Path, folder: Path, topic: str) -> None:
        self._data_dir, self._folder, self._topic = data_dir, folder, topic
        self._version = 0
        folder.mkdir()

    def deploy(self) -> None:
        """Deploy the next version by a program that is killed as soon as it has done so. Raises what it says."""
        self._version += 1
        command = [sys.executable, "-m", "tests.chaos.pooled", str(self._data_dir), str(self._folder), self._topic]
        with subprocess.Popen(
            [*command, str(self._version)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            said = program.stdout.readline()
            if said.strip() != "deployed":
                raise RuntimeError(f"version {self._version} was not deployed: {said}{program.stderr.read()[-2000:]}")
            program.kill()

    def tell(self, history: History) -> None:
        """Add to the history what the handlers have written down."""
        for file in sorted(self._folder.glob("*.jsonl")):
            for line in file.read_bytes().splitlines():
                said = json.loads(line)
                place = {"group": GROUP, "partition": said["partition"], "offsets": [said["offset"]]}
                history.note(said["event"], pid=said["pid"], version=said["version"], **place)


def main() -> None:
    """The program: deploy, say so, and wait to be killed."""
    from coterie import Cluster, ConsumerPool, PoolError

    data_dir, folder, topic, version = sys.argv[1:]
    with Cluster.connect(data_dir=data_dir) as cluster:
        try:
            ConsumerPool.deploy(NAME, topic, GROUP, never, size=SIZE, bootstrap_servers=cluster.bootstrap_servers)
        except PoolError as error:
            if "yield" not in str(error):
                raise
        else:
            raise RuntimeError("a handler with yield was deployed")
        ConsumerPool.deploy(
            NAME,
            topic,
            GROUP,
            Witness,
            size=SIZE,
            bootstrap_servers=cluster.bootstrap_servers,
            handler_args=(folder, int(version)),
            session_timeout_ms=SESSION_MS,
            dead_letter_topic=DEAD_LETTERS,
        )
        print("deployed", flush=True)  # noqa: T201
        sys.stdin.read()


if __name__ == "__main__":
    main()
