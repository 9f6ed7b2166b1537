"""A cluster in a child process, which `coterie.testing` starts, and real clients: each produces, reads, and joins."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

import coterie.testing
from actors.client import Admin, Consumer, Producer
from actors.client.admin.types import NewTopic
from coterie.testing import Cluster
from tests.compat.conftest import Running
from tests.compat.drivers import Aiokafka, Confluent, KafkaPython
from tests.compat.driving import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Client,
    Known,
    Member,
    Polling,
    Records,
    all_closed,
    answer,
)
from tests.compat.kcat import Kcat
from tests.compat.raw import await_topics
from tests.compat.remote import Remote, RemoteClient
from tests.compat.support import numbered_records, wait_until

PARTITIONS = 6


class _OwnMember(Polling):
    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._servers, self._group, self._topic = servers, group, topic
        super().__init__()

    def _loop(self) -> None:
        with Consumer(
            self._topic,
            bootstrap_servers=self._servers,
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        ) as consumer:
            while not self._stop.is_set():
                for records in consumer.poll(100).values():
                    self._records += [(record.key, record.value) for record in records]
                self._owned = frozenset(each.partition for each in consumer.assignment())
                while self._commits:
                    answer(self._commits.pop(), consumer.commit)
            self._owned = frozenset()


class _Own(Known):
    name = "coterie"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            for key, value in records:
                producer.send(topic, value, key=key)

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _OwnMember(servers, group, topic)


def _kcat() -> Client:
    if not (shutil.which("kcat") or shutil.which("kafkacat")):
        pytest.skip("kcat is not installed")
    return Kcat()


CLIENTS: dict[str, Callable[[Running[Remote], str], Client]] = {
    "confluent-kafka": lambda _, servers: Confluent(),
    "kafka-python": lambda _, servers: KafkaPython(),
    "aiokafka": lambda _, servers: Aiokafka(),
    "kcat": lambda _, servers: _kcat(),
    "coterie": lambda _, servers: _Own(),
    "java": lambda remotes, servers: RemoteClient("java", remotes.get("java"), {"bootstrap.servers": servers}),
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, remotes: Running[Remote], coterie_cluster: Cluster) -> Client:
    return CLIENTS[request.param](remotes, coterie_cluster.bootstrap_servers)


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    """Two brokers, so that one is left when the other is lost. kcat ends when it has none."""
    with coterie.testing.cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(params=CLIENTS)
def client_of_pair(request: pytest.FixtureRequest, remotes: Running[Remote], pair: Cluster) -> Client:
    return CLIENTS[request.param](remotes, pair.bootstrap_servers)


def _shares(members: list[Member]) -> list[int]:
    return sorted(len(member.owned()) for member in members)


def test_a_group_shares_a_topic_and_survives_its_coordinator(
    client: Client, coterie_cluster: Cluster, name: str
) -> None:
    servers, first = coterie_cluster.bootstrap_servers, numbered_records(200)
    client.create_topic(servers, name, PARTITIONS)
    members: list[Member] = []
    with all_closed(members):
        members += [client.join(servers, name, name) for _ in range(2)]
        wait_until(lambda: _shares(members) == [3, 3], what="two equal shares")
        client.produce(servers, name, first, compression="none", idempotent=False)
        wait_until(lambda: sum(len(member.seen()) for member in members) >= len(first), what="all records")
        assert sorted(record for member in members for record in member.seen()) == first
        coterie_cluster.kill_coordinator(name)
        for member in members:
            member.commit()
        members.pop().close()
        wait_until(lambda: _shares(members) == [6], what="one has all")
    second = numbered_records(20, start=200)
    client.produce(servers, name, second, compression="none", idempotent=False)
    with all_closed(members):
        members[:] = [client.join(servers, name, name)]
        wait_until(lambda: len(members[0].seen()) >= len(second), what="the records after the commit")
        assert sorted(members[0].seen()) == second


def test_a_client_finds_the_next_leader(client_of_pair: Client, pair: Cluster, name: str) -> None:
    client, servers, records = client_of_pair, pair.bootstrap_servers, numbered_records(50)
    pair.create_topic(name, replicas=2)
    client.produce(servers, name, records, compression="none", idempotent=False)
    members: list[Member] = []
    with all_closed(members):
        members.append(client.join(servers, name, name))
        wait_until(lambda: len(members[0].seen()) >= len(records), what="the records before")
        pair.lose_leader(name)
        client.produce(servers, name, records, compression="none", idempotent=False)
        wait_until(lambda: len(members[0].seen()) >= 2 * len(records), what="the records after")


def test_a_client_goes_on_after_answers_that_were_refused(client: Client, coterie_cluster: Cluster, name: str) -> None:
    servers, records = coterie_cluster.bootstrap_servers, numbered_records(50)
    client.create_topic(servers, name, 1)
    before = coterie_cluster.leave_alone()
    coterie_cluster.refuse("JoinGroup", "NOT_COORDINATOR", times=2)
    coterie_cluster.refuse("Produce", "NOT_LEADER_OR_FOLLOWER")
    client.produce(servers, name, records, compression="none", idempotent=False)
    members: list[Member] = []
    with all_closed(members):
        members.append(client.join(servers, name, name))
        wait_until(lambda: len(members[0].seen()) >= len(records), what="all records")
    assert coterie_cluster.leave_alone() == before + 3
