"""Brokers, topics and partitions as the metadata has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NO_LEADER = -1
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
POOLS_TOPIC = "__coterie_pools"
OUR_TOPICS = frozenset((*INTERNAL_TOPICS, POOLS_TOPIC))
"""All that are made for users, and not by them. To clients that of pools is a topic as any other: they write to it."""

PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address that clients of one listener connect to, and its security protocol."""

    listener: str
    host: str
    port: int
    protocol: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker as clients and other brokers see it. `epoch` changes each time its process is replaced.

    `host` and `port` are those of its first listener.
    """

    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    alive: bool = True
    replica_host: str = ""
    """The address to which other brokers push the records of partitions they lead; port 0: none."""
    replica_port: int = 0
    pid: int = 0
    """The pid of its process on its machine; 0: not known."""
    process_started: int = 0
    """The beginning of that process, in clock ticks since boot, because another process may get its pid later."""
    leaving: bool = False
    """True once it has handed over its leaderships and is about to stop: it does not join an in-sync set again."""
    endpoints: tuple[Endpoint, ...] = ()
    """Its addresses for clients; empty: `host` and `port` alone, for the listener PLAINTEXT."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address that clients of a listener connect to; None if the broker has no such listener."""
        if not self.endpoints:
            return Endpoint(PLAINTEXT, self.host, self.port) if listener == PLAINTEXT else None
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The replicas of a partition and its leader. `leader` is NO_LEADER while no in-sync replica is alive.

    `leader_epoch` rises with each election, `partition_epoch` with every change (KIP-497). `elr` are the replicas that
    left an in-sync set which then was smaller than `min.insync.replicas`. Nothing commits in such a set, so that they
    have all that has committed, and may lead if no member of the set can (KIP-966). While the partition is being
    reassigned (KIP-455), `replicas` are the old and the new ones, `adding` and `removing` those that come and go.
    `unclean`: a replica out of sync has been made leader once, and records that had committed may be lost. `added_at`
    is the partition epoch at which a replica was last added: a broker that only knows of older epochs may hold a log
    that it has to delete.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    unclean: bool = False
    added_at: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: its id (16 bytes), its partitions in order, and its own settings."""

    name: str
    id: bytes
    partitions: tuple[PartitionInfo, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Directory:
    """The data directory of a broker, by its id (`directory.id` in its meta.properties, KIP-858).

    `awaited`: the broker was replaced. Its next process makes an empty directory with this id, on whichever node it is;
    from its registration on the directory is there.
    """

    id: str
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class Home:
    """The Ray node that has a broker's data: its address, and its label `coterie.io/node`; empty if it has none."""

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """A broker that is being removed, with all that is remembered of it until it is gone."""

    begun_ms: int
    """Its beginning, by the controller's wall clock."""
    partitions: int
    """The number of partitions of which the broker was a replica then."""
    throttle: int = 0
    """The bytes a second that each broker sends to followers out of sync meanwhile; 0: as many as else."""


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """One of the cluster's controllers: the directory of its metadata log (KIP-853), and its address for others.

    `level` is the newest level of the metadata that it can read and write.
    """

    id: int
    directory: str
    host: str
    port: int
    level: int


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings that the cluster's processes are started with, as changed while it runs.

    `transition` holds over `config` until the next change: for what not all brokers can begin at the same time. Until
    `everywhere`, some brokers may run with settings from before; `former` are those by which a controller must go until
    then.
    """

    config: Mapping[str, str]
    transition: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_controller(self) -> dict[str, str]:
        """The settings that a controller goes by."""
        return {**self.config, **self.transition, **self.former}


def was_removed(broker_id: int) -> str:
    """The reason for refusing a process that calls itself this broker."""
    return f"broker {broker_id} was removed from the cluster, and its id is never used again"


class AclRow(NamedTuple):
    """An ACL; types, operations and permissions by Kafka's codes (KIP-11, KIP-290)."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names of whom a quota is for (KIP-546)."""
