"""The status that the processes of a cluster tell of themselves: `coterie status`, `Cluster.status`.

Brokers tell the controller over the control link; a driver asks the controller by Ray, which pickles it.
`Cluster.status` hands it out as plain values; `coterie status --format json` prints the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from actors.links.codec import since
from actors.links.relay import Figures
from actors.links.removals import RemovalStatus
from actors.runtime.priority import Priority

ASLEEP: Final = "Asleep"
"""The state of an offsets partition that has given its process back; those of processes are `LinkState`'s."""


@dataclass(frozen=True, slots=True)
class Connections:
    """The present connections of a listener, by how far they are. Each is counted once."""

    listener: str
    handshaking: int = 0
    """Accepted, and TLS is not ready yet."""
    authenticating: int = 0
    """Their clients have not logged in yet."""
    ready: int = 0
    """They may ask for anything. Sessions that are over are among them until their clients speak."""
    failed: int = 0
    """Their clients have failed to log in: nothing is read, and they will be closed."""


@dataclass(frozen=True, slots=True)
class Logins:
    """The logins at a listener since the broker started (KIP-368 names the figures)."""

    listener: str
    succeeded: int = 0
    failed: int = 0
    repeated: int = 0
    """Logins with which sessions went on."""
    repeats_failed: int = 0
    """Those with which sessions were to go on, and ended."""
    expired: int = 0
    """Connections that were closed because their clients had not logged in again."""


@dataclass(frozen=True, slots=True)
class TlsListener:
    """The certificate of one listener of a broker, and its handshakes since the broker started."""

    listener: str
    days_left: float
    """The days for which its certificate is still valid."""
    problem: str | None
    """The reason why the files that its settings name are not in force; None if they are."""
    handshakes: int = 0
    """Those that were done."""
    failed: int = 0
    under_way: int = 0
    total_ms: float = 0.0
    """The time that those that were done took, from accept on: mostly the clients' and the network's."""
    longest_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a broker. Requests, and its longest turn of the loop, are counted since its start."""

    connections: int = 0
    requests: int = 0
    longest_turn_ms: float = 0.0
    logs: int = 0
    listeners: tuple[Connections, ...] = ()
    logins: tuple[Logins, ...] = ()
    """Of listeners where clients log in."""
    tls: tuple[TlsListener, ...] = ()
    """Of listeners with TLS."""
    priority: Priority | None = since(1, None)
    """Of its process over the others of its machine; None if it asked for nothing."""


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
class Absence:
    """A broker of the cluster that gives no sign of life. Times are wall time, in ms."""

    since_ms: int
    """Its last sign of life; if this controller has seen none, when that one started."""
    node_is_gone: bool = False
    """True if Ray had no node with its home at one of the last looks."""
    replaced: bool = False
    """True if it has been replaced, and its next process begins with an empty directory."""
    replaced_at_ms: int | None = None
    """The time at which it is replaced by itself, if its node stays away; None if it is not."""
    sole_copies: tuple[str, ...] = ()
    """The partitions of which no other broker has everything: they keep it from being replaced by itself."""
    copies_away: tuple[str, ...] = ()
    """The partitions whose other copies are on brokers that are away, too: so do they."""


@dataclass(frozen=True, slots=True)
class Refill:
    """A broker that is not in sync everywhere, and what it is still to be sent."""

    broker_id: int
    partitions: int
    size_bytes: int
    """As far as the leaders of these partitions know, to a few kilobytes for each."""


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
    absence: Absence | None = since(3, None)
    """None if it is there, or not to be started. Monitors are not told."""
    refill: Refill | None = since(3, None)
    """None if it is in sync everywhere, or does not run. Monitors are not told."""
    removal: RemovalStatus | None = since(3, None)
    """The progress of its removal; None if it stays."""
    drained_until_ms: int | None = since(3, None)
    """The end of its Ray node's time, if that is drained (wall time; 0: not known); None if it is not."""


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """The cluster's Monitor: its process, and whether it has come to the controller. `pid` is None before that."""

    pid: int | None
    state: str


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """One of several controllers, as the one that leads knows it. Times are wall times; -1: never."""

    id: int
    directory: str
    host: str
    port: int
    role: str
    """Leader, Voter or Observer: an observer has no vote, and follows."""
    lag: int
    """The records that it has not acknowledged yet."""
    heard_ms: int
    caught_up_ms: int


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
    controllers: tuple[ControllerStatus, ...] = since(5, ())
    """None of them where there is one alone."""


def plain(status: ClusterStatus) -> dict[str, Any]:
    """A status as plain values. In an upgrade, what a controller of an earlier build did not tell has its default."""
    found: dict[str, Any] = _plain(status)
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name, each.default)) for each in fields(value)}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value
