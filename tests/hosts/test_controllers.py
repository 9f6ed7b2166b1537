"""The host of the controller that leads, of three, is killed, cut off or muted under load: another controller leads.

The cluster goes on meanwhile, also with what needs a controller, and the one that was away catches up, also if it has
lost its disk.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from confluent_kafka import TopicPartition

from tests.hosts.clusters import SOON_FENCED, OnHosts, started
from tests.hosts.host import Host
from tests.hosts.test_faults import IMPATIENT, back, cut, killed, muted
from tests.ray.support import consumer, patient, read_all, topic, wait_until
from tests.ray.traffic import Committer, Writer

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(three: list[Host]) -> Iterator[OnHosts]:
    with started(three, "controllers", 9300, 3, SOON_FENCED) as made:
        made.make_offsets_topic()
        wait_until(made.controllers_are_whole, what="three controllers")
        yield made


def led_by_a_worker(cluster: OnHosts) -> Host:
    """The host of the controller that leads, which is not the host of Ray's head: one is made to."""
    while (found := wait_until(cluster.led_from, what="a controller that leads")) is cluster.hosts[0]:
        (controller,) = found.processes("ray::Controller")
        controller.send_signal(signal.SIGKILL)
        wait_until(lambda: cluster.led_from() not in (None, cluster.hosts[0]), what="another controller")
        wait_until(cluster.controllers_are_whole, what="three controllers again")
    return found


@pytest.mark.conformance("N-C-10")
@pytest.mark.parametrize("change", [killed, cut, muted])
def test_another_controller_leads_and_nothing_acknowledged_is_lost(
    cluster: OnHosts, change: Callable[[Host], None]
) -> None:
    name, servers, head = f"controller-{change.__name__}", cluster.servers, cluster.hosts[0]
    topic(servers, name, 3, 3)
    victim = led_by_a_worker(cluster)
    group, _ = cluster.coordinated_by(name, victim)
    with contextlib.closing(consumer(servers, group, **IMPATIENT)) as client:
        with Writer(servers, name, **IMPATIENT) as writer, Committer(client, name) as committer:
            wait_until(lambda: writer.acknowledged and committer.last, what="traffic")
            wait_until(lambda: cluster.whole(name), what="all replicas in sync")
            wait_until(cluster.has_spares, what="spare processes, which the fault before may have taken")
            epoch, begun = cluster.status()["controller_epoch"], time.monotonic()
            change(victim)
            topic(cluster.server_on(head), f"{name}-after", 1, 2, **{"min.insync.replicas": "1"})
            made = time.monotonic()
            commits = len(committer.times)
            wait_until(lambda: len(committer.times) > commits + 20, what="the group's commits")
            without = max(later - earlier for earlier, later in pairwise(committer.times) if later > begun)
            sys.stdout.write(f"{name}: a topic after {made - begun:.2f} s, no commit for {without:.2f} s\n")
            assert cluster.led_from() is not victim
            assert cluster.status()["controller_epoch"] > epoch
            before = len(writer.acknowledged)
            wait_until(lambda: len(writer.acknowledged) > before + 50, what="records again")
            back(victim)
            wait_until(lambda: cluster.is_back(victim, name), what="all replicas in sync again")
            wait_until(cluster.controllers_are_whole, what="the controller that was away")
            writer.end()
            committer.end()
        assert writer.failed == 0
        (offset,) = patient(lambda: client.committed([TopicPartition(name, 0)], timeout=10))
        assert offset.offset >= committer.last
        assert read_all(servers, name, len(writer.acknowledged)) >= writer.acknowledged


@pytest.mark.conformance("N-C-10", "N-D-07")
def test_a_host_whose_disk_is_lost_gets_the_secret_and_its_controller_a_vote_again(cluster: OnHosts) -> None:
    topic(cluster.servers, "emptied", 3, 3)
    victim = cluster.hosts[2]
    voter = next(each for each in cluster.status()["controllers"] if each["host"] == victim.address)
    cluster.empty_disk(victim)
    wait_until(cluster.controllers_are_whole, what="three controllers")
    again = next(each for each in cluster.status()["controllers"] if each["host"] == victim.address)
    assert again["id"] == voter["id"]
    wait_until(lambda: cluster.whole("emptied"), what="all replicas in sync again")
