"""A host of three is killed, cut off or muted under load: its groups go on elsewhere, and nothing acknowledged is lost.

For the time in which the host is alone there is a client on it, which reaches its broker and nobody else.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.hosts import inside
from tests.hosts.clusters import OnHosts, started
from tests.hosts.host import Host
from tests.ray.support import consumer, patient, read_all, topic, wait_until
from tests.ray.traffic import Committer, Writer

pytestmark = pytest.mark.timeout(400)

Change = Callable[[Host], None]
KINDS = ("commit", "record", "single")
IMPATIENT = {"socket.timeout.ms": 2000}
"""A client that asks a host which is cut off waits a minute for its answer by default."""


def killed(host: Host) -> None:
    host.kill()


def cut(host: Host) -> None:
    host.network.cut(host.name)


def muted(host: Host) -> None:
    host.network.mute(host.name)


def back(host: Host) -> None:
    """Undo any of these."""
    if host.is_up:
        host.network.heal(host.name)
        host.network.unmute(host.name)
    else:
        host.boot()


@pytest.fixture(scope="module")
def cluster(three: list[Host]) -> Iterator[OnHosts]:
    with started(three, "faults", 9100) as made:
        made.make_offsets_topic()
        yield made


@contextlib.contextmanager
def client_inside(host: Host, cluster: OnHosts, group: str, name: str, told: Path) -> Iterator[None]:
    command = [sys.executable, inside.__file__, cluster.server_on(host), group, name]
    with open(told, "wb") as acknowledged:
        client = host.start(*command, stdout=acknowledged, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            client.kill()
            client.wait()


def acknowledged(told: Path, kind: str) -> list[tuple[str, float]]:
    lines = [line.split() for line in told.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(what, float(at)) for found, what, at in lines if found == kind]


@pytest.mark.conformance("N-A-08")
@pytest.mark.parametrize("change", [killed, cut, muted])
def test_groups_go_on_elsewhere_and_no_acknowledged_record_or_commit_is_lost(
    cluster: OnHosts, tmp_path: Path, change: Change
) -> None:
    name, servers, told = change.__name__, cluster.servers, tmp_path / "told"
    for each in (name, f"{name}-single"):
        topic(servers, each, 3, 3)
    group, victim = cluster.coordinated_by_a_worker(name)
    with contextlib.closing(consumer(servers, group, **IMPATIENT)) as client:
        with Writer(servers, name, **IMPATIENT) as writer, Committer(client, name) as committer:
            with client_inside(victim, cluster, group, name, told):
                wait_until(lambda: writer.acknowledged and committer.last, what="traffic")
                wait_until(lambda: all(acknowledged(told, kind) for kind in KINDS), what="it inside")
                wait_until(lambda: cluster.whole(name), what="all replicas in sync")
                wait_until(cluster.has_spares, what="spare processes, which the fault before may have taken")
                begun = time.monotonic()
                change(victim)
                commits = len(committer.times)
                wait_until(lambda: len(committer.times) > commits + 20, what="the group's commits")
                gaps = [(later - earlier, later) for earlier, later in pairwise(committer.times) if later > begun]
                without, elsewhere = max(gaps)
                sys.stdout.write(f"{name}: no commit was acknowledged for {without:.2f} s\n")
                before = len(writer.acknowledged)
                wait_until(lambda: len(writer.acknowledged) > before + 50, what="records again")
                healed = time.monotonic()
                back(victim)
                wait_until(lambda: cluster.is_back(victim, name), what="all replicas in sync again")
            writer.end()
            committer.end()
        assert writer.failed == 0
        alone = [at for kind in KINDS for _, at in acknowledged(told, kind) if elsewhere < at < healed]
        assert alone == [], "the host that was alone went on beside its successors"
        offsets = [TopicPartition(name, 0), TopicPartition(name, 1)]
        outer, inner = patient(lambda: client.committed(offsets, timeout=10))
        assert outer.offset >= committer.last
        assert inner.offset >= max(int(offset) for offset, _ in acknowledged(told, "commit"))
        kept = writer.acknowledged | {value.encode() for value, _ in acknowledged(told, "record")}
        assert read_all(servers, name, len(kept)) >= kept


@pytest.mark.conformance("N-A-13")
def test_leaders_leave_a_host_whose_ray_is_told_to_end_before_it_does(cluster: OnHosts) -> None:
    """Kubernetes sends `ray start --block` a SIGTERM, and Ray takes half a minute to end."""
    name, servers, head = "sigterm", cluster.servers, cluster.hosts[0]
    topic(servers, name, 3, 3)
    group, victim = cluster.coordinated_by_a_worker(name)
    victim.end_processes()
    ray = victim.stay_in_ray(head)
    wait_until(lambda: cluster.whole(name), what="all replicas in sync")
    wait_until(lambda: cluster.coordinated_by_a_worker(name) == (group, victim), what="the preferred leaders")
    wait_until(lambda: cluster.led_by(victim, name) > 0, what="its share of the topic")
    with contextlib.closing(consumer(servers, group, **IMPATIENT)) as client:
        with Writer(servers, name, **IMPATIENT) as writer, Committer(client, name) as committer:
            wait_until(lambda: writer.acknowledged and committer.last, what="traffic")
            ray.terminate()
            wait_until(lambda: cluster.led_by(victim, name) == 0, what="other leaders")
            assert victim.processes("ray::Broker"), "they left before the node ended, and not because it did"
            wait_until(lambda: not victim.processes("raylet/raylet"), what="the node's end")
            commits, before = len(committer.times), len(writer.acknowledged)
            wait_until(lambda: len(committer.times) > commits + 20, what="the group's commits")
            wait_until(lambda: len(writer.acknowledged) > before + 50, what="records again")
            wait_until(lambda: cluster.is_back(victim, name), what="all replicas in sync again")
            writer.end()
            committer.end()
        assert writer.failed == 0
        (offset,) = patient(lambda: client.committed([TopicPartition(name, 0)], timeout=10))
        assert offset.offset >= committer.last
        assert read_all(servers, name, len(writer.acknowledged)) >= writer.acknowledged
