"""The common parts of the benchmarks: the load generator, temporary folders, and notes on progress."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actors.client import Producer
from tests.compat import peers
from tests.compat.peers import UnavailableError
from tests.compat.raw import create_topics

SOURCE = Path(__file__).with_name("load.c")


@dataclass(frozen=True, slots=True)
class Entry:
    """One connection of a plan: where it goes, its frame, and where in the frame its sequence number is put."""

    port: int
    frame: bytes
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of one run of the load generator. Times in microseconds."""

    requests: int
    seconds: float
    requests_per_s: float
    p50_us: int
    p99_us: int
    max_us: int
    answers: int
    missing: int
    errors: dict[str, int] = field(default_factory=dict)
    last: list[int] = field(default_factory=list)


def load_program(tls: bool = False) -> Path:
    """The compiled load generator. Raises UnavailableError where there is no C compiler, or no OpenSSL for TLS."""
    program = peers.cache_dir() / ("load-tls" if tls else "load")
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise UnavailableError("no C compiler")
        options = ["-DTLS", "-lssl", "-lcrypto"] if tls else []
        done = subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE), *options], capture_output=True)
        if done.returncode:
            raise UnavailableError(f"the load generator does not compile: {done.stderr.decode()[-300:]}")
    return program


def run_load(
    entries: Sequence[Entry],
    depth: int,
    seconds: float,
    warmup_s: float = 0.5,
    interval_ms: float | None = None,
    tls: bool = False,
) -> Load:
    """Keep `depth` requests in flight on each entry's connection, or send one every `interval_ms`.

    Raises RuntimeError if an answer is bad.
    """
    with tempfile.NamedTemporaryFile(suffix=".plan") as plan:
        for entry in entries:
            head = struct.pack(">HH", entry.port, len(entry.positions))
            places = struct.pack(f">{len(entry.positions)}I", *entry.positions)
            plan.write(head + places + struct.pack(">I", len(entry.frame)) + entry.frame)
        plan.flush()
        command = [str(load_program(tls)), plan.name, str(depth), str(seconds), str(warmup_s)]
        command += [] if interval_ms is None else [str(interval_ms)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise RuntimeError(f"load generator: {done.stderr.strip()} {done.stdout[:300]}")
    load = Load(**json.loads(done.stdout))
    if load.errors:
        raise RuntimeError(f"answers with errors, by code: {load.errors}, of {load.answers}")
    return load


def fill(servers: str, topic: str, partitions: int, records: int, size_bytes: int) -> None:
    """Make a topic with these records, spread evenly. Raises what a send raises."""
    create_topics(servers, {topic: partitions})
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        sent = [producer.send(topic, bytes(size_bytes), partition=n % partitions) for n in range(records)]
        producer.flush(60)
        for future in sent:
            future.get(0)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as name:
        yield Path(name)


def note(*words: object) -> None:
    """Progress, for people, on stderr."""
    print("·", *words, file=sys.stderr, flush=True)
