"""The reports of a cluster's processes to its Monitor: figures since they began, and happenings since a number.

A Monitor asks the controller (`LookAround`), which asks each broker (`LookAtBroker`). A broker that does not answer in
time is left out and named. Figures of requests, errors and bytes are exact, and latency is sampled (`ApiFigures`). All
are counted since the process began that `run` names; where a run is another one, figures begin again at zero.

Happenings are events and rebalances, numbered in the order in which a process came to know them. Each process keeps
the last few thousand. A Monitor that asks too late is told how many it has missed (`Happenings.missed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.coordinator.groups.reports import RebalanceView
from actors.links.operations import Operation, Result
from actors.links.pools import PoolFigures
from actors.links.rebalances import Rebalancing
from actors.links.status import ClusterStatus, Load, ShardStatus
from actors.links.views import Event
from placement.metadata import ClusterMetadata

LATENCY_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""The upper bounds of the buckets of latencies, each inclusive. The last bucket has what is above all of them."""

CONTROLLER: Final = -1
"""The controller, where brokers are named by their ids."""

ANSWER_MAX: Final = 1_000
"""The most happenings that one answer has."""


# --- happenings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NumberedRebalance:
    """A rebalance that is over: complete, broken off by the next, or cut short by the loss of its coordinator."""

    number: int
    rebalance: RebalanceView


@dataclass(frozen=True, slots=True)
class Happenings:
    """The events and rebalances after the number that was asked for, at most ANSWER_MAX.

    Events and rebalances share one sequence of numbers. `upto` is the number to ask after next; `last` is the newest
    one, so that there is more if it is greater.
    """

    run: int
    """The run of the process: the wall time in ms at which it began to count."""
    upto: int
    last: int
    missed: int = 0
    """The number of those that came after the number that was asked for, and are not kept any more."""
    events: tuple[Event, ...] = ()
    rebalances: tuple[NumberedRebalance, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The last of the happenings of a broker, or of the CONTROLLER, that a Monitor has. Of another run, all are new."""

    source: int
    run: int
    number: int


# --- a broker ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiFigures:
    """The requests of one API.

    `requests` and `errors` are exact. An error is a request whose answer has an error code, at its top or for one of
    the topics, partitions or coordinators that it is about. The latency is from when the request was read until its
    answer was given to the socket. Of the APIs that clients use all the time one request in sixteen is timed.
    """

    api_key: int
    requests: int
    errors: int
    timed: int
    total_ms: float
    buckets: tuple[int, ...]
    """The timed requests, by the least of LATENCY_BOUNDS_MS that they were within; last, those above all of them."""


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """Batches that came and went at the leaders of a topic that this broker has. Replication does not count."""

    name: str
    records_in: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Stalls:
    """Turns of the broker's loop that were longer than STALL_MS, since its start."""

    count: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0


STALL_MS: Final = 100


@dataclass(frozen=True, slots=True)
class BrokerObserved(Result):
    """A broker and its shards."""

    broker_id: int
    wall_ms: int
    load: Load
    happenings: Happenings
    apis: tuple[ApiFigures, ...] = ()
    """Those that were asked for at least once."""
    topics: tuple[TopicFigures, ...] = ()
    topics_left_out: int = 0
    """The number of topics without figures of their own, if there are too many. The name "" has the sum of theirs."""
    stalls: Stalls = Stalls()
    parked: Mapping[str, int] = field(default_factory=dict)
    """Requests that wait, by `join`, `sync`, `fetch`, `produce`, and `start` for those whose shard starts."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """The counters of `coordinator/metrics.py` of all shards that the broker has had, added up; and those of
    `broker/counts.py`: loads, sleeps, wakes, deaths of shards, changes of in-sync sets, damaged and mended batches."""
    shards: tuple[ShardStatus, ...] = ()
    rebalancing: tuple[Rebalancing, ...] = ()
    """At most 200."""


@dataclass(frozen=True, slots=True)
class LookAtBroker(Operation[BrokerObserved]):
    """Ask a broker what it has counted, and what has happened after number `after` of the run `run`."""

    run: int = 0
    after: int = 0


# --- the cluster ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterObserved(Result):
    """The cluster as the controller and those brokers tell that have answered."""

    wall_ms: int
    status: ClusterStatus
    """Without shards: these are with their brokers."""
    controller: Happenings
    brokers: tuple[BrokerObserved, ...] = ()
    silent: tuple[int, ...] = ()
    """Registered brokers that have not answered in time."""
    metadata: ClusterMetadata | None = None
    """Without credentials, ACLs and quotas; None if it is still of the version that was named."""
    pools: tuple[PoolFigures, ...] = ()
    """Those that have told the controller lately, whichever Kafka their groups are in."""


@dataclass(frozen=True, slots=True)
class LookAround(Operation[ClusterObserved]):
    """Ask the controller for all there is to see. `metadata_version` is the version the asker has, -1 for none."""

    positions: tuple[Position, ...] = ()
    metadata_version: int = -1


# --- the link ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watching(Result):
    """The Monitor is known to the controller, which will pass questions on to it."""

    cluster_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Watch(Operation[Watching]):
    """The first thing a Monitor says. A controller has one Monitor: an older one is hung up on."""

    pid: int


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {
    120: LookAround,
    121: LookAtBroker,
    122: Watch,
    220: ClusterObserved,
    221: BrokerObserved,
    222: Watching,
}
"""Tags on the control link, beside those of `operations`."""
