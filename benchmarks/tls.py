"""The cost of TLS: heartbeats, commits and records in TLS 1.3, and without it in the same turns.

One broker with one shard of a hundred members, and topics of twelve partitions, as in `requests` and `records`. The
server's certificate has an elliptic key. The rows in per cent are what is left of the rate without TLS, of
Apache Kafka's beside ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import groups, records
from benchmarks.common import Entry, load_program, note, run_load, temporary_folder
from benchmarks.figures import OURS, PEER, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, cpu_s, loaded
from tests.compat import apache_kafka, peers
from tests.compat.peers import UnavailableError, free_ports
from tests.compat.raw import create_topics
from tests.support.authority import Authority

RECORDS = 300_000
SIZE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class _Side:
    cluster: Cluster
    plain_port: int
    tls_port: int
    cafile: str

    def port(self, tls: bool) -> int:
        """Of the listener with TLS, or without."""
        return self.tls_port if tls else self.plain_port

    def moved(self, entries: list[Entry], *, tls: bool) -> list[Entry]:
        """The entries, at that listener."""
        return [replace(entry, port=self.port(tls)) for entry in entries]


@dataclass(frozen=True, slots=True)
class _Load:
    what: str
    entries: Callable[[Formed], list[Entry]]
    depth: int


LEFT_OF_REQUESTS, LEFT_OF_RECORDS = 70, 50
"""Per cent of the rate without TLS that has to be left."""

LOADS = (
    _Load("heartbeats, 100 connections, depth 1", Formed.heartbeats, 1),
    _Load("heartbeats, 100 connections, depth 16", Formed.heartbeats, 16),
    _Load("commits of ten partitions, 100 connections, depth 16", Formed.commits, 16),
)
ALONE = "commits of ten partitions, one connection, in TLS, p50"
PRODUCE, CONSUME = "produce, acks=all, 1 KiB", "consume, 1 KiB"
RATES = (*(load.what for load in LOADS), PRODUCE, CONSUME)


def _in_tls(what: str) -> str:
    return f"{what}, in TLS"


def _left(what: str) -> str:
    return f"{what}: left of the rate"


SPECS = [
    *(Spec(_in_tls(what), "/s", Better.MORE) for what in RATES),
    Spec(ALONE, "µs", Better.LESS),
    *(Spec(_left(load.what), "%", Better.MORE, Budget(limit=LEFT_OF_REQUESTS)) for load in LOADS),
    *(Spec(_left(what), "%", Better.MORE, Budget(limit=LEFT_OF_RECORDS)) for what in (PRODUCE, CONSUME)),
]


def run(figures: Figures, pace: Pace) -> None:
    """Both sides live; one is used at a time."""
    load_program(tls=True)
    with _both(figures) as sides:
        formed = {name: groups.form(side.cluster.bootstrap_servers, 1) for name, side in sides.items()}
        for name, side in sides.items():  # a Java program is slow until it is warm
            for tls in (False, True):
                run_load(side.moved(formed[name].commits(), tls=tls), 16, pace.seconds, tls=tls)
        for turn in range(pace.turns):
            for load in LOADS:
                for name, side in sides.items():
                    with figures.attempt(name, load.what):
                        _load(figures, name, side, formed[name], load, pace)
            for name, side in sides.items():
                with figures.attempt(name, ALONE):
                    alone = side.moved(formed[name].commits()[:1], tls=True)
                    result, cpu_us = loaded(side.cluster, alone, 1, pace.seconds, tls=True)
                    figures.add(name, ALONE, result.p50_us, cpu_us)
                with figures.attempt(name, "records"):
                    _records(figures, name, side, turn, RECORDS // pace.fewer(1, 5))
        for each in formed.values():
            each.close()


def _load(figures: Figures, name: str, side: _Side, formed: Formed, load: _Load, pace: Pace) -> None:
    rates = {}
    for tls in (False, True):
        entries = side.moved(load.entries(formed), tls=tls)
        result, cpu_us = loaded(side.cluster, entries, load.depth, pace.seconds, tls=tls)
        rates[tls] = result.requests_per_s
        note(f"{name}: {load.what}, {'in TLS' if tls else 'plain'}: {rates[tls]:,.0f}/s, CPU {cpu_us:.1f} µs")
    figures.add(name, _in_tls(load.what), rates[True], cpu_us)
    figures.add(name, _left(load.what), rates[True] / rates[False] * 100)


def _records(figures: Figures, name: str, side: _Side, turn: int, count: int) -> None:
    rates: dict[tuple[str, bool], float] = {}
    for tls in (False, True):
        topic, servers = f"records-{turn}-{tls}", f"127.0.0.1:{side.port(tls)}"
        create_topics(side.cluster.bootstrap_servers, {topic: records.PARTITIONS})
        cafile = side.cafile if tls else ""
        for what, function, more in (
            (PRODUCE, "produce", ("all", count, SIZE_BYTES, cafile)),
            (CONSUME, "consume", (count, cafile)),
        ):
            before = cpu_s(side.cluster)
            rates[what, tls] = records.apart(function, servers, topic, *more)
            cpu_us = (cpu_s(side.cluster) - before) / count * 1e6
            if tls:
                figures.add(name, _in_tls(what), rates[what, tls], cpu_us)
                figures.add(name, _left(what), rates[what, True] / rates[what, False] * 100)


@contextlib.contextmanager
def _both(figures: Figures) -> Iterator[dict[str, _Side]]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        authority = Authority(folder)
        store = {
            **ONE_REPLICA,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.sign("localhost", "127.0.0.1").both,
        }
        sides = {OURS: _ours(stack, folder, store, authority.cafile)}
        try:
            sides[PEER] = _kafka(stack, store, authority.cafile)
        except UnavailableError as error:
            figures.fail("Apache Kafka", error)
        yield sides


def _ours(stack: contextlib.ExitStack, folder: Path, store: dict[str, str], cafile: str) -> _Side:
    plain, encrypted = free_ports(2)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{encrypted}"
    config = {**store, "listeners": listeners}
    cluster = stack.enter_context(peers.coterie(folder, 1, plain, config))
    return _Side(cluster, plain, encrypted, cafile)


def _kafka(stack: contextlib.ExitStack, store: dict[str, str], cafile: str) -> _Side:
    protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"  # beside SSL, the controller's has no default
    config = {**store, "listener.security.protocol.map": protocols}
    kafka = apache_kafka.ApacheKafka(stack.enter_context(temporary_folder()), config=config, listeners=("SSL",))
    kafka.format()
    stack.callback(kafka.stop)
    kafka.start()
    plain = int(kafka.bootstrap_servers.rpartition(":")[2])
    return _Side(kafka, plain, kafka.listeners["SSL"], cafile)
