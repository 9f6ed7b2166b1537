"""Clusters of ours on hosts: one broker on each, three replicas of everything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, TopicMetadata

from placement.hashing import partition_for_group
from tests.hosts.host import Host
from tests.hosts.nodes import alive
from tests.ray.support import commit, consumer, topic, wait_until

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

SOON_FENCED = {"coterie.broker.isolated.ms": "10000"}
"""So long after it was last seen a broker can be replaced whose node is there, and its disk is empty."""


@dataclass(frozen=True)
class OnHosts:
    """A cluster whose controller is on the first of its hosts."""

    name: str
    hosts: list[Host]
    servers: str
    controllers: int

    def command(self, *arguments: str, timeout_s: float = 150.0) -> str:
        """The `coterie` command about this cluster, as it is installed on the host of the controller."""
        head = self.hosts[0]
        named = ["--ray-address", head.ray_address, "--name", self.name]
        return head.coterie(*arguments, *named, timeout_s=timeout_s)

    def server_on(self, host: Host) -> str:
        """The address of the broker on a host."""
        return next(each for each in self.servers.split(",") if each.startswith(f"{host.address}:"))

    def whole(self, name: str) -> bool:
        """True if all replicas of a topic, and of the offsets topic, are in sync by the answers of the first host.

        A broker that was cut off may answer with its old state for a while.
        """
        found = [self._told(each) for each in (name, OFFSETS_TOPIC)]
        parts = [part for each in found if each is not None for part in each.partitions.values()]
        return None not in found and all(len(part.isrs) == len(part.replicas) == 3 for part in parts)

    def is_back(self, host: Host, name: str) -> bool:
        """True if all replicas of a topic are in sync, and a host, whose Ray is kept, is a node that Ray's head knows.

        Where the head has taken it for dead meanwhile, its replicas may be in sync until it hears of that, and ends.
        """
        head = self.hosts[0]
        host.keep_ray(head)
        return self.whole(name) and host.address in head.call(alive, head.ray_address)

    def make_offsets_topic(self) -> None:
        """Commit, so that there is one, and wait until all its replicas are in sync."""
        topic(self.servers, "first", 1, 3)
        client = consumer(self.servers, "first")
        commit(client, "first", 1)
        client.close()
        wait_until(lambda: self.whole("first"), what="all replicas in sync")

    def led_by(self, host: Host, name: str) -> int:
        """The number of a topic's partitions that the broker on a host leads, by the answer of the first host."""
        found = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])}).list_topics(name, timeout=60)
        ids = {broker.id for broker in found.brokers.values() if broker.host == host.address}
        return sum(part.leader in ids for part in found.topics[name].partitions.values())

    def has_spares(self) -> bool:
        """True if each broker has a spare process for the next partition that it is to coordinate.

        Without one a partition waits until a process has started, which on a busy machine takes many times a lease.
        """
        brokers = self.status()["brokers"]
        return all(any(shard["state"] == "Spare" for shard in broker["shards"]) for broker in brokers)

    def status(self) -> dict[str, Any]:
        """The answer of `coterie status`."""
        found: dict[str, Any] = json.loads(self.command("status", "--format", "json"))
        return found

    def led_from(self) -> Host | None:
        """The host of the controller that leads; None while none of several does."""
        with suppress(AssertionError):  # the command cannot say it
            (address,) = [each["host"] for each in self.status()["controllers"] if each["role"] == "Leader"]
            return next(host for host in self.hosts if host.address == address)
        return None

    def controllers_are_whole(self) -> bool:
        """True if one of several controllers leads, and all others have all records of metadata."""
        with suppress(AssertionError):
            found = self.status()["controllers"]
            roles = sorted(each["role"] for each in found)
            return roles == ["Leader", *["Voter"] * (self.controllers - 1)] and all(each["lag"] == 0 for each in found)
        return False

    def broker_on(self, host: Host) -> int:
        """The id of the broker on a host."""
        (found,) = [each["id"] for each in self.status()["brokers"] if each["host"] == host.address]
        return int(found)

    def empty_disk(self, host: Host) -> None:
        """Kill a worker, have it come back with an empty disk, and replace its broker. Others need all that it has."""
        broker = self.broker_on(host)
        host.kill()
        host.boot(empty=True)
        host.start_ray(self.hosts[0])
        wait_until(self.led_from, what="a controller that leads, which may have been there")
        wait_until(lambda: self._replaces(broker), what=f"the replacement of broker {broker}")

    def _replaces(self, broker: int) -> bool:
        """Replace a broker, unless it may still serve where nobody sees it (SOON_FENCED)."""
        try:
            self.command("brokers", "replace", str(broker), "--yes")
        except AssertionError as error:
            if "may still serve" not in str(error):
                raise
            return False
        return True

    def coordinated_by_a_worker(self, name: str) -> tuple[str, Host]:
        """A group whose coordinator is not on the first host, and the host of that one."""
        return self.coordinated_by(name, *self.hosts[1:])

    def coordinated_by(self, name: str, *hosts: Host) -> tuple[str, Host]:
        """A group whose coordinator is on one of these hosts, and that one.

        The preferred leaders lead first: whoever took over from one stays leader otherwise.
        """
        admin = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])})
        admin.elect_leaders(ElectionType.PREFERRED).result(60)
        found = admin.list_topics(timeout=60)
        host_of = {broker.id: broker.host for broker in found.brokers.values()}
        for group in (f"{name}-{number}" for number in range(20 * OFFSETS_PARTITIONS)):
            leader = found.topics[OFFSETS_TOPIC].partitions[partition_for_group(group, OFFSETS_PARTITIONS)].leader
            for host in hosts:
                if host_of.get(leader) == host.address:
                    return group, host
        raise AssertionError(f"no group is coordinated by {', '.join(host.name for host in hosts)}")

    def _told(self, name: str) -> TopicMetadata | None:
        with suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": self.server_on(self.hosts[0])})
            return admin.list_topics(timeout=10).topics.get(name)
        return None


@contextmanager
def started(
    hosts: list[Host], name: str, port: int, controllers: int = 1, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[OnHosts]:
    """A cluster on hosts that have a Ray; its brokers have this port and the ones after it, and `more` settings."""
    settings = [f"--config={key}={value}" for key, value in {**SETTINGS, **more}.items()]
    head = hosts[0]
    place = ["--port", str(port), "--data-dir", str(head.disk / name), "--ray-address", head.ray_address]
    counts = ["--brokers", str(len(hosts)), *(["--controllers", str(controllers)] if controllers > 1 else [])]
    said = head.coterie("up", *counts, "--name", name, "--insecure", *place, *settings)
    (ready,) = [line for line in said.splitlines() if line.startswith("ready bootstrap.servers=")]
    cluster = OnHosts(name, hosts, ready.split()[1].partition("=")[2], controllers)
    assert {server.partition(":")[0] for server in cluster.servers.split(",")} == {host.address for host in hosts}
    yield cluster
    head.coterie("down", name, "--ray-address", head.ray_address)
