"""The cost of hostile clients for the others: heartbeats of a hundred members meanwhile, and memory afterwards.

The members are at a plain listener of one broker, the others at its listener with TLS and logins: ten thousand logins
that fail, a hundred at a time; a thousand handshakes that are not finished; a thousand connections that say nothing, a
byte a second, or announce much. Short connections for the soak. Then connections that prove nothing at the ports of the
controller and of replicas, in TLS, beside three brokers with three replicas. Batches that cost as much as they may, and
lookups by time in such that are stored (`bombs.py`). The attackers share the cores with
everything. Each p99 is the worst of periods of four seconds; memory is that of the broker's process (PSS).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import bombs, groups
from benchmarks.attackers import PASSWORD, PLAIN, SCRAM, USER, good_login_ms, hello_of
from benchmarks.common import Entry, note, run_load, temporary_folder
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, THREE_REPLICAS
from tests.compat import peers
from tests.compat.peers import ROOT, Coterie, free_ports
from tests.compat.raw import create_topics
from tests.support.authority import Authority

ATTACKERS = "benchmarks.attackers"
BEAT_INTERVAL_MS = 100
PERIOD_S = 4.0
SETUP_MS = 8000
STAY_S = 12
LOGINS = 10_000
KEPT = 1000
SHORT = 20_000
FLOOD_S = 12
_HANDSHAKE_RECORD = b"\x16"

BEATS = "heartbeats, p99, "
MEMORY = "memory, "
CALM = BEATS + "calm"
KINDS = {
    "silent": "1,000 silent connections",
    "half-open": "1,000 half-open handshakes",
    "dribbling": "1,000 at a byte a second",
    "announcing": "1,000 that announce 500 KiB",
}
BAD = {mechanism: f"10,000 failed logins by {mechanism}" for mechanism in (SCRAM, PLAIN)}
GOOD_LOGIN = "a good login among "
LINES = "log lines of 10,000 failed logins by "
SOAK = {"no": "20,000 short connections in TLS", "yes": "20,000 that reset in the handshake"}
FLOODED = "a flood of unproved connections at the links"
BOMBS = {kind: what for kind, (what, _) in bombs.KINDS.items()} | {bombs.LOOKUPS: "lookups by time in all of these"}
COMMITS = "commits of ten partitions, three replicas, p99, "
SPECS = [
    Spec(CALM, "ms", Better.LESS),
    *(Spec(BEATS + what, "ms", Better.LESS, Budget(limit=50)) for what in (*BAD.values(), *KINDS.values())),
    *(Spec(BEATS + what, "ms", Better.LESS, Budget(limit=50)) for what in BOMBS.values()),
    *(Spec(MEMORY + what, "MiB more", Better.LESS, Budget(limit=256)) for what in BOMBS.values()),
    *(Spec(MEMORY + what, "MiB more", Better.LESS, Budget(limit=16)) for what in (*BAD.values(), *SOAK.values())),
    *(Spec(MEMORY + what, "MiB more", Better.LESS, Budget(limit=64)) for what in KINDS.values()),
    *(Spec(GOOD_LOGIN + what, "ms", Better.LESS, Budget(limit=1000)) for what in KINDS.values()),
    *(Spec(LINES + mechanism, "lines", Better.LESS, Budget(limit=200)) for mechanism in BAD),
    Spec(COMMITS + "calm", "ms", Better.LESS),
    Spec(BEATS + FLOODED, "ms", Better.LESS, Budget(limit=100)),
    Spec(COMMITS + FLOODED, "ms", Better.LESS),
]


@dataclass(frozen=True, slots=True)
class _Target:
    cluster: Coterie
    port: int
    cafile: str
    beats: list[Entry]

    def status(self) -> Any:
        """Of the broker."""
        return self.cluster.status()["brokers"][0]

    def memory_mib(self) -> float:
        return float(psutil.Process(self.status()["pid"]).memory_full_info().pss / 2**20)

    def unauthenticated(self) -> int:
        _, encrypted = self.status()["load"]["listeners"]
        return int(encrypted["handshaking"] + encrypted["authenticating"] + encrypted["failed"])

    def await_none_unauthenticated(self) -> None:
        deadline = time.monotonic() + 60
        while self.unauthenticated():
            assert time.monotonic() < deadline, "unauthenticated connections stay"
            time.sleep(0.2)

    def log_lines(self) -> int:
        logs = [path for path in (self.cluster.data_dir / "logs").rglob("*") if path.is_file()]
        return sum(path.read_text(errors="replace").count("failed authentication") for path in logs)


def run(figures: Figures, pace: Pace) -> None:
    """One broker full of unauthenticated connections, one with hostile batches, then three with full links."""
    with _one_broker() as target:
        figures.only_ours(CALM, _worst_beat_ms(target.beats, None))
        # All that is made at the first use is made by this.
        _attack(ATTACKERS, "logins", str(target.port), target.cafile, SCRAM, "300", "30").wait()
        for mechanism, what in BAD.items():
            with figures.attempt("coterie", what):
                _logins(figures, target, mechanism, what, LOGINS // pace.fewer(1, 20))
        for kind, what in KINDS.items():
            with figures.attempt("coterie", what):
                _kept(figures, target, kind, what, pace.fewer(KEPT, 50))
        for reset, what in SOAK.items():
            with figures.attempt("coterie", what):
                _soak(figures, target, reset, what, SHORT // pace.fewer(1, 20))
    _bombs(figures)
    with figures.attempt("coterie", FLOODED):
        _flood(figures)


def _logins(figures: Figures, target: _Target, mechanism: str, what: str, count: int) -> None:
    before, lines = target.memory_mib(), target.log_lines()
    attacker = _attack(ATTACKERS, "logins", str(target.port), target.cafile, mechanism, str(count), "100")
    figures.only_ours(BEATS + what, _worst_beat_ms(target.beats, attacker))
    note(f"{_said(attacker)} of {count} were told that the login failed")
    target.await_none_unauthenticated()
    figures.only_ours(MEMORY + what, target.memory_mib() - before)
    figures.only_ours(LINES + mechanism, target.log_lines() - lines)
    asyncio.run(good_login_ms(target.port, target.cafile))  # the account is not locked


def _kept(figures: Figures, target: _Target, kind: str, what: str, count: int) -> None:
    before = target.memory_mib()
    attacker = _attack(ATTACKERS, "keep", str(target.port), target.cafile, kind, str(count), str(STAY_S))
    deadline = time.monotonic() + 60
    while target.unauthenticated() < count * 0.95:
        assert time.monotonic() < deadline, "unauthenticated connections do not come"
    figures.only_ours(GOOD_LOGIN + what, asyncio.run(good_login_ms(target.port, target.cafile)))
    figures.only_ours(MEMORY + what, target.memory_mib() - before)
    figures.only_ours(BEATS + what, _worst_beat_ms(target.beats, attacker))
    _said(attacker)
    target.await_none_unauthenticated()


def _soak(figures: Figures, target: _Target, reset: str, what: str, count: int) -> None:
    before = target.memory_mib()
    attacker = _attack(ATTACKERS, "short", str(target.port), target.cafile, str(count), "100", reset)
    assert int(_said(attacker)) == count
    target.await_none_unauthenticated()
    figures.only_ours(MEMORY + what, target.memory_mib() - before)


def _flood(figures: Figures) -> None:
    config = {**THREE_REPLICAS, "coterie.internal.security": "tls"}
    with temporary_folder() as folder, peers.coterie(folder, 3, 0, config) as cluster:
        formed = groups.form(cluster.bootstrap_servers, 3)
        commits = formed.commits()
        run_load(commits, 1, PERIOD_S, interval_ms=BEAT_INTERVAL_MS)
        calm = run_load(commits, 1, PERIOD_S, interval_ms=BEAT_INTERVAL_MS)
        figures.only_ours(COMMITS + "calm", calm.p99_us / 1000)
        ports = ",".join(map(str, _links(cluster)))
        for entries, row in ((formed.heartbeats(), BEATS), (commits, COMMITS)):
            attacker = _attack(ATTACKERS, "flood", ports, str(FLOOD_S), "600")
            figures.only_ours(row + FLOODED, _worst_beat_ms(entries, attacker))
            note(f"{_said(attacker)} connections that proved nothing")
        formed.close()


def _bombs(figures: Figures) -> None:
    with temporary_folder() as folder, peers.coterie(folder, 1, 0, ONE_REPLICA) as cluster:
        formed = groups.form(cluster.bootstrap_servers, 1)
        create_topics(cluster.bootstrap_servers, {bombs.TOPIC: 1})
        port = cluster.bootstrap_servers.rpartition(":")[2]
        target = _Target(cluster, int(port), "", formed.heartbeats())
        before = target.memory_mib()
        for kind, what in BOMBS.items():
            with figures.attempt("coterie", what):
                attacker = _attack("benchmarks.bombs", port, kind, str(FLOOD_S))
                figures.only_ours(BEATS + what, _worst_beat_ms(target.beats, attacker))
                figures.only_ours(MEMORY + what, target.memory_mib() - before)
                note(f"{what}: {_said(attacker)}")
        formed.close()


def _links(cluster: Coterie) -> list[int]:
    """The ports at which the controller and the brokers speak TLS to one another; Ray's do not."""
    status = cluster.status()
    pids = [status["controller_pid"], *(broker["pid"] for broker in status["brokers"])]
    listening = {
        at.laddr.port
        for pid in pids
        for at in psutil.Process(pid).net_connections("tcp")
        if at.status == psutil.CONN_LISTEN
    }
    found = [port for port in sorted(listening) if _speaks_tls(port)]
    assert len(found) == len(pids), f"of {listening} {found} speak TLS"
    return found


def _speaks_tls(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as s:
        s.sendall(hello_of(ssl.create_default_context()))
        return s.recv(1) == _HANDSHAKE_RECORD
    return False


def _worst_beat_ms(entries: list[Entry], attacker: subprocess.Popen[str] | None) -> float:
    """The highest p99 of periods, one at least, as long as the attacker is at work."""
    worst = 0.0
    while True:
        worst = max(worst, run_load(entries, 1, PERIOD_S, interval_ms=BEAT_INTERVAL_MS).p99_us / 1000)
        if attacker is None or attacker.poll() is not None:
            return worst


def _attack(module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _said(attacker: subprocess.Popen[str]) -> str:
    said, _ = attacker.communicate(timeout=600)
    if attacker.returncode:
        raise RuntimeError(f"the attacker has failed: {attacker.returncode}")
    return said.strip()


@contextlib.contextmanager
def _one_broker() -> Iterator[_Target]:
    with temporary_folder() as folder:
        authority = Authority(folder)
        plain, encrypted = free_ports(2)
        cluster_config = {
            **ONE_REPLICA,
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{encrypted}",
            "sasl.enabled.mechanisms": f"{SCRAM},{PLAIN}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.sign("localhost", "127.0.0.1").both,
            "coterie.connection.setup.timeout.ms": str(SETUP_MS),
        }
        users = ["--add-scram", f"{SCRAM}=[name={USER},password-file={_password(folder)}]"]
        with peers.coterie(folder, 1, None, cluster_config, users) as cluster:
            formed = groups.form(f"127.0.0.1:{plain}", 1)
            yield _Target(cluster, encrypted, authority.cafile, formed.heartbeats())
            formed.close()


def _password(folder: Path) -> Path:
    path = folder / "password"
    path.write_text(PASSWORD)
    path.chmod(0o600)
    return path
