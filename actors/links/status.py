"""What the processes of a cluster say of themselves: `coterie status`, `Cluster.status`.

Brokers tell the controller over the control link; a driver asks the controller by Ray, which pickles it.
`Cluster.status` hands it out as plain values; `coterie status --format json` prints the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.links.relay import Figures

ASLEEP: Final = "Asleep"
"""The state of an offsets partition that has given its process back; those of processes are `LinkState`'s."""


@dataclass(frozen=True, slots=True)
class Logins:
    """What has become of clients that had to log in. `repeated` are logins with which sessions go on (KIP-368)."""

    pending: int = 0
    """Connections whose clients have not logged in yet."""
    succeeded: int = 0
    repeated: int = 0
    failed: int = 0
    expired: int = 0
    """Connections that were closed because their clients had not logged in again."""


@dataclass(frozen=True, slots=True)
class TlsListener:
    """What has become of TLS at one listener of a broker."""

    listener: str
    days_left: float
    """For how many days its certificate is valid."""
    problem: str | None
    """Why the files that its settings name are not in force; None if they are."""
    handshakes: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a broker is. Requests, and its longest turn of the loop, are counted since its start."""

    connections: int = 0
    requests: int = 0
    longest_turn_ms: float = 0.0
    logs: int = 0
    logins: Logins = Logins()
    tls: tuple[TlsListener, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """An offsets partition and its process, or a process that waits for one (partition -1).

    `pid` is None while the partition sleeps. `why` says for people what keeps it awake, or what will wake it.
    """

    partition: int
    pid: int | None
    state: str
    epoch: int
    why: str = ""
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker as the controller knows it, and its shards, if it said which it has."""

    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    alive: bool
    pid: int | None
    load: Load | None
    node_id: str = ""
    """Of its Ray node."""
    shards: tuple[ShardStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """The cluster's Monitor: its process, and whether it has come to the controller. `pid` is None before that."""

    pid: int | None
    state: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A whole cluster. The fields `name` to `controller_node_id` are the controller process's own."""

    cluster_id: str
    controller_epoch: int
    brokers: tuple[BrokerStatus, ...]
    name: str = ""
    data_dir: str = ""
    controller_pid: int = 0
    controller_node_id: str = ""
    monitor: MonitorStatus | None = None
    """None if coterie.monitor=false."""
