"""Brokers that are killed while clients write and commit: another one takes over, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from actors.client import Admin
from actors.cluster import Cluster
from placement.hashing import partition_for_group
from tests.compat.raw import find_coordinator
from tests.ray.support import consumer, coterie, group_beside, patient, read_all, topic, wait_until
from tests.ray.traffic import Committer, Member, Writer

Start = Callable[..., Cluster]
REPLICATED = {"factor": 3, "min_insync_replicas": "2"}


@pytest.fixture(scope="module")
def three(start: Start) -> Iterator[Cluster]:
    """Three brokers that may be killed."""
    with start(brokers=3) as cluster:
        yield cluster


def whole(cluster: Cluster, *topics: str) -> bool:
    """True if every replica of these topics is in sync, by the answer of any broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = patient(lambda: admin.list_topics(timeout=10)).topics
    parts = [part for name in topics if name in found for part in found[name].partitions.values()]
    return set(topics) <= found.keys() and all(len(part.isrs) == len(part.replicas) == 3 for part in parts)


def leader_of(cluster: Cluster, name: str, index: int) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def found() -> list[int]:
        topics = patient(lambda: admin.list_topics(timeout=10)).topics
        part = topics[name].partitions.get(index) if name in topics else None
        return [part.leader] if part is not None and part.leader >= 0 else []

    return int(wait_until(found, what=f"a leader of {name}-{index}")[0])


def members_of(servers: str, group: str) -> dict[str, int]:
    """The number of partitions of each member of a stable group, by member id."""
    with Admin(bootstrap_servers=servers) as admin:
        (found,) = admin.describe_consumer_groups([group])
    assert found.state == "Stable"
    return {member.member_id: len(member.assignment) for member in found.members}


def longest_gap(times: list[float], since: float) -> float:
    """The longest time between two of these that ends after `since`, in seconds."""
    return max(later - earlier for earlier, later in pairwise(times) if later > since)


@pytest.mark.conformance("A-16", "D-04")
def test_nothing_acknowledged_is_lost_when_a_leader_is_killed_under_load(three: Cluster, name: str) -> None:
    servers = three.bootstrap_servers
    topic(servers, name, 3, **REPLICATED)
    group = group_beside(f"{name}-c")
    member = Member(servers, group, name)
    with contextlib.closing(member.client):
        with (
            member,
            Writer(servers, name) as writer,
            Committer(consumer(servers, f"{name}-c"), name) as committer,
        ):
            wait_until(lambda: len(writer.acknowledged) > 200 and committer.last > 50, what="traffic")
            wait_until(lambda: len(member.values) > 200, what="a member that reads")
            before_kill = members_of(servers, group)
            index = partition_for_group(f"{name}-c", 50)
            victim = leader_of(three, "__consumer_offsets", index)
            home = find_coordinator(servers, group)
            wait_until(lambda: whole(three, name, "__consumer_offsets"), what="all replicas in sync")
            epoch = three.status()["brokers"][victim]["epoch"]
            killed_at, before, commits = time.monotonic(), len(writer.acknowledged), committer.last
            os.kill(three.broker_pids()[victim], signal.SIGKILL)
            wait_until(lambda: leader_of(three, "__consumer_offsets", index) != victim, what="another leader")
            wait_until(lambda: committer.last > commits + 20 and committer.times[-1] > killed_at, what="commits again")
            assert find_coordinator(servers, group) != home
            gap = longest_gap(committer.times, killed_at)
            sys.stdout.write(f"no commit was acknowledged for {gap:.3f} s\n")
            assert gap < 40  # under a second on a quiet machine
            wait_until(lambda: len(writer.acknowledged) > before + 200, what="records again")
            wait_until(lambda: three.status()["brokers"][victim]["epoch"] > epoch, what="the broker's return")
            wait_until(lambda: whole(three, name, "__consumer_offsets"), what="all replicas in sync again")
            writer.end()
            wait_until(lambda: member.values >= writer.acknowledged, what="the member to read on to the end")
        assert writer.failed == 0
        assert read_all(servers, name, len(writer.acknowledged)) >= writer.acknowledged
        (found,) = patient(lambda: consumer(servers, f"{name}-c").committed([TopicPartition(name, 0)], timeout=10))
        assert found.offset >= committer.last
        # It is in its generation still: nobody took anything from it, and what it commits in that name is taken.
        patient(lambda: member.client.commit(asynchronous=False))
        assert members_of(servers, group) == before_kill
        assert member.changes == [("assigned", 3)]


def test_every_group_goes_on_at_once_when_the_broker_of_many_is_killed(three: Cluster, name: str) -> None:
    servers = three.bootstrap_servers
    topic(servers, name, 1, **REPLICATED)
    groups = {f"{name}-{number}": partition_for_group(f"{name}-{number}", 50) for number in range(40)}
    with contextlib.ExitStack() as stack:
        clients = {group: stack.enter_context(contextlib.closing(consumer(servers, group))) for group in groups}
        for client in clients.values():
            patient(lambda client=client: commit_once(client, name, 1))
        wait_until(lambda: whole(three, "__consumer_offsets"), what="all replicas in sync")
        leaders = {group: leader_of(three, "__consumer_offsets", index) for group, index in groups.items()}
        victim = max(set(leaders.values()), key=list(leaders.values()).count)
        epoch = three.status()["brokers"][victim]["epoch"]
        moved = [group for group, leader in leaders.items() if leader == victim]
        killed_at = time.monotonic()
        os.kill(three.broker_pids()[victim], signal.SIGKILL)
        took: dict[str, float] = {}
        threads = [
            threading.Thread(
                target=lambda group=group: took.update({group: first_commit(clients[group], name, killed_at)})
            )
            for group in moved
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = sorted(took.values())
        sys.stdout.write(f"{len(moved)} groups: median {seconds[len(seconds) // 2]:.2f} s, last {seconds[-1]:.2f} s\n")
        assert len(seconds) == len(moved) >= 5
        assert seconds[-1] < 60  # a few on a quiet machine
        wait_until(lambda: three.status()["brokers"][victim]["epoch"] > epoch, what="the broker's return")


def commit_once(client: Consumer, name: str, offset: int) -> None:
    (answer,) = client.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    if answer.error is not None:
        raise KafkaException(answer.error)


def first_commit(client: Consumer, name: str, since: float) -> float:
    """Seconds after `since` at which a commit was acknowledged again."""
    patient(lambda: commit_once(client, name, 2))
    return time.monotonic() - since


def test_a_rolling_restart_costs_no_record_and_no_commit(three: Cluster, name: str) -> None:
    servers = three.bootstrap_servers
    topic(servers, name, 3, **REPLICATED)
    patient(lambda: commit_once(consumer(servers, f"{name}-c"), name, 0))  # there has to be an offsets topic
    wait_until(lambda: whole(three, name, "__consumer_offsets"), what="all replicas in sync")
    before = {broker["id"]: broker["epoch"] for broker in three.status()["brokers"]}
    with Writer(servers, name) as writer, Committer(consumer(servers, f"{name}-c"), name) as committer:
        wait_until(lambda: len(writer.acknowledged) > 100 and committer.last > 20, what="traffic")
        begun = time.monotonic()
        three.restart_brokers()
        sys.stdout.write(f"three brokers restarted in {time.monotonic() - begun:.1f} s\n")
        gap = longest_gap(committer.times, begun)
        sys.stdout.write(f"no commit was acknowledged for {gap:.3f} s; errors: {committer.errors}\n")
    after = {broker["id"]: broker["epoch"] for broker in three.status()["brokers"]}
    assert all(after[broker] == epoch + 1 for broker, epoch in before.items())
    assert writer.failed == 0
    # librdkafka raises two errors, after which its caller tries again: that the coordinator loads, and a second
    # NOT_COORDINATOR in a row, after a lookup at a broker that has yet to hear of the move. It raises no other.
    assert committer.errors <= {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}
    assert read_all(servers, name, len(writer.acknowledged)) >= writer.acknowledged

    def preferred() -> bool:
        found = patient(lambda: AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10)).topics[name]
        return all(part.leader == part.replicas[0] for part in found.partitions.values())

    wait_until(preferred, what="leadership to go back to where it belongs")


def test_a_broker_added_to_a_running_cluster_gets_new_partitions(three: Cluster, name: str) -> None:
    (added,) = three.add_brokers(1)
    assert added == 3
    topic(three.bootstrap_servers, name, 8, **REPLICATED)
    admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
    found = patient(lambda: admin.list_topics(timeout=10)).topics[name].partitions.values()
    assert any(added in part.replicas for part in found)
    wait_until(lambda: whole(three, name), what="all replicas in sync")


def test_a_leader_that_was_stopped_and_goes_on_gets_nothing_acknowledged(start: Start, name: str) -> None:
    with start(brokers=3) as cluster, contextlib.ExitStack() as stack:
        servers = cluster.bootstrap_servers
        topic(servers, name, 1, **REPLICATED)
        client = stack.enter_context(contextlib.closing(consumer(servers, name)))
        patient(lambda: commit_once(client, name, 1))
        wait_until(lambda: whole(cluster, name, "__consumer_offsets"), what="all replicas in sync")
        index = partition_for_group(name, 50)
        victim = leader_of(cluster, "__consumer_offsets", index)
        epoch, pid = cluster.status()["brokers"][victim]["epoch"], cluster.broker_pids()[victim]
        committer = stack.enter_context(Committer(consumer(servers, name), name))
        try:
            wait_until(lambda: committer.last > 20, what="commits")
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: leader_of(cluster, "__consumer_offsets", index) != victim, what="another leader")
            at = committer.last
            wait_until(lambda: committer.last > at + 20, what="commits at the new leader")
        finally:
            with contextlib.suppress(ProcessLookupError):  # the controller may have killed it by now
                os.kill(pid, signal.SIGCONT)
            committer.end()
        wait_until(lambda: cluster.status()["brokers"][victim]["epoch"] > epoch, what="the broker's return")
        (found,) = patient(lambda: client.committed([TopicPartition(name, 0)], timeout=10))
        assert found.offset >= committer.last


def test_a_cluster_that_grew_from_one_broker_outlives_any_of_its_brokers(start: Start, name: str) -> None:
    with start(brokers=1) as cluster:
        first = cluster.bootstrap_servers
        topic(first, name, 3)
        with Writer(first, name) as writer, Committer(consumer(first, f"{name}-c"), name) as committer:
            wait_until(lambda: len(writer.acknowledged) > 100 and committer.last > 20, what="traffic")
            assert cluster.add_brokers(2) == [1, 2]
            servers = cluster.bootstrap_servers
            asked = ["--all-topics", "--replication-factor", "3", "--execute", "--bootstrap-server", servers]
            moved = coterie("topics", "reassign", *asked)
            assert moved.returncode == 0, moved.stderr
            wait_until(lambda: whole(cluster, name, "__consumer_offsets"), what="three replicas in sync")
            for each in (name, "__consumer_offsets"):
                safer = ["--config", "min.insync.replicas=2", "--bootstrap-server", servers]
                assert coterie("topics", "alter", each, *safer).returncode == 0
            index = partition_for_group(f"{name}-c", 50)
            victim = leader_of(cluster, "__consumer_offsets", index)
            wait_until(lambda: {leader_of(cluster, name, n) for n in range(3)} == {0, 1, 2}, what="leaders on all")
            os.kill(cluster.broker_pids()[victim], signal.SIGKILL)
            wait_until(lambda: leader_of(cluster, "__consumer_offsets", index) != victim, what="another leader")
            records, commits = len(writer.acknowledged), committer.last
            wait_until(lambda: committer.last > commits + 20, what="commits again")
            wait_until(lambda: len(writer.acknowledged) > records + 200, what="records again")
        assert writer.failed == 0
        assert read_all(servers, name, len(writer.acknowledged)) >= writer.acknowledged
        (found,) = patient(lambda: consumer(servers, f"{name}-c").committed([TopicPartition(name, 0)], timeout=10))
        assert found.offset >= committer.last
