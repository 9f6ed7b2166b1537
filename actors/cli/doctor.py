"""`coterie doctor`: whether this machine can run a cluster and Spark. It looks, and changes nothing."""

from __future__ import annotations

import importlib.util
import os
import resource
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click
import psutil

from actors.cli import options, output
from actors.settings import BrokerConfig
from spark_bridge.java import JavaError, find_java

OK: Final = "ok"
WARNING: Final = "warning"
UNUSABLE: Final = "unusable"

_MIB: Final = 1 << 20
_CLUSTER_MIB: Final = 700  # Ray's own processes and the controller
_BROKER_MIB: Final = 250  # a broker and its two spare shards
_COMFORT: Final = 2.0  # with less than this many times the need, there is no room for Spark beside the cluster
_SHM_MIB: Final = 512
_FILES_NEEDED: Final = 1024
_FILES_WANTED: Final = 8192
_CAP_SYS_NICE: Final = 1 << 23  # of linux/capability.h


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` says what to do about it; None: nothing."""

    check: str
    status: str
    found: str
    fix: str | None = None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the brokers would listen on.")
@click.option("--port", default=9092, show_default=True, type=click.IntRange(0, 65535), help="The first broker's port.")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 100), help="How many brokers.")
@click.option("--ray-address", metavar="ADDRESS", help="A running Ray (host:port) that a cluster is to use.")
@options.output_format
def doctor(host: str, port: int, brokers: int, ray_address: str | None, output_format: str) -> int:
    """Say whether this machine can run a cluster and Spark.

    Looks at ports, Java, memory, shared memory, the limit of open files and what priority brokers can have, and whether
    a running Ray is open to others. Exits with 1 if something is unusable.
    """
    findings = list(examine(host, port, brokers))
    if ray_address is not None:
        findings.append(running_ray(ray_address))
    output.emit([asdict(finding) for finding in findings], ("check", "status", "found", "fix"), output_format)
    return 1 if any(finding.status == UNUSABLE for finding in findings) else 0


def examine(host: str, port: int, brokers: int) -> Iterator[Finding]:
    """The findings of all checks, in the order in which a start needs what they look at."""
    yield ports(host, [port + number if port else 0 for number in range(brokers)])
    yield memory(_available_bytes(), brokers)
    yield shared_memory(Path("/dev/shm"))
    yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield priority()
    yield java(importlib.util.find_spec("pyspark") is not None)


def ports(host: str, wanted: list[int]) -> Finding:
    """Check whether brokers can listen on these ports; 0 stands for any free one."""
    beyond = [port for port in wanted if port > 65535]
    if beyond:
        return Finding("ports", UNUSABLE, f"{beyond[0]} is above 65535", "choose a lower --port")
    for port in wanted:
        try:
            _listen(host, port)
        except OSError as error:
            why = f"{host}:{port}: {error.strerror or error}"
            return Finding("ports", UNUSABLE, why, "end what uses it, or choose another --port (0: any free ones)")
    return Finding("ports", OK, f"{host}:{','.join(map(str, wanted))} can be used")


def memory(available_bytes: int, brokers: int) -> Finding:
    """Check whether a cluster of this size fits into the memory that is available."""
    need = _CLUSTER_MIB + brokers * _BROKER_MIB
    have = available_bytes // _MIB
    found = f"{have:,} MiB available, {output.plural(brokers, 'broker')} need about {need:,}"
    if have < need:
        return Finding("memory", UNUSABLE, found, "free memory, or start fewer --brokers")
    if have < need * _COMFORT:
        return Finding("memory", WARNING, found, "enough for the cluster, not for Spark beside it")
    return Finding("memory", OK, found)


def shared_memory(folder: Path) -> Finding:
    """Check whether there is enough shared memory for Ray's object store, which otherwise works on disk, slowly."""
    fix = "in a container, start it with --shm-size=1g; until then Ray keeps objects on disk"
    if not folder.is_dir():
        return Finding("shared memory", WARNING, f"there is no {folder}", fix)
    stat = os.statvfs(folder)
    free = stat.f_bavail * stat.f_frsize // _MIB
    found = f"{free:,} MiB free in {folder}"
    return Finding("shared memory", OK, found) if free >= _SHM_MIB else Finding("shared memory", WARNING, found, fix)


def open_files(soft: int, hard: int) -> Finding:
    """Check whether enough files may be open: every connection and every log segment is one."""
    found = f"{_limit(soft)} (could be raised to {_limit(hard)})" if soft != hard else _limit(soft)
    fix = f"ulimit -n {_FILES_WANTED}"
    if soft == resource.RLIM_INFINITY or soft >= _FILES_WANTED:
        return Finding("open files", OK, found)
    return Finding("open files", UNUSABLE if soft < _FILES_NEEDED else WARNING, found, fix)


def priority(limit: int | None = None, capabilities: int | None = None) -> Finding:
    """Check whether brokers may be preferred to other programs of a machine that is full.

    `limit` is what RLIMIT_NICE says, 20 less the niceness; `capabilities` are bits. Both default to this process's.
    """
    setting = "coterie.process.niceness"
    wanted = BrokerConfig.from_mapping({}).integer(setting)
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0] if limit is None else limit
    may = (_capabilities() if capabilities is None else capabilities) & _CAP_SYS_NICE
    if may or limit == resource.RLIM_INFINITY or 20 - limit <= wanted:
        return Finding("priority", OK, f"niceness {wanted} can be had ({setting})")
    found = f"niceness {wanted} ({setting}) cannot be had: on a machine that is full, brokers wait as all others"
    return Finding("priority", WARNING, found, f"sudo prlimit --pid $$ --nice={20 - wanted}")


def _capabilities() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16)


def java(has_spark: bool = True) -> Finding:
    """Check whether there is a Java that Spark can use, if Spark is installed; the cluster itself needs none."""
    if not has_spark:
        return Finding("java", OK, "not needed: Spark is not installed, which comes with Coterie on Python 3.11 alone")
    try:
        found = find_java()
    except JavaError as error:
        return Finding("java", UNUSABLE, "none that Spark can use", str(error))
    passed = f"; passed over: {'; '.join(found.passed_over)}" if found.passed_over else ""
    return Finding("java", OK, f"{found.version} from {found.source} ({found.home}){passed}")


def running_ray(ray_address: str) -> Finding:
    """Check whether a Ray that runs already is open to others than its user."""
    from actors.runtime.ray_connection import ClusterError, looked_at  # it imports ray

    try:
        found = looked_at(ray_address)
    except ClusterError as error:
        return Finding("ray", UNUSABLE, f"none at {ray_address}", str(error))
    if found:
        texts = [each.partition(": ") for each in found]
        return Finding("ray", WARNING, "; ".join(text for text, _, _ in texts), "; ".join(fix for _, _, fix in texts))
    return Finding("ray", OK, f"{ray_address} asks for a token")


def _listen(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as brokers do: old connections do not matter
        probe.bind(address)
        probe.listen(1)


def _available_bytes() -> int:
    """The memory that is available, in bytes, within the limit of the control group if there is one."""
    available = psutil.virtual_memory().available
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit = int(Path("/sys/fs/cgroup", limit_file).read_text())
            used = int(Path("/sys/fs/cgroup", used_file).read_text())
        except (OSError, ValueError):
            continue
        return max(0, min(available, limit - used))
    return available


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"
