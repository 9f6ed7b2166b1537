"""Handlers for the tests of pools: they leave what they did in a folder, one file a process."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.members.pools.handling.context import Context


class Recorder:
    """Writes down each value it has handled; keeps a count as its state."""

    def __init__(self, folder: str, slow_s: float = 0.0) -> None:
        self.folder = Path(folder)
        self.slow_s = slow_s
        self.seen = 0
        self.revoked = 0

    def __call__(self, record: Any) -> None:
        time.sleep(self.slow_s)
        with open(self.folder / f"{os.getpid()}.log", "ab") as file:
            file.write(record.value + b"\n")
        self.seen += 1

    def on_revoked(self, partitions: list[Any]) -> None:
        self.revoked += len(partitions)

    def count(self) -> int:
        return self.seen


class Witnessed(Recorder):
    """Says of each record when it began with it and when it had handled it, by the machine's monotonic clock."""

    def __call__(self, record: Any) -> None:
        self.tell(b"begin", record.value)
        super().__call__(record)
        self.tell(b"end", record.value)

    def tell(self, what: bytes, value: bytes) -> None:
        with open(self.folder / f"{os.getpid()}.times", "ab") as file:
            file.write(b"%s %s %d\n" % (what, value, time.monotonic_ns()))


class Newer(Witnessed):
    """Another version, which leaves a mark."""

    def tell(self, what: bytes, value: bytes) -> None:
        super().tell(what, value)
        (self.folder / f"{os.getpid()}.newer").touch()


class Broken(Witnessed):
    """A version that cannot handle anything."""

    def __call__(self, record: Any) -> None:
        raise ValueError("this version is broken")


class Unstartable(Witnessed):
    """A version that cannot start."""

    def setup(self) -> None:
        raise RuntimeError("no model here")


class Gated(Recorder):
    """Handles a record only while its gate is open, as it is at first."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, record: Any) -> None:
        self.gate.wait()
        super().__call__(record)

    def shut(self) -> None:
        self.gate.clear()

    def open(self) -> None:
        self.gate.set()

    def given_up(self) -> int:
        """The number of partitions that were revoked from it."""
        return self.revoked


class Talker(Recorder):
    """Prints, complains and logs what it handles; and a word when it ends."""

    def __call__(self, record: Any) -> None:
        text = record.value.decode()
        print(f"printed {text}")  # noqa: T201
        print(f"complained {text}", file=sys.stderr)  # noqa: T201
        logging.getLogger("talker").warning("logged %s", text)
        super().__call__(record)

    def teardown(self) -> None:
        print("last words")  # noqa: T201


class Poisoned(Recorder):
    """Cannot handle one value."""

    def __call__(self, record: Any) -> None:
        if record.value == b"poison":
            raise ValueError("this one is bad")
        super().__call__(record)


class Stuck(Recorder):
    """Sleeps for ever over one value, the first time anyone meets it."""

    def __call__(self, record: Any) -> None:
        if record.value == b"trap":
            try:
                (self.folder / "trapped").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                time.sleep(3600)
        super().__call__(record)


class Locking(Witnessed):
    """Keeps the interpreter's lock in C over one value: for so many seconds, or for an hour when it first meets it."""

    def __init__(self, folder: str, seconds: int = 0) -> None:
        super().__init__(folder)
        self.seconds = seconds
        self.keep = ctypes.PyDLL(None).sleep  # a PyDLL does not give the lock away

    def __call__(self, record: Any) -> None:
        self.tell(b"begin", record.value)
        if record.value == b"trap":
            trapped = self.folder / "trapped"
            first = not trapped.exists()
            trapped.touch()
            self.keep(self.seconds or (3600 if first else 0))
        Recorder.__call__(self, record)


class Deadly(Recorder):
    """Ends its process over some values, each time and each in its own way."""

    def __call__(self, record: Any) -> None:
        match record.value:
            case b"segfault":
                ctypes.string_at(0)
            case b"exit":
                os._exit(0)
            case b"kill":  # as the kernel does for want of memory
                os.kill(os.getpid(), signal.SIGKILL)
        super().__call__(record)


class Forking(Recorder):
    """Has a process sleep, and ends it; then has a pool of processes work, which ends them."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.exit_codes: list[int | None] = []

    def __call__(self, record: Any) -> None:
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=time.sleep, args=(3600,))
        process.start()
        process.terminate()
        process.join(60)
        self.exit_codes.append(process.exitcode)
        process.kill()
        with fork.Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
        pool.join()
        super().__call__(record)

    def codes(self) -> list[int | None]:
        return self.exit_codes


class Batched:
    """Async, with batches: notes how large they were and which try it was. The first try of all fails."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.attempts: list[int] = []

    async def __call__(self, records: list[Any], context: Context) -> None:
        self.attempts.append(context.attempt)
        if len(self.attempts) == 1:
            raise ValueError("not yet")
        self.sizes.append(len(records))

    def seen(self) -> tuple[list[int], list[int]]:
        return self.sizes, self.attempts


class Ordered:
    """Takes its time, in several threads, and notes the order in which it was done with records."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done: list[tuple[bytes, int]] = []
        self.most = self.in_hand = 0

    def __call__(self, record: Any, context: Context) -> None:
        with self.lock:
            self.in_hand += 1
            self.most = max(self.most, self.in_hand)
        context.stop.wait(0.001 * (context.offset % 5))
        with self.lock:
            self.in_hand -= 1
            self.done.append((record.key, int(record.value)))

    def seen(self) -> tuple[list[tuple[bytes, int]], int]:
        return self.done, self.most


class Placed:
    """Says what Ray has given its process."""

    def __call__(self, record: Any) -> None: ...

    def gpus(self) -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")


def written(folder: Path, pattern: str) -> list[bytes]:
    """The lines of all files, in the order of each file's last write: a later process may have a lower number."""
    files = sorted(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)
    return [line for file in files for line in file.read_bytes().splitlines()]


def handled(folder: Path) -> list[bytes]:
    """All values handled so far, repeats included: those of a process in their order, after those of one that ended."""
    return written(folder, "*.log")


def begun(folder: Path) -> list[bytes]:
    """All values that a `Witnessed` has begun with so far, repeats included, in the order of `handled`."""
    lines = [line.split() for line in written(folder, "*.times")]
    return [value for what, value, _ in lines if what == b"begin"]


def by_two(folder: Path) -> list[str]:
    """Records that one process was at while another one had begun with them already."""
    events: dict[bytes, list[tuple[int, str]]] = {}
    for file in folder.glob("*.times"):
        for line in file.read_bytes().splitlines():
            _, value, at = line.split()
            events.setdefault(value, []).append((int(at), file.stem))
    found = []
    for value, seen in events.items():
        pids = [pid for _, pid in sorted(seen)]
        turns = [pid for pid, before in zip(pids, [None, *pids], strict=False) if pid != before]
        if len(turns) != len(set(turns)):
            found.append(f"{value.decode()}: {' '.join(turns)}")
    return found


@dataclass
class Click:
    """A value as JSON."""

    number: int


class Copier:
    """Async, with a resource of its own: copies the numbers of clicks to another topic, a few at a time."""

    def __init__(self, folder: str, to: str) -> None:
        self.recorder = Recorder(folder)
        self.to = to
        self.open = False
        self.most = self.in_hand = 0

    async def setup(self) -> None:
        self.open = True

    async def __call__(self, record: Any, context: Context) -> None:
        assert self.open
        self.in_hand += 1
        self.most = max(self.most, self.in_hand)
        await asyncio.sleep(0.005)
        self.in_hand -= 1
        number = b"%d" % record.value.number
        context.produce(self.to, number, key=number)
        self.recorder(record._replace(value=number))

    async def teardown(self) -> None:
        (self.recorder.folder / f"{os.getpid()}.teardown").touch()

    def most_in_hand(self) -> int:
        return self.most
