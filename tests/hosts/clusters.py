"""Clusters of ours on hosts: one broker on each, three replicas of everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, TopicMetadata

from placement.hashing import partition_for_group
from tests.hosts.host import Host

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 3
SETTINGS = {
    "coterie.monitor": "false",
    "coterie.spare.shards": "1",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}


@dataclass(frozen=True)
class OnHosts:
    """A cluster whose controller is on the first of its hosts."""

    name: str
    hosts: list[Host]
    servers: str

    def command(self, *arguments: str) -> str:
        """The `coterie` command about this cluster, as it is installed on the host of the controller."""
        head = self.hosts[0]
        return head.coterie(*arguments, "--ray-address", head.ray_address, "--name", self.name)

    def server_on(self, host: Host) -> str:
        """The address of the broker on a host."""
        return next(each for each in self.servers.split(",") if each.startswith(f"{host.address}:"))

    def whole(self, topic: str) -> bool:
        """True if all replicas of a topic, and of the offsets topic, are in sync by the answers of the first host.

        A broker that was cut off may answer with its old state for a while.
        """
        found = [self._told(name) for name in (topic, OFFSETS_TOPIC)]
        parts = [part for each in found if each is not None for part in each.partitions.values()]
        return None not in found and all(len(part.isrs) == len(part.replicas) == 3 for part in parts)

    def led_by(self, host: Host, topic: str) -> int:
        """The number of a topic's partitions that the broker on a host leads, by the answer of the first host."""
        found = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])}).list_topics(topic, timeout=60)
        ids = {broker.id for broker in found.brokers.values() if broker.host == host.address}
        return sum(part.leader in ids for part in found.topics[topic].partitions.values())

    def has_spares(self) -> bool:
        """True if each broker has a spare process for the next partition that it is to coordinate.

        Without one a partition waits until a process has started, which on a busy machine takes many times a lease.
        """
        brokers = json.loads(self.command("status", "--format", "json"))["brokers"]
        return all(any(shard["state"] == "Spare" for shard in broker["shards"]) for broker in brokers)

    def coordinated_by_a_worker(self, name: str) -> tuple[str, Host]:
        """A group whose coordinator is not on the first host, and the host of that one.

        The preferred leaders lead first: whoever took over from one stays leader otherwise.
        """
        admin = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])})
        admin.elect_leaders(ElectionType.PREFERRED).result(60)
        found = admin.list_topics(timeout=60)
        host_of = {broker.id: broker.host for broker in found.brokers.values()}
        for group in (f"{name}-{number}" for number in range(20 * OFFSETS_PARTITIONS)):
            leader = found.topics[OFFSETS_TOPIC].partitions[partition_for_group(group, OFFSETS_PARTITIONS)].leader
            for host in self.hosts[1:]:
                if host_of.get(leader) == host.address:
                    return group, host
        raise AssertionError(f"no group is coordinated by another host than {self.hosts[0].name}")

    def _told(self, topic: str) -> TopicMetadata | None:
        with suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])})
            return admin.list_topics(timeout=10).topics.get(topic)
        return None


@contextmanager
def started(hosts: list[Host], name: str, port: int) -> Iterator[OnHosts]:
    """A cluster on hosts that have a Ray; its brokers have this port and the ones after it."""
    settings = [f"--config={key}={value}" for key, value in SETTINGS.items()]
    head = hosts[0]
    place = ["--port", str(port), "--data-dir", str(head.disk / name), "--ray-address", head.ray_address]
    said = head.coterie("up", "--brokers", str(len(hosts)), "--name", name, "--insecure", *place, *settings)
    (ready,) = [line for line in said.splitlines() if line.startswith("ready bootstrap.servers=")]
    cluster = OnHosts(name, hosts, ready.split()[1].partition("=")[2])
    assert {server.partition(":")[0] for server in cluster.servers.split(",")} == {host.address for host in hosts}
    yield cluster
    head.coterie("down", name, "--ray-address", head.ray_address)
