"""A cluster of an earlier build is upgraded on its hosts while clients go on, as docs/operations.md says.

The command, too, is that of the present build: it talks to a controller of the earlier one.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.hosts.clusters import OnHosts, started
from tests.hosts.host import Host
from tests.hosts.space import ROOT
from tests.programs.test_upgrade import newest_format
from tests.ray.support import consumer, patient, read_all, topic, wait_until
from tests.ray.traffic import Committer, Member, Writer
from tests.support.earlier_build import BEFORE_VERSIONS, archived

pytestmark = pytest.mark.timeout(400)

NAME = "upgraded"


@pytest.fixture
def cluster(three: list[Host], tmp_path: Path) -> Iterator[OnHosts]:
    """A cluster of the earlier build, on hosts that have nothing else."""
    earlier = archived(BEFORE_VERSIONS, tmp_path / "earlier")
    for host in three:
        host.install(earlier)
    try:
        with started(three, NAME, 9200) as made:
            yield made
    finally:
        for host in three:
            host.install(ROOT)
        shutil.rmtree(earlier)


def restarted(cluster: OnHosts, *brokers: int) -> str:
    """Restart brokers by the command, and return its output; empty while the controller is away."""
    with contextlib.suppress(AssertionError):
        return cluster.command("brokers", "restart", *map(str, brokers))
    return ""


def all_go_on(writer: Writer, member: Member, committer: Committer) -> Callable[[], bool]:
    """A check that each of them has made progress since this call."""
    produced, values, last = len(writer.acknowledged), len(member.values), committer.last
    return lambda: (
        len(writer.acknowledged) > produced + 20 and len(member.values) > values + 20 and committer.last > last
    )


def test_three_hosts_are_upgraded_one_after_the_other_and_nothing_acknowledged_is_lost(
    cluster: OnHosts, three: list[Host]
) -> None:
    servers = cluster.servers
    topic(servers, NAME, 3, 3)
    with contextlib.closing(consumer(servers, "commits")) as client:
        with (
            Writer(servers, NAME) as writer,
            Member(servers, "members", NAME) as member,
            Committer(client, NAME) as committer,
        ):
            wait_until(lambda: member.values and committer.last, what="traffic")
            for host in three:
                host.install(ROOT)
            assert "restarted 1" in cluster.command("brokers", "restart", "1")
            wait_until(all_go_on(writer, member, committer), what="clients to go on with brokers of both builds")
            (controller,) = three[0].processes("ray::Controller")
            controller.send_signal(signal.SIGKILL)
            assert "restarted 2" in wait_until(lambda: restarted(cluster, 0, 2), what="a controller of the new build")
            wait_until(all_go_on(writer, member, committer), what="clients to go on with the new build")
            wait_until(lambda: cluster.whole(NAME), what="all replicas in sync")
            assert newest_format(servers.split(",")[0]) == "", "each broker knows it"
            writer.end()
            committer.end()
            wait_until(lambda: writer.acknowledged <= member.values, what="the group to read all")
        assert writer.failed == 0
        assert writer.acknowledged <= read_all(servers, NAME, len(writer.acknowledged))
        (offset,) = patient(lambda: client.committed([TopicPartition(NAME, 0)], timeout=10))
        assert offset.offset >= committer.last
